"""Tests for notebooks: a cell of nbgrader and a test file of Otter call :func:`expect` for each property."""

from dataclasses import replace
from typing import Any

from .assignment import Assignment
from .grades import PASSED, grade


def expect(target: Any, prop: str, **assignment: Any) -> None:
    """Raise an error that says what is wrong unless a property holds.

    The code runs in the notebook's own process, which nbgrader and Otter limit by themselves. It is checked afresh at
    every call, since a function that it uses may have changed.

    Args:
        target: a class, a module or a function
        prop: the property, by the name that a report has for it
        assignment: the fields of :class:`Assignment`

    Raises:
        AssertionError: the property does not hold, or could not be judged.
    """
    import inspect

    import torch

    from ..checking.checker import check

    asked = Assignment(**{**assignment, "points": {prop: 1}})
    torch.manual_seed(asked.seed)
    made = target(**asked.arguments) if inspect.isclass(target) else target
    report = check(made, asked.kind, **asked.options).as_json()
    is_hidden = asked.hints == "something"  # with these hints, a grade has one test for all properties
    graded = grade(type(made).__name__, report, replace(asked, hints="property") if is_hidden else asked)
    (test,) = (each for each in graded.tests if each.name == prop)
    if test.status != PASSED:
        raise AssertionError("this property does not hold or was not judged" if is_hidden else test.message)
