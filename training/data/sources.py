"""Rows of text from a file, a local folder or the Hub, in memory or as a stream."""

import contextlib
import csv
import glob
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from datasets.packaged_modules.csv.csv import CsvConfig
from datasets.packaged_modules.json.json import JsonConfig
from huggingface_hub.dataclasses import strict

from .json_files import TRANSLATION, json_stream
from .known import HUB_ID
from .row_checks import Rows as Rows
from .row_checks import checked
from .text_files import GZIP, TAB, check_header, has_quotes, lines, refuse_misread_rows, refuse_packed
from .text_files import SourceError as SourceError
from .text_files import short as short

# The reader of the datasets library for a file's suffix, and its options.
READERS: dict[str, tuple[str, dict[str, Any]]] = {
    ".csv": ("csv", {"sep": ","}),
    ".tsv": ("csv", {"sep": "\t"}),
    ".jsonl": ("json", {}),
    ".json": ("json", {}),
    ".parquet": ("parquet", {}),
}
SPLITS = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
# Other files that a folder of a dataset may have, by the names that the datasets library gives them.
NOT_ROWS = {"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"}


@strict
@dataclass(kw_only=True)
class Source:
    """A source of rows. A task adds a key ``NAME_column`` for each of its columns.

    Attributes:
        path: a file that ends in .csv, .tsv, .jsonl, .json or .parquet (the first four also in .gz); a folder of such
            files, all of one kind; a folder written by ``save_to_disk``; or else a dataset of the Hub, as owner/name.
            All files of a folder are read. The word "train", "validation" or "test" in the name of a file, or of the
            folder that it is in, decides its split. With ``separator``, files of any other name, and a folder's .txt
            files, are tables, too.
        subset: the subset of a dataset of the Hub that has several.
        streaming: read the training rows again in every epoch instead of holding them in memory. The other splits are
            held in memory.
        columns: names for all columns of a table of text (such as csv) without a header: its first line is a row.
        separator: the character between columns of a table of text; "tab" for a tab. None: a comma in .csv, a tab in
            .tsv.
        quoting: True: quotation marks enclose cells; False: they are text. None: in csv they enclose cells, and
            the file must be valid csv. If tabs separate cells, the content of the file decides (see
            ``text_files.has_quotes``); a file that can be read both ways raises an error.
        encoding: the encoding of tables and files of text, by its name in Python: "utf-8", "utf-16", "cp1252".
        skip_bad_rows: skip rows that lack a value or have one of another type, and report how many. False raises
            an error for the first such row.
    """

    path: str
    subset: str | None = None
    streaming: bool = False
    columns: list[str] | None = None
    separator: str | None = None
    quoting: bool | None = None
    encoding: str = "utf-8"
    skip_bad_rows: bool = False

    def validate_table(self) -> None:
        """Check the column names, the separator and the encoding."""
        names = self.columns
        if names is not None and (not all(names) or len(set(names)) < len(names) or not names):
            raise ValueError(f"columns must be different names, one for each column of the file, got {names}")
        if self.separator is not None:
            sign = self.sign()
            if len(sign) != 1 or sign.isalnum() or sign in '"\r\n\\/':
                raise ValueError(
                    "separator must be one character, not a letter, digit, quotation mark, slash or line break, got "
                    f"{sign!r}; write a tab as 'tab'; put quotation marks around others in a shell and in YAML"
                )
        try:
            "a".encode(self.encoding)
        except LookupError as error:
            raise ValueError(f"encoding is {self.encoding!r}: {error}; use for example utf-8 or cp1252") from error

    def sign(self) -> str:
        """The separator, as the file has it."""
        return TAB if self.separator in ("tab", "\\t") else self.separator or ""


def is_table(source: Source) -> bool:
    """Whether ``read_rows`` can read this source: a folder, a table (by suffix or separator), or a Hub id."""
    return Path(source.path).is_dir() or _reader(source.path, source.sign()) is not None or is_hub_id(source.path)


def read_rows(
    source: Source, names: Sequence[str], labels: Sequence[str] = (), only: str | None = None
) -> dict[str, Rows]:
    """The splits of a source: "train", and "validation" and "test" if it has them (also called valid, val, dev).

    Every row has the columns ``names``. A column holds text; a column of ``labels`` holds text or whole numbers. The
    key ``NAME_column`` of the source has the source's name for a column. In rows with a dict of languages in a column
    "translation" it is a language. In csv files everything is text, also words like "null" and "NA". Splits of other
    names are left out.

    With ``only``, the name of a split, no training split is needed, and data without splits counts as this split.

    Raises:
        FileNotFoundError: the path does not exist, here or on the Hub.
        SourceError: a ValueError: a column is missing, a row lacks a value or has one of another type, a file is
            empty, is in another encoding or cannot be read, a folder mixes kinds of files, or files with and without a
            split name, or there is no training split. Rows of a stream are checked as they are read: read them inside
            ``readable``.
    """
    columns = {getattr(source, f"{name}_column"): name for name in names}
    if len(columns) < len(names):
        raise SourceError(
            f"task.data names one column twice: {', '.join(getattr(source, f'{n}_column') for n in names)}"
        )
    with readable(source.path):
        opened, types = _open(source, columns)
        found = {split: _languages(rows, columns) for split, rows in opened.items()}
        splits = {
            split: next(found[alias] for alias in aliases if alias in found)
            for split, aliases in SPLITS.items()
            if not found.keys().isdisjoint(aliases)
        }
        splits = as_only(splits, only)
        if (wanted := only if only in splits else "train") not in splits:
            raise SourceError(f"{source.path} has no split {wanted!r}; its splits: {short(', '.join(map(str, found)))}")
        return {
            split: checked(
                *(rows, columns, labels, f"{source.path}, {split} split", source.skip_bad_rows),
                streaming=source.streaming,
                types=types,
            )
            for split, rows in splits.items()
        }


def as_only(splits: dict[str, Any], only: str | None) -> dict[str, Any]:
    """The splits of data that is read for the split ``only``: data without splits counts as this split."""
    return {only: splits["train"]} if only is not None and splits.keys() == {"train"} else splits


def rows_of_files(path: str, splits: dict[str, dict[str, list[str]]], only: str | None) -> dict[str, Rows]:
    """The columns that files hold, as rows.

    Raises:
        SourceError: no file belongs to the training split, or to the split ``only``.
    """
    splits = as_only(splits, only)
    if "train" not in splits and only not in splits:
        raise SourceError(f"{path} has no file for the train split, only for {' and '.join(splits)}")
    return {split: datasets.Dataset.from_dict(columns) for split, columns in splits.items()}


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn the errors that readers raise for a damaged file into a SourceError that names ``path``."""
    unsound = (
        *(datasets.exceptions.DatasetGenerationError, pa.ArrowException, gzip.BadGzipFile, zlib.error, EOFError),
        csv.Error,
        *(ValueError, TypeError, AttributeError, KeyError),  # the json reader finds a list in place of a row
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
        reason = short(cause).strip() or type(cause).__name__
        if "corresponds to no data" in reason or "No columns to parse" in reason:  # messages for an empty file
            reason = "it has no rows"
        raise SourceError(f"{path} cannot be read: {reason}") from error


def _reader(path: str, separator: str = "") -> tuple[str, dict[str, Any]] | None:
    path = path.lower()
    name = path.removesuffix(".gz")
    reader = READERS.get(Path(name).suffix)
    if separator and (reader is None or reader[0] == "csv"):
        return "csv", {"sep": separator}
    return None if reader is None or (reader[0] == "parquet" and name != path) else reader


def is_hub_id(path: str) -> bool:
    """Whether the path has the form of a Hub id and is not a file or folder here."""
    return HUB_ID.fullmatch(path) is not None and _reader(path) is None and not Path(path).exists()


def _open(source: Source, columns: dict[str, str]) -> tuple[dict[str, Rows], dict[str, Any]]:
    """All splits, with all columns, and the types of columns, which rows of JSON lack."""
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
        return {k: rows.to_iterable_dataset() if source.streaming else rows for k, rows in splits.items()}, {}
    if is_local:
        options = _files(path, source.sign())
    elif is_hub_id(source.path):
        options = {"path": source.path, "name": source.subset}
    else:
        raise FileNotFoundError(
            f"task.data.path is {source.path!r}: neither a file nor a folder, nor the name of a dataset of the Hub "
            "(owner/name)"
        )
    try:
        with _counted(not is_local):
            builder = datasets.load_dataset_builder(**options)
            options |= _text_options(builder, source, columns)
            if not isinstance(builder.config, JsonConfig):
                return datasets.load_dataset(**options, streaming=source.streaming), {}
            if builder.config.field is not None:
                raise SourceError(f"{source.path} has its rows in a field of its files, which is not read")
            streams = {
                str(split): json_stream(list(files), columns)
                for split, files in (builder.config.data_files or {}).items()
            }
            return streams, builder.info.features or {}  # a README of the Hub may declare them
    except (FileNotFoundError, ConnectionError) as error:
        if is_local:
            raise
        raise FileNotFoundError(
            f"task.data.path is {source.path!r}: no file or folder here, and the Hub has no such dataset for you or "
            f"was not reached ({short(error)}). With the Hub in reach, `hf download {source.path} --repo-type "
            "dataset --local-dir FOLDER` downloads a dataset; then set task.data.path=FOLDER"
        ) from error
    except ValueError as error:
        if str(error).startswith(("BuilderConfig", "Config name is missing")):  # the library has no class for it
            raise SourceError(f"task.data.subset is {source.subset!r}, {source.path}: {short(error)}") from error
        raise


@contextlib.contextmanager
def _counted(is_counted: bool) -> Iterator[None]:
    """Whether the datasets library may tell its server that its reader was used.

    It would do so for every local file, too, and without a network it waits for seconds.
    """
    before = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = before and is_counted
    try:
        yield
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = before


def _files(path: Path, separator: str) -> dict[str, Any]:
    """The options with which the datasets library reads a file, or all files of a folder."""
    if path.is_file():
        files = {path.parent.resolve() / path.name: "train"}
        if _reader(path.name, separator) is None:
            refuse_packed(path)
            raise SourceError(
                f"{path} is not of a known kind; a file of rows ends in {', '.join(READERS)}; for another table "
                "of text set task.data.separator to tab, or to the character between the columns"
            )
    else:
        files = _files_of_folder(path, separator)
    kind, options = _reader(next(iter(files)).name, separator) or ("", {})
    data_files: dict[str, list[str]] = {}
    for file, split in files.items():
        data_files.setdefault(split, []).append(glob.escape(str(file)))  # the library takes a path as a pattern
    return {"path": kind, "data_files": data_files, **options}


def _files_of_folder(folder: Path, separator: str) -> dict[Path, str]:
    """Each file of rows and its split."""
    suffixes = (*READERS, ".txt") if separator else tuple(READERS)
    names = [
        name
        for name in visible_files(folder)
        if name.name.lower().removesuffix(".gz").endswith(suffixes)
        and _reader(name.name, separator)
        and name.name not in NOT_ROWS
    ]
    if not names:
        raise FileNotFoundError(f"{folder} has no files that end in {', '.join(suffixes)}")
    kinds: dict[str, Path] = {}  # with the first file of each
    for name in names:
        kinds.setdefault(str(_reader(name.name, separator)), name)
    if len(kinds) > 1:
        raise SourceError(f"{folder} has files of several kinds: {', '.join(map(str, kinds.values()))}; keep one kind")
    return with_splits(folder, names)


def visible_files(folder: Path) -> list[Path]:
    """The names of all files in a folder and its subfolders, sorted, without hidden ones."""
    names = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return [name for name in names if not any(part.startswith(".") for part in name.parts)]


def with_splits(folder: Path, names: list[Path]) -> dict[Path, str]:
    """Each file of a folder with its split, which a word in its name, or in the name of a folder below, decides.

    If no file has such a word, all are for training.

    Raises:
        SourceError: some names have no such word, or several.
    """
    words = {name: set(re.split(r"[^a-z]+", str(name).lower())) for name in names}
    splits = {name: [split for split, aliases in SPLITS.items() if words[name] & set(aliases)] for name in names}
    if not any(splits.values()):
        return {folder.resolve() / name: "train" for name in names}
    if odd := [str(name) for name, of_name in splits.items() if len(of_name) != 1]:
        raise SourceError(
            f"{folder}: it is not clear to which split these files belong: {short(', '.join(odd))}; where one name has "
            "the word train, validation or test in it, every name must have one of them"
        )
    return {folder.resolve() / name: of_name[0] for name, of_name in splits.items()}


def text_files(path: Path) -> dict[Path, str]:
    """The .txt files (also .gz) at a path and their splits; none if a folder also has tables."""
    if path.name.lower().removesuffix(".gz").endswith(".txt"):
        return {path: "train"}
    names = visible_files(path)
    texts = [name for name in names if name.name.lower().removesuffix(".gz").endswith(".txt")]
    return {} if not texts or any(_reader(name.name) for name in names) else with_splits(path, texts)


def refuse_table_keys(source: Source, reason: str) -> None:
    """Raise a SourceError if the source sets a key of tables of text; ``reason`` is the end of a sentence about it."""
    for key in ("columns", "separator", "quoting"):
        if getattr(source, key) is not None:
            raise SourceError(f"task.data.{key} is for tables of text, such as csv, and {source.path} {reason}")


def refuse_row_keys(source: Source, reason: str) -> None:
    """Raise a SourceError if the source sets a key of rows; ``reason`` is the end of a sentence about it."""
    refuse_table_keys(source, reason)
    if source.subset is not None or source.streaming:
        raise SourceError(f"{source.path} {reason} and is read whole: leave out subset and streaming in task.data")


def _text_options(builder: datasets.DatasetBuilder, source: Source, columns: dict[str, str]) -> dict[str, Any]:
    """Options for the csv reader. Files that are empty, in another encoding or ambiguous raise an error."""
    config = builder.config
    files = [Path(file) for of_split in (config.data_files or {}).values() for file in of_split]
    local = [file for file in files if file.is_file()]
    is_csv = isinstance(config, CsvConfig)
    if not is_csv or not local:
        refuse_table_keys(source, "is not a table of text" if local else "is read as it is on the Hub")
        if source.encoding != "utf-8":
            raise SourceError(f"task.data.encoding is for local files of text, and {source.path} is not one")
    for file in local:
        with file.open("rb") as opened:
            start = opened.read(2)
        if not start:
            raise SourceError(f"{file} is empty")
        refuse_packed(file)
        if start == GZIP and not file.name.lower().endswith(".gz"):
            raise SourceError(f"{file} is compressed with gzip; rename it to end in .gz")
        if is_csv:
            next(lines(file, source.encoding), "")  # an error if it is not text
    if not is_csv:
        _require_same_types([file for file in local if file.suffix.lower() == ".parquet"], columns)
        return {}
    if not local:  # files of the Hub, whose header comes with the data
        return {"keep_default_na": False, "converters": dict.fromkeys(columns, str)}
    quoting = _quoting(local, source, config.sep)
    options: dict[str, Any] = {"quoting": csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE, "encoding": source.encoding}
    if source.columns is not None:
        options |= {"names": source.columns, "header": None}
    for file in local:
        number = check_header(file, source.columns, columns, {"sep": config.sep, **options})
        is_given = source.separator is not None
        refuse_misread_rows(file, config.sep, source.encoding, quoting, number, is_separator_given=is_given)
    features = datasets.Features(dict.fromkeys(columns, datasets.Value("string")))
    return options | {"keep_default_na": False, "features": features}


def _require_same_types(files: list[Path], columns: dict[str, str]) -> None:
    """Raise a SourceError if a column is text in one file and not in another: the library would convert it to text."""
    seen: dict[tuple[str, bool], tuple[Path, pa.DataType]] = {}
    for file in files:
        for field in pq.read_schema(file):
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            is_text = any(is_one(kind) for is_one in TEXT_TYPES)
            if field.name in columns:
                seen.setdefault((field.name, is_text), (file, field.type))
            if (field.name, not is_text) in seen and field.name in columns:
                other, other_type = seen[field.name, not is_text]
                raise SourceError(
                    f"column {field.name!r} is {field.type} in {file} and {other_type} in {other}; store it as text"
                )


def _quoting(files: list[Path], source: Source, separator: str) -> bool:
    """Whether quotation marks enclose cells; the files must agree."""
    if source.quoting is not None:
        return source.quoting
    found = {has_quotes(file, separator, source.encoding, source.columns is None): file for file in files}
    if True in found and False in found:
        raise SourceError(
            f"quotation marks enclose cells in {found[True]} and belong to the text in {found[False]}; set "
            "task.data.quoting=true or false"
        )
    return True in found


def _languages(rows: Rows, columns: dict[str, str]) -> Rows:
    """Rows with a column for each language, if the texts are in a column "translation" of dicts."""
    if rows.column_names is not None and TRANSLATION not in rows.column_names:
        return rows  # reading a row of a stream would leave its file open
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
