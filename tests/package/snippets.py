"""Run a snippet as a reader does who copies it alone: in a process of its own that has not imported attnzoo.

The processes are forked from one that has imported torch and Transformers, which takes most of a snippet's time.
"""

import contextlib
import io
import multiprocessing
import os
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path


def run_alone(code: str, folder: Path) -> str:
    """What the snippet prints when it is run in this folder.

    Raises:
        RuntimeError: the snippet fails; the message is its traceback.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers"])
    ours, its = context.Pipe()
    process = context.Process(target=_run, args=(code, str(folder), its))
    process.start()
    its.close()
    try:
        printed, error = ours.recv()
    except EOFError:
        printed, error = "", "the process ended without a word"
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
