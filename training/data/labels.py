"""Labels, as text or whole numbers in the data: their names, and their numbers in a model."""

import re
from pathlib import Path
from typing import Any

import datasets

from .sources import Rows, SourceError, readable, report_skipped, short
from .text_files import lines

FASTTEXT = "__label__"  # the prefix of labels in fastText's files


def read_label_lines(file: Path, encoding: str, skip: bool) -> dict[str, list[str]]:
    """Read a file with a label, white space and a text on every line. Empty lines are skipped.

    If the first label begins with ``__label__``, as in fastText's files, all must, and the prefix is removed.

    Raises:
        SourceError: a line has two labels; a line lacks a label, a text, or the ``__label__`` that the first line has,
            and ``skip`` is false; the file is in another encoding, or empty.
    """
    rows: dict[str, list[str]] = {"text": [], "label": []}
    bad: dict[int, str] = {}
    number, is_fasttext = 0, None
    with readable(str(file)):
        for number, line in enumerate((line for line in lines(file, encoding) if line.strip()), start=1):
            label, *texts = line.split(maxsplit=1)
            is_fasttext = label.startswith(FASTTEXT) if is_fasttext is None else is_fasttext
            text = texts[0].strip() if texts else ""
            if is_fasttext and text.startswith(FASTTEXT):
                raise SourceError(f"{file}, row {number} has two labels, {short(line.strip())}; keep one")
            if not text or (is_fasttext and not label.removeprefix(FASTTEXT)):
                bad[number - 1] = f"{short(repr(line.strip()))} is not a label and a text"
            elif is_fasttext and not label.startswith(FASTTEXT):
                bad[number - 1] = f"{short(repr(line.strip()))} does not begin with {FASTTEXT}"
            if bad and not skip:
                raise SourceError(
                    f"{file}, row {number}: {bad[number - 1]}; or set task.data.skip_bad_rows=true to leave such rows "
                    "out"
                )
            if number - 1 not in bad:
                rows["text"].append(text)
                rows["label"].append(label.removeprefix(FASTTEXT) if is_fasttext else label)
    if not number:
        raise SourceError(f"{file} is empty")
    report_skipped(bad, number, str(file))
    return rows


def label_text(value: Any) -> str:
    """A label as text, without spaces around it."""
    return str(value).strip()


def number_labels(rows: Rows, given: list[str] | None, path: str) -> tuple[list[str], dict[str, int]]:
    """The names of the labels, and the number of each label by its value in the rows.

    Args:
        rows: of the training split, with the column "label"
        given: ``task.data.label_names``
        path: where the rows come from

    Raises:
        SourceError: there is only one label, or the label -1, which means none; or the data contradicts the names.
    """
    found = {label_text(label) for batch in rows.iter(1000) for label in batch["label"]}
    are_numbers = all(re.fullmatch(r"-?\d+", label) for label in found)
    feature = (rows.features or {}).get("label")
    own_names = feature.names if isinstance(feature, datasets.ClassLabel) else None
    names = own_names if given is None else given
    if names is None and "-1" in found:
        raise SourceError(f"{path}, train split: there is a row with the label -1, which means none; leave it out")
    if len(found) < 2:
        raise SourceError(f"{path}, train split: there is no label but {found.pop()!r}; two or more are expected")
    if names is None:
        names = sorted(found, key=int if are_numbers else str)
    elif are_numbers:
        _check_names(names, own_names, found, path)
        return names, {str(number): number for number in range(len(names))}
    return names, {name: number for number, name in enumerate(names)}


def known_numbers(rows: Rows, names: list[str], path: str) -> dict[str, int]:
    """The number of each label, by its value in the rows; ``names`` are the labels of the model that is tested.

    Some labels may not occur. The rows hold the names, or the numbers from 0; if the names are numbers, the rows
    hold the names.

    Raises:
        SourceError: the numbers in the data do not fit the names.
    """
    found = {label_text(label) for batch in rows.iter(1000) for label in batch["label"]}
    feature = (rows.features or {}).get("label")
    if isinstance(feature, datasets.ClassLabel) and set(feature.names) <= set(names):
        return {str(number): names.index(name) for number, name in enumerate(feature.names)}
    if not found <= set(names) and all(re.fullmatch(r"-?\d+", label) for label in found):
        _check_names(names, None, found, path)
        return {str(number): number for number in range(len(names))}
    return {name: number for number, name in enumerate(names)}


def _check_names(names: list[str], own_names: list[str] | None, found: set[str], path: str) -> None:
    """Raise a SourceError if the data, whose labels are numbers, contradicts the names."""
    if names != own_names and own_names is not None and sorted(names) == sorted(own_names):
        raise SourceError(
            f"task.data.label_names is {short(names)}, and {path} has these names in another order: "
            f"{short(own_names)}; leave label_names out"
        )
    positions = [str(number) for number in range(len(names))]
    if names not in (own_names, positions) and all(re.fullmatch(r"-?\d+", name) for name in names):
        raise SourceError(
            f"task.data.label_names is {short(names)}, and the labels of {path} are numbers themselves, the first name "
            "being that of 0; leave label_names out, or give words"
        )
    if "0" not in found and max(found, key=int) == str(len(names)):
        raise SourceError(
            f"{path}, train split: the labels are numbers up to {len(names)}, none is 0, and the {len(names)} names "
            f"of task.data.label_names are for 0 to {len(names) - 1}; let the labels begin at 0, or leave it out"
        )
