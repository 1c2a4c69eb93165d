"""Parallel text files of any size, read line by line, and files of the links between their words."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..alignment import Links, from_pharaoh
from ..encoding import MOST_CHARACTERS, text_lines


def read_pairs(sources: Path, targets: Path) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side, without holding the files in memory."""
    yield from zip(text_lines(sources), text_lines(targets), strict=True)


def count_pairs(sources: Path, targets: Path) -> int:
    """The number of lines of both files, checked before any work begins.

    Raises:
        ValueError: a file is a pipe, is not UTF-8 or is empty, the files differ in their numbers of lines, or a line is
            empty or has more than ``MOST_CHARACTERS``; the message has its number, from 1.
    """
    counts = []
    for path in (sources, targets):
        if path.exists() and not path.is_file():  # such as a pipe, which is empty when it is read again
            raise ValueError(f"{path} is not a plain file; write its lines to one, since they are read twice")
        count = 0
        for count, line in enumerate(text_lines(path), start=1):
            if not line.strip():
                raise ValueError(f"line {count} of {path} is empty; there is nothing to align")
            if len(line) > MOST_CHARACTERS:
                size = f"{len(line):,} characters, more than the {MOST_CHARACTERS:,} that are read"
                raise ValueError(f"line {count} of {path} has {size}; split it, and its translation")
        if not count:
            raise ValueError(f"{path} is empty; there is nothing to align")
        counts.append(count)
    if counts[0] != counts[1]:
        raise ValueError(f"{sources} has {counts[0]} lines, {targets} has {counts[1]}; a pair is a line of each")
    return counts[0]


def read_links(path: Path) -> list[tuple[Links, Links]]:
    """The sure and the possible links of every line of a file in Pharaoh format.

    Raises:
        ValueError: the file is not UTF-8, or a line has something other than links; the message has its number, from 1.
    """
    found = []
    for number, line in enumerate(text_lines(path), start=1):
        try:
            found.append(from_pharaoh(line))
        except ValueError as error:
            raise ValueError(f"line {number} of {path}: {error}") from error
    return found


def require_words(
    path: Path, links: Sequence[tuple[Links, Links]], pairs: Iterable[tuple[Sequence[str], Sequence[str]]]
) -> None:
    """Check the links of a file against the words (source, target) that they are between.

    Raises:
        ValueError: a link is not between two words of its pair; the message has the number of its line, from 1.
    """
    for number, ((sure, possible), (source, target)) in enumerate(zip(links, pairs, strict=False), start=1):
        for s, t in sorted(sure | possible):
            if s >= len(source) or t >= len(target):
                raise ValueError(
                    f"line {number} of {path} has the link {s}-{t}, but its source has {len(source)} words and its "
                    f"target {len(target)}; words are counted from 0"
                )
