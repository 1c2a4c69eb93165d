"""Tables in Orange's format, in a wheel or any other zip: tabs, and three lines above the rows, names in the first."""

import csv
import io
from pathlib import Path

from .sources import readable, report_skipped, short
from .wheels import open_wheel, read_member


def read_table(
    path: Path, member: str, columns: dict[str, str], only: dict[str, str], skip: bool = False
) -> dict[str, list[str]]:
    """The texts of some columns of a table, by the names that a task has for them.

    Args:
        path: the zip
        member: the file in it
        columns: what the table calls each of them; the message about one that it lacks names ``task.data.NAME_column``
        only: of the rows, those whose columns of these names have these texts
        skip: leave out rows with an empty cell in these columns, and report how many they are

    Raises:
        FileNotFoundError: there is no zip.
        ValueError: no such file in it, or no such column; a row is too short, a cell is empty, or no row is left.
    """
    with open_wheel(path) as archive:
        if member not in archive.namelist():
            tables = [name for name in archive.namelist() if name.endswith(".tab")]
            raise ValueError(f"{path} has no file {member!r}; task.data.member is one of: {short(', '.join(tables))}")
        with readable(member):
            text = read_member(archive, member).decode()
            names, _, _, *rows = csv.reader(io.StringIO(text), delimiter="\t")
    keys = [(f"{name}_column", column) for name, column in columns.items()]
    for key, column in (*keys, *(("only", column) for column in only)):
        if column not in names:
            raise ValueError(f"{member} has no column {column!r}; in task.data.{key} name one of: {', '.join(names)}")
    for number, row in enumerate(rows, start=1):
        if row and len(row) < len(names):
            raise ValueError(
                f"{member}, row {number}: it has {len(row)} cells, and the table {len(names)} columns; fill it up"
            )
    rows = [row for row in rows if row and all(row[names.index(column)] == text for column, text in only.items())]
    if not rows:
        wanted = " and ".join(f"{column}={text!r}" for column, text in only.items())
        raise ValueError(f"{member}: no row has {wanted}; change task.data.only" if wanted else f"{member} has no rows")
    bad = {
        number: f"column {column!r} is empty"
        for number, row in enumerate(rows)
        for column in columns.values()
        if not row[names.index(column)].strip()
    }
    if bad and not skip:
        raise ValueError(
            f"{member}: {len(bad):,} rows have an empty cell, such as {short(rows[min(bad)])}: {bad[min(bad)]}; set "
            "task.data.skip_bad_rows=true to leave such rows out"
        )
    report_skipped(bad, len(rows), member)
    rows = [row for number, row in enumerate(rows) if number not in bad]
    return {name: [row[names.index(column)] for row in rows] for name, column in columns.items()}
