"""The texts that a command reads, some at a time, and the errors of those that it cannot read."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub.utils import enable_progress_bars, tqdm

from ..encoding import MOST_CHARACTERS, reading_utf8, text_lines, text_of
from ..messages import shown
from .outputs import STANDARD_INPUT

PROGRESS = "attnzoo"  # the name of our progress bars, which are shown though those of Transformers are not
WINDOW = 256  # texts that are read, and then printed, at a time: some batches, sorted by length


class Texts:
    """The texts of the command line, or else the lines of ``--file`` or of the standard input.

    The output has a line for each of them, in their order. One that cannot be read costs no other: its error is printed
    at the end.

    Args:
        options: of a command with the arguments of ``add_texts``
        what: the word for a text in messages, such as "sentence"

    Raises:
        ValueError: there are none, or both arguments and a file; or they are not UTF-8.
    """

    def __init__(self, options: argparse.Namespace, what: str) -> None:
        self.file: Path | None = options.file
        self.source: Path | int | None = self.file  # a number is that of an open file
        self.unit, self.errors = "line", list[str]()
        if self.file and options.texts:
            raise ValueError(
                f"--file reads each {what} from {self.file}, got {shown(options.texts[0])} too; leave one out"
            )
        if self.file:
            lines = lines_of(self.file)
        elif options.texts:
            self.unit, lines = what, require_utf8(options.texts, what)
        elif sys.stdin is None or sys.stdin.isatty():
            raise ValueError(f"give at least one {what}, or a file with one on each line: --file FILE")
        else:
            self.source = STANDARD_INPUT
            lines = text_of(sys.stdin.buffer.read(), "the standard input").removesuffix("\n").split("\n")
        self.texts = [line.strip() for line in lines]
        if self.unit == "line" and not any(self.texts):
            raise ValueError(f"{self.file or 'the standard input'} has no {what}s; write a {what} on each line")

    def windows(self) -> Iterator[list[tuple[int, str]]]:
        """Some texts at a time with their numbers, from 1. What is printed for them is written before the next.

        One that is too long is refused and then empty.
        """
        with progress_bar(len(self.texts), self.file is not None) as bar:
            for start in range(0, len(self.texts), WINDOW):
                for place, text in enumerate(self.texts[start : start + WINDOW], start):
                    if len(text) > MOST_CHARACTERS:
                        count = f"{len(text):,} characters, more than the {MOST_CHARACTERS:,} that are read"
                        self.refuse(place + 1, f"{shown(text)} has {count}; split it")
                        self.texts[place] = ""
                window = list(enumerate(self.texts[start : start + WINDOW], start + 1))
                yield window
                sys.stdout.flush()
                bar.update(len(window))

    def refuse(self, number: int, reason: object) -> None:
        """Note why the text of this number cannot be read."""
        self.errors.append(f"{self.unit} {number}: {reason}")

    def exit_if_refused(self) -> None:
        """Print why texts could not be read, after the results of the others, and exit."""
        if self.errors:
            print(*(f"error: {message}" for message in self.errors), sep="\n", file=sys.stderr)
            sys.exit(1)


def require_utf8(texts: list[str], what: str) -> list[str]:
    """The texts. In an argument, Python puts a surrogate for each byte that is not UTF-8."""
    with reading_utf8(f"the {what}"):
        "".join(texts).encode()
    return texts


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    return list(text_lines(path, f"the file {path}"))


def progress_bar(total: int, is_shown: bool = True) -> tqdm:
    """A progress bar on standard error."""
    enable_progress_bars(PROGRESS)
    return tqdm(total=total, disable=not is_shown, file=sys.stderr, name=PROGRESS)
