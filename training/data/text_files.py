"""Files of text: decompressed up to a limit, decoded line by line, and read as tables with or without quoting."""

import csv
import gzip
import io
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from attnzoo.encoding import PACKED, UTF16_MARKS, not_text

UNPACKED_LIMIT = 2**30  # bytes of one decompressed file, so that a small file cannot fill the disk
GZIP = b"\x1f\x8b"
TAB = "\t"
SEPARATORS = (TAB, ";", ",", "|")
NOT_DECODED = re.compile("[\udc80-\udcff]")  # the error handler "surrogateescape" writes these for such bytes

csv.field_size_limit(2**31 - 1)  # a cell may hold a whole text


class SourceError(ValueError):
    """An error in a source of data; the message has its place and what to do."""


def short(value: object) -> str:
    """The value for a message, cut after 200 characters."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def refuse_large(size: int, name: str) -> None:
    """Raise a SourceError if the unpacked ``size`` of a file is above ``UNPACKED_LIMIT`` bytes."""
    if size > UNPACKED_LIMIT:
        raise SourceError(
            f"{name} unpacks to more than {UNPACKED_LIMIT / 2**30:g} GiB, the limit for gzip files; if you trust it, "
            "unpack it yourself and give the unpacked file"
        )


def refuse_packed(file: Path) -> None:
    """Raise a SourceError if the first bytes are those of a file that is not text; gzip is allowed."""
    with file.open("rb") as opened:
        start = opened.read(6)
    if kind := next((kind for signature, kind in PACKED.items() if start.startswith(signature)), None):
        raise SourceError(f"{file} is {kind}, not text; unpack or export it, or give text, which gzip may compress")


def open_unpacked(file: Path) -> BinaryIO | gzip.GzipFile:
    """The bytes of a file, unpacked if it is gzip.

    Raises:
        SourceError: it unpacks to more than ``UNPACKED_LIMIT``, or is not text.
        OSError, EOFError, zlib.error: it cannot be unpacked.
    """
    refuse_packed(file)
    with file.open("rb") as opened:
        if opened.read(2) != GZIP:
            return file.open("rb")
    size = 0
    with gzip.open(file) as unpacked:
        while part := unpacked.read(2**20):
            size += len(part)
            refuse_large(size, str(file))
    return gzip.open(file)


def lines(file: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file of text, without its byte order mark. Lines keep their ends (Unix, Windows or old Macs).

    Raises:
        SourceError: a line cannot be decoded (the message shows it); the first one shows that it is not text; or as for
            :func:`open_unpacked`.
    """
    with open_unpacked(file) as opened, io.TextIOWrapper(opened, encoding, "surrogateescape", newline="") as text:
        try:
            for number, line in enumerate(text, start=1):
                if (line.isascii() or not NOT_DECODED.search(line)) and (number > 1 or "\0" not in line):
                    yield line.removeprefix("\ufeff") if number == 1 else line
                    continue
                raw = line.encode(encoding, "surrogateescape")
                if number == 1 and (kind := not_text(raw)):
                    remedy = (
                        "; if it is UTF-16 convert it: iconv -f utf-16le, or utf-16be"
                        if kind == "a binary file"
                        else ""
                    )
                    raise SourceError(f"{file} is {kind}, not text{remedy}")
                guess, name = ("utf-16", "utf-16") if raw[:2] in UTF16_MARKS else ("latin-1", "latin1")
                raise SourceError(
                    f"{file} is not {encoding.upper()} (line {number}: {short(raw)}); convert it, from {guess} "
                    f"perhaps: iconv -f {name}, or if it is not JSON set task.data.encoding={guess}"
                )
        except UnicodeError as error:
            raise SourceError(f"{file} is not {encoding.upper()} ({error}); set task.data.encoding") from error


def has_quotes(file: Path, separator: str, encoding: str, has_header: bool) -> bool | None:
    """Whether quotation marks enclose cells (True) or belong to the text (False); None if it makes no difference.

    If the separator is not a tab, they enclose cells, and the file must be valid csv. If it is a tab, the content of
    the file decides. They belong to the text if the file is not valid csv, for example because a sentence begins with a
    quotation. They enclose cells if the header has them, or if a cell has the form that only a program writes:
    ``"He said ""no""."``

    Raises:
        SourceError: the file is not valid csv, or it has tabs and can be read both ways.
    """
    if not any('"' in line for line in lines(file, encoding)):
        return None
    incorrect = None
    rows = csv.reader(lines(file, encoding), delimiter=separator, strict=True)
    try:
        deque(rows, maxlen=0)
    except csv.Error as error:
        incorrect = f"line {rows.line_num}: {error}"
    if separator != TAB:
        if incorrect:
            header = next(lines(file, encoding))
            if separator not in header and (remedy := separator_remedy(header)):
                raise SourceError(f"{file} has no {separator!r} in its first line{remedy}")
            refuse_other_separator(file, separator, encoding)
            raise SourceError(
                f"{file}, {incorrect}; if quotation marks belong to the text set task.data.quoting=false, and if "
                "they enclose cells correct the file, or set task.data.quoting=true to read it in spite of the error"
            )
        return True
    if incorrect:
        return False
    seen = None
    for number, line in enumerate(lines(file, encoding), start=1):
        for cell in line.rstrip("\r\n").split(TAB):
            if cell.startswith('"'):
                seen = seen or f"line {number}: {short(cell)}"
                inner = cell[1:-1]
                is_written_so = cell.endswith('"') and '""' in inner and '"' not in inner.replace('""', "")
                if is_written_so or (has_header and number == 1):
                    return True
    if seen is None:
        return None
    raise SourceError(
        f"{file}, {seen} begins with a quotation mark: set task.data.quoting=true if such marks enclose cells, as "
        "spreadsheets and R write them, or task.data.quoting=false if they belong to the text"
    )


def check_header(file: Path, names: list[str] | None, columns: dict[str, str], options: dict[str, Any]) -> int:
    """The number of columns of a table.

    Args:
        file: the table
        names: the names of all columns if the table has no header
        columns: the columns to read, each with the task's name for it
        options: for ``pandas.read_csv``

    Raises:
        SourceError: a column is missing or occurs twice, ``names`` do not fit the file, or it has no rows.
    """

    def first(**more: Any) -> pd.DataFrame:
        return pd.read_csv(file, **(options | more), nrows=1, dtype=str, keep_default_na=False)

    cells: list[str] = list(first(names=None, header=None).iloc[0])
    if names is None:
        # The text of a single column may have commas that separate nothing.
        is_undivided = len(cells) == 1 and (len(columns) > 1 or any(column in cells[0] for column in columns))
        if is_undivided and cells[0] not in columns and (remedy := separator_remedy(cells[0])):
            raise SourceError(f"{file} has no {options['sep']!r} in its first line{remedy}")
        if not columns.keys() <= set(cells):
            refuse_other_separator(file, options["sep"], options["encoding"])
        require_columns(columns, cells, str(file), _remedy(cells, columns, options["sep"]))
        if twice := [column for column in columns if cells.count(column) > 1]:
            raise SourceError(f"{file} has two columns {twice[0]!r}; rename one")
        if first().empty:
            raise SourceError(f"{file} has a header and no rows")
    elif len(cells) != len(names):
        raise SourceError(
            f"{file} has {len(cells)} columns ({short(', '.join(cells))}), but task.data.columns names {len(names)}: "
            f"{short(', '.join(names))}; name all, in their order"
        )
    elif set(cells) & set(names):
        raise SourceError(
            f"the first line of {file} is {short(', '.join(cells))}, like a header, and task.data.columns is for "
            "files without one; leave it out, or give other names"
        )
    else:
        require_columns(columns, names, "task.data.columns")
    return len(cells)


def require_columns(columns: dict[str, str], found: list[str], where: str, remedy: str = "") -> None:
    """Raise a SourceError if a wanted column is not there; ``columns`` has the task's name for each."""
    for column, name in columns.items():
        if column not in found:
            raise SourceError(
                f"{where} has no column {column!r}; set task.data.{name}_column to one of: "
                + short(", ".join(repr(name) if name != str(name).strip() else name for name in found))
                + remedy
            )


def _remedy(cells: list[str], columns: dict[str, str], separator: str) -> str:
    """Advice for a header that lacks a column."""
    if len(cells) < len(columns):
        sign = "tab" if separator == TAB else repr(separator)
        comment = "; a table has no comments, so delete such lines" if cells[0].startswith("#") else ""
        return f". Its first line has {len(cells)} of {len(columns)} columns (the separator is {sign}){comment}"
    wanted = [*columns, *(f"column{number}" for number in range(len(columns) + 1, len(cells) + 1))]
    return (
        ". If the file has no header, name its columns in their order: "
        f'--set "task.data.columns=[{short(", ".join(wanted[: len(cells)]))}]"'
    )


def separator_remedy(header: str) -> str:
    """Advice for a header that is not divided: the separator that it has; empty if it has none."""
    sign = next((sign for sign in SEPARATORS if sign in header), None)
    return f". If columns are separated otherwise, set it: {_setting(sign)}" if sign else ""


def _setting(separator: str) -> str:
    """The option that sets this separator."""
    return f'--set "task.data.separator={"tab" if separator == TAB else repr(separator)}"'


def refuse_other_separator(file: Path, separator: str, encoding: str) -> None:
    """Raise a SourceError if another separator divides all rows into the same number of cells, two or more.

    Call it if the rows do not fit ``separator``. A header may have both signs: ``text;label, notes``.
    """
    for sign in SEPARATORS:
        widths = {len(row) for row in csv.reader(lines(file, encoding), delimiter=sign) if row}
        if sign != separator and len(widths) == 1 and (width := widths.pop()) > 1:
            remedy = f"if it is the separator set it: {_setting(sign)}"
            raise SourceError(f"{file}: {sign!r} divides every row into {width} cells; {remedy}")


def refuse_misread_rows(
    file: Path, separator: str, encoding: str, quoting: bool, number: int, is_separator_given: bool
) -> None:
    """Raise a SourceError if a row has more cells than this number of columns, or if another separator was meant."""
    style: Any = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
    rows = csv.reader(lines(file, encoding), delimiter=separator, quoting=style)
    other = [(rows.line_num, len(row)) for row in rows if row and len(row) != number]
    if other and not is_separator_given:
        refuse_other_separator(file, separator, encoding)
    if long := [(line, cells) for line, cells in other if cells > number]:
        raise SourceError(
            f"{file}, line {long[0][0]}: {long[0][1]} cells, but there are {number} columns "
            f"({len(long):,} such rows); put quotation marks around cells that contain a separator"
        )
