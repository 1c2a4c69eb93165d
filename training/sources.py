"""Rows of text, wherever they are: a file, a local folder, the Hub; in memory, or as a stream of what exceeds it."""

import contextlib
import glob
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
TRANSLATION = "translation"  # the column of dicts
# What a folder of a dataset may hold beside its rows, by the names that the datasets library gives it.
NOT_ROWS = {"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"}

Rows: TypeAlias = datasets.Dataset | datasets.IterableDataset


class SourceError(ValueError):
    """What is wrong with a source, in a message that says where it is and what to do."""


@strict
@dataclass(kw_only=True)
class Source:
    """Where rows come from; a task adds its columns, a key ``NAME_column`` for each.

    Attributes:
        path: a file that ends in .csv, .tsv, .jsonl, .json or .parquet (the first four also in .gz); a folder of such
            files, all of one kind and all read, whose names or folders have the word "train", "validation" or "test"
            where there are splits; a folder written by ``save_to_disk``; or else a dataset of the Hub, as owner/name.
        subset: which one of a dataset of the Hub that has several.
        streaming: read the training rows anew in every epoch and never hold them all, for what exceeds the memory.
            The other splits are held.
    """

    path: str
    subset: str | None = None
    streaming: bool = False


def is_table(path: str) -> bool:
    """Whether ``read_rows`` is for this path, judged by what is there, by the suffix, or by the form of a Hub id."""
    return Path(path).is_dir() or _reader(path) is not None or is_hub_id(path)


def read_rows(source: Source, names: Sequence[str], labels: Sequence[str] = ()) -> dict[str, Rows]:
    """The splits of a source: "train", and "validation" and "test" if it has them (also called valid, val, dev).

    Every row has the columns ``names``, and each holds text; those that are ``labels`` too hold text or whole numbers.
    What the source calls a column is its key ``NAME_column``; of rows with a dict of languages in a column
    "translation" it is one of these languages. In csv files all is text, and words like "null" and "NA"
    are words. Splits of other names are left out.

    Raises:
        FileNotFoundError: nothing is at the path, here or on the Hub.
        SourceError: a ValueError: a column is missing, a row lacks a value or has one of another type, a file is
            empty, is not UTF-8 or cannot be read, a folder's files are of several kinds or not all of a split, or there
            is no training split. What a stream holds is checked while it is read: put ``readable`` around that.
    """
    columns = {getattr(source, f"{name}_column"): name for name in names}
    if len(columns) < len(names):
        raise SourceError(
            f"task.data names one column twice: {', '.join(getattr(source, f'{n}_column') for n in names)}"
        )
    with readable(source.path):
        found = {split: _languages(rows, columns) for split, rows in _open(source, columns).items()}
        splits = {
            split: next(found[alias] for alias in aliases if alias in found)
            for split, aliases in SPLITS.items()
            if not found.keys().isdisjoint(aliases)
        }
        if "train" not in splits:
            raise SourceError(f"{source.path} has no split 'train'; its splits: {short(', '.join(map(str, found)))}")
        return {
            split: _checked(rows, columns, labels, f"{source.path}, {split} split") for split, rows in splits.items()
        }


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn what the readers raise on an unsound file into a SourceError that names ``path``."""
    unsound = (
        *(datasets.exceptions.DatasetGenerationError, pa.ArrowException, gzip.BadGzipFile, zlib.error, EOFError),
        *(ValueError, TypeError, AttributeError, KeyError),  # the json reader meets a list where it wants a row
    )
    try:
        yield
    except SourceError:
        raise
    except unsound as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, UnicodeError) or "UTF8" in str(cause):
            raise SourceError(
                f"{path} is not UTF-8 ({short(cause)}); convert it, from latin-1 perhaps: iconv -f latin1"
            ) from error
        raise SourceError(f"{path} cannot be read: {short(cause).strip() or type(cause).__name__}") from error


def short(value: object) -> str:
    """The value for a message, the end of a long one cut off."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _reader(path: str) -> tuple[str, dict[str, Any]] | None:
    path = path.lower()
    name = path.removesuffix(".gz")
    reader = READERS.get(Path(name).suffix)
    return None if reader is None or (reader[0] == "parquet" and name != path) else reader


def is_hub_id(path: str) -> bool:
    """Whether this is a dataset of the Hub, judged by the form, and not a file or folder here."""
    return HUB_ID.fullmatch(path) is not None and _reader(path) is None and not Path(path).exists()


def _open(source: Source, columns: dict[str, str]) -> dict[str, Rows]:
    """All splits, with all columns."""
    path = Path(source.path)
    if not source.path:
        raise SourceError("task.data.path is empty; name a file, a folder or a dataset of the Hub")
    is_local = path.exists()
    if is_local and source.subset is not None:
        raise SourceError(
            f"task.data.subset is {source.subset!r}, and {path} has no subsets; leave it out, and let task.data.path "
            "be the folder of one subset"
        )
    if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
        saved = datasets.load_from_disk(str(path))
        splits = saved if isinstance(saved, datasets.DatasetDict) else {"train": saved}
        return {k: rows.to_iterable_dataset() if source.streaming else rows for k, rows in splits.items()}
    if is_local:
        options = _files(path)
    elif is_hub_id(source.path):
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
        if is_local:
            raise
        raise FileNotFoundError(
            f"task.data.path is {source.path!r}: no file or folder here, and the Hub has no such dataset for you or "
            f"was not reached ({error})"
        ) from error
    except ValueError as error:
        if str(error).startswith(("BuilderConfig", "Config name is missing")):  # the library has no class for it
            raise SourceError(f"task.data.subset is {source.subset!r}, {source.path}: {short(error)}") from error
        raise


def _files(path: Path) -> dict[str, Any]:
    """What the datasets library needs in order to read a file, or a folder's files, every one of them."""
    if path.is_file():
        files = {path.parent.resolve() / path.name: "train"}
        if _reader(path.name) is None:
            raise SourceError(f"{path} is not of a known kind; a file of rows ends in {', '.join(READERS)}")
    else:
        files = _files_of_folder(path)
    kind, options = _reader(next(iter(files)).name) or ("", {})
    data_files: dict[str, list[str]] = {}
    for file, split in files.items():
        data_files.setdefault(split, []).append(glob.escape(str(file)))  # the library takes a path for a pattern
    return {"path": kind, "data_files": data_files, **options}


def _files_of_folder(folder: Path) -> dict[Path, str]:
    """Each file of rows and its split."""
    names = [name for name in visible_files(folder) if _reader(name.name) and name.name not in NOT_ROWS]
    if not names:
        raise FileNotFoundError(f"{folder} has no files that end in {', '.join(READERS)}")
    kinds: dict[str, Path] = {}  # with the first file of each
    for name in names:
        kinds.setdefault(str(_reader(name.name)), name)
    if len(kinds) > 1:
        raise SourceError(f"{folder} has files of several kinds: {', '.join(map(str, kinds.values()))}; keep one kind")
    return with_splits(folder, names)


def visible_files(folder: Path) -> list[Path]:
    """The names of all files in a folder and those below it, but for hidden ones, in order."""
    names = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return [name for name in names if not any(part.startswith(".") for part in name.parts)]


def with_splits(folder: Path, names: list[Path]) -> dict[Path, str]:
    """Each file of a folder with its split, which a word in its name or in that of a folder below says; if none says
    any, all are for training.

    Raises:
        SourceError: some names have no such word, or several.
    """
    splits = {name: _splits_in(name) for name in names}
    if not any(splits.values()):
        return {folder.resolve() / name: "train" for name in names}
    if odd := [str(name) for name, of_name in splits.items() if len(of_name) != 1]:
        raise SourceError(
            f"{folder}: it is not clear of which split these files are: {short(', '.join(odd))}; where one name has "
            "the word train, validation or test in it, every name must have one of them"
        )
    return {folder.resolve() / name: of_name[0] for name, of_name in splits.items()}


def _splits_in(name: Path) -> list[str]:
    words = re.split(r"[^a-z]+", str(name).lower())
    return [split for split, aliases in SPLITS.items() if not set(words).isdisjoint(aliases)]


def _csv_options(builder: datasets.DatasetBuilder, columns: dict[str, str]) -> dict[str, Any]:
    """Read csv cells as the text that they are; refuse empty files, and headers that lack a column."""
    files = [Path(file) for of_split in (builder.config.data_files or {}).values() for file in of_split]
    local = [file for file in files if file.is_file()]
    for file in local:
        if not file.stat().st_size:
            raise SourceError(f"{file} is empty")
    if not isinstance(builder.config, CsvConfig):
        return {}
    if not local:  # on the Hub, where the header comes with the data
        return {"keep_default_na": False, "converters": dict.fromkeys(columns, str)}
    for file in local:
        head = pd.read_csv(file, sep=builder.config.sep, nrows=1)
        if not isinstance(head.index, pd.RangeIndex):  # pandas would take the first cells for the names of the rows
            raise SourceError(
                f"{file}: the first row has more cells than the header; quote a cell with a separator in it"
            )
        _require(columns, list(head.columns), str(file))
        if head.empty:
            raise SourceError(f"{file} has a header and no rows")
    return {"keep_default_na": False, "features": datasets.Features(dict.fromkeys(columns, datasets.Value("string")))}


def _languages(rows: Rows, columns: dict[str, str]) -> Rows:
    """Rows whose texts are in a dict of languages, "translation", as many sets of the Hub have them, as columns."""
    if rows.column_names is not None and TRANSLATION not in rows.column_names:
        return rows  # without a look at a stream, whose file would stay open
    first: dict[str, Any] = next(iter(rows), {})
    if not isinstance(first.get(TRANSLATION), dict) or first.keys() & columns:
        return rows
    return rows.map(
        lambda batch: {
            language: [(texts or {}).get(language) for texts in batch[TRANSLATION]] for language in first[TRANSLATION]
        },
        batched=True,
        remove_columns=list(first),
    )


def _require(columns: dict[str, str], found: list[str], where: str) -> None:
    for column, name in columns.items():
        if column not in found:
            raise SourceError(
                f"{where} has no column {column!r}; set task.data.{name}_column to one of: "
                + short(", ".join(map(str, found)))
            )


def _checked(rows: Rows, columns: dict[str, str], labels: Sequence[str], where: str) -> Rows:
    """The chosen columns under the task's names, every value of them a text, or for labels a whole number."""
    found = rows.column_names
    if found is None:  # a stream knows its columns by its first row
        first = next(iter(rows), None)
        found = None if first is None else list(first)
    if not found or (isinstance(rows, datasets.Dataset) and not len(rows)):
        raise SourceError(f"{where}: there are no rows")
    _require(columns, found, where)
    rows = rows.select_columns(list(columns))

    def checked(batch: dict[str, list[Any]], numbers: Sequence[int]) -> dict[str, list[Any]]:
        for column, name in columns.items():
            for number, value in zip(numbers, batch[column], strict=True):
                if value is None or (isinstance(value, str) and not value.strip()):
                    raise SourceError(f"{where}, row {number + 1}: column {column!r} is empty")
                if name in labels and not isinstance(value, str | int):
                    raise SourceError(
                        f"{where}, row {number + 1}: column {column!r} has {short(repr(value))}, which is no label; "
                        "a label is text or a whole number"
                    )
                if name not in labels and not isinstance(value, str):
                    raise SourceError(
                        f"{where}, row {number + 1}: column {column!r} has {short(repr(value))}, which is no text; "
                        "quote it"
                    )
        return {name: batch[column] for column, name in columns.items()}

    if isinstance(rows, datasets.IterableDataset):
        return rows.map(checked, with_indices=True, batched=True, remove_columns=list(columns))
    for start in range(0, len(rows), 1000):  # checked, not mapped: that would be a copy
        checked(rows[start : start + 1000], range(start, min(start + 1000, len(rows))))
    return rows.rename_columns(columns)
