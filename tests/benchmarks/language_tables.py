"""Measure a model of many languages on each dictionary of WikiPron, and write docs/languages.csv and docs/languages.md.

    python -m attnzoo.training.make_data.wikipron wikipron data/wikipron
    pip install iso639-lang
    python -m tests.benchmarks.language_tables attentional-rnn-g2p-multilingual

The figures of the other program are those that ``pronunciation_languages.py`` wrote. "marks" is the share of the wrong
words, in percent, that become right when marks are ignored on both sides: combining marks, modifier letters, and the
marks of stress, length and tone. Wiktionary's entries use these unevenly.
"""

import argparse
import csv
import importlib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from attnzoo.training.recipe import checkpoint_recipe, make_task
from attnzoo.training.tasks.metrics import PhonemeErrorRate, WordErrorRate
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo.loading import load_trained
from attnzoo.phonemes import CLOSE, OPEN, accent_and_spelling
from attnzoo.shipped_models import named_folder

PEERS = Path(__file__).with_name("pronunciation_languages.csv")
PEER = "phonetisaurus 0.3.0"
DOCS = Path(__file__).resolve().parents[2] / "docs"
START, END = "<!-- written by python -m tests.benchmarks.language_tables -->", "<!-- end of the tables -->"
METRICS = (WordErrorRate, PhonemeErrorRate)
FIGURES = [f"{metric.key}{bound}" for metric in METRICS for bound in ("", "_low", "_high")]
PEER_FIGURES = ["wer", "wer_low", "wer_high", "per"]
COLUMNS = [
    "dictionary",
    "language",
    "train_words",
    "test_words",
    *FIGURES,
    "marks",
    *(f"peer_{name}" for name in PEER_FIGURES),
]
SIZES = {"up to 1,000": 1000, "1,001 to 3,000": 3000, "3,001 to 10,000": 10000, "10,001 to 20,000": 20000}

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("model", help="a name or a folder with its recipe.yaml")
    options = parser.parse_args(arguments)
    rows = measured(Path(named_folder(options.model)))
    with (DOCS / "languages.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page = DOCS / "languages.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    page.write_text(f"{before}{START}\n\n{tables(rows)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def measured(folder: Path) -> list[Row]:
    """The figures of the model and of the other program, a row for every dictionary."""
    task: Any = make_task(checkpoint_recipe(folder))
    model, tokenizer = load_trained(AutoModelForSeq2SeqLM, folder), AutoTokenizer.from_pretrained(folder)
    test, said = task.splits["test"], task.predict(model, tokenizer, "test")
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for word, listed, one in zip(test["word"], test["pronunciations"], said, strict=True):
        found.setdefault(_dictionary(word), []).append((one, listed))
    taught = [_dictionary(word) for word in task.splits["train"]["word"]]
    with PEERS.open(newline="", encoding="utf-8") as file:
        peers = {row["dictionary"]: row for row in csv.DictReader(file) if row["peer"] == PEER}
    rows = []
    for name, of in sorted(found.items()):
        predictions, references = map(list, zip(*of, strict=True))
        figures = {
            k: v for m in METRICS for k, v in m().compute(predictions=predictions, references=references).items()
        }
        wrong = [(one, listed) for one, listed in of if one not in listed]
        near = sum(_plain(one) in map(_plain, listed) for one, listed in wrong)
        row = {
            "dictionary": name,
            "language": _language(name.split("_")[0]),
            "train_words": taught.count(name),
            "test_words": len(of),
        }
        row |= {name: f"{figures[name]:.2f}" for name in FIGURES}
        row["marks"] = f"{100 * near / max(1, len(wrong)):.1f}"
        rows.append(row | {f"peer_{key}": peers[name][key] for key in PEER_FIGURES})
    return rows


def tables(rows: list[Row]) -> str:
    """The tables of the page: all dictionaries, those of a size, those of a script, and each."""

    def summary(what: str, groups: dict[str, list[Row]]) -> str:
        header = [what, "dictionaries", "WER", "phonetisaurus", "lower WER than phonetisaurus"]
        lines = []
        for name, of in groups.items():
            better = sum(float(row["wer"]) < float(row["peer_wer"]) for row in of)
            lines.append([name, str(len(of)), _mean(of, "wer"), _mean(of, "peer_wer"), str(better)])
        return _table(header, lines)

    def grouped(key: Callable[[Row], str]) -> dict[str, list[Row]]:
        groups: dict[str, list[Row]] = {}
        for row in sorted(rows, key=key):
            groups.setdefault(key(row), []).append(row)
        return groups

    lower = dict(zip(SIZES, (0, *SIZES.values()), strict=False))
    by_size = {name: [r for r in rows if lower[name] < int(r["train_words"]) <= most] for name, most in SIZES.items()}
    by_script = grouped(lambda row: str(row["dictionary"]).split("_")[1])
    by_script = dict(sorted(by_script.items(), key=lambda group: (-len(group[1]), group[0])))
    each = [
        [
            row["language"],
            f"`{row['dictionary']}`",
            f"{int(row['train_words']):,}",
            f"{row['wer']} ({row['wer_low']} to {row['wer_high']})",
            row["per"],
            row["marks"],
            f"{row['peer_wer']} ({row['peer_wer_low']} to {row['peer_wer_high']})",
        ]
        for row in rows
    ]
    header = ["language", "dictionary", "training words", "WER", "PER", "marks", "phonetisaurus' WER"]
    parts = [
        summary("", {"all": rows}),
        summary("training words", by_size),
        summary("script", {f"`{name}`": of for name, of in by_script.items()}),
        _table(header, each),
    ]
    return "\n".join(parts)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in lines)


def _mean(rows: list[Row], key: str) -> str:
    return f"{fmean(float(row[key]) for row in rows):.2f}"


def _language(code: str) -> str:
    """The English name of a language, also of one whose code ISO 639 has given up."""
    iso639 = importlib.import_module("iso639")
    try:
        language = iso639.Lang(code)
    except iso639.exceptions.DeprecatedLanguageValue as former:
        language = former
    return str(language.name).partition(" (")[0]


def _dictionary(word: str) -> str:
    return accent_and_spelling(word)[0].strip(OPEN + CLOSE)


def _plain(pronunciation: str) -> str:
    """The letters of a pronunciation."""
    taken_apart = unicodedata.normalize("NFD", pronunciation)
    return "".join(c for c in taken_apart if unicodedata.category(c) in ("Ll", "Lo", "Lu"))


if __name__ == "__main__":
    main()
