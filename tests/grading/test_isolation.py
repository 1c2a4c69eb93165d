"""A student's code cannot end, block or fill the grader by accident."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from attnzoo.grading import Assignment
from attnzoo.grading.grades import grade
from attnzoo.grading.isolation import KEPT_OUTPUT, check_apart, ended
from tests.grading.submissions import ENDING, FAULTY, PRINTING, RAISING, REPORTING, RIGHT, STRANGE, Check

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the process has limits, which Windows lacks")
ASSIGNMENT = Assignment("self_attention", seconds=60, points={"padding": 2})


def written(folder: Path, source: str) -> Path:
    path = folder / "attention.py"
    path.write_text(source)
    return path


def assert_is_found(problem: str, words: str, report: dict[str, Any], assignment: Assignment) -> None:
    assert [finding["name"] for finding in report["findings"]] == [problem]
    assert words in report["findings"][0]["where"]
    result = grade("Attention", report, assignment)
    assert (result.points, result.out_of, result.passed) == (0, 2, False)
    assert result.problems[0].startswith(problem)


@pytest.mark.parametrize("name", ENDING)
def test_code_that_ends_or_blocks_its_process_is_a_finding(name: str, tmp_path: Path) -> None:
    source, problem, words = ENDING[name]
    assignment = Assignment("self_attention", seconds=2 if problem == "too_slow" else 60, points={"padding": 2})
    report = check_apart(written(tmp_path, source), "Attention", assignment)
    assert_is_found(problem, words, report, assignment)


@pytest.mark.parametrize("name", RAISING)
def test_code_that_raises_is_a_finding(name: str, tmp_path: Path, check_here: Check) -> None:
    source, problem, words = RAISING[name]
    assignment = Assignment("self_attention", points={"padding": 2})
    assert_is_found(problem, words, check_here(written(tmp_path, source), "Attention", assignment), assignment)


@pytest.mark.parametrize(
    ("wrong", "problem", "words"),
    [
        ({"arguments": {"d_model": 16}}, "cannot_be_made", "Attention takes (width=16), and is given (d_model=16)"),
        ({"options": {"causel": True}}, "wrong_options", "unexpected keyword argument 'causel'"),
        ({"options": {"mask": "true"}}, "wrong_options", "mask is 'attend', 'ignore' or 'additive', got 'true'"),
        ({"kind": "attnetion"}, "wrong_options", "unknown kind 'attnetion'; choose one of attention, self_attention"),
        ({"kind": "attnetion", "arguments": {"x": 1}}, "wrong_options", "unknown kind 'attnetion'"),
        ({"points": {"paddding": 4}}, "wrong_options", "points has the unknown properties ['paddding']; there are"),
        ({"kind": None}, "wrong_options", "state the kind of Attention"),
        ({"options": {"width": "16"}}, "wrong_options", "width is a whole number of at least 1"),
    ],
)
def test_a_wrong_key_of_the_assignment_is_no_fault_of_the_code(
    wrong: dict[str, Any], problem: str, words: str, tmp_path: Path, check_here: Check
) -> None:
    """Right code is named as such, and the text names the key."""
    assignment = Assignment(**{"kind": "self_attention", **wrong})
    report = check_here(written(tmp_path, RIGHT), "Attention", assignment)
    (text,) = grade("Attention", report, assignment).problems
    assert text.startswith(problem)
    assert words in text
    assert f"'{next(iter(wrong))}'" in text
    assert "of the assignment" in text


@pytest.mark.parametrize("name", STRANGE)
def test_right_code_gets_its_points_whatever_it_does_to_its_process(name: str, tmp_path: Path) -> None:
    report = check_apart(written(tmp_path, STRANGE[name]), "Attention", ASSIGNMENT)
    assert report["findings"] == []
    assert grade("Attention", report, ASSIGNMENT).points == 2


def test_a_report_that_the_code_writes_gives_no_points(tmp_path: Path) -> None:
    report = check_apart(written(tmp_path, REPORTING + FAULTY), "Attention", ASSIGNMENT)
    assert grade("Attention", report, ASSIGNMENT).points == 0
    assert [finding["name"] for finding in report["findings"]] == ["scale_missing", "padding_attended"]


def test_a_folder_is_a_finding(tmp_path: Path, check_here: Check) -> None:
    (finding,) = check_here(tmp_path, "Attention", ASSIGNMENT)["findings"]
    assert finding["name"] == "does_not_load"
    assert "this is a folder; give a file" in finding["where"]


def test_code_that_waits_is_ended(tmp_path: Path) -> None:
    """A wait takes no time of the core, and a process that it started ends with it."""
    source = "import subprocess, time\nsubprocess.Popen(['sleep', '1234.5'])\nprint('here')\ntime.sleep(1000)"
    began = time.monotonic()
    report = check_apart(written(tmp_path, source), "Attention", Assignment("self_attention", seconds=2))
    assert report["findings"][0]["name"] == "too_slow"
    assert "after 8 seconds on the clock" in report["findings"][0]["where"]
    assert (
        time.monotonic() - began < 500
    )  # of its 1000; the start of Python, which a busy machine delays, is not limited
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"1234.5" in command for command in commands)


@pytest.mark.parametrize(
    ("code", "too_long", "used", "name", "words"),
    [
        (-9, True, 1.0, "too_slow", "after 24 seconds on the clock; it waits, or the machine was too busy"),
        (-24, False, 6.0, "too_slow", "after 6 seconds of one core"),
        (-9, False, 7.0, "too_slow", "after 6 seconds of one core"),
        (-9, False, 1.0, "too_much_memory", "the system ended it"),
        (0, False, 1.0, "ends_the_process", "with the code 0"),
    ],
)
def test_the_limit_that_was_reached_is_named(code: int, too_long: bool, used: float, name: str, words: str) -> None:
    finding = ended(code, too_long, Assignment(seconds=6), used)
    assert finding["name"] == name
    assert words in finding["where"]


def test_a_process_that_the_system_ends_early_is_not_called_slow(tmp_path: Path) -> None:
    """The seconds of the import of torch, before the code begins, are not those of the code."""
    path = written(tmp_path, "import os\nos.kill(os.getpid(), 9)")
    (finding,) = check_apart(path, "Attention", Assignment("self_attention", seconds=2))["findings"]
    assert finding["name"] == "too_much_memory"


def test_megabytes_of_output_are_a_finding_beside_the_verdict(tmp_path: Path) -> None:
    report = check_apart(written(tmp_path, PRINTING), "Attention", ASSIGNMENT)
    assert [finding["name"] for finding in report["findings"]] == ["prints_too_much"]
    assert len(report["printed"]) == KEPT_OUTPUT
    assert grade("Attention", report, ASSIGNMENT).points == 2


def test_the_verdict_is_the_same_in_every_process(tmp_path: Path, check_here: Check) -> None:
    first, second = (check(written(tmp_path, FAULTY), "Attention", ASSIGNMENT) for check in (check_apart, check_here))
    assert json.dumps(first) == json.dumps(second)
    assert [each["name"] for each in first["findings"]] == ["scale_missing", "padding_attended"]


def test_the_code_finds_its_own_files_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    (tmp_path / "parts.py").write_text("WIDTH = 16")
    (tmp_path / "random.py").write_text("raise ValueError('in place of the random of Python')")
    source = "import os\nfrom parts import WIDTH\nassert 'HF_TOKEN' not in os.environ\n" + RIGHT
    assert check_apart(written(tmp_path, source), "Attention", ASSIGNMENT)["findings"] == []
    assert not (tmp_path / "__pycache__").exists()
