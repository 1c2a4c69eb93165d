"""Folders that are there when they are complete, and not before."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A new folder to write to. It is moved to its place, ``folder``, unless an error is raised before.

    Raises:
        FileExistsError: the path exists and is not an empty folder.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder, or remove what is in it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unfinished-") as unfinished:
        part = Path(unfinished) / "part"
        part.mkdir()
        yield part
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
