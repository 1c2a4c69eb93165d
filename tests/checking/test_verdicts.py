"""Every fault is found by its name, and right code is not accused, each within seconds: six collections of code."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import attnzoo
from tests.checking import course_code, hidden_faults, short_and_unused, unseen
from tests.checking.correct import CORRECT
from tests.checking.faulty import FAULTY
from tests.checking.mutants import table

SECONDS = 5.0  # of one core
Make = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]  # the arguments and the options of check


class Wrong(NamedTuple):
    """Faulty code: the names of which each must be found, those of which some must be found, and how to make it."""

    each: set[str]
    some: set[str]
    make: Make


def made(subject: table.Subject) -> Make:
    return lambda: ((subject.make(), subject.kind), subject.options)


WRONG = {
    **{name: Wrong({one.fault}, {one.fault}, one.make) for name, one in (FAULTY | unseen.UNSEEN).items()},
    **{f"hidden, {name}": Wrong({fault}, {fault}, make) for name, (fault, make) in hidden_faults.FAULTS.items()},
    **{f"short, {name}": Wrong({fault}, {fault}, make) for name, (fault, make) in short_and_unused.FAULTS.items()},
    **{
        f"course, {name}": Wrong({fault}, {fault, course_code.ALLOWED_TOO.get(name, fault)}, make)
        for name, (fault, make) in course_code.FAULTS.items()
    },
    **{f"mutant, {one.make.__name__}": Wrong(set(), {*one.names}, made(one)) for one in table.FAULTY},
}
RIGHT = {
    **CORRECT,
    **{f"unseen, {name}": make for name, make in unseen.RIGHT.items()},
    **{f"hidden, {name}": make for name, make in hidden_faults.RIGHT.items()},
    **{f"short, {name}": make for name, make in short_and_unused.RIGHT.items()},
    **{f"course, {name}": make for name, make in course_code.RIGHT.items()},
    **{f"mutant, {one.make.__name__}": made(one) for one in table.RIGHT},
}


def verdict(make: Make, seed: int = 0) -> attnzoo.checking.Report:
    torch.manual_seed(seed)
    arguments, options = make()
    began = time.process_time()
    report = attnzoo.check(*arguments, **options)
    assert time.process_time() - began < SECONDS
    return report


@pytest.mark.parametrize("name", WRONG)
def test_the_fault_is_named_and_nothing_else(name: str) -> None:
    report, found = verdict(WRONG[name].make), WRONG[name]
    assert not report
    assert found.each <= {*report.names} <= found.some, report
    assert all(name in str(report) for name in report.names)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_not_accused(name: str) -> None:
    report = verdict(RIGHT[name])
    assert report.passed, report
    assert len(report.checked) >= (7 if name.startswith("course") else 1), report


@pytest.mark.parametrize(
    "name", [name for name in course_code.FAULTS if not name.startswith("Loops")]
)  # those are slow
def test_the_verdict_is_the_same_every_time_and_for_other_weights(name: str) -> None:
    fault, make = course_code.FAULTS[name]
    first, second = verdict(make, 1), verdict(make, 1)
    assert first.as_json() == second.as_json()
    assert fault in first.names, first
