"""Speeds that the pages show: a benchmark writes its section of ``docs/speeds.json`` with ``--store``.

``run.py`` has a file and a table of its own.
"""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import torch

from tests.benchmarks.environments import ROOT
from tests.benchmarks.run import commit_of_code, markdown_table, processor_name

STORED = ROOT / "docs" / "speeds.json"
STORE = "write the figures into docs/speeds.json"  # the help of the option
TRANSFORMERS = ("Marian", "BART", "T5", "torch.nn.Transformer")
Figures = Mapping[str, float]  # of a row, by column; whole numbers are shown as they are, others with two decimals


COLUMNS = {  # of the table of a section: the header of the rows, and the columns; what a row lacks is empty
    "transformers_training": ("training, tokens/s", "attnzoo", *TRANSFORMERS, "attnzoo / best of the others"),
    "transformers_decoding": (
        *("decoding, tokens/s", "attnzoo", "`generate()` of attnzoo", *TRANSFORMERS[:3], "CTranslate2"),
        "attnzoo / best of Marian, BART and T5",
    ),
    "self_attentive": (
        "plain torch's time / attnzoo's",
        *(f"{step}, {sizes} sizes" for sizes in ("paper", "small") for step in ("training", "inference")),
    ),
    "word_list": ("2,000 words, greedy", "seconds", "time relative to the pipeline"),
    "export": ("sources per second, greedy", "one at a time", "64 at once"),
    "pronouncer": ("words per second, greedy", "lists of 2,000 words", "one word at a time"),
    "decoding_precision": ("test split; PER and WER in %", "PER", "WER", "seconds"),
}


def store(section: str, rounds: int, rows: Mapping[str, Figures]) -> None:
    """Write a section of the file anew: its figures, and where, when and at which commit they were measured."""
    sections = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    about = {"processor": processor_name(), "torch": torch.__version__, "commit": commit_of_code()}
    sections[section] = about | {"date": date.today().isoformat(), "rounds": rounds, "rows": rows}
    STORED.write_text(json.dumps(dict(sorted(sections.items())), indent=1) + "\n", encoding="utf-8")


def markdown(name: str, section: Mapping[str, Any]) -> str:
    """A section as a table, and a line about the machine."""
    first, *columns = COLUMNS[name]
    lines = [[row, *(shown(figures.get(column)) for column in columns)] for row, figures in section["rows"].items()]
    how = f"medians of {section['rounds']} rounds or more, " if section["rounds"] > 1 else ""
    machine = f"{section['processor']}, one thread, {how}torch {section['torch']}, {section['date']}."
    return f"{markdown_table([first, *columns], *lines)}\n\n{machine}"


def shown(figure: float | None) -> str:
    """The text of a figure."""
    return "" if figure is None else f"{figure:,}" if isinstance(figure, int) else f"{figure:.2f}"
