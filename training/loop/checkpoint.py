"""Checkpoints, and folders that are written completely or not at all.

A folder is written under another name, and renamed when all of it is on the disk. If the process is killed or the disk
is full, the old folder is unchanged. The output folder of a run has:

- ``checkpoints/step-00001000/``: what ``training_state.py`` writes, and ``manifest.json`` with the checksums of its
  files. Only the newest few stay.
- ``best/``, ``last/``: Hub repositories.

Accelerate's own rotation (``total_limit``) is not used: its checkpoints contain pickles, have no checksums, and
are not written atomically.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from attnzoo.commands.models import absent, refuse_adapter, require_no_code, require_readable
from attnzoo.json_files import checksum, read_mapping
from attnzoo.shipped_models import EXPORT

MANIFEST = "manifest.json"
# The files of a Hub repository that a training writes.
REPOSITORY = {"README.md", "config.json", "generation_config.json", "model.safetensors", "recipe.yaml"}
REPOSITORY |= {"tokenizer.json", "tokenizer_config.json"}
REQUIRED = ("model.safetensors", "optimizer.safetensors", "state.json")


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A new folder to write into; it replaces ``folder`` when the block ends without an error.

    If the process is killed, ``folder`` is the old one or the new one, or :func:`recover` finds it under another name.

    Raises:
        OSError: something could not be written; ``folder`` is unchanged.
    """
    new, old = unfinished_path(folder), _replaced(folder)
    recover(folder)
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


def write_atomically(path: Path, text: str) -> None:
    """Write a file completely or not at all.

    Raises:
        OSError: it could not be written; the old file at ``path`` is unchanged.
    """
    new = unfinished_path(path)
    try:
        new.write_text(text, encoding="utf-8")
        _sync_entry(new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OSError(f"could not write {path}: {error}") from error


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer, without the padding and the truncation that its last call left in it."""
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.save_pretrained(folder)


def update_config(folder: Path, **fields: Any) -> None:
    """Write these fields into the ``config.json`` of a folder."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    config.update(fields)
    config.save_pretrained(folder)


def recover(folder: Path) -> None:
    """Restore the folder if :func:`replacing` was killed, and remove what it left."""
    new, old = unfinished_path(folder), _replaced(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)
    for rest in (new, old):
        shutil.rmtree(rest, ignore_errors=True)


def require_model(folder: Path) -> None:
    """Raise an error unless ``folder`` holds a model and a tokenizer; Transformers would ask the Hub.

    Raises:
        FileNotFoundError: one of them is missing.
        ValueError: the model is exported, an adapter, or needs code of its own, or a file is damaged.
    """
    if (folder / EXPORT).is_file():
        raise ValueError(f"{folder} is an exported model; give the model that it was exported from")
    refuse_adapter(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{absent(str(folder))}; `attnzoo train demo` makes a model")
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            remedy = f"give {folder / 'best'}" if (folder / "best").is_dir() else "`attnzoo train demo` makes one"
            raise FileNotFoundError(f"{folder} is not a checkpoint folder: it has no {name}; {remedy}")
    read_mapping(folder / "config.json")  # so that a damaged file raises our error
    require_no_code(str(folder), str(folder))
    require_readable(folder)


def checkpoint_folder(output: Path, step: int) -> Path:
    """The folder for the checkpoint of a step."""
    return output / "checkpoints" / f"step-{step:08d}"


def checkpoints(output: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    folder = output / "checkpoints"
    found = folder.iterdir() if folder.is_dir() else ()
    complete = [path for path in found if re.fullmatch(r"step-\d+", path.name)]
    return sorted(complete, key=lambda path: int(path.name.removeprefix("step-")))


def write_manifest(folder: Path) -> None:
    """Write the manifest of a checkpoint: a checksum of every file in it."""
    checksums = {path.name: checksum(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}
    (folder / MANIFEST).write_text(json.dumps(checksums, indent=2) + "\n", encoding="utf-8")


def damage(folder: Path) -> str | None:
    """A description of the damage of a checkpoint, or None if all checksums match. Files are hashed, not parsed."""
    if any(folder.glob("*.pkl")) and not (folder / MANIFEST).exists():
        return "it is of an older version of attnzoo, which wrote pickles; these can run code and are not loaded"
    try:
        checksums = read_mapping(folder / MANIFEST)
    except (OSError, ValueError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    for name in sorted({*REQUIRED, *checksums}):
        path = folder / name
        if name not in checksums or path.parent != folder:
            return f"{MANIFEST} has no {name}" if name in REQUIRED else f"{MANIFEST} names {name!r}"
        if not path.is_file():
            return f"{name} is {'not a file' if path.exists() else 'missing'}"
        try:
            if checksum(path) != checksums[name]:
                return f"{name} has changed since it was written: its checksum differs from the one in {MANIFEST}"
        except OSError as error:
            return f"{name} cannot be read ({error})"
    return None


def newest_sound_checkpoint(output: Path) -> Path:
    """The newest undamaged checkpoint of a run that has some.

    Raises:
        ValueError: all are damaged.
    """
    found: dict[Path, str] = {}
    for folder in reversed(checkpoints(output)):
        what = damage(folder)
        if what is None:
            return folder
        found[folder] = what
    reasons = "; ".join(f"{folder.name}: {what}" for folder, what in found.items())
    raise ValueError(f"{output} holds only damaged checkpoints ({reasons}); --overwrite starts again")


def set_damaged_aside(output: Path, newest: Path) -> None:
    """Rename the checkpoints after ``newest``, the newest undamaged one, to ``damaged-step-...``."""
    found = checkpoints(output)
    for damaged in found[found.index(newest) + 1 :]:
        renamed = damaged.with_name(f"damaged-{damaged.name}")
        shutil.rmtree(renamed, ignore_errors=True)
        damaged.rename(renamed)
        print(f"{damaged}: {damage(renamed)}; renamed to {renamed.name}", file=sys.stderr)


def rotate(output: Path, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints, and unfinished ones."""
    for path in checkpoints(output)[:-keep]:
        shutil.rmtree(path)
    for unfinished in (output / "checkpoints").glob(".step-*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def require_room(folder: Path, num_bytes: int) -> None:
    """Check that a folder can be made or written to, and that its disk has room for ``num_bytes``. Nothing is changed.

    Raises:
        OSError: one of the two fails.
    """
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"x")
    except OSError as error:
        raise OSError(f"cannot write to {folder} ({error}); choose another --output") from error
    free = shutil.disk_usage(existing).free
    if free < num_bytes:
        raise OSError(
            f"the checkpoints of this run need about {num_bytes / 1e6:,.0f} MB and the disk of {folder} has "
            f"{free / 1e6:,.0f} MB left; make room or choose another --output"
        )


def unfinished_path(folder: Path) -> Path:
    """Where :func:`replacing` writes before it renames to ``folder``."""
    return folder.with_name(f".{folder.name}.new")


def _replaced(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _sync(folder: Path) -> None:
    """Wait until the files are on the disk. A rename must not reach the disk before them."""
    for path in [*folder.rglob("*"), folder]:
        _sync_entry(path)


def _sync_entry(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)  # Windows flushes only what it may write
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
