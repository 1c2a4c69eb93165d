"""Folders that are written whole or not at all, and the checkpoints that a training goes on from.

A checkpoint is written beside its place and renamed when all of it is on the disk, so that a kill at any moment, or a
full disk, leaves the one before as it was. In the output folder of a run:

- ``checkpoints/step-00001000/``: weights, optimiser, moving average, random states, place in the data: all that the
  training needs to go on as if it had not stopped; the newest few are kept
- ``best/``, ``last/``: Hub repositories
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A new folder to write into; it takes the place of ``folder`` when the block ends without an error.

    A kill leaves the old folder or the new one: under its name, or beside it, where :func:`recover` finds it.

    Raises:
        OSError: something could not be written; what stood at ``folder`` still stands.
    """
    new, old = aside(folder), _replaced(folder)
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        yield new
        _sync(new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        _sync_entry(folder.parent)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        recover(folder)
        # torch and safetensors have errors of their own for a full disk; torch's is no class of its own.
        is_of_torch = isinstance(error, RuntimeError) and "writ" in str(error)
        if isinstance(error, OSError | SafetensorError) or is_of_torch:
            raise OSError(f"could not write {folder}: {error}") from error
        raise
    shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """Put back what a kill in the middle of :func:`replacing` left beside its place, and remove the rest."""
    new, old = aside(folder), _replaced(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)
    for rest in (new, old):
        shutil.rmtree(rest, ignore_errors=True)


def require_model(folder: Path) -> None:
    """Raise FileNotFoundError unless ``folder`` holds a model and a tokenizer: the Hub would be asked for them."""
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            remedy = f"give {folder / 'best'}" if (folder / "best").is_dir() else "`make demo` makes one"
            raise FileNotFoundError(f"{folder} is not a checkpoint folder: it has no {name}; {remedy}")


def checkpoint_folder(output: Path, step: int) -> Path:
    """Where the checkpoint of a step belongs."""
    return output / "checkpoints" / f"step-{step:08d}"


def checkpoints(output: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    folder = output / "checkpoints"
    found = folder.iterdir() if folder.is_dir() else ()
    complete = [path for path in found if re.fullmatch(r"step-\d+", path.name)]
    return sorted(complete, key=lambda path: int(path.name.removeprefix("step-")))


def rotate(output: Path, keep: int) -> None:
    """Remove all checkpoints but the newest ``keep``, and what was never finished."""
    for path in checkpoints(output)[:-keep]:
        shutil.rmtree(path)
    for unfinished in (output / "checkpoints").glob(".*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def require_room(folder: Path, num_bytes: int) -> None:
    """Refuse a folder that cannot be written to, or whose disk has less room than ``num_bytes``.

    Raises:
        OSError: saying which of the two, and what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise OSError(f"cannot write to {folder} ({error}); choose another --output") from error
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise OSError(
            f"the checkpoints of this run need about {num_bytes / 1e6:,.0f} MB and the disk of {folder} has "
            f"{free / 1e6:,.0f} MB left; make room or choose another --output"
        )


def aside(folder: Path) -> Path:
    """Where :func:`replacing` writes what shall become ``folder``."""
    return folder.with_name(f".{folder.name}.new")


def _replaced(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _sync(folder: Path) -> None:
    """Wait until the files are on the disk: a rename must not get there before them."""
    for path in [*folder.rglob("*"), folder]:
        _sync_entry(path)


def _sync_entry(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows has no handles of folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
