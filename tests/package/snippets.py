"""Run the code of Markdown pages as a reader does who copies a single block.

A snippet runs in a process of its own that has not imported attnzoo. The processes are forked from one that has
imported torch and Transformers, which takes most of a snippet's time.
"""

import contextlib
import io
import multiprocessing
import os
import re
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

# What most snippets import from elsewhere.
PRELOADED = [
    "torch",
    "transformers",
    "transformers.generation",
    "transformers.models.auto.modeling_auto",
    "transformers.pipelines",
    "transformers.trainer_seq2seq",
    "matplotlib.figure",
]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", flags=re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        language: the word after its opening fence
        code: the text inside
        output: the content of a block ``text`` directly below, or None
    """

    language: str
    code: str
    output: str | None

    @property
    def runs(self) -> bool:
        """Whether it can run here: blocks that cannot begin with a line that says what they take or need."""
        return self.language in ("python", "console") and not self.code.startswith("# Needs ")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, without the outputs of Python code."""
    return [Block(language, code, output or None) for language, code, output in FENCED.findall(page)]


def run_alone(code: str, folder: Path) -> str:
    """The output of the snippet, run in this folder.

    Raises:
        RuntimeError: the snippet fails; the message is its traceback.
    """
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "forkserver")
    context.set_forkserver_preload(PRELOADED)
    ours, its = context.Pipe()
    process = context.Process(target=_run, args=(code, str(folder), its))
    process.start()
    its.close()
    if not ours.poll(timeout=300):
        process.kill()
    try:
        printed, error = ours.recv()
    except EOFError:
        printed, error = "", "the process ended without a message"
    process.join()
    if error:
        raise RuntimeError(f"{error}\nin the snippet\n{code}")
    return printed


def _run(code: str, folder: str, results: Connection) -> None:
    os.chdir(folder)
    printed, error = io.StringIO(), ""
    try:
        assert "attnzoo" not in sys.modules
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "snippet", "exec"), {"__name__": "__main__"})
    except BaseException:
        error = traceback.format_exc()
    results.send((printed.getvalue(), error))
