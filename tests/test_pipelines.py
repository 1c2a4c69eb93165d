"""Pipelines: what they give is what the model and ``generate()`` give, in batches as one by one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

import attnzoo  # noqa: F401  (registers the pipelines)
from attnzoo.alignment import align

from .families import TOKENIZER, make_model

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "model_cards" / "attentional-rnn-g2p-cmudict"
WORDS = ["attention", "zoo", "caterpillar"]


@pytest.fixture(scope="module")
def pronounce() -> Any:
    return pipeline("grapheme-to-phoneme", model=str(FOLDER), device="cpu")


def test_the_best_targets_are_those_of_generate(pronounce: Any) -> None:
    inputs = pronounce.tokenizer(WORDS, padding=True, return_tensors="pt")
    ids = pronounce.model.generate(**inputs, num_beams=5, num_return_sequences=3)
    texts = pronounce.tokenizer.batch_decode(ids, skip_special_tokens=True)
    found = pronounce([word.title() for word in WORDS], n_best=3)
    assert [[target["pronunciation"] for target in targets] for targets in found] == [texts[:3], texts[3:6], texts[6:]]
    assert found[0] == pronounce("attention", n_best=3)
    only = [target["pronunciation"] for (target,) in pronounce(WORDS)]
    assert only == [targets[0]["pronunciation"] for targets in found]


def test_a_score_is_the_log_probability_of_the_target(pronounce: Any) -> None:
    targets = pronounce("attention", n_best=4)
    pairs = align(
        pronounce.model, pronounce.tokenizer, ["attention"] * 4, [target["pronunciation"] for target in targets]
    )
    scores = torch.tensor([target["score"] for target in targets])
    torch.testing.assert_close(scores, torch.tensor([pair.score for pair in pairs]), rtol=1e-4, atol=1e-5)
    assert scores[0] == scores.max()
    assert scores.exp().sum() < 1


def test_batches_change_nothing(pronounce: Any) -> None:
    for one, many in zip(
        pronounce(WORDS, n_best=2, alignments=True),
        pronounce(WORDS, n_best=2, alignments=True, batch_size=3),
        strict=True,
    ):
        for a, b in zip(one, many, strict=True):
            assert a["pronunciation"] == b["pronunciation"]
            assert a["source_tokens"] == b["source_tokens"]
            assert a["target_tokens"] == b["target_tokens"]
            torch.testing.assert_close(torch.tensor(a["alignment"]), torch.tensor(b["alignment"]), rtol=1e-3, atol=1e-5)
            assert a["score"] == pytest.approx(b["score"], rel=1e-4)


def test_an_alignment_has_a_row_for_every_target_token(pronounce: Any) -> None:
    for (target,) in pronounce(WORDS, alignments=True, batch_size=2):
        weights = torch.tensor(target["alignment"])
        assert weights.shape == (len(target["target_tokens"]), len(target["source_tokens"]))
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(weights)), rtol=1e-4, atol=1e-4)
        assert " ".join(target["target_tokens"][:-1]) == target["pronunciation"]
        assert target["target_tokens"][-1] == target["source_tokens"][-1] == "</s>"


def test_options_of_generate_come_through(pronounce: Any) -> None:
    assert len(pronounce("attention", max_new_tokens=2)[0]["pronunciation"].split()) == 2
    greedy = pronounce("attention", num_beams=1)
    inputs = pronounce.tokenizer("attention", return_tensors="pt")
    ids = pronounce.model.generate(**inputs, num_beams=1)
    assert greedy[0]["pronunciation"] == pronounce.tokenizer.decode(ids[0], skip_special_tokens=True)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("naïve", {}, "'naïve' has characters this model does not know: 'ï'"),
        ("  ", {}, "an empty source has no target"),
        (3, {}, "a source must be a text, got 3"),
        ("zoo", {"n_best": 0}, "n_best must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_read_is_refused(pronounce: Any, source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pronounce(source, **options)


@pytest.fixture(scope="module")
def translate() -> Any:
    """By a Transformer, whose attention has several layers and heads; it says the words from their end."""
    model = make_model("transformer-encoder-decoder")
    model.generation_config.max_new_tokens = 8
    return pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")


def test_a_transformer_translates_with_scores_and_alignments(translate: Any) -> None:
    sources = ["abc", "d", "efabcdefgh"]
    batched = translate(sources, n_best=3, num_beams=4, alignments=True, batch_size=2)
    for source, targets in zip(sources, batched, strict=True):
        inputs = TOKENIZER(source, return_tensors="pt", return_token_type_ids=False)
        ids = translate.model.generate(**inputs, num_beams=4, num_return_sequences=3)
        texts = TOKENIZER.batch_decode(ids, skip_special_tokens=True)
        assert [target["translation_text"] for target in targets] == texts
        for target, row in zip(targets, ids, strict=True):
            ends = (row[1:] == TOKENIZER.eos_token_id).nonzero().flatten().tolist()
            row = row[: ends[0] + 2] if ends else row  # without what fills up the batch
            with torch.no_grad():
                outputs = translate.model(**inputs, decoder_input_ids=row[None, :-1], output_attentions=True)
            chosen = outputs.logits[0].log_softmax(dim=-1).gather(1, row[1:, None])
            assert target["score"] == pytest.approx(chosen.sum().item(), rel=1e-4)
            mean_of_heads = outputs.cross_attentions[-1][0].mean(dim=0)
            torch.testing.assert_close(torch.tensor(target["alignment"]), mean_of_heads, rtol=1e-4, atol=1e-5)
            assert target["source_tokens"] == [*source, "</s>"]
            assert target["target_tokens"] == TOKENIZER.convert_ids_to_tokens(row[1:])


def test_translation_takes_texts_as_they_are(pronounce: Any) -> None:
    translate = pipeline("machine-translation", model=pronounce.model, tokenizer=pronounce.tokenizer, device="cpu")
    assert translate("zoo")[0]["translation_text"] == pronounce("zoo")[0]["pronunciation"]
