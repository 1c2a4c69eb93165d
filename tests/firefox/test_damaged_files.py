"""Damaged and hostile files are refused, or do no harm; reading them takes no memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = 64 * 2**20  # beyond the file


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_damaged_files_do_no_harm(count: int) -> None:
    command = [sys.executable, "-m", "tests.firefox.fuzz", str(count), "0"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["memory"] < found["largest"] + MEMORY
    outcomes = found["outcomes"]
    assert sum(outcomes.values()) > 0.9 * count
    for place in ("header", "names", "shapes", "options", "archive", "vocabulary"):
        assert outcomes[f"{place} refused"] > 0
