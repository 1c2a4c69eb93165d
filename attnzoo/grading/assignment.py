"""What is asked of students: the kind of code, the points of each property, the limits, the level of hints."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HINTS = ("something", "property", "where")
RANGES = {"seconds": (1, 86_400), "megabytes": (1, 1_000_000), "seed": (0, 2**63 - 1)}
MOST_POINTS = 1_000_000


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
        if self.kind is not None and not isinstance(self.kind, str):
            raise ValueError(f"kind must be a word such as self_attention, got {self.kind!r}")
        if self.hints not in HINTS:
            raise ValueError(f"hints must be one of {', '.join(HINTS)}, got {self.hints!r}")
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
        for name in ("arguments", "options", "points"):
            table = getattr(self, name)
            if not isinstance(table, dict):
                raise ValueError(f"{name} must be a table of names and values, got {table!r}")
            wrong = [key for key in table if not isinstance(key, str) or not key.isprintable() or not key]
            if wrong:
                raise ValueError(f"the names in {name} must be text, got {wrong[0]!r}")
        for name, value in self.points.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= MOST_POINTS:  # NaN is not, either
                raise ValueError(f"the points of {name!r} must be a number from 0 to {MOST_POINTS}, got {value!r}")


def read_assignment(path: Path | None, **given: Any) -> Assignment:
    """The assignment of a YAML file, or that of the defaults; the values given that are not None replace its own.

    Raises:
        ValueError: the file is no table, or has a key or a value that cannot be used.
    """
    content = {} if path is None else _read(path)
    names = [each.name for each in dataclasses.fields(Assignment)]
    if not isinstance(content, dict):
        raise ValueError(f"{path} must be a table of the keys {', '.join(names)}, got {content!r}")
    unknown = [key for key in content if key not in names]
    if unknown:
        raise ValueError(f"{path} has the unknown keys {unknown}; an assignment has {', '.join(names)}")
    return Assignment(**{**content, **{name: value for name, value in given.items() if value is not None}})


def _read(path: Path) -> Any:
    """The content of a YAML file, which must be of the values that JSON has: text, numbers, lists and tables."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        is_plain = repr(json.loads(json.dumps(content))) == repr(content)  # keys that are no text would become text
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that does not exist is a ValueError
        raise ValueError(f"{path} cannot be read as YAML: {error}") from error
    except TypeError:  # a date, a set
        is_plain = False
    if not is_plain:
        raise ValueError(
            f"{path} has a value or a name that is no text, number, list or table, such as a date: {content!r}. "
            "Write it in quotes."
        )
    return content
