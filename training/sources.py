"""Rows of text, wherever they are: a file, a local folder, the Hub; in memory, or as a stream of what exceeds it."""

import contextlib
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import pandas as pd
import pyarrow as pa
from datasets.packaged_modules.csv.csv import CsvConfig
from huggingface_hub.dataclasses import strict

# The reader of the datasets library for a file's suffix, and its options.
READERS: dict[str, tuple[str, dict[str, Any]]] = {
    ".csv": ("csv", {"sep": ","}),
    ".tsv": ("csv", {"sep": "\t"}),
    ".jsonl": ("json", {}),
    ".json": ("json", {}),
    ".parquet": ("parquet", {}),
}
SPLITS = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")

Rows: TypeAlias = datasets.Dataset | datasets.IterableDataset


@strict
@dataclass(kw_only=True)
class Source:
    """Where rows come from; a task adds its columns, a key ``NAME_column`` for each.

    Attributes:
        path: a file that ends in .csv, .tsv, .jsonl, .json or .parquet (the first four also in .gz); a folder of such
            files, whose names or folders say "train", "validation" and "test" where there are splits, or one written by
            ``save_to_disk``; or else a dataset of the Hub, as owner/name.
        subset: which one of a dataset that has several.
        streaming: read the training rows anew in every epoch and never hold them all, for what exceeds the memory.
            The other splits are held.
    """

    path: str
    subset: str | None = None
    streaming: bool = False


def is_table(path: str) -> bool:
    """Whether ``read_rows`` is for this path, judged by what is there, by the suffix, or by the form of a Hub id."""
    return Path(path).is_dir() or _reader(path) is not None or _is_hub_id(path)


def read_rows(source: Source, names: Sequence[str]) -> dict[str, Rows]:
    """The splits of a source: "train", and "validation" and "test" if it has them (also called valid, val, dev).

    Every row has the columns ``names``, and each holds text: what the source calls it is its key ``NAME_column``. In
    csv files words like "null" and "NA" are words. Splits of other names are left out.

    Raises:
        FileNotFoundError: nothing is at the path, here or on the Hub.
        ValueError: a column is missing, a row lacks a value or has one that is not text, a file is empty, is not UTF-8
            or cannot be read, or there is no training split. What a stream holds is checked while it is read: put
            ``readable`` around that.
    """
    columns = {getattr(source, f"{name}_column"): name for name in names}
    if len(columns) < len(names):
        raise ValueError(
            f"task.data names one column twice: {', '.join(getattr(source, f'{n}_column') for n in names)}"
        )
    with readable(source.path):
        found = _open(source, columns)
        splits = {
            split: next(found[alias] for alias in aliases if alias in found)
            for split, aliases in SPLITS.items()
            if not found.keys().isdisjoint(aliases)
        }
        if "train" not in splits:
            raise ValueError(f"{source.path} has no split 'train'; its splits: {', '.join(map(str, found))}")
        return {split: _texts(rows, columns, f"{source.path}, {split} split") for split, rows in splits.items()}


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn what the readers raise on an unsound file into a ValueError that names ``path``."""
    unsound = (
        *(datasets.exceptions.DatasetGenerationError, UnicodeError, pd.errors.ParserError, pd.errors.EmptyDataError),
        *(pa.ArrowException, gzip.BadGzipFile, zlib.error, EOFError),
    )
    try:
        yield
    except unsound as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, UnicodeError) or "UTF8" in str(cause):
            raise ValueError(
                f"{path} is not UTF-8 ({cause}); convert it, from latin-1 perhaps: iconv -f latin1"
            ) from error
        raise ValueError(f"{path} cannot be read: {str(cause).strip() or type(cause).__name__}") from error


def _reader(path: str) -> tuple[str, dict[str, Any]] | None:
    name = path.removesuffix(".gz")
    reader = READERS.get(Path(name).suffix.lower())
    return None if reader is None or (reader[0] == "parquet" and name != path) else reader


def _is_hub_id(path: str) -> bool:
    return HUB_ID.fullmatch(path) is not None and _reader(path) is None and not Path(path).exists()


def _open(source: Source, columns: dict[str, str]) -> dict[str, Rows]:
    """All splits, with all columns."""
    path, reader = Path(source.path), _reader(source.path)
    if path.is_file() or (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
        if source.subset is not None:
            raise ValueError(f"task.data.subset is {source.subset!r}, and {path} has no subsets; leave it out")
        if path.is_dir():
            saved = datasets.load_from_disk(str(path))
            splits = saved if isinstance(saved, datasets.DatasetDict) else {"train": saved}
            return {k: rows.to_iterable_dataset() if source.streaming else rows for k, rows in splits.items()}
        if reader is None:
            raise ValueError(f"{path} is not of a known kind; a file of rows ends in {', '.join(READERS)}")
        kind, options = reader
        options = {"path": kind, "data_files": {"train": [str(path.resolve())]}, **options}
    elif path.is_dir():
        options = {"path": str(path.resolve()), "name": source.subset}  # resolved, or "json" would be a reader's name
    elif _is_hub_id(source.path):
        options = {"path": source.path, "name": source.subset}
    else:
        raise FileNotFoundError(
            f"task.data.path is {source.path!r}: neither a file nor a folder, nor the name of a dataset of the Hub "
            "(owner/name)"
        )
    try:
        builder = datasets.load_dataset_builder(**options)
        options |= _csv_options(builder, columns)
        return datasets.load_dataset(**options, streaming=source.streaming)
    except (FileNotFoundError, ConnectionError) as error:
        if path.is_dir():
            raise FileNotFoundError(f"{path} has no files that end in {', '.join(READERS)}") from error
        raise FileNotFoundError(
            f"task.data.path is {source.path!r}: no file or folder here, and the Hub has no such dataset for you or "
            f"was not reached ({error})"
        ) from error


def _csv_options(builder: datasets.DatasetBuilder, columns: dict[str, str]) -> dict[str, Any]:
    """Read csv cells as the text that they are; refuse empty files, and headers that lack a column."""
    files = [Path(file) for of_split in (builder.config.data_files or {}).values() for file in of_split]
    local = [file for file in files if file.is_file()]
    for file in local:
        if not file.stat().st_size:
            raise ValueError(f"{file} is empty")
    if not isinstance(builder.config, CsvConfig):
        return {}
    if not local:  # on the Hub, where the header comes with the data
        return {"keep_default_na": False, "converters": dict.fromkeys(columns, str)}
    for file in local:
        head = pd.read_csv(file, sep=builder.config.sep, nrows=1)
        if not isinstance(head.index, pd.RangeIndex):  # pandas would take the first cells for the names of the rows
            raise ValueError(
                f"{file}: the first row has more cells than the header; quote a cell with a separator in it"
            )
        _require(columns, list(head.columns), str(file))
        if head.empty:
            raise ValueError(f"{file} has a header and no rows")
    return {"keep_default_na": False, "features": datasets.Features(dict.fromkeys(columns, datasets.Value("string")))}


def _require(columns: dict[str, str], found: list[str], where: str) -> None:
    for column, name in columns.items():
        if column not in found:
            raise ValueError(
                f"{where} has no column {column!r}; set task.data.{name}_column to one of: {', '.join(map(str, found))}"
            )


def _texts(rows: Rows, columns: dict[str, str], where: str) -> Rows:
    """The chosen columns under the task's names, every value of them a text."""
    found = rows.column_names
    if found is None:  # a stream knows its columns by its first row
        first = next(iter(rows), None)
        found = None if first is None else list(first)
    if not found or (isinstance(rows, datasets.Dataset) and not len(rows)):
        raise ValueError(f"{where}: there are no rows")
    _require(columns, found, where)
    rows = rows.select_columns(list(columns))

    def texts(batch: dict[str, list[Any]], numbers: Sequence[int]) -> dict[str, list[str]]:
        for column in columns:
            for number, value in zip(numbers, batch[column], strict=True):
                if value is None or (isinstance(value, str) and not value.strip()):
                    raise ValueError(f"{where}, row {number + 1}: column {column!r} is empty")
                if not isinstance(value, str):
                    raise ValueError(
                        f"{where}, row {number + 1}: column {column!r} has {value!r}, which is no text; quote it"
                    )
        return {name: batch[column] for column, name in columns.items()}

    if isinstance(rows, datasets.IterableDataset):
        return rows.map(texts, with_indices=True, batched=True, remove_columns=list(columns))
    for start in range(0, len(rows), 1000):  # checked, not mapped: that would be a copy
        texts(rows[start : start + 1000], range(start, min(start + 1000, len(rows))))
    return rows.rename_columns(columns)
