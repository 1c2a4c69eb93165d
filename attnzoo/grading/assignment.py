"""What is asked of students: the kind of code, the points of each property, the limits, the level of hints."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HINTS = ("something", "property", "where")


@dataclass(frozen=True)
class Assignment:
    """An assignment, as a YAML file has it.

    Attributes:
        kind: the kind of code, as ``attnzoo.check`` takes it; None for modules of torch
        arguments: with which a class is called to make the module
        options: further arguments of ``attnzoo.check``, such as ``causal: true``
        points: the points of each property, by the name that a report has for it. By default, each property that was
            checked or failed has one
        hints: "something": how many properties fail; "property": which; "where": where and why, too
        seconds: of one core, after which the code is ended; after four times as long on the clock, too
        megabytes: of memory that the code may take
        seed: of the random numbers with which the module is made
    """

    kind: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    points: dict[str, float] = field(default_factory=dict)
    hints: str = "where"
    seconds: int = 60
    megabytes: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ValueError: a field has a value that cannot be used.
        """
        if self.hints not in HINTS:
            raise ValueError(f"hints must be one of {', '.join(HINTS)}, got {self.hints!r}")
        for name in ("seconds", "megabytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name in ("arguments", "options", "points"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(f"{name} must be a table of names and values, got {getattr(self, name)!r}")
        for name, value in self.points.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ValueError(f"the points of {name!r} must be a number of at least 0, got {value!r}")


def read_assignment(path: Path | None, **given: Any) -> Assignment:
    """The assignment of a YAML file, or that of the defaults; the values given that are not None replace its own.

    Raises:
        ValueError: the file is no table, or has a key or a value that cannot be used.
    """
    import yaml

    content = {} if path is None else yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    names = [each.name for each in dataclasses.fields(Assignment)]
    if not isinstance(content, dict) or not {*content} <= {*names}:
        unknown = sorted({*content} - {*names}) if isinstance(content, dict) else content
        raise ValueError(f"{path} has the unknown keys {unknown}; an assignment has {', '.join(names)}")
    return Assignment(**{**content, **{name: value for name, value in given.items() if value is not None}})
