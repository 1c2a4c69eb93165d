"""Measure other programs on each of many languages: each one is trained on every dictionary of WikiPron by itself.

    python -m attnzoo.training.make_data.wikipron wikipron data/wikipron
    python -m tests.benchmarks.environments phonetisaurus yoyodyne
    python -m tests.benchmarks.pronunciation_languages phonetisaurus
    python -m tests.benchmarks.pronunciation_languages yoyodyne --only hun_latn kor_hang

- phonetisaurus: n-grams of joint letters and phonemes, with its own defaults.
- yoyodyne: its attentive LSTM, stopped by the loss on the validation words. It is measured on ``TEN`` dictionaries.

The words, their normalisation and splits are those of the recipe ``g2p_multilingual``, and the metrics those of our
model. Every figure has its 95 % confidence interval over words. A row is written when a dictionary is done, and
dictionaries that the file has are left out, so the command may be stopped and started again; the smallest come first.
``seconds`` is the processor's time for training and prediction together, on one thread.
"""

import argparse
import csv
import os
import resource
from pathlib import Path
from typing import Any

from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.tasks.metrics import PhonemeErrorRate, WordErrorRate

from attnzoo.commands.parsers import add_overrides
from attnzoo.phonemes import CLOSE, OPEN
from tests.benchmarks.environments import PEERS
from tests.benchmarks.pronunciation_peers import answers_of, by_accent

# The ten languages, in seven scripts, of the medium-resource task of SIGMORPHON 2021 (Ashby et al., 2021).
TEN = ("bul_cyrl", "fra_latn", "hbs_latn", "hun_latn", "hye_armn_e", "jpn_hira", "kat_geor", "kor_hang", "nld_latn")
TEN += ("vie_latn_hanoi",)
METRICS = (WordErrorRate, PhonemeErrorRate)
FIGURES = [f"{metric.key}{bound}" for metric in METRICS for bound in ("", "_low", "_high")]
COLUMNS = ["peer", "dictionary", "train_words", "test_words", *FIGURES, "seconds"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("peer", choices=("phonetisaurus", "yoyodyne"))
    parser.add_argument("--recipe", default="g2p_multilingual", help="default: %(default)s")
    parser.add_argument("--only", nargs="+", metavar="DICTIONARY", help="such as hun_latn; default: see above")
    parser.add_argument("--max-epochs", type=int, default=50, help="of yoyodyne (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="default: pronunciation_languages.csv beside this file")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    path = options.output or Path(__file__).with_suffix(".csv")
    task: Any = make_task(load_recipe(options.recipe, options.set))
    splits = {split: by_accent(task.splits[split], options.peer) for split in ("train", "validation", "test")}
    known = [accent.strip(OPEN + CLOSE) for accent in splits["test"]]
    chosen = options.only or (TEN if options.peer == "yoyodyne" else known)
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"there is no dictionary {unknown[0]!r}; choose some of: {', '.join(sorted(known))}")
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}  # for the peer's program
    peer = PEERS[options.peer].toolkit.replace("==", " ")
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n")
    with path.open(newline="") as file:
        done = {row["dictionary"] for row in csv.DictReader(file) if row["peer"] == peer}
    waiting = [(name, {split: words[f"{OPEN}{name}{CLOSE}"] for split, words in splits.items()}) for name in chosen]
    for name, of_splits in sorted(waiting, key=lambda one: len(one[1]["train"])):
        if name in done:
            continue
        row = {"peer": peer, "dictionary": name, **measured(options.peer, of_splits, options.max_epochs)}
        with path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
        print(", ".join(f"{column} {row[column]}" for column in COLUMNS), flush=True)


def measured(peer: str, splits: dict[str, dict[str, list[str]]], max_epochs: int) -> dict[str, Any]:
    """The figures of a peer that is trained on the first split, by their columns."""
    request: dict[str, Any] = {split: [*splits[split].items()] for split in ("train", "validation")}
    request |= {"words": [*splits["test"]], "max_epochs": max_epochs}
    start = _seconds_of_children()
    answers = answers_of(peer, request)
    seconds = _seconds_of_children() - start
    references = [*splits["test"].values()]
    figures = {k: v for of in METRICS for k, v in of().compute(predictions=answers, references=references).items()}
    counts = {"train_words": len(splits["train"]), "test_words": len(references)}
    return counts | {name: f"{figures[name]:.2f}" for name in FIGURES} | {"seconds": f"{seconds:.0f}"}


def _seconds_of_children() -> float:
    """The processor's time for programs that this one started and that have ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
