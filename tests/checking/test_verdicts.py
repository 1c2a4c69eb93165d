"""Every fault is found by its name, and right code is not accused: six collections of code."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch

import attnzoo
from tests.checking import course_code
from tests.checking.cases import RIGHT, WRONG, Make


def verdict(make: Make, seed: int = 0) -> attnzoo.checking.Report:
    torch.manual_seed(seed)
    arguments, options = make()
    return attnzoo.check(*arguments, **options)


def cases(names: Iterable[str]) -> list[Any]:
    """Loops over single numbers take seconds each: but for two, they are among the slow tests."""
    quick = ("course, Loops: next", "course, Loops: plain")
    return [
        pytest.param(name, marks=pytest.mark.slow if ", Loops: " in name and name not in quick else ())
        for name in names
    ]


@pytest.mark.parametrize("name", cases(WRONG))
def test_the_fault_is_named_and_nothing_else(name: str) -> None:
    report, found = verdict(WRONG[name].make), WRONG[name]
    assert not report
    assert found.each <= {*report.names} <= found.some, report
    assert all(name in str(report) for name in report.names)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", cases(RIGHT))
def test_right_code_is_not_accused(name: str) -> None:
    report = verdict(RIGHT[name])
    assert report.passed, report
    assert len(report.checked) >= (7 if name.startswith("course") else 1), report


# One of each fault, and none with slow loops.
@pytest.mark.parametrize(
    "name", {fault: name for name, (fault, _) in course_code.FAULTS.items() if not name.startswith("Loops")}.values()
)
def test_the_verdict_is_the_same_every_time_and_for_other_weights(name: str) -> None:
    fault, make = course_code.FAULTS[name]
    first, second = verdict(make, 1), verdict(make, 1)
    assert first.as_json() == second.as_json()
    assert fault in first.names, first
