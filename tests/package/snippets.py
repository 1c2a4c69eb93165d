"""Run a snippet as a reader does who copies it alone: in a process of its own that has not imported attnzoo.

The processes are forked from one that has imported the libraries, which takes most of a snippet's time.
"""

import contextlib
import io
import multiprocessing
import os
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

# Transformers imports its modules where they are first used: these are the ones that snippets use.
LIBRARIES = ["torch", "transformers", "transformers.modeling_utils", "transformers.generation.utils"]
LIBRARIES += ["transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"]
LIBRARIES += ["transformers.pipelines", "transformers.trainer_seq2seq", "datasets", "matplotlib.pyplot", "peft"]


def run_alone(code: str, folder: Path) -> str:
    """What the snippet prints when it is run in this folder.

    Raises:
        RuntimeError: the snippet fails; the message is its traceback.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    ours, its = context.Pipe()
    process = context.Process(target=_run, args=(code, str(folder), its))
    process.start()
    its.close()
    try:
        printed, error = ours.recv()
    except EOFError:
        printed, error = "", "the process ended without an answer"
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
