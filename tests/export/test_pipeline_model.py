"""Pipelines on exported models, compared with the same pipelines on PyTorch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer, pipeline

import attnzoo
from attnzoo.export import OnnxForPipelines, to_onnx

CARDS = Path(__file__).parents[2] / "model_cards"
WORDS = ["attention", "Knight", "o'clock", "phlegmatic", "a"]


@pytest.fixture(scope="module")
def g2p(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return _exported("attentional-rnn-g2p-cmudict", AutoModelForSeq2SeqLM, tmp_path_factory)


def _exported(name: str, auto_class: Any, factory: pytest.TempPathFactory) -> tuple[str, Path]:
    source = str(CARDS / name)
    model, tokenizer = auto_class.from_pretrained(source), AutoTokenizer.from_pretrained(source)
    return source, to_onnx(model, factory.mktemp(name) / "onnx", tokenizer)


@pytest.mark.parametrize(
    "options",
    [{}, {"n_best": 3, "num_beams": 4, "alignments": True}, {"num_beams": 1}],
)
def test_words(g2p: tuple[str, Path], options: dict[str, Any]) -> None:
    source, folder = g2p
    found = pipeline("grapheme-to-phoneme", model=OnnxForPipelines(folder), tokenizer=str(folder))(WORDS, **options)
    expected = pipeline("grapheme-to-phoneme", model=source)(WORDS, **options)
    for of_word, expected_of_word in zip(found, expected, strict=True):
        assert [one["pronunciation"] for one in of_word] == [one["pronunciation"] for one in expected_of_word]
        for one, other in zip(of_word, expected_of_word, strict=True):
            assert one["score"] == pytest.approx(other["score"], abs=1e-3)
            if "alignment" in other:
                assert one["source_tokens"] == other["source_tokens"]
                torch.testing.assert_close(torch.tensor(one["alignment"]), torch.tensor(other["alignment"]))


def test_samples_are_repeatable(g2p: tuple[str, Path]) -> None:
    model = OnnxForPipelines(g2p[1])
    speak = pipeline("grapheme-to-phoneme", model=model, tokenizer=str(g2p[1]))
    ids = AutoTokenizer.from_pretrained(g2p[1])("phlegmatic", return_tensors="pt")["input_ids"]

    def draws(**options: Any) -> list[Any]:
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            said = speak("phlegmatic", num_beams=1, n_best=6, temperature=2.0, **options)
            found.append((said, model.generate(input_ids=ids, temperature=2.0, **options).tolist()))
        return found

    same, again, other = draws(do_sample=True)
    assert same == again != other
    model.generation_config.do_sample = model.onnx.generation["do_sample"] = True
    assert draws() == [same, same, other]


def test_alignments(g2p: tuple[str, Path]) -> None:
    source, folder = g2p
    tokenizer = AutoTokenizer.from_pretrained(source)
    pairs = ["knight", "tax"], ["N AY1 T", "T AE1 K S"]
    found = attnzoo.align(OnnxForPipelines(folder), tokenizer, *pairs)
    expected = attnzoo.align(AutoModelForSeq2SeqLM.from_pretrained(source), tokenizer, *pairs)
    assert [pair.links for pair in found] == [pair.links for pair in expected]


def test_labels(tmp_path_factory: pytest.TempPathFactory) -> None:
    source, folder = _exported("self-attentive-sst2", AutoModelForSequenceClassification, tmp_path_factory)
    texts = ["A triumph, from start to finish.", "dull"]
    found = pipeline("text-classification", model=OnnxForPipelines(folder), tokenizer=str(folder))(texts, top_k=None)
    expected = pipeline("text-classification", model=source)(texts, top_k=None)
    for of_text, expected_of_text in zip(found, expected, strict=True):
        for one, other in zip(of_text, expected_of_text, strict=True):
            assert one == {"label": other["label"], "score": pytest.approx(other["score"], abs=1e-5)}


def test_what_an_export_does_not_have_is_named(g2p: tuple[str, Path]) -> None:
    speak = pipeline("grapheme-to-phoneme", model=OnnxForPipelines(g2p[1]), tokenizer=str(g2p[1]))
    with pytest.raises(ValueError, match="repetition_penalty"):
        speak("castle", repetition_penalty=1.5)
    with pytest.raises(TypeError, match="'>' not supported"):  # not that there is no such option
        speak("castle", do_sample=True, num_beams=1, temperature="hot")
    with pytest.raises(FileNotFoundError, match="is not an exported model"):
        OnnxForPipelines(g2p[0])
