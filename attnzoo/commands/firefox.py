"""``attnzoo import firefox`` and ``attnzoo export --to firefox``: models of Firefox, in both directions."""

import argparse
import sys
from pathlib import Path

from ..firefox.comparing import compare_with_engine
from ..firefox.engine import require_engine
from ..firefox.model_folders import export_to_firefox, import_folder
from ..firefox.students import find_student, read_student
from .lines import lines_of
from .parsers import import_parser


def import_model(arguments: list[str]) -> None:
    """Run the command line of ``attnzoo import``."""
    options = import_parser().parse_args(arguments)
    if options.engine is not None and options.verify is None:
        raise ValueError("--engine is for --verify, which is missing")
    python = options.engine or sys.executable
    sentences = None
    if options.verify is not None:
        sentences = sentences_of(options.verify)
        require_engine(python)
    files = find_student(options.source, options.pair, options.subfolder)
    student = read_student(files)
    import_folder(files, student, options.folder, options.pair.split("-") if options.pair else (), options.license)
    print(f"{options.folder} is written", file=sys.stderr)
    if sentences is not None:
        print(f"translating {len(sentences)} sentences by the engine and in each arithmetic", file=sys.stderr)
        for row in compare_with_engine(files, student, sentences, python):
            print(*row, sep="\t")


def export_for_firefox(source: str, options: argparse.Namespace) -> None:
    """Run the command line of ``attnzoo export --to firefox``."""
    for name, value in {"check": options.check, "examples": options.examples, "set": options.set}.items():
        if value:
            raise ValueError(f"--{name} is not for --format firefox; leave it out")
    if options.sentences is None:
        raise ValueError("--sentences is missing: give some hundred sentences in the source language, one on each line")
    sentences = sentences_of(options.sentences)
    weights = options.weights or "int8"
    print(f"translating {len(sentences)} sentences, which takes some minutes", file=sys.stderr)
    for row in export_to_firefox(source, options.folder, sentences, weights):
        print(*row, sep="\t")


def sentences_of(path: Path) -> list[str]:
    """The lines of a file that are not empty.

    Raises:
        ValueError: there are none.
    """
    found = [line.strip() for line in lines_of(path) if line.strip()]
    if not found:
        raise ValueError(f"{path} has no sentences; write one on each line")
    return found
