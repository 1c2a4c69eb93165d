"""The splits of a task. Missing ones are taken out of the training rows; all are checked."""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import datasets
import numpy as np

from .sources import Rows


def complete_splits(
    splits: dict[str, Rows], columns: list[str], path: str, called: str, only: str | None = None
) -> tuple[dict[str, Rows], str]:
    """All three splits, and a card's description of them.

    Given splits are kept. The others are taken out of the training split by a hash of the first column. With a streamed
    training split, validation and test are held in memory. Data that has the split ``only`` is not divided further. The
    number of rows that are in two splits is reported.

    Args:
        splits: the splits of the data
        columns: the columns of text
        path: the source of the rows, for messages
        called: the word for the rows in messages
        only: the one split to read

    Raises:
        ValueError: a split has no rows.
    """
    if only in splits:
        splits = {only: splits[only]}
    taken = [split for split in ("validation", "test") if split not in splits and only not in splits]

    if taken:
        splits = splits | _cut(splits["train"], columns[0], taken)
    splits = {
        split: datasets.Dataset.from_list(list(rows))
        if split != "train" and isinstance(rows, datasets.IterableDataset)
        else rows
        for split, rows in splits.items()
    }
    for split, rows in splits.items():
        if not isinstance(rows, datasets.IterableDataset) and not len(rows):  # a stream is not read
            raise ValueError(f"{path} has no {called} for the {split} split; give more of them, or a {split} split")
    _report_overlap(splits, columns, path, called)
    if only in splits:
        return splits, f"all rows of the {only} split"
    return splits, cut_note(taken, columns[0]) if taken else "in its own splits"


def _cut(rows: Rows, column: str, taken: list[str]) -> dict[str, Rows]:
    """The splits that are taken out of these rows, and the rest as the training split."""
    parts = ["train", *taken]

    def part_of(text: str) -> str:
        split = split_of(text)
        return split if split in taken else "train"

    if isinstance(rows, datasets.IterableDataset):

        def is_in(text: str, name: str) -> bool:
            return part_of(text) == name

        # Row by row: with batches the library joins the keys of all rows, which are long texts after a batched map.
        return {name: rows.filter(is_in, input_columns=[column], fn_kwargs={"name": name}) for name in parts}
    numbers = np.fromiter((parts.index(part_of(text)) for text in _column(rows, column)), np.int8)
    return {name: rows.select(np.flatnonzero(numbers == number)) for number, name in enumerate(parts)}


def cut_note(taken: list[str], called: str) -> str:
    """A card's description of splits that were taken out of the training rows."""
    return f"{' and '.join(taken)} cut out of train by a hash of the {called}"


def split_of(text: str, test: int = 10, validation: int = 10) -> str:
    """The split of a text if splits are made by a hash, the SHA-1 of the text modulo 100.

    Below ``test`` it is test, in the next ``validation`` numbers validation, otherwise train.
    """
    bucket = int(hashlib.sha1(text.encode()).hexdigest(), 16) % 100
    return "test" if bucket < test else "validation" if bucket < test + validation else "train"


def fingerprint(*columns: Iterable[str]) -> str:
    """The SHA-256 of the texts of a split, in hexadecimal, row by row."""
    whole = hashlib.sha256()
    for row in zip(*columns, strict=True):
        whole.update("".join(f"{text}\0" for text in row).encode())
    return whole.hexdigest()


def _report_overlap(splits: dict[str, Rows], columns: list[str], path: str, called: str) -> None:
    """Report the number of rows that are in two splits, ignoring case and white space in these columns.

    The hash that splits rows depends on both. A stream is not read.
    """
    held = {split: rows for split, rows in splits.items() if isinstance(rows, datasets.Dataset)}
    sides = {split: set(_plain_rows(rows, columns)) for split, rows in held.items() if split != "train"}
    if "train" in held:  # the largest split: of most rows only the first column is read
        others = set[tuple[str, ...]]().union(*sides.values())
        firsts = {row[0] for row in others}
        alike = [number for number, text in enumerate(_column(held["train"], columns[0])) if _plain(text) in firsts]
        sides["train"] = others.intersection(_plain_rows(held["train"].select(alike), columns))
    for other, held_out in combinations(("train", "validation", "test"), 2):
        if shared := sides.get(held_out, set()) & sides.get(other, set()):
            print(
                f"{path}: {len(shared):,} of the {len(sides[held_out]):,} different {called} of the {held_out} split "
                f"are in the {other} split too, ignoring case and white space",
                file=sys.stderr,
            )


def _plain_rows(rows: datasets.Dataset, columns: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(map(_plain, _column(rows, column)) for column in columns), strict=True)


def _column(rows: datasets.Dataset, column: str) -> Iterator[str]:
    """The texts of a column, of which few are in memory at a time."""
    for batch in rows.select_columns(column).with_format("arrow").iter(10_000):
        yield from batch[column].to_pylist()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def first_row(splits: dict[str, Rows]) -> dict[str, Any]:
    """The first row of the test split, or of the first split if there is none, as an example."""
    return next(iter(splits.get("test", next(iter(splits.values())))))


def chosen_rows(splits: dict[str, Rows], split: str, numbers: list[int] | None) -> datasets.Dataset:
    """The rows of a split with these numbers, or all rows, each with its number in the column "number".

    Raises:
        ValueError: there is no such split, or it is a stream.
    """
    if split not in splits:
        raise ValueError(f"there is no split {split!r}; choose one of: {', '.join(splits)}")
    rows = splits[split]
    if isinstance(rows, datasets.IterableDataset):
        raise ValueError(f"the {split} split is streamed; to evaluate on it, set task.data.streaming=false")
    numbers = list(range(len(rows))) if numbers is None else numbers
    return rows.select(numbers).add_column("number", numbers)
