"""The exercises of the lessons: a solution gets all points, a starter none, and typical faults are named."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

import attnzoo
from attnzoo import cli
from attnzoo.commands import check
from attnzoo.grading.assignment import Assignment, read_assignment
from attnzoo.grading.grades import Grade, grade
from tests.grading.submissions import Check

LESSONS = range(1, 6)
# For each lesson: the property, the fault's name, and a text of the solution with its replacement.
FAULTS = [
    (1, "padding", "final_state_from_padding", "self.gru(packed)", "self.gru(embedded)"),
    (1, "batch", "batch_mixed", "torch.cat([states[0], states[1]], dim=-1)", "states.reshape(len(ids), -1)"),
    (1, "dropout in eval mode", "dropout_in_eval", "self.dropout(", "nn.functional.dropout("),
    (2, "softmax axis", "softmax_wrong_axis", "softmax(dim=-1)", "softmax(dim=1)"),
    (
        2,
        "padding",
        "mask_after_softmax",
        'scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(dim=-1)',
        "scores.softmax(dim=-1) * mask.unsqueeze(1)",
    ),
    (2, "padding", "padding_attended", "~mask", "mask"),
    (
        2,
        "query",
        "query_ignored",
        "torch.tanh(self.w(query).unsqueeze(2) + self.u(keys).unsqueeze(1))",
        "torch.tanh(self.w(query)).unsqueeze(2) + torch.tanh(self.u(keys)).unsqueeze(1)",
    ),
    (
        3,
        "step equals teacher forcing",
        "step_differs",
        "logits, state = self.decode(tokens.unsqueeze(1), state)",
        'logits, state = self.decode(tokens.unsqueeze(1), {**state, "hidden": 0 * state["hidden"]})',
    ),
    (
        3,
        "beams",
        "beam_not_reordered",
        "{name: value[rows] for",
        '{name: value if name == "hidden" else value[rows] for',
    ),
    (
        3,
        "state left as it was",
        "cache_changed_in_place",
        'return logits, {**state, "hidden": last.squeeze(0)}',
        'state["hidden"] = last.squeeze(0)\n        return logits, state',
    ),
    (
        3,
        "softmax axis",
        "softmax_wrong_axis",
        "softmax(dim=-1)",
        "softmax(dim=1)",
    ),
    (
        3,
        "padding",
        "padding_attended",
        'scores.masked_fill(~state["mask"].unsqueeze(1), float("-inf")).softmax',
        "scores.softmax",
    ),
    (4, "scale", "scale_wrong", "math.sqrt(key.shape[-1])", "math.sqrt(x.shape[-1])"),
    (4, "scale", "scale_missing", " / math.sqrt(key.shape[-1])", ""),
    (4, "softmax axis", "softmax_wrong_axis", "softmax(dim=-1)", "softmax(dim=1)"),
    (4, "padding", "padding_attended", "~mask.unsqueeze(1)", "~mask.unsqueeze(2)"),
    (4, "padding", "padding_attended", "~mask", "mask"),
    (
        5,
        "heads",
        "heads_mixed",
        "view(rows, length, self.num_heads, -1).transpose(1, 2)",
        "reshape(rows, self.num_heads, length, -1)",
    ),
    (5, "future", "future_leaked", ".tril()", ".triu()"),
    (5, "scale", "scale_wrong", "math.sqrt(key.shape[-1])", "math.sqrt(width)"),
    (5, "padding", "padding_attended", "mask[:, None, None] & ", ""),
]


def written(lesson: int, folder: Path) -> tuple[Path, str, str]:
    """The folder of a lesson, the name of the file for students, and that of its class."""
    cli.main(["assignment", str(lesson), str(folder)])
    (file,) = (path.name for path in folder.glob("*.py"))
    (name,) = re.findall(r"^class (\w+)", (folder / file).read_text(), flags=re.MULTILINE)
    return folder, file, name


def graded(source: str, name: str, assignment: Assignment) -> tuple[Grade, list[str]]:
    """The grade of a source in this process, and the names of the findings."""
    names: dict[str, Any] = {}
    exec(source, names)
    torch.manual_seed(0)
    report = attnzoo.check(names[name](), assignment.kind, **assignment.options)
    return grade(name, report.as_json(), assignment), report.names


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_commands_of_a_note_grade_the_solution(
    lesson: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], check_here: Check
) -> None:
    if lesson != 1:  # that one is checked in processes of its own
        monkeypatch.setattr(check, "check_apart", check_here)
    folder, file, name = written(lesson, tmp_path / "lesson")
    monkeypatch.chdir(folder)
    commands = re.findall(r"^attnzoo (check .*)$", Path("note.md").read_text(), flags=re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        cli.main(shlex.split(command))
    assert f"{name}: 10 of 10 points" in capsys.readouterr().out
    assert Path("autograder.zip").exists()
    # Students get the layers and the signature of the solution.
    starter, solution = (Path(place, file).read_text() for place in (".", "solution"))
    header = starter.split("    def __init__")[1].split('"""')[0]
    assert header in solution


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_starter_runs_and_gets_no_points(lesson: int, tmp_path: Path, check_here: Check) -> None:
    folder, file, name = written(lesson, tmp_path / "lesson")
    assignment = read_assignment(folder / "assignment.yaml")
    result = grade(name, check_here(folder / file, name, assignment), assignment)
    assert (result.points, result.out_of) == (0, 10)
    assert [text.split(":")[0] for text in result.problems] == ["cannot_be_called"]
    assert re.search(r"write (forward|step)", result.problems[0])


@pytest.mark.parametrize(
    ("lesson", "prop", "name", "right", "wrong"), FAULTS, ids=[f"{each[0]}-{each[2]}" for each in FAULTS]
)
def test_a_typical_fault_is_named(lesson: int, prop: str, name: str, right: str, wrong: str, tmp_path: Path) -> None:
    folder, file, subject = written(lesson, tmp_path / "lesson")
    solution = (folder / "solution" / file).read_text()
    assert right in solution
    result, names = graded(solution.replace(right, wrong), subject, read_assignment(folder / "assignment.yaml"))
    assert names == [name]
    (test,) = (test for test in result.tests if test.name == prop)
    assert (test.status, test.points) == ("failed", 0)
    assert f"| {prop} | `{name}` | {result.points} |" in (folder / "note.md").read_text()
