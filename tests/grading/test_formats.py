"""Points, hints and the formats of graders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import attnzoo
from attnzoo import cli
from attnzoo.checking.report import FAULTS, PROPERTIES
from attnzoo.commands import check
from attnzoo.grading import Assignment, expect
from attnzoo.grading.assignment import read_assignment
from attnzoo.grading.formats import as_gradescope, as_json, as_junit, as_nbgrader, as_otter, as_text
from attnzoo.grading.grades import Grade, grade
from attnzoo.grading.student import problem
from tests.grading.submissions import FAULTY, RIGHT, Check

POINTS = {"padding": 3.0, "scale": 1.0, "batch": 0.5, "future": 2.0}


def module_of(source: str) -> nn.Module:
    names: dict[str, Any] = {}
    exec(source, names)
    torch.manual_seed(0)
    module: nn.Module = names["Attention"]()
    return module


def grade_of(source: str, **given: Any) -> Grade:
    report = attnzoo.check(module_of(source), "self_attention").as_json()
    return grade("Attention", report, Assignment("self_attention", **given))


def test_every_fault_breaks_a_property() -> None:
    assert PROPERTIES.keys() == FAULTS.keys()


def test_points_are_given_for_properties_that_hold() -> None:
    tests = {test.name: (test.status, test.points) for test in grade_of(FAULTY, points=POINTS).tests}
    assert tests == {
        "padding": ("failed", 0),
        "scale": ("failed", 0),
        "batch": ("passed", 0.5),
        "future": ("not judged", 0),  # it is not causal
    }


def test_a_property_that_fails_is_told_without_points_too() -> None:
    result = grade_of(FAULTY, points={"batch": 2})
    assert (result.points, result.out_of, result.passed) == (2, 2, False)
    assert {(test.name, test.out_of) for test in result.tests} == {("batch", 2), ("padding", 0), ("scale", 0)}


@pytest.mark.parametrize("hints", ["something", "property", "where"])
def test_a_hint_tells_no_more_than_its_level(hints: str) -> None:
    result = grade_of(FAULTY, points=POINTS, hints=hints)
    text = as_text(result) + as_json(result) + as_junit(result) + as_gradescope(result)
    assert (result.points, result.out_of) == (0.5, 6.5)
    assert ("padding" in text) == (hints != "something")
    assert ("padding_attended" in text) == ("sqrt" in text) == (hints == "where")
    assert "3 of 4 properties" in text or hints != "something"


@pytest.mark.parametrize("write", [as_text, as_json, as_junit, as_gradescope])
def test_every_format_tells_what_was_assumed_and_what_was_not_judged(write: Callable[[Grade], str]) -> None:
    told = write(grade_of(RIGHT))
    assert ("it is not causal" in told) == (write is not as_gradescope)  # students read that one
    assert "scale 0.25 = 1 / sqrt(16)" in told
    assert write(grade_of(RIGHT, hints="something")).count("not causal") == 0


def test_a_file_that_does_not_load_has_no_test_that_passed() -> None:
    result = grade("Attention", {"findings": [problem("does_not_load", "no Python")]}, Assignment(hints="something"))
    assert result.tests == []
    assert not result.passed


def test_a_reason_tells_no_fault_that_the_hints_keep_back() -> None:
    source = RIGHT.replace("softmax(-1)", "softmax(-2)")
    assert "cannot be judged until softmax_wrong_axis is repaired" in as_text(grade_of(source))
    text = as_text(grade_of(source, hints="property", points={"padding": 1}))
    assert "not judged: cannot be judged until 'softmax axis' is repaired" in text
    assert "softmax_wrong_axis" not in text


def test_what_the_options_assert_has_a_point_even_if_it_cannot_be_judged() -> None:
    def luong(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return (query @ keys.mT).softmax(-1) @ keys

    for causal in (None, True):
        report = attnzoo.check(luong, "attention", causal=causal).as_json()
        result = grade("luong", report, Assignment("attention"))
        future = [(test.status, test.points, test.out_of) for test in result.tests if test.name == "future"]
        assert future == ([("not judged", 0, 1)] if causal else [])
        assert result.passed != bool(causal)


def test_the_json_of_gradescope_is_as_its_specification_says() -> None:
    """https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format"""
    result = json.loads(as_gradescope(grade_of(FAULTY, points=POINTS)))
    assert result["score"] == sum(test["score"] for test in result["tests"]) == 0.5
    assert result["stdout_visibility"] in ("hidden", "after_due_date", "after_published", "visible")
    for test in result["tests"]:
        assert 0 <= test["score"] <= test["max_score"]
        assert test["status"] in ("passed", "failed")
        assert {type(test[key]) for key in ("name", "output", "visibility")} == {str}


def test_junit_counts_failures_and_what_was_not_judged() -> None:
    suite = ElementTree.fromstring(as_junit(grade_of(FAULTY, points=POINTS)))[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
    }
    assert len(suite.findall("testcase/failure")) == 2


def test_a_cell_of_nbgrader_accepts_the_solution_and_not_the_fault() -> None:
    assignment = Assignment("self_attention", points=POINTS)
    notebook = json.loads(as_nbgrader("Attention", {"padding": 3, "scale": 1}, assignment))
    graded = [cell for cell in notebook["cells"] if cell["metadata"]["nbgrader"]["grade"]]
    assert [cell["metadata"]["nbgrader"]["points"] for cell in graded] == [3, 1]
    for cell in graded:
        exec(cell["source"], {"Attention": type(module_of(RIGHT))})
        with pytest.raises(AssertionError, match=r"padding_attended|scale_missing"):
            exec(cell["source"], {"Attention": type(module_of(FAULTY))})


def test_an_expectation_is_of_the_object_given() -> None:
    right, faulty = module_of(RIGHT), module_of(FAULTY)
    for module in (right, faulty, right):
        if module is right:
            expect(module, "scale", kind="self_attention")
        else:
            with pytest.raises(AssertionError, match="the scale is missing"):
                expect(module, "scale", kind="self_attention")
    with pytest.raises(AssertionError, match="not judged: it is not causal"):
        expect(right, "future", kind="self_attention")
    with pytest.raises(AssertionError, match="not judged: this code has no such property; it has batch"):
        expect(right, "paddings", kind="self_attention")


def test_an_expectation_sees_that_a_function_was_repaired() -> None:
    """Its cell in a notebook was run again, and that of the class was not."""
    names: dict[str, Any] = {}
    exec(RIGHT.replace("math.sqrt(x.shape[-1])", "root(x)") + "\nroot = len", names)
    with pytest.raises(AssertionError, match="scale_wrong"):
        expect(names["Attention"], "scale", kind="self_attention")
    names["root"] = lambda x: x.shape[-1] ** 0.5
    expect(names["Attention"], "scale", kind="self_attention")


def test_an_expectation_with_the_least_hints_is_of_its_own_property() -> None:
    without_scale = module_of(RIGHT.replace(" / math.sqrt(x.shape[-1])", ""))
    expect(without_scale, "padding", kind="self_attention", hints="something")
    # Of the second it is not told that the padding cannot be judged until the axis of the softmax is repaired.
    for module, prop in ((without_scale, "scale"), (module_of(RIGHT.replace("softmax(-1)", "softmax(-2)")), "padding")):
        with pytest.raises(AssertionError, match=r"^this property does not hold or was not judged$"):
            expect(module, prop, kind="self_attention", hints="something")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("hint: where", r"unknown keys \['hint'\]; an assignment has kind"),
        ("hints: everything", "hints must be one of something, property, where, got 'everything'"),
        ("hints: 'where", "cannot be read as YAML: while scanning a quoted scalar"),
        ("kind: [attention]", r"kind must be a word such as self_attention, got \['attention'\]"),
        ("- padding", r"must be a table of the keys kind, .*, got \['padding'\]"),
        ("seconds: 0", "seconds must be a whole number from 1 to 86400, got 0"),
        ("seed: red", "seed must be a whole number from 0 to 9223372036854775807, got 'red'"),
        ("seed: 2026-01-31", "such as a date"),
        ("points: {2026-01-31: 1}", "such as a date"),
        ("points: {2026-02-31: 1}", "cannot be read as YAML: day is out of range for month"),
        ("points: {1: 1, padding: 1}", "a name that is no text"),
        ('points: {"\\ud800": 1}', r"the names in points must be text, got '\\ud800'"),
        ("points: {padding: .nan}", "the points of 'padding' must be a number from 0 to 1000000, got nan"),
        ("points: {padding: .inf}", "the points of 'padding' must be a number from 0 to 1000000, got inf"),
        ("points: {padding: yes}", "the points of 'padding' must be a number from 0 to 1000000, got True"),
        ("points: [padding]", r"points must be a table of names and values, got \['padding'\]"),
        ("points: {padding: -1}", "the points of 'padding' must be a number from 0 to 1000000, got -1"),
    ],
)
def test_a_wrong_assignment_is_an_error_that_names_the_key(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "assignment.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=words):
        read_assignment(path)


@pytest.fixture
def without_process(monkeypatch: pytest.MonkeyPatch, check_here: Check) -> None:
    monkeypatch.setattr(check, "check_apart", check_here)


@pytest.mark.usefixtures("without_process")
def test_the_command_writes_what_was_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "attention.py").write_text(FAULTY)
    (tmp_path / "assignment.yaml").write_text("kind: self_attention\npoints: {padding: 2, batch: 1}\n")
    call = ["check", f"{tmp_path}/attention.py:Attention", "--assignment", f"{tmp_path}/assignment.yaml"]
    with pytest.raises(SystemExit) as caught:
        cli.main([*call, "--hints", "property"])
    assert caught.value.code == 1
    assert "Attention: 1 of 3 points" in capsys.readouterr().out
    cli.main([*call, "--format", "gradescope", "-o", f"{tmp_path}/results.json"])
    assert json.loads((tmp_path / "results.json").read_text())["score"] == 1
    with pytest.raises(SystemExit, match="written from a solution that passes: in this one these do not hold: padding"):
        cli.main([*call, "--format", "otter"])
    with pytest.raises(SystemExit, match="give a file and a name in it"):
        cli.main(["check", f"{tmp_path}/attention.py"])
    missing = ["check", f"{tmp_path}/attnetion.py:Attention", "--kind", "self_attention"]
    with pytest.raises(SystemExit, match=r"there is no file .*attnetion\.py"):
        cli.main(missing)
    cli.main([*missing, "--format", "gradescope", "-o", f"{tmp_path}/results.json"])
    assert "does_not_load" in json.loads((tmp_path / "results.json").read_text())["output"]


@pytest.mark.usefixtures("without_process")
def test_the_command_tells_of_a_solution_what_has_no_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "attention.py").write_text(RIGHT)
    cli.main(["check", f"{tmp_path}/attention.py:Attention", "--kind", "self_attention", "--format", "otter"])
    written = capsys.readouterr()
    assert "not judged: future: it is not causal" in written.err
    assert "not judged" not in written.out


def test_the_test_file_of_otter_calls_each_property() -> None:
    text = as_otter("Attention", {"padding": 3, "scale": 1}, Assignment("self_attention"))
    compile(text, "test_file", "exec")
    assert text.count("@test_case(") == 2
    assert "expect(env['Attention'], 'padding', kind='self_attention', hints='where')" in text
