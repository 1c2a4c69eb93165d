"""Checks of the values of rows: every column holds text, a column of labels text or whole numbers."""

import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from .text_files import SourceError, require_columns, short

Rows: TypeAlias = datasets.Dataset | datasets.IterableDataset


def checked(
    rows: Rows,
    columns: dict[str, str],
    labels: Sequence[str],
    where: str,
    skip: bool,
    streaming: bool = False,
    types: Mapping[str, Any] | None = None,
) -> Rows:
    """The columns under the task's names, after a check of every value: text, or for a label text or a whole number.

    Args:
        rows: with the columns of the source
        columns: for each column of the source that is read, the task's name
        labels: the names of columns of labels
        where: the name of the rows in messages
        skip: leave bad rows out and report how many, instead of raising an error for the first
        streaming: whether a stream stays a stream. Otherwise its rows are stored in the cache of the datasets library.
        types: the features of the source's columns, if the rows have none

    Raises:
        SourceError: a column is missing, or a value is bad. The values of a stream are checked when it is read.
    """
    found = rows.column_names or list(next(iter(rows), {}))  # the columns of a stream are those of its first row
    if not found or (isinstance(rows, datasets.Dataset) and not len(rows)):
        raise SourceError(f"{where}: there are no rows")
    require_columns(columns, found, where)
    rows = rows.select_columns(list(columns))
    features = datasets.Features()
    for column, name in columns.items():
        feature = (rows.features or types or {}).get(column)
        features[name] = feature if isinstance(feature, datasets.ClassLabel) else datasets.Value("string")

    kinds: dict[str, str] = {}  # of labels, by column
    has_labels = any(name in labels for name in columns.values())

    def bad_rows(batch: dict[str, list[Any]], start: int) -> dict[int, str]:
        """The faults of the bad rows of a batch, by their places in it; its first row is number ``start``."""
        bad = {}
        for place, values in enumerate(zip(*(batch[column] for column in columns), strict=True)):
            for (column, name), value in zip(columns.items(), values, strict=True):
                fault = _fault(value, name in labels)
                if name in labels and not fault and (kind := _kind(value)) != kinds.setdefault(column, kind):
                    fault = f"has {short(repr(value))}, and labels before it are {kinds[column]}; write all in one way"
                if place not in bad and fault:
                    others = [short(repr(text)) for text in values if isinstance(text, str) and text.strip()]
                    bad[place] = f"column {column!r} {fault}{f' in the row of {others[0]}' if others else ''}"
        if bad and not skip:
            first = min(bad)
            remedy = "set task.data.skip_bad_rows=true to leave such rows out"
            raise SourceError(f"{where}, row {start + first + 1}: {bad[first]}; correct it, or {remedy}")
        return bad

    def sound(batch: dict[str, list[Any]], numbers: Sequence[int]) -> dict[str, list[Any]]:
        bad = bad_rows(batch, numbers[0])
        good: dict[str, list[Any]] = {}
        for column, name in columns.items():
            values = [value for place, value in enumerate(batch[column]) if place not in bad]
            is_text = features[name] == datasets.Value("string")
            good[name] = [label_text(value) for value in values] if is_text and name in labels else values
        return good

    is_stream = isinstance(rows, datasets.IterableDataset)
    if skip or not (is_stream and streaming):  # a stream that stays a stream is checked as it is read
        bad: dict[int, str] = {}
        number = 0
        in_arrow = not has_labels and not is_stream  # the values of a stream may have any type
        for batch in rows.with_format("arrow").iter(10_000) if in_arrow else rows.iter(1000):
            length = len(batch) if in_arrow else len(next(iter(batch.values())))
            if not in_arrow or not all(map(_is_sound, batch.columns)):
                found_bad = bad_rows(batch.to_pydict() if in_arrow else batch, number)
                bad |= {number + place: fault for place, fault in found_bad.items()}
            number += length
        report_skipped(bad, number, where)
    if not is_stream:
        return rows.select([n for n in range(number) if n not in bad] if bad else range(number)).rename_columns(columns)
    rows = rows.map(sound, with_indices=True, batched=True, remove_columns=list(columns), features=features)
    return rows if streaming else _held(rows, features)


def _held(rows: datasets.IterableDataset, features: datasets.Features) -> datasets.Dataset:
    """The rows of a stream, in the cache; a thousand are written at a time, which is faster than one by one."""
    lists = datasets.Features({name: datasets.List(feature) for name, feature in features.items()})
    batches = datasets.Dataset.from_generator(_batches, lists, gen_kwargs={"rows": rows})
    options: dict[str, Any] = {"batched": True, "batch_size": 1, "features": features, "desc": "reading"}
    return batches.map(lambda batch: {name: values for name, (values,) in batch.items()}, **options)


def _batches(rows: datasets.IterableDataset) -> Iterator[dict[str, Any]]:
    yield from rows.iter(1000)


def label_text(value: Any) -> str:
    """A label as text in NFC, without spaces around it. A whole number has no decimal places: 1.0 is "1"."""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    return unicodedata.normalize("NFC", text)


def _kind(label: Any) -> str:
    """The kind of a label. All labels must be of one kind: true and 1 would be two labels, and 1 among words is a
    mistake.
    """
    return "text" if isinstance(label, str) else "true or false" if isinstance(label, bool) else "numbers"


def _is_sound(texts: pa.ChunkedArray) -> bool:
    """Whether every value of a column is a text with a letter, a digit or another printable sign of ASCII.

    If not, the values are checked one by one.
    """
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)) or texts.null_count:
        return False
    return bool(pc.all(pc.match_substring_regex(texts, r"[!-~\pL\pN]")).as_py())


def _fault(value: Any, is_label: bool) -> str | None:
    """The fault of a value; None if it has none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "is empty"
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
            return f"has {short(ascii(value))}, with half of a surrogate pair, which is not a character"
    elif not is_label:
        remedy = "put it in quotation marks, or store the column as text"
        remedy = "write a row for each text" if isinstance(value, list | dict) else remedy
        return f"has {short(repr(value))}, which is not text; {remedy}"
    elif not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        return f"has {short(repr(value))}, which is not a label; a label is text or a whole number"
    return None


def report_skipped(bad: dict[int, str], number: int, where: str) -> None:
    """Report the number of rows that were skipped, and the fault of the first.

    Raises:
        SourceError: none is left.
    """
    if not bad:
        return
    first = min(bad)
    report = f"{where}: skipped {len(bad):,} of {number:,} rows; the first is row {first + 1}: {bad[first]}"
    if len(bad) == number:
        raise SourceError(f"{report}; no rows are left")
    print(report, file=sys.stderr)
