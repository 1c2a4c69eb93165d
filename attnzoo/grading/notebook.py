"""Tests for notebooks: a cell of nbgrader and a test file of Otter call :func:`expect` for each property."""

from typing import Any

from .assignment import Assignment
from .grades import FAILED, NOT_JUDGED, grade

_reports: dict[str, tuple[Any, dict[str, Any]]] = {}  # of the last object checked with each assignment


def expect(target: Any, prop: str, **assignment: Any) -> None:
    """Raise an error that says what is wrong unless a property holds.

    The code runs in the notebook's own process, which nbgrader and Otter limit by themselves.

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
    key = repr(sorted({**assignment, "hints": None}.items()))
    last = _reports.get(key)
    if last is None or last[0] is not target:
        torch.manual_seed(asked.seed)
        made = target(**asked.arguments) if inspect.isclass(target) else target
        _reports[key] = last = (target, check(made, asked.kind, **asked.options).as_json())
    test = grade(getattr(target, "__name__", type(target).__name__), last[1], asked).tests[0]
    if test.status in (FAILED, NOT_JUDGED):
        raise AssertionError(test.message)
