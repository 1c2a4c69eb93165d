"""Every trained model: it loads through the Auto classes, its card works, and its export to ONNX computes the same."""

import re
from itertools import combinations
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import list_models, model_info, model_path
from attnzoo.export.command import export_folder
from attnzoo.json_files import checksum

AUTO_CLASSES = {
    "grapheme-to-phoneme": "AutoModelForSeq2SeqLM",
    "translation": "AutoModelForSeq2SeqLM",
    "summarization": "AutoModelForSeq2SeqLM",
    "text-classification": "AutoModelForSequenceClassification",
    "text-generation": "AutoModelForCausalLM",
    "fill-mask": "AutoModelForMaskedLM",
}


@pytest.mark.parametrize("name", list_models())
def test_weights_are_those_of_the_catalogue(name: str) -> None:
    known, folder = model_info(name), model_path(name)
    model = getattr(transformers, AUTO_CLASSES[known["task"]]).from_pretrained(folder)
    assert sum(parameter.numel() for parameter in model.parameters()) == known["parameters"]
    assert checksum(Path(folder) / "model.safetensors") == known["sha256"]


@pytest.mark.parametrize("name", list_models())
def test_the_snippet_of_its_card_runs_in_any_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    card = (Path(model_path(name)) / "README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", card, flags=re.DOTALL | re.MULTILINE)
    assert snippet.startswith("import attnzoo ")  # which is imported here already
    exec(compile(snippet, "snippet", "exec"), {})
    assert len(capsys.readouterr().out) > len("['']\n")


# The others with the slow tests. In tests/export, test_pipeline_model.py has a pronouncer and a classifier, and
# test_graphs.py every wiring, score, window and head with random weights.
FIRST_EXPORTED = {
    "luong2015-local-p-tatoeba-en-de",
    "small-transformer-sotu-causal",
    "small-transformer-ssru-tatoeba-en-de",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FIRST_EXPORTED else pytest.mark.slow)
        for name in list_models()
        if model_info(name)["task"] != "summarization"  # models that copy words have no export
    ],
)
def test_the_export_computes_the_same(name: str, tmp_path: Path) -> None:
    certificate = export_folder(str(model_path(name)), tmp_path / "onnx", "onnx", "float32", task=None, check=False)
    counts = ["greedy", "beams"] if "greedy" in certificate else ["predictions"]
    assert all(certificate[count] == certificate["examples"] > 0 for count in counts)


def test_luongs_models_differ() -> None:
    """They differ in score and window alone, and were trained from the same seed."""
    names = list_models("luong2015-*-tatoeba-en-de")
    assert len(names) == 6
    logits = []
    for name in names:
        model = AutoModelForSeq2SeqLM.from_pretrained(model_path(name))
        tokenizer = AutoTokenizer.from_pretrained(model_path(name))
        pair = tokenizer(["Tom forgot my birthday."], text_target=["Tom hat es vergessen."], return_tensors="pt")
        with torch.no_grad():
            logits.append(model(**pair).logits.log_softmax(-1))
    assert all((one - other).abs().max() > 0.1 for one, other in combinations(logits, 2))
