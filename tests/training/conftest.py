"""Fixtures that several files of tests use."""

import math
from pathlib import Path

import datasets
import pytest
from attnzoo.training.loop import checkpoint, progress
from attnzoo.training.tasks import grapheme_to_phoneme
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

from tests.regular_language import write_dictionary
from tests.training.reviews import sentences


@pytest.fixture(autouse=True)
def no_cache_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture(autouse=True)
def no_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, which may take minutes: killing a process loses no written data, so no test depends on
    it.
    """
    monkeypatch.setattr(checkpoint, "_sync_entry", lambda path: None)


@pytest.fixture(autouse=True)
def no_checkpoint_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, too, the checkpoints are those of the steps."""
    monkeypatch.setattr(progress, "SECONDS_TO_CHECKPOINT", math.inf)


@pytest.fixture(scope="session")
def few_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like ``dictionary``, but smaller, for trainings that need not learn the language."""
    path = tmp_path_factory.mktemp("few") / "regular.dict"
    write_dictionary(path, draws=300)
    return path


@pytest.fixture
def few_phonemes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit generation to the phonemes of the longest word, since an untrained model does not stop."""
    monkeypatch.setattr(grapheme_to_phoneme, "MAX_PHONEMES", 1)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    sentences().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def cmudict_task() -> GraphemeToPhoneme:
    """The task of the whole CMU dictionary, which takes seconds to read; not to be changed."""
    return GraphemeToPhoneme("cmudict")
