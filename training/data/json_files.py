"""JSON files: an object on every line, or a list of objects.

The reader of the datasets library guesses the types of columns, and changes texts that look like dates. This one leaves
a text unchanged.
"""

import itertools
import json
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import datasets

from .text_files import SourceError, lines, require_columns, short

FORM = "write an object on every line, or one list of objects"
TRANSLATION = "translation"  # the column of dicts


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key occurs twice in the object of {', '.join(key for key, _ in pairs)}")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_object)


def json_stream(files: list[str], columns: dict[str, str]) -> datasets.IterableDataset:
    """The values of these columns, of any type, as a stream over local files or files of the Hub (``hf://...``).

    In rows with a dict of languages in a column "translation" a column is a language. A value that is missing is None.

    Args:
        files: the files, in their order
        columns: the columns to read, each with the task's name for it

    Raises:
        SourceError: when the stream is read: a file is empty, not UTF-8, or not JSON, or none of its rows has a column.
    """
    options: dict[str, Any] = {"files": [(file, _version(file)) for file in files], "columns": columns}
    return datasets.IterableDataset.from_generator(_rows, gen_kwargs=options)


def _version(file: str) -> tuple[int, int] | None:
    """A value that changes with a local file, so that rows cached for its former content are not used."""
    if not os.path.isfile(file):
        return None  # a file on the Hub, whose name has the commit
    stat = os.stat(file)
    return stat.st_size, stat.st_mtime_ns


def _rows(files: list[tuple[str, Any]], columns: dict[str, str]) -> Iterator[dict[str, Any]]:
    for file, _ in files:
        path = Path(file if os.path.isfile(file) else datasets.DownloadManager().download(file))
        found: dict[str, None] = {}
        with closing(_objects(path, file, columns)) as rows:
            first = next(rows, {})
            for row in itertools.chain([first], rows):
                found |= dict.fromkeys(row)
                if found.keys() >= columns.keys():
                    break
        if found.keys() == first.keys() and not found.keys() & columns:
            _refuse_wrapped(first, file)
        if found:
            require_columns(columns, list(found), file)
        for row in _objects(path, file, columns):
            yield {column: row.get(column) for column in columns}


def _refuse_wrapped(row: dict[str, Any], name: str) -> None:
    """Raise a SourceError if an object of the file is not a row but has rows inside it."""
    for key, value in row.items():
        items = list(value.values()) if isinstance(value, dict) else value
        if isinstance(items, list) and items and all(isinstance(item, list | dict) for item in items):
            raise SourceError(f"{name} has its rows in {key!r} of an object around them; leave it out: {FORM}")


def _objects(path: Path, name: str, columns: dict[str, str]) -> Generator[dict[str, Any], None, None]:
    for row in _objects_of_file(path, name):
        languages = row.get(TRANSLATION)
        yield languages if isinstance(languages, dict) and not row.keys() & columns else row


def _objects_of_file(path: Path, name: str) -> Iterator[dict[str, Any]]:
    numbered = ((number, line) for number, line in enumerate(lines(path), start=1) if line.strip())
    number, line = next(numbered, (0, ""))
    if not line:
        raise SourceError(f"{name} is empty")
    if line.lstrip().startswith("["):
        where = f"{name} cannot be read: it"
        for item in _parsed(line + "".join(line for _, line in numbered), where):
            # A list may also hold the texts of a single column.
            yield _required_object({"text": item} if isinstance(item, str) else item, where)
        return
    where = f"{name} cannot be read: line {number}"
    if line.rstrip().endswith(("{", "[", ",", ":")):  # one object on several lines
        where = f"{name} cannot be read: it"
        line += "".join(line for _, line in numbered)
    while line:
        yield _required_object(_parsed(line, where), where)
        number, line = next(numbered, (0, ""))
        where = f"{name} cannot be read: line {number}"


def _parsed(text: str, where: str) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where} is not JSON ({short(error)}); {FORM}") from error


def _required_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{where} has {short(repr(value))}, which is not an object of columns and their values")
    return value
