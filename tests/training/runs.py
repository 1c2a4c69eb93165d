"""Trainings for tests: in this process, or in separate processes that can be killed."""

import functools
import json
import math
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from attnzoo.training.loop import progress
from attnzoo.training.train import main

ROOT = Path(__file__).parents[2]


def overrides(section: str, **values: Any) -> list[str]:
    """``section.key=value`` for every value, as ``--set`` takes it."""
    return [f"{section}.{key}={json.dumps(value)}" for key, value in values.items()]


def command_line(recipe: str, output: Path, sets: list[str], *more: str) -> list[str]:
    """The arguments of ``attnzoo train`` for a shipped recipe."""
    return [str(ROOT / "configs" / f"{recipe}.yaml"), "--output", str(output), *(f"--set={s}" for s in sets), *more]


def train_recipe(recipe: str, output: Path, sets: list[str], *more: str) -> Path:
    """Train a shipped recipe in this process; the output folder."""
    main(command_line(recipe, output, sets, *more))
    return output


def log_rows(output: Path, key: str) -> list[dict[str, Any]]:
    """The lines of a run's log that have this key, "loss" or "validation"."""
    rows = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [row for row in rows if key in row]


@dataclass
class Running:
    process: multiprocessing.process.BaseProcess
    errors: Connection

    def finish(self) -> tuple[int | None, str]:
        """The exit code of a process, and its error stream; after five minutes it is killed."""
        self.process.join(timeout=300)
        self.process.kill()
        self.process.join()
        with open(self.errors.fileno(), closefd=False) as file:
            return self.process.exitcode, file.read()


@functools.cache
def server() -> Any:
    """The process from which trainings are forked. It has imported everything they need. Snippets of pages are forked
    from another, since they must not find attnzoo imported.
    """
    if os.name == "nt":
        pytest.skip("Windows has no forks, and no signals that end a process")
    from multiprocessing import forkserver

    forks = forkserver.ForkServer()
    forks.set_forkserver_preload(["tests.training.runs", "pytest"])
    return forks


def start(
    arguments: list[str], before: Callable[[], None] | None = None, program: Callable[[list[str]], None] = main
) -> Running:
    """Start a training, or another program, in a separate process, in which ``before`` is called first."""
    connect = server().connect_to_new_process
    processes = multiprocessing.get_context("forkserver")
    reader, writer = processes.Pipe(duplex=False)
    process = processes.Process(target=_run, args=(program, arguments, writer, before))
    with mock.patch("multiprocessing.forkserver.connect_to_new_process", connect):
        process.start()
    writer.close()
    return Running(process, reader)


def _run(
    program: Callable[[list[str]], None], arguments: list[str], errors: Connection, before: Callable[[], None] | None
) -> None:
    os.dup2(errors.fileno(), 2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    progress.SECONDS_TO_CHECKPOINT = math.inf
    if before is not None:
        before()
    program(arguments)
