"""The arguments of a pronouncer's call: its options, and its texts."""

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal

from ..alignment import require_whole


@dataclass(frozen=True)
class Options:
    """How to pronounce; see :class:`Pronouncer`.

    Raises:
        ValueError: a number below 1, fewer beams than pronunciations, or an unknown value of ``on_unknown``.
    """

    n_best: int = 1
    num_beams: int | None = None
    alignments: bool = False
    on_unknown: Literal["keep", "skip", "raise"] = "keep"
    batch_size: int = 128

    def __post_init__(self) -> None:
        for name in ("n_best", "num_beams", "batch_size"):
            if name != "num_beams" or self.num_beams is not None:
                require_whole(name, getattr(self, name))
        if self.num_beams is not None and self.num_beams < self.n_best:
            raise ValueError(
                f"n_best={self.n_best} needs at least {self.n_best} beams, got num_beams={self.num_beams}; raise "
                "num_beams or leave it out"
            )
        if self.on_unknown not in ("keep", "skip", "raise"):
            raise ValueError(f"on_unknown must be 'keep', 'skip' or 'raise', got {self.on_unknown!r}")


def chosen_options(options: Mapping[str, Any]) -> Options:
    """The options of a call."""
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            nearest = "".join(f"did you mean {near!r}? " for near in get_close_matches(name, known, n=1))
            raise TypeError(
                f"unknown option {name!r} of a pronouncer's call; {nearest}the options are {', '.join(known)}"
            )
    return Options(**options)


def iterator_of(texts: Any) -> Iterator[Any]:
    """An iterator over several texts."""
    if isinstance(texts, bytes | bytearray) or not isinstance(texts, Iterable):
        raise ValueError(f"expected a text or a list of texts, got {reprlib.repr(texts)}")
    return iter(texts)


def texts_of(items: Iterable[Any]) -> list[str]:
    """The items of a list, each of which must be a text."""
    found = list(items)
    if others := [item for item in found if not isinstance(item, str)]:
        raise ValueError(f"every item must be a text, got {reprlib.repr(others[0])}")
    return found


def require_text(text: Any) -> str:
    """The text, or a ValueError if it is none."""
    if not isinstance(text, str):
        raise ValueError(f"text must be one text, got {reprlib.repr(text)}; call phonemize for each of several texts")
    return text
