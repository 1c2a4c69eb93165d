"""Texts that are encoded from their words, and vocabularies that are learned from a part of the rows."""

from pathlib import Path

import datasets
import pytest
import torch
from attnzoo.training.data.vocabulary import vocabulary_rows
from attnzoo.training.tasks import base
from attnzoo.training.tasks.translation import Translation, TranslationData
from attnzoo.training.tasks.word_tokens import WordTokens, encodes_by_words
from huggingface_hub.errors import StrictDataclassClassValidationError
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import PreTrainedTokenizerFast

SIGNS = "amé1., \t\n\u0301\u00a0\u3000\u1100\u1161\x1c\u2581\u200b가"
TRICKY = ["", "a </s> b<pad>", "a \u2581b", "\u2581", " \u0301a", "a\u00a0 b", "a \u3000 b", "a \x1c b", "xa ya"]


@pytest.fixture(scope="module", params=["nfc", "nfd"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    folder = tmp_path_factory.mktemp("pairs")
    for split in ("train", "validation", "test"):
        (folder / f"{split}.tsv").write_text("source\ttarget\n" + "a man, 11\téa가\n" * 9, encoding="utf-8")
    made = Translation(TranslationData(path=str(folder), normalization=request.param)).make_tokenizer()
    made.model_max_length = 6
    return made


@given(texts=st.lists(st.text(alphabet=SIGNS, max_size=20) | st.sampled_from(TRICKY), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None, derandomize=True)
@pytest.mark.parametrize("is_cut", [False, True])
def test_texts_are_encoded_as_the_tokenizer_encodes_them(
    tokenizer: PreTrainedTokenizerFast, is_cut: bool, texts: list[str]
) -> None:
    assert encodes_by_words(tokenizer)
    assert WordTokens(tokenizer)(texts * 2, is_cut) == tokenizer(texts * 2, truncation=is_cut)["input_ids"]


def test_a_tokenizer_that_reads_texts_otherwise_is_not_used_word_by_word(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.backend_tokenizer.normalizer, before = (
        normalizers.Replace("a m", "m"),
        tokenizer.backend_tokenizer.normalizer,
    )
    try:
        assert not encodes_by_words(tokenizer)
    finally:
        tokenizer.backend_tokenizer.normalizer = before


def test_a_vocabulary_is_learned_from_some_rows_at_most_and_always_the_same(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"text": [f"{number}" for number in range(50)]})
    assert vocabulary_rows(rows, 50) is rows
    chosen = vocabulary_rows(rows, 20)["text"][:]
    assert chosen == vocabulary_rows(rows, 20)["text"][:] == sorted(set(chosen), key=int)
    assert len(chosen) == 20
    assert int(chosen[-1]) > 30  # from all of the data
    assert [row["text"] for row in vocabulary_rows(rows.to_iterable_dataset(), 3)] == ["0", "1", "2"]
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "".join(f"a {n}\tb\n" for n in range(99)))
    few, all_rows = (
        Translation(TranslationData(path=str(tmp_path), vocabulary_rows=n)).make_tokenizer() for n in (3, 99)
    )
    assert len(few) < len(all_rows)
    with pytest.raises(StrictDataclassClassValidationError, match="vocabulary_rows must be at least 1, got 0"):
        TranslationData(path="a.tsv", vocabulary_rows=0)


def test_many_rows_are_encoded_by_several_workers_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "".join(f"a {n}\tb {n}\n" for n in range(90)))
    task = Translation(TranslationData(path=str(tmp_path / "pairs.tsv")))
    tokenizer = task.make_tokenizer()
    alone = task.training_examples(tokenizer)[:]
    monkeypatch.setattr(base, "MANY_ROWS", 10)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "empty")
    task = Translation(TranslationData(path=str(tmp_path / "pairs.tsv")))
    capfd.readouterr()
    together = task.training_examples(tokenizer)
    assert together[:] == alone
    assert len(together.cache_files) == 2 * max(1, torch.get_num_threads())
    assert "fork" not in capfd.readouterr().err
