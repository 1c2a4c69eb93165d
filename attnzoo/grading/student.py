"""The process in which a student's code runs: ``python -m attnzoo.grading.student REQUEST CHANNEL``.

It writes the report, as JSON, to the file descriptor CHANNEL. Whatever ends the process before is found by the process
that waits for it (:mod:`attnzoo.grading.isolation`).
"""

import importlib.util
import inspect
import json
import os
import random
import re
import sys
import traceback
from pathlib import Path
from typing import Any

OF_MEMORY = ("can't allocate memory", "not enough memory", "std::bad_alloc")


def problem(name: str, where: str) -> dict[str, Any]:
    """A finding about how the code runs, in place of a report."""
    return {"name": name, "property": "runs", "where": where}


def of_error(error: BaseException, name: str, path: str) -> dict[str, Any]:
    """The finding for an error: its class, its message and the student's line that raised it."""
    if isinstance(error, SystemExit):
        return problem("ends_the_process", f"the code calls exit({error.code!r})")
    text = (str(error) or type(error).__name__).splitlines()[0]
    text = re.split(r"\. (?:Write an adapter|A decoder is checked)", text)[0]  # advice for who writes the assignment
    if isinstance(error, MemoryError) or any(words in str(error) for words in OF_MEMORY):
        return problem("too_much_memory", text)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    at = f" (line {lines[-1]})" if lines else ""
    return problem(name, f"{type(error).__name__}: {text}{at}")


def limit_memory(megabytes: int) -> None:
    """Limit the memory that this process may take in addition to what it has."""
    import resource

    status = Path("/proc/self/statm")
    if status.exists():  # macOS has the limit, but does not keep it
        size = int(status.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20,) * 2)


def load(path: str, name: str) -> Any:
    """The object of a file."""
    sys.path.append(str(Path(path).parent))  # at the end: a student's random.py must not replace Python's
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise AttributeError(f"the file has no {name}")
    return getattr(module, name)


def made(found: Any, arguments: dict[str, Any]) -> Any:
    """The module of a class, made with the arguments of the assignment; any other object as it is.

    Raises:
        TypeError: the class does not take the arguments; the message tells which it takes.
    """
    if not inspect.isclass(found):
        return found
    takes = inspect.signature(found)
    try:
        takes.bind(**arguments)
    except TypeError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise TypeError(f"{found.__name__} takes {takes}, and is given ({given}): {error}") from error
    return found(**arguments)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """The report of the check as JSON has it, or one finding about how the code runs."""
    import torch

    from ..checking.checker import check

    torch.set_num_threads(1)
    random.seed(request["seed"])
    torch.manual_seed(request["seed"])
    path = str(Path(request["path"]).resolve())
    limit_memory(request["megabytes"])
    stage = "does_not_load"
    try:
        found = load(path, request["name"])
        stage = "cannot_be_made"
        target = made(found, request["arguments"])
        stage = "cannot_be_called"
        return check(target, request["kind"], **request["options"]).as_json()
    except BaseException as error:  # sys.exit, too
        raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
        if stage == "cannot_be_called" and raised_in in (__file__, inspect.getfile(check)):
            stage = "wrong_options"  # the file of check raises errors about its own arguments alone
        return {"findings": [of_error(error, stage, path)]}


def main() -> None:
    """Run the request, write the report, and end without what the student's code registered for the end."""
    request, channel = json.loads(sys.argv[1]), int(sys.argv[2])
    report = run(request)
    sys.stdout.flush()
    with os.fdopen(channel, "w", encoding="utf-8") as file:
        json.dump(report, file)
    os._exit(0)


if __name__ == "__main__":
    main()
