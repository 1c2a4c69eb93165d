"""Labels, as text or whole numbers in the data: their names, and their numbers in a model."""

import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import datasets

from .row_checks import Rows, label_text, report_skipped
from .sources import readable
from .text_files import SourceError, lines, short

FASTTEXT = "__label__"  # the prefix of labels in fastText's files
NUMBER = re.compile(r"-?\d+")
DECIMAL = re.compile(r"[+-]?\d+(\.\d*)?")
LabelNames: TypeAlias = list[str] | dict[Any, str]  # in the order of their numbers, or by the values in the data


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


def number_labels(rows: Rows, given: LabelNames | None, path: str) -> tuple[list[str], dict[str, int]]:
    """The names of the labels, and the number of each label by its value in the rows.

    Args:
        rows: the rows of the training split, with the column "label"
        given: ``task.data.label_names``
        path: the source of the rows, for messages

    Raises:
        SourceError: there is only one label, two labels are the same number, or the data contradicts the names.
    """
    found, own_names = _labels_of(rows)
    if len(found) < 2:
        raise SourceError(f"{path}, train split: there is no label but {found.pop()!r}; two or more are expected")
    are_numbers = all(map(NUMBER.fullmatch, found))
    if isinstance(given, dict):
        return _names_of_values(given)
    _check_spellings(found, path)
    names = own_names if given is None else given
    if names is None:
        if are_numbers and "-1" in found:
            print(f"{path}: -1 is a label like any other; if it means none, leave those rows out", file=sys.stderr)
        names = sorted(found, key=int if are_numbers else str)
    elif are_numbers and (own_names or not all(map(NUMBER.fullmatch, names))):
        _check_names(names, own_names, found, path)
        return names, {str(number): number for number in range(len(names))}
    elif are_numbers:
        _check_numeric_names(names, found, path)
    return names, {name: number for number, name in enumerate(names)}


def known_numbers(rows: Rows, given: LabelNames, path: str) -> tuple[list[str], dict[str, int]]:
    """The labels of the model that is tested, and the number of each label by its value in the rows.

    Some labels may not occur. The rows have the names, or the numbers from 0; if the names are numbers, the rows have
    the names.

    Raises:
        SourceError: the numbers in the data do not fit the names.
    """
    if isinstance(given, dict):
        return _names_of_values(given)
    names = given
    found, own_names = _labels_of(rows)
    if own_names is not None and set(own_names) <= set(names):
        return names, {str(number): names.index(name) for number, name in enumerate(own_names)}
    if not found <= set(names) and all(map(NUMBER.fullmatch, found)):
        if all(map(NUMBER.fullmatch, names)):
            _check_numeric_names(names, found, path)
        _check_names(names, None, found, path)
        return names, {str(number): number for number in range(len(names))}
    return names, {name: number for number, name in enumerate(names)}


def _labels_of(rows: Rows) -> tuple[set[str], list[str] | None]:
    """The labels as text, and the names that the data itself gives their numbers."""
    feature = (rows.features or {}).get("label")
    found = {label_text(label) for batch in rows.iter(1000) for label in batch["label"]}
    return found, feature.names if isinstance(feature, datasets.ClassLabel) else None


def _names_of_values(given: dict[Any, str]) -> tuple[list[str], dict[str, int]]:
    """The different names, and the number of each value and of each name."""
    names = list(dict.fromkeys(given.values()))
    numbers = {name: number for number, name in enumerate(names)}
    return names, numbers | {label_text(value): numbers[name] for value, name in given.items()}


def _check_spellings(found: set[str], path: str) -> None:
    """Raise a SourceError if two labels are the same number: they would be two classes."""
    spellings: dict[Decimal, str] = {}
    for label in sorted(filter(DECIMAL.fullmatch, found)):
        other = spellings.setdefault(Decimal(label), label)
        if other != label:
            raise SourceError(
                f"{path}, train split: the labels {other!r} and {label!r} are the same number and would be two "
                "classes; write this label in one way, or give each a name in task.data.label_names"
            )


def _check_numeric_names(names: list[str], found: set[str], path: str) -> None:
    """Raise a SourceError if names that are numbers are not the labels of the data, in their order."""
    if not found <= set(names) or names != sorted(names, key=int):
        raise SourceError(
            f"task.data.label_names is {short(names)}, and the labels of {path} are numbers themselves: "
            f"{short(', '.join(sorted(found, key=int)))}; leave label_names out, or {_mapping(found)}"
        )


def _check_names(names: list[str], own_names: list[str] | None, found: set[str], path: str) -> None:
    """Raise a SourceError if the data, whose labels are numbers, contradicts the names."""
    if names != own_names and own_names is not None and sorted(names) == sorted(own_names):
        raise SourceError(
            f"task.data.label_names is {short(names)}, and {path} has these names in another order: "
            f"{short(own_names)}; leave label_names out"
        )
    if "0" not in found and max(found, key=int) == str(len(names)):
        raise SourceError(
            f"{path}, train split: the labels are numbers up to {len(names)}, none is 0, and the {len(names)} names "
            f"of task.data.label_names are for 0 to {len(names) - 1}; leave it out, or {_mapping(found)}"
        )


def _mapping(found: set[str]) -> str:
    """Advice to name every label."""
    return f"name each label: {{{short(', '.join(f'{label}: NAME' for label in sorted(found, key=int)))}}}"
