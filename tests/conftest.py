"""What holds for all tests."""

import os

# The models are tiny: a second thread would only wait for the first. Set before torch is imported, and inherited by
# the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest

from .regular_language import write_dictionary


@pytest.fixture(scope="session")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The regular language, as a file in CMUdict's format."""
    path = tmp_path_factory.mktemp("data") / "regular.dict"
    write_dictionary(path)
    return path
