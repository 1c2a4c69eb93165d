"""``attnzoo export``: a folder that runs a model without torch, with a certificate that it does what torch does."""

import importlib
import sys
from pathlib import Path
from typing import Any

from ..export.certificate import figures
from ..export.command import export_folder
from ..export.graph import Weights
from .firefox import export_for_firefox
from .models import folder_of
from .parsers import export_parser


def main(arguments: list[str]) -> None:
    """Run the command line."""
    options = export_parser().parse_args(arguments)
    if options.examples is not None and options.examples < 1:
        raise ValueError(f"--examples must be at least 1, got {options.examples}")
    source = folder_of(options.model, "export")
    if options.format == "firefox":
        export_for_firefox(source, options)
        return
    if options.sentences is not None:
        raise ValueError("--sentences is for --format firefox; leave it out")
    task = _test_examples(source, options.examples, options.set)
    weights: Weights = options.weights or "float32"
    certificate = export_folder(source, options.folder, options.format, weights, task, options.check)
    for figure in figures(certificate):
        print(*figure, sep="\t")


def _test_examples(source: str, number: int | None, overrides: list[str]) -> Any:
    """The task of a model's recipe with its test split, or so many rows of it; None if its data is not here."""
    try:
        task = importlib.import_module("attnzoo.training.evaluate").task_for(Path(source), overrides, "test")
    except (ModuleNotFoundError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]  # without the list of all recipes
        if overrides:
            raise ValueError(f"--set changes the recipe of a model, and cannot here: {reason}") from error
        print(f"the export is compared on random tokens only: {reason}", file=sys.stderr)
        return None
    if number is not None:  # evenly from all of them, as words may be sorted by their language
        rows = task.splits["test"]
        number = min(number, len(rows))
        task.splits["test"] = rows.select([place * len(rows) // number for place in range(number)])
    return task
