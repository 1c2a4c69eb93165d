"""Parallel text files of any size, read line by line."""

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


def read_pairs(sources: Path, targets: Path) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side, without holding the files in memory. A line ends with a line feed alone."""
    with _opened(sources) as first, _opened(targets) as second:
        for source, target in zip(first, second, strict=True):
            yield source.removesuffix("\n"), target.removesuffix("\n")


def count_pairs(sources: Path, targets: Path) -> int:
    """The number of lines of both files, checked before any work begins.

    Raises:
        ValueError: the files differ in their numbers of lines, or a line is empty; the message has its number, from 1.
    """
    counts = []
    for path in (sources, targets):
        count = 0
        with _opened(path) as lines:
            for count, line in enumerate(lines, start=1):
                if not line.strip():
                    raise ValueError(f"line {count} of {path} is empty; there is nothing to align")
        counts.append(count)
    if counts[0] != counts[1]:
        raise ValueError(f"{sources} has {counts[0]} lines, {targets} has {counts[1]}; a pair is a line of each")
    return counts[0]


def _opened(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="\n")
