"""The output folder of a run: checks before a training starts, the log, and ``run.json``.

``train.py`` lists what is in the folder; ``checkpoint.py`` writes its folders.
"""

import dataclasses
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import flatten_dict

import attnzoo
from attnzoo.json_files import read_mapping

from ..recipe import Recipe, load_recipe, save_recipe
from .checkpoint import MANIFEST, REPOSITORY, checkpoints, newest_sound_checkpoint, require_room, write_atomically

# What a new run replaces, in the order of deletion: without run.json a run does not count as finished. In checkpoints/
# these are also the hidden names that a killed process leaves.
RUN = ["run.json", "log.jsonl", "best/*", "last/*", "tensorboard/*"]
RUN += [f"{parent}/{name}" for parent in ("checkpoints", "evaluated/checkpoints") for name in ("[!.]*", ".step-*")]
RUN += [".best.old", ".last.old", *(f".{name}.new" for name in ("best", "last", "run.json", "log.jsonl"))]
# The names that a training writes there; older versions wrote the pickles.
_FILES = "|".join(map(re.escape, sorted({*REPOSITORY, MANIFEST, "state.json"}))) + r"|(optimizer|average)\.safetensors"
_FILES += r"|optimizer\.bin|(custom_checkpoint|random_states)_\d+\.pkl"
_FILES += r"|\.DS_Store|Thumbs\.db|desktop\.ini"  # file managers write them into every folder that they show
_FOLDER = r"(\.?(best|last)|(evaluated/)?checkpoints/(damaged-|\.)?step-\d+)(\.old|\.new)?"
_OWN = re.compile(
    rf"\.?(run\.json|log\.jsonl)(\.new)?|{_FOLDER}/({_FILES})"
    r"|tensorboard/(.*/)?(events\.out\.tfevents\.[^/]*|hparams\.yml)"
)


def check_output(output: Path, recipe: Recipe, resume: bool, overwrite: bool) -> Path | None:
    """Check the output folder and return the checkpoint to resume from, if any. No run is deleted.

    With ``resume``, a run of this recipe that was stopped before its first checkpoint is replaced.

    Raises:
        ValueError: the folder holds a run or a part of one, and neither argument is given; the run to resume is
            finished, has another recipe or none, or all its checkpoints are damaged; or the training would delete a
            file that no training wrote, or what the recipe names.
        OSError: the folder cannot be written.
    """
    require_room(output, 0)
    is_finished, own = (output / "run.json").is_file(), output / "recipe.yaml"
    if resume:
        if is_finished:
            raise ValueError(
                f"{output} holds a finished run; there is nothing to resume. "
                f"To train its model further, start a run with --set training.start_from={output / 'best'}"
            )
        is_begun = bool(checkpoints(output) or (contents(output) and own.is_file()))
        if is_begun and (changed := differences(load_recipe(own), recipe)):
            command = shlex.join(["attnzoo", "train", str(own), "--output", str(output), "--resume"])
            raise ValueError(
                f"{output} was started with another recipe, which differs in {', '.join(changed)}; resume it with the "
                f"same --set again, or by `{command}`"
            )
        if not checkpoints(output):
            resume, overwrite = False, is_begun
    parts = sorted({path.relative_to(output).parts[0] for path in contents(output)})
    if not (resume or overwrite) and (is_finished or parts):
        state, remedy = f"a part of a run ({', '.join(parts)})", ""
        if is_finished:
            state = "a finished run"
        elif checkpoints(output):
            state, remedy = "an unfinished run", "--resume continues it, "
        raise ValueError(f"{output} holds {state}; {remedy}--overwrite deletes it, or choose another --output")
    if not (resume or overwrite) and _is_other(own, recipe):
        raise ValueError(f"{output} holds another recipe.yaml; --overwrite replaces it, or choose another --output")
    _require_own_files(output, overwrite)
    _require_no_inputs(output, recipe)
    return newest_sound_checkpoint(output) if resume else None


def _require_own_files(output: Path, overwrite: bool) -> None:
    """Raise a ValueError for a file or a link in the places of a run that no training wrote."""
    files = [file for path in contents(output) for file in (path, *([] if path.is_symlink() else path.rglob("*")))]
    folders = {parent for pattern in RUN for parent in (output / pattern).parents if parent.is_relative_to(output)}
    for folder in sorted(folders - {output}):
        if folder.is_symlink() and (overwrite or folder.name in ("best", "last")):
            raise ValueError(f"{folder} is a link, and a training needs a folder there; remove the link")
        files += [folder] if os.path.lexists(folder) and not folder.is_dir() else []
    for file in files:
        name, is_link = file.relative_to(output).as_posix(), file.is_symlink()
        is_own = _OWN.fullmatch(name) or (is_link and re.fullmatch(_FOLDER, name))
        if not is_own and (is_link or not file.is_dir()):
            raise ValueError(f"{file} is in the way of this training, and no training wrote it; move it elsewhere")


def _require_no_inputs(output: Path, recipe: Recipe) -> None:
    """Raise a ValueError if a file that the recipe names is a part of the run, which may be deleted."""
    written = [(output / pattern.partition("/")[0]).resolve() for pattern in RUN]
    for key, value in flatten_dict(dataclasses.asdict(recipe)).items():
        for given in value if isinstance(value, list) else [value]:
            if not isinstance(given, str) or not os.path.exists(given):  # Path.exists() fails for a long text
                continue
            if any(Path(given).resolve().is_relative_to(path) for path in written):
                raise ValueError(
                    f"{key}={given} would be deleted: it is a part of the run in {output}; move it elsewhere"
                )


def contents(output: Path) -> list[Path]:
    """All that a run has written into the folder: its files, and the contents of its folders."""
    return [path for pattern in RUN for path in output.glob(pattern)]


def start_output(output: Path, recipe: Recipe, replaced: list[Path]) -> None:
    """Delete what is replaced, files and folders, and write the recipe of the new run."""
    output.mkdir(parents=True, exist_ok=True)
    for path in replaced:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if not (output / "recipe.yaml").is_file() or _is_other(output / "recipe.yaml", recipe):
        save_recipe(recipe, output / "recipe.yaml")


def _is_other(file: Path, recipe: Recipe) -> bool:
    """Whether the file has another recipe. The same recipe may have other comments."""
    try:
        return file.is_file() and bool(differences(load_recipe(file), recipe))
    except ValueError:  # it is damaged, or not a recipe
        return True


def size_of(paths: list[Path]) -> int:
    """The bytes of files and folders."""
    return sum(file.stat().st_size for path in paths for file in (path, *path.rglob("*")) if file.is_file())


def differences(one: Recipe, other: Recipe) -> list[str]:
    """The dotted names of the values in which two recipes differ, except for the section "expected"."""
    first, second = (
        flatten_dict(dataclasses.asdict(dataclasses.replace(recipe, expected={}))) for recipe in (one, other)
    )
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def start_log(path: Path, steps: int) -> None:
    """Cut the log to its first ``steps`` steps; a resumed run repeats the later ones."""
    text = path.read_text(encoding="utf-8", errors="replace") if steps and path.is_file() else ""
    remaining = []
    *lines, _ = text.split("\n")  # a kill may have cut the last line
    for number, line in enumerate(lines, start=1):
        try:
            if json.loads(line)["step"] <= steps:
                remaining.append(f"{line}\n")
        except (ValueError, TypeError, KeyError, RecursionError):
            print(f"{path}: line {number} is not a valid log line and is removed", file=sys.stderr)
    write_atomically(path, "".join(remaining))


def write_row(path: Path, row: dict[str, Any]) -> None:
    """Append a line to the log and close it, so that the line survives a kill.

    Raises:
        OSError: it could not be written.
    """
    try:
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")
    except OSError as error:
        raise OSError(f"could not write {path}: {error}") from error


def read_run(folder: Path) -> dict[str, Any]:
    """The content of ``run.json`` in ``folder``.

    Raises:
        OSError, ValueError: it cannot be read, or is not what a training writes.
    """
    try:
        return read_mapping(folder / "run.json")
    except ValueError as error:
        raise ValueError(f"{error}; delete it and resume the training") from error


def describe_run(seed: int, precision: str, num_processes: int) -> dict[str, Any]:
    """The entries of ``run.json`` about the conditions of a run."""
    return {
        "seed": seed,
        "git_commit": git_commit(),
        "versions": {
            "python": platform.python_version(),
            **{package.__name__: package.__version__ for package in (attnzoo, torch, transformers)},
        },
        "precision": precision,
        "processes": num_processes,
        "threads": torch.get_num_threads(),
    }


def git_commit() -> str | None:
    """The commit of this code's checkout, with "-dirty" if files have changed; None if the code is installed.

    A virtual environment may be inside a repository of the user. The commit of that repository is not returned.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
