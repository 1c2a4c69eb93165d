"""Folders that are written whole or not at all, and the checkpoints that a training goes on from.

A checkpoint is written beside its place and renamed when all of it is on the disk, so that a kill at any moment, or a
full disk, leaves the one before as it was. In the output folder of a run:

- ``checkpoints/step-00001000/``: what ``training_state.py`` writes, and ``manifest.json`` with the checksums of its
  files; the newest few are kept
- ``best/``, ``last/``: Hub repositories
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

MANIFEST = "manifest.json"
REQUIRED = ("model.safetensors", "optimizer.safetensors", "state.json")


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
        # Rust libraries raise their own errors for a full disk; tokenizers raises a bare Exception.
        if isinstance(error, OSError) or "(os error" in str(error):
            raise OSError(f"could not write {folder}: {error}") from error
        raise
    shutil.rmtree(old, ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it could not be written; the old file at ``path`` is unchanged.
    """
    new = aside(path)
    try:
        new.write_text(text, encoding="utf-8")
        _sync_entry(new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OSError(f"could not write {path}: {error}") from error


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
            remedy = f"give {folder / 'best'}" if (folder / "best").is_dir() else "`attnzoo train demo` makes one"
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


def seal(folder: Path) -> None:
    """Write the manifest of a checkpoint: a checksum of every file in it."""
    checksums = {path.name: _checksum(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}
    (folder / MANIFEST).write_text(json.dumps(checksums, indent=2) + "\n")


def damage(folder: Path) -> str | None:
    """The damage of a checkpoint in words, or None if all checksums match. Files are hashed, not parsed."""
    if any(folder.glob("*.pkl")) and not (folder / MANIFEST).exists():
        return "it is of an older version of attnzoo, which wrote pickles; these can run code and are not loaded"
    try:
        checksums = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    if not isinstance(checksums, dict):
        return f"{MANIFEST} is not a table of checksums"
    for name in sorted({*REQUIRED, *checksums}):
        path = folder / name
        if name not in checksums or path.parent != folder:
            return f"{MANIFEST} has no {name}" if name in REQUIRED else f"{MANIFEST} names {name!r}"
        if not path.is_file():
            return f"{name} is {'not a file' if path.exists() else 'missing'}"
        try:
            if _checksum(path) != checksums[name]:
                return f"{name} has changed since it was written: its checksum differs from the one in {MANIFEST}"
        except OSError as error:
            return f"{name} cannot be read ({error})"
    return None


def newest_sound_checkpoint(output: Path) -> Path:
    """The newest undamaged checkpoint. Later, damaged ones are renamed to ``damaged-step-...``, with a message.

    Raises:
        ValueError: there is no checkpoint, or all are damaged.
    """
    found: dict[Path, str] = {}
    for folder in reversed(checkpoints(output)):
        what = damage(folder)
        if what is None:
            for damaged, why in found.items():
                shutil.rmtree(_damaged(damaged), ignore_errors=True)
                damaged.rename(_damaged(damaged))
                print(f"{damaged}: {why}; renamed to {_damaged(damaged).name}", file=sys.stderr)
            return folder
        found[folder] = what
    if not found:
        raise ValueError(f"{output} holds no checkpoint; there is nothing to resume")
    reasons = "; ".join(f"{folder.name}: {what}" for folder, what in found.items())
    raise ValueError(f"{output} holds only damaged checkpoints ({reasons}); --overwrite starts again")


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


def _damaged(folder: Path) -> Path:
    return folder.with_name(f"damaged-{folder.name}")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
