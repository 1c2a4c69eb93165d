"""Fixtures of several files of tests."""

from pathlib import Path

import datasets
import pytest
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

from tests.training.reviews import sentences


@pytest.fixture(autouse=True)
def no_cache_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    sentences().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def cmudict_task() -> GraphemeToPhoneme:
    """The task of the whole CMU dictionary, which takes seconds to read; not to be changed."""
    return GraphemeToPhoneme("cmudict")
