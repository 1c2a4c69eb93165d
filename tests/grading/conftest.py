import os
import sys
from pathlib import Path
from typing import Any

import pytest

from attnzoo.grading import Assignment, student
from tests.grading.submissions import Check


@pytest.fixture
def check_here(monkeypatch: pytest.MonkeyPatch) -> Check:
    """``check_apart`` without its process: the report is the same, and a start of Python takes seconds."""
    monkeypatch.setattr(student, "limit", lambda *_: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "submission", None)

    def check(path: Path, name: str, assignment: Assignment) -> dict[str, Any]:
        request = {"path": os.path.abspath(path), "name": name, "megabytes": 0, "seconds": 0, "seed": assignment.seed}
        request |= {each: getattr(assignment, each) for each in ("kind", "arguments", "options", "points")}
        return {**student.run(request, begin=lambda: None), "printed": ""}

    return check
