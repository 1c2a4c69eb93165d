"""Measure every trained model on every test set: ``make results`` writes ``results/results.csv``.

A row is one figure of one model on one test set, with the command that prints it. The test sets are the model's own,
and those of ``results/test_sets.yaml``. As many commands run at a time as there are processors, each with one thread.
Where one fails, perhaps for lack of data, the rows stay as they were, and its error is printed.

``--check`` writes nothing: it compares what it measures with the file, and fails if a figure differs by more than the
row's tolerance.
"""

import csv
import fnmatch
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from attnzoo.commands.parsers import command_parser

from .commands.exits import exit_on_user_error
from .loop.run_folder import git_commit

OWN = "own"  # the test split of the data that a model was trained on
TOLERANCE = 0.05  # by which a figure may differ on another machine or with other versions
COLUMNS = ["model", "test_set", "metric", "value", "low", "high", "tolerance", "examples", "command", "commit"]

Row = dict[str, str]


@dataclass(frozen=True)
class Measurement:
    """A model and a test set.

    Attributes:
        folder: the model's folder.
        test_set: the name of the test set.
        overrides: what replaces parts of the model's recipe, as after ``--set``.
    """

    folder: Path
    test_set: str
    overrides: tuple[str, ...] = ()

    def command(self, model: str) -> list[str]:
        """The command that prints the figures of a model, a folder or a name."""
        sets = (part for override in self.overrides for part in ("--set", override))
        return ["attnzoo", "evaluate", model, *sets]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.results", __doc__.split("\n")[0])
    parser.add_argument("--cards", type=Path, default=Path("model_cards"), help="(default: %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="(default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="models, or patterns of their names")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a figure differs")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        refill(options.cards, options.results, options.only, options.check)


def refill(cards: Path, results: Path, only: Sequence[str], check: bool = False) -> None:
    """Measure the models of these names, and write their rows, or compare them with the rows that are there.

    Raises:
        FileNotFoundError: no model has such a name.
        ValueError: ``test_sets.yaml`` is damaged; a command failed, whose rows stay as they were; or, with ``check``, a
            figure differs from its row or has none.
    """
    started, stored = time.perf_counter(), read_rows(results / "results.csv")
    todo = measurements(cards, read_test_sets(results / "test_sets.yaml"), only)
    if not todo:
        raise FileNotFoundError(f"{cards} has no model {' '.join(only)}")
    found: dict[Measurement, list[Row]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each thread waits for a command
        waiting = {pool.submit(measure, one): one for one in todo}
        for future in as_completed(waiting):
            one = waiting[future]
            try:
                found[one] = future.result()
            except ChildProcessError as error:
                print(f"{one.folder.name}, {one.test_set}: {error}", file=sys.stderr)
                continue
            figures = ", ".join(f"{row['metric']} {row['value']}" for row in found[one])
            print(f"{one.folder.name}, {one.test_set}: {figures}", flush=True)
    print(f"{len(found)} of {len(todo)} measured in {(time.perf_counter() - started) / 60:.1f} minutes")
    rows = [row for one in todo for row in found.get(one, [])]
    if check:
        if differences := [*filter(None, (difference(row, stored) for row in rows))]:
            raise ValueError("\n".join([f"figures that differ from {results}: {len(differences)}", *differences]))
    else:
        write_rows(results / "results.csv", merged(stored, rows, sorted(path.name for path in cards.iterdir())))
    if len(found) < len(todo):
        raise ValueError(f"{len(todo) - len(found)} of {len(todo)} were not measured; their errors are above")


def measurements(cards: Path, test_sets: list[dict[str, Any]], only: Sequence[str]) -> list[Measurement]:
    """What to measure, in the order of the rows.

    Raises:
        ValueError: a model has two test sets of one name.
    """
    made = list[Measurement]()
    for folder in sorted(path for path in cards.iterdir() if (path / "recipe.yaml").is_file()):
        if not _fits(folder.name, only):
            continue
        made.append(Measurement(folder, OWN))
        for one in test_sets:
            if _fits(folder.name, one["models"]):
                if one["name"] in (other.test_set for other in made if other.folder == folder):
                    raise ValueError(f"{folder.name} has two test sets {one['name']!r}; give one of them another name")
                made.append(Measurement(folder, one["name"], tuple(one["set"])))
    return made


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def measure(one: Measurement) -> list[Row]:
    """The rows of a model on a test set.

    Raises:
        ChildProcessError: the command failed; with the last line that it said.
    """
    command = [sys.executable, "-m", "attnzoo.cli", *one.command(str(one.folder))[1:], "--json"]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=alone, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        *_, last = f"ended with status {done.returncode}", *done.stderr.strip().splitlines()
        raise ChildProcessError(last)
    said = json.loads(done.stdout)
    rows = []
    for key in said["metrics"]:
        value, low, high = (said["figures"].get(f"{key}{end}") for end in ("", "_low", "_high"))
        numbers = {"value": value, "low": low, "high": high}
        rows.append(
            {"model": one.folder.name, "test_set": one.test_set, "metric": key}
            | {name: "" if number is None else f"{number:.2f}" for name, number in numbers.items()}
            | {"tolerance": str(TOLERANCE), "examples": str(said["figures"]["examples"])}
            | {"command": shlex.join(one.command(one.folder.name)), "commit": git_commit() or ""}
        )
    return rows


def read_test_sets(path: Path) -> list[dict[str, Any]]:
    """The test sets besides the models' own.

    Raises:
        ValueError: the file is not a list of entries, an entry lacks a key or has one of another type.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    kinds = {"name": str, "about": str, "models": list, "set": list}
    if not isinstance(entries, list):
        raise ValueError(f"{path} must be a list, got {entries!r}")
    for entry in entries:
        if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != kinds:
            raise ValueError(f"{path}: an entry has the keys {', '.join(kinds)}, the last two are lists; got {entry}")
    return entries


def read_rows(path: Path) -> list[Row]:
    """The stored rows; none if there is no file yet."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write the table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def merged(stored: list[Row], measured: list[Row], models: Sequence[str]) -> list[Row]:
    """The stored rows of these models, with measured ones in their place; a row keeps its tolerance."""
    rows = {_key(row): row for row in stored}
    for row in measured:
        kept = {"tolerance": rows[_key(row)]["tolerance"]} if _key(row) in rows else {}
        rows[_key(row)] = row | kept
    return sorted((row for row in rows.values() if row["model"] in models), key=lambda row: models.index(row["model"]))


def difference(row: Row, stored: list[Row]) -> str | None:
    """How a measured row differs from the stored one; None if it is within the tolerance."""
    name = ", ".join(_key(row))
    before = next((one for one in stored if _key(one) == _key(row)), None)
    if before is None:
        return f"{name}: {row['value']}, and no row is stored"
    if not abs(float(row["value"]) - float(before["value"])) <= float(before["tolerance"]) + 1e-9:  # NaN, too
        return f"{name}: {row['value']}, stored {before['value']}, tolerance {before['tolerance']}"
    return None


def _key(row: Row) -> tuple[str, str, str]:
    return row["model"], row["test_set"], row["metric"]


if __name__ == "__main__":
    main()
