"""Folders that are there when they are complete, and not before."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A new folder to write to. It is moved to its place, ``folder``, unless an error is raised before.

    An empty folder that is there already is filled, since it may be one that cannot be replaced: the working directory,
    a link, or a mounted disk.

    Raises:
        FileExistsError: the path exists and is not an empty folder.
    """
    folder = Path(folder)
    is_there = folder.exists()
    if is_there and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder, or remove what is in it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = folder if is_there else folder.parent
    with tempfile.TemporaryDirectory(dir=place, prefix=".unfinished-") as unfinished:
        part = Path(unfinished) / "part"
        part.mkdir()
        yield part
        if is_there:
            for path in [*part.iterdir()]:
                path.rename(folder / path.name)
        else:
            part.rename(folder)
