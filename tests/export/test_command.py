"""``attnzoo export``: the folder, its card with the certificate, and its errors."""

import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attnzoo.training.tasks.sequence_to_sequence import generate_texts
from datasets import Dataset

from attnzoo.cli import main
from attnzoo.export import to_onnx
from attnzoo.export.certificate import faults, figures
from attnzoo.export.command import measure
from tests.factory import TOKENIZER, make_model, save_folder

KINDS = ["attentional-rnn", "self-attentive-pair", "transformer-causal", "transformer-masked", "transformer-tagger"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_is_certified(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, folder = save_folder(kind, tmp_path / kind), tmp_path / "out"
    main(["export", str(source), str(folder)])
    assert "compared on random tokens only" in capsys.readouterr().err
    certificate = json.loads((folder / "export.json").read_text())["certificate"]
    counts = ["greedy", "beams"] if (folder / "step.onnx").is_file() else ["predictions"]
    assert all(certificate[name] == certificate["examples"] > 0 for name in counts)
    assert 0 < certificate["logits"] < 1e-4
    card = (folder / "README.md").read_text()
    assert f"# {kind} for ONNX Runtime" in card
    assert f"| {certificate['examples']} of {certificate['examples']} |" in card
    assert (folder / "MODEL_CARD.md").read_text() == (source / "README.md").read_text()
    main(["export", str(source), str(folder), "--check"])
    printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert float(printed["largest difference of logits"]) == pytest.approx(certificate["logits"], rel=0.1)
    assert f"{certificate['examples']} of {certificate['examples']}" in printed.values()
    with pytest.raises(SystemExit, match="is not empty"):
        main(["export", str(source), str(folder)])


def test_an_export_of_another_model_is_found(tmp_path: Path) -> None:
    source, other = (save_folder("transformer-encoder-decoder", tmp_path / str(seed), seed) for seed in (0, 1))
    main(["export", str(source), str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="differs from what PyTorch computes: logits differ by"):
        main(["export", str(other), str(tmp_path / "out"), "--check"])
    config = tmp_path / "out" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"dropout": 0.9}))
    for arguments, message in (
        ([str(source), str(tmp_path / "out")], "is an export of another model: its dropout is 0.9, not"),
        ([str(save_folder("attentional-rnn", tmp_path / "rnn")), str(tmp_path / "out")], "not of AttentionalRNN"),
        ([str(source), str(tmp_path / "out"), "--format=ctranslate2"], "is an export to onnx; add --format onnx"),
        ([str(source), str(tmp_path / "none")], "is not an exported model"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(["export", *arguments, "--check"])
    main(["export", str(source), str(tmp_path / "damaged")])
    (tmp_path / "damaged" / "encoder.onnx").write_bytes(b"no graph")
    with pytest.raises(SystemExit, match=r"encoder\.onnx has changed since the export"):
        main(["export", str(source), str(tmp_path / "damaged"), "--check"])
    details = tmp_path / "damaged" / "export.json"  # of an older export, which has no checksums
    details.write_text(
        json.dumps({key: value for key, value in json.loads(details.read_text()).items() if key != "sha256"})
    )
    with pytest.raises(SystemExit, match=r"encoder\.onnx cannot be loaded"):
        main(["export", str(source), str(tmp_path / "damaged"), "--check"])


def test_ctranslate2_is_certified_too(tmp_path: Path) -> None:
    source = save_folder("transformer-encoder-decoder", tmp_path / "model")
    settings = json.loads((source / "generation_config.json").read_text())
    (source / "generation_config.json").write_text(json.dumps(settings | {"max_new_tokens": 20}))
    main(["export", str(source), str(tmp_path / "out"), "--format", "ctranslate2", "--weights", "int8"])
    details = json.loads((tmp_path / "out" / "export.json").read_text())
    assert details["weights"] == "int8"
    assert "# model for CTranslate2" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(SystemExit, match="cannot go to CTranslate2"):
        main(
            [
                "export",
                str(save_folder("attentional-rnn", tmp_path / "rnn")),
                str(tmp_path / "no"),
                "--format=ctranslate2",
            ]
        )
    assert not (tmp_path / "no").exists()


def test_model_and_export_are_scored_with_the_length_limit_of_the_task(tmp_path: Path) -> None:
    model = make_model("transformer-encoder-decoder").eval()
    model.generation_config.update(max_new_tokens=9, eos_token_id=None)
    tokenizer = deepcopy(TOKENIZER)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]

    def predict(one: Any, tokenizer: Any, split: str, num_beams: int) -> list[str]:
        return generate_texts(one, tokenizer, rows["source"][:], num_beams, batch_size=2, longer=2)

    def measure_lengths(split: str, predictions: list[str]) -> dict[str, float]:
        return {"length": sum(len(TOKENIZER.tokenize(one)) for one in predictions) / len(predictions)}

    rows = Dataset.from_dict({"source": ["ab", "cabd"]})
    said: dict[str, Any] = {"metric_names": {"length": "Length"}, "units": {"length": " letters"}}
    task = SimpleNamespace(splits={"test": rows}, columns=["source"], predict=predict, measure=measure_lengths, **said)
    certificate = measure(model, tokenizer, to_onnx(model, tmp_path / "out", tokenizer), task)
    of_model, of_export = certificate["scores"]["length"]
    assert 0 < of_model == of_export
    assert certificate["scored"] == 2
    assert figures(certificate)[-1] == (
        "Length of 2 texts, greedy search, by PyTorch and by the export",
        f"{of_model:.2f} letters and {of_model:.2f} letters",
    )


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")  # of numpy
def test_an_export_whose_logits_are_not_numbers_is_not_written(tmp_path: Path) -> None:
    model = make_model("transformer-masked", hidden_size=16)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1e6)  # more than float16 can hold
    model.save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    with pytest.raises(SystemExit, match=r"logits has values that are not finite \(nothing was written"):
        main(["export", str(tmp_path / "model"), str(tmp_path / "out"), "--weights", "float16"])
    assert not (tmp_path / "out").exists()


def test_faults_of_a_certificate() -> None:
    good: dict[str, Any] = {"examples": 9, "greedy": 9, "beams": 9, "logits": 1e-5, "scored": 1000}
    good |= {"scores": {"per": [5.0, 5.2]}, "metrics": {"per": ["PER", " %"]}}
    assert faults(good, "float32") == []
    assert len(faults(good | {"logits": 1e-3}, "float32")) == 1
    assert len(faults(good | {"beams": 8}, "float32")) == 1
    assert faults(good | {"beams": 8, "logits": 1.0}, "int8") == []
    for weights in ("float32", "float16", "int8"):
        assert faults(good | {"attention": float("inf")}, weights) == ["attention has values that are not finite"]
    changed = "PER is 5.40 % and was 5.00 %, a change of more than 0.3 points"
    assert faults(good | {"scores": {"per": [5.0, 5.4]}}, "int8") == [changed]
    assert faults(good | {"scores": {"per": [5.0, 5.4]}, "scored": 200}, "int8") == []
