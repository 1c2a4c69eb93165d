"""Pronouncers that several files use."""

from pathlib import Path

import pytest

from attnzoo.pronunciation import Pronouncer
from tests.pronunciation.kokoro import save_kokoro_model


@pytest.fixture(scope="session")
def pronounce() -> Pronouncer:
    """A pronouncer with the model only."""
    return Pronouncer(dictionary=False)


@pytest.fixture(scope="session")
def listed() -> Pronouncer:
    """A pronouncer with CMUdict."""
    return Pronouncer()


@pytest.fixture(scope="session")
def kokoro() -> Pronouncer:
    """A pronouncer with the model of Kokoro's phones only."""
    return Pronouncer(phones="kokoro", dictionary=False)


@pytest.fixture(scope="session")
def kokoro_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_kokoro_model(tmp_path_factory.mktemp("kokoro"))
