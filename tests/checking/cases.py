"""All code that ``attnzoo.check`` is tried on, from six collections: what is wrong, and what is right."""

from collections.abc import Callable
from typing import Any, NamedTuple

from . import course_code, hidden_faults, short_and_unused, unseen
from .correct import CORRECT
from .faulty import FAULTY
from .mutants import table

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
