"""The files that a command writes."""

import contextlib
import os
from pathlib import Path

STANDARD_INPUT = 0  # as a file that is open


def refuse_overwriting(option: str, output: Path, *inputs: Path | int | None) -> None:
    """Raise a ValueError if the file that an option writes is one of these inputs, by another name perhaps."""
    for given in inputs:
        with contextlib.suppress(OSError):  # one of them is not there
            if given is not None and os.path.samefile(output, given):
                what = "the standard input" if given == STANDARD_INPUT else str(given)
                raise ValueError(f"{option} {output} would overwrite {what}, which is read; give another file")
