"""Mozilla's engine for tests, from an environment of its own."""

import os
from pathlib import Path

import pytest

PYTHON = "ATTNZOO_FXTRANSLATE"


def engine_python() -> Path:
    """The Python of the environment that has ``fxtranslate``; without one, the test is skipped."""
    if PYTHON not in os.environ:
        pytest.skip(f"{PYTHON} does not name the python of an environment with the package fxtranslate")
    return Path(os.environ[PYTHON])
