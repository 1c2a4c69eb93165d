"""Common uses of pipelines with BERT and GPT-2, here with these models."""

from pathlib import Path

import pytest
from transformers import pipeline

from tests.factory import TEXTS, TOKENIZER, letter_tokenizer, make_model

# Pipelines ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = letter_tokenizer()
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # a pipeline gives the model all that is named
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_fill_mask(folder: Path) -> None:
    model = make_model("transformer-masked", std=0.3)
    model.save_pretrained(folder)
    answers = pipeline("fill-mask", model=str(folder), device="cpu")("ab<mask>d", top_k=3)
    logits = model(**TOKENIZER("ab<mask>d", return_tensors="pt", return_token_type_ids=False)).logits[0, 2]
    probabilities, best = logits.softmax(dim=-1).topk(3)
    assert [answer["token"] for answer in answers] == best.tolist()
    assert [answer["score"] for answer in answers] == pytest.approx(probabilities.tolist(), rel=1e-4)


def test_text_generation(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = make_model("transformer-causal", std=0.3)
    model.save_pretrained(folder)
    generator = pipeline("text-generation", model=str(folder), device="cpu")
    texts = [answers[0]["generated_text"] for answers in generator(["abc", "d"], max_new_tokens=6, do_sample=False)]
    for prompt, text in zip(["abc", "d"], texts, strict=True):
        ids = TOKENIZER(prompt, return_tensors="pt", return_token_type_ids=False)
        generated = model.generate(**ids, max_new_tokens=6, do_sample=False)
        assert text == TOKENIZER.decode(generated[0], skip_special_tokens=True)
    assert "not supported" not in caplog.text


@pytest.mark.parametrize("kind", ["transformer-classifier", "transformer-causal-classifier"])
def test_text_classification(kind: str, folder: Path) -> None:
    model = make_model(kind, std=0.3, id2label={0: "few", 1: "many"})
    model.save_pretrained(folder)
    answers = pipeline("text-classification", model=str(folder), device="cpu")(TEXTS, top_k=None, batch_size=3)
    for text, answer in zip(TEXTS, answers, strict=True):
        logits = model(**TOKENIZER(text, return_tensors="pt", return_token_type_ids=False)).logits[0]
        expected = dict(zip(["few", "many"], logits.softmax(dim=-1).tolist(), strict=True))
        assert {part["label"]: part["score"] for part in answer} == pytest.approx(expected, rel=1e-4)
