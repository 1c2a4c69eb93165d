"""Pronouncers that several files use."""

from pathlib import Path

import pytest

from attnzoo.pronunciation import Pronouncer
from tests.pronunciation.kokoro import save_kokoro_model


@pytest.fixture(scope="session")
def pronounce() -> Pronouncer:
    """The model alone."""
    return Pronouncer(dictionary=False)


@pytest.fixture(scope="session")
def listed() -> Pronouncer:
    """With CMUdict."""
    return Pronouncer()


@pytest.fixture(scope="session")
def kokoro() -> Pronouncer:
    """The model of Kokoro's phones alone."""
    return Pronouncer(phones="kokoro", dictionary=False)


@pytest.fixture(scope="session")
def kokoro_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_kokoro_model(tmp_path_factory.mktemp("kokoro"))
