"""The output folder of a run: nothing in it is lost by mistake, and it says how the run was made and how it went.

What is in it is listed in ``train.py``; ``checkpoint.py`` writes its folders.
"""

import contextlib
import dataclasses
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import torch
import transformers

import attnzoo

from .checkpoint import checkpoints, recover, require_room, rotate
from .recipe import Recipe, load_recipe, save_recipe


def prepare_output(output: Path, recipe: Recipe, resume: bool, overwrite: bool) -> None:
    """Make the output folder ready for a new run or for going on, and lose nothing that was not given up."""
    require_room(output, 0)
    for name in ("best", "last"):
        recover(output / name)
    rotate(output, keep=sys.maxsize)
    is_finished = (output / "run.json").is_file()
    if resume:
        if is_finished or not checkpoints(output):
            state = "a finished run" if is_finished else "no checkpoint"
            raise ValueError(f"{output} holds {state}; there is nothing to resume")
        if changed := differences(load_recipe(output / "recipe.yaml"), recipe):
            raise ValueError(f"{output} was started with another recipe, which differs in {', '.join(changed)}")
        return
    if not overwrite and (is_finished or checkpoints(output)):
        state, remedy = ("a finished run", "") if is_finished else ("a run that can go on", "--resume goes on, ")
        raise ValueError(f"{output} holds {state}; {remedy}--overwrite discards it, or choose another --output")
    for name in ("checkpoints", "evaluated", "best", "last"):
        shutil.rmtree(output / name, ignore_errors=True)
    (output / "run.json").unlink(missing_ok=True)
    save_recipe(recipe, output / "recipe.yaml")


def differences(one: Recipe, other: Recipe) -> list[str]:
    """The dotted names of the values in which two recipes differ; the figures that one expects change no training."""

    def flat(tree: Any, name: str) -> dict[str, Any]:
        if not isinstance(tree, dict):
            return {name: tree}
        return {k: v for key, value in tree.items() for k, v in flat(value, f"{name}.{key}".lstrip(".")).items()}

    first, second = (flat(dataclasses.asdict(dataclasses.replace(recipe, expected={})), "") for recipe in (one, other))
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


@contextlib.contextmanager
def open_log(path: Path, is_main_process: bool, steps: int) -> Iterator[TextIO]:
    """The log, with what it holds of the first ``steps`` steps: a resumed run writes the others again."""
    if is_main_process:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if steps and path.is_file() else []
        # A kill may have cut the last line, and may come now: the old log stands until the new one does.
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= steps]
        path.with_suffix(".new").write_text("".join(kept), encoding="utf-8")
        path.with_suffix(".new").replace(path)
    with open(path if is_main_process else os.devnull, "a", encoding="utf-8") as log:
        yield log


def write_row(log: TextIO, row: dict[str, Any]) -> None:
    """A line of the log, there even if the next step is killed."""
    log.write(json.dumps(row) + "\n")
    log.flush()


def describe_run(seed: int, precision: str, num_processes: int) -> dict[str, Any]:
    """What ``run.json`` has of where and how a run was made."""
    return {
        "seed": seed,
        "git_commit": _git_commit(),
        "versions": {
            "python": platform.python_version(),
            "attnzoo": attnzoo.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "precision": precision,
        "processes": num_processes,
        "threads": torch.get_num_threads(),
    }


def _git_commit() -> str | None:
    """The commit of the working tree, "-dirty" after it if files differ from it; None outside git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(
            command,
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
