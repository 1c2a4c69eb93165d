"""Speeds that the pages show: a benchmark writes its section of ``docs/speeds.json`` with ``--store``.

``run.py`` has a file and a table of its own.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import torch

from tests.benchmarks.environments import ROOT
from tests.benchmarks.run import commit_of_code, processor_name

STORED = ROOT / "docs" / "speeds.json"
STORE = "write the figures into docs/speeds.json"  # the help of the option
Figures = Mapping[str, float]  # of a row, by column; whole numbers are shown as they are, others with two decimals


@dataclass(frozen=True)
class Table:
    """How a section of the file is shown.

    Attributes:
        first: the header of the first column.
        columns: the columns, those that the rows lack too.
        ratio: the header of the last column; None if there is none.
        of: the ratio of a row, from the row and the first row.
    """

    first: str
    columns: tuple[str, ...]
    ratio: str | None = None
    of: Callable[[Figures, Figures], float] = lambda row, first: 1.0


TRANSFORMERS = ("Marian", "BART", "T5", "torch.nn.Transformer")
TABLES = {
    "transformers_training": Table(
        "training, tokens/s",
        ("attnzoo", *TRANSFORMERS),
        ratio="attnzoo / best of the others",
        of=lambda row, first: row["attnzoo"] / max(row[name] for name in TRANSFORMERS),
    ),
    "transformers_decoding": Table(
        "decoding, tokens/s",
        ("attnzoo", "`generate()` of attnzoo", *TRANSFORMERS[:3], "CTranslate2"),
        ratio="attnzoo / best of Marian, BART and T5",
        of=lambda row, first: row["attnzoo"] / max(row[name] for name in TRANSFORMERS[:3]),
    ),
    "self_attentive": Table(
        "plain torch's time / attnzoo's",
        tuple(f"{step}, {sizes} sizes" for sizes in ("paper", "small") for step in ("training", "inference")),
    ),
    "word_list": Table(
        "2,000 words, greedy",
        ("seconds",),
        ratio="time relative to the pipeline",
        of=lambda row, first: row["seconds"] / first["seconds"],
    ),
    "export": Table("sources per second, greedy", ("one at a time", "64 at once")),
    "pronouncer": Table("words per second, greedy", ("lists of 2,000 words", "one word at a time")),
    "decoding_precision": Table("test split, beam 5", ("PER %", "WER %", "seconds")),
}


def store(section: str, rounds: int, rows: Mapping[str, Figures]) -> None:
    """Write a section of the file anew: its figures, and where, when and at which commit they were measured."""
    sections = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    about = {"processor": processor_name(), "torch": torch.__version__, "commit": commit_of_code()}
    sections[section] = about | {"date": date.today().isoformat(), "rounds": rounds, "rows": rows}
    STORED.write_text(json.dumps(dict(sorted(sections.items())), indent=1) + "\n", encoding="utf-8")


def markdown(name: str, section: Mapping[str, Any]) -> str:
    """A section as a table, and a line about the machine."""
    table, rows = TABLES[name], section["rows"]
    lines = [[table.first, *table.columns, *filter(None, [table.ratio])]]
    lines += [["---"] * len(lines[0])]
    for row, figures in rows.items():
        cells = [shown(figures.get(column)) for column in table.columns]
        last = [f"{table.of(figures, next(iter(rows.values()))):.2f}"] if table.ratio else []
        lines.append([row, *cells, *last])
    how = f"medians of {section['rounds']} rounds, " if section["rounds"] > 1 else ""
    machine = f"{section['processor']}, one thread, {how}torch {section['torch']}, {section['date']}."
    return "\n".join([*(f"| {' | '.join(cells)} |" for cells in lines), "", machine])


def shown(figure: float | None) -> str:
    """The text of a figure."""
    return "" if figure is None else f"{figure:,}" if isinstance(figure, int) else f"{figure:.2f}"
