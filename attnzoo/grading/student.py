"""The process in which a student's code runs: ``python -m attnzoo.grading.student``, with a request at standard input.

To the file descriptor that the request names it writes the seconds of one core that it has taken before the student's
code begins, and at the end a token of the request and the report, as JSON. Whatever ends the process before is found by
the process that waits for it (:mod:`attnzoo.grading.isolation`).
"""

import importlib.util
import inspect
import json
import os
import random
import re
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

LONGEST_TEXT = 500
OF_MEMORY = ("can't allocate memory", "not enough memory", "std::bad_alloc")


def problem(name: str, where: str) -> dict[str, Any]:
    """A finding about how the code runs, in place of a report."""
    return {"name": name, "property": "runs", "where": where}


def of_error(error: BaseException, name: str, path: str) -> dict[str, Any]:
    """The finding for an error: its class, its message and the student's line that raised it."""
    try:
        message = str(error)
    except BaseException:  # of a __str__ that the student wrote
        message = ""
    text = (message.splitlines() or [""])[0][:LONGEST_TEXT]
    if isinstance(error, SystemExit):
        return problem("ends_the_process", f"the code calls exit({text})")
    text = re.split(r"\. (?:Write an adapter|A decoder is checked)", text)[0]  # advice for who writes the assignment
    if isinstance(error, MemoryError) or any(words in message for words in OF_MEMORY):
        return problem("too_much_memory", text or "MemoryError")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    at = f" (line {lines[-1]})" if lines else ""
    return problem(name, f"{type(error).__name__}: {text or 'it has no message'}{at}")


def limit(megabytes: int, seconds: int) -> None:
    """Limit what this process may take in addition to what it has: memory, seconds of one core, the size of files."""
    import resource

    def lower(kind: int, value: int, last: int) -> None:
        _, most = resource.getrlimit(kind)
        values = (value, last) if most == resource.RLIM_INFINITY else (min(value, most), min(last, most))
        resource.setrlimit(kind, values)

    status = Path("/proc/self/statm")
    if status.exists():  # macOS has the limit, but does not keep it
        size = int(status.read_text(encoding="ascii").split()[0]) * resource.getpagesize() + megabytes * 2**20
        lower(resource.RLIMIT_AS, size, size)
    end = int(time.process_time()) + 1 + seconds
    lower(resource.RLIMIT_CPU, end, end + 1)
    lower(resource.RLIMIT_FSIZE, 50 * 2**20, 50 * 2**20)
    lower(resource.RLIMIT_CORE, 0, 0)


def load(path: str, name: str) -> Any:
    """The object of a file."""
    if Path(path).is_dir():
        raise IsADirectoryError("this is a folder; give a file")
    sys.dont_write_bytecode = True  # no __pycache__ beside the student's file
    sys.path.append(str(Path(path).parent))  # at the end: a student's random.py must not replace Python's
    spec = importlib.util.spec_from_loader("submission", SourceFileLoader("submission", path))
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


def run(request: dict[str, Any], begin: Callable[[], object]) -> dict[str, Any]:
    """The report of the check as JSON has it, or one finding about how the code runs."""
    import torch

    from ..checking.checker import check
    from ..checking.options import VALUES, OptionError, check_options
    from ..checking.report import PROPERTIES

    torch.set_num_threads(1)
    random.seed(request["seed"])
    torch.manual_seed(request["seed"])
    path, options = request["path"], request["options"]
    stage = "wrong_options"
    try:
        inspect.signature(check).bind(None, request["kind"], **options)
        check_options(request["kind"], {name: options.get(name) for name in VALUES}, {})  # before the class is made
        unknown = {*request["points"]} - {*PROPERTIES.values()}
        if unknown:
            known = ", ".join(dict.fromkeys(PROPERTIES.values()))
            raise OptionError(f"points has the unknown properties {sorted(unknown)}; there are {known}")
        limit(request["megabytes"], request["seconds"])
        begin()
        stage = "does_not_load"
        found = load(path, request["name"])
        stage = "cannot_be_made"
        target = made(found, request["arguments"])
        stage = "cannot_be_called"
        return check(target, request["kind"], **options).as_json()
    except BaseException as error:  # sys.exit, too
        return {"findings": [of_error(error, "wrong_options" if isinstance(error, OptionError) else stage, path)]}


def main() -> None:
    """Run the request, write the report, and end without what the student's code registered for the end."""
    request, process = json.load(sys.stdin), os.getpid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    channel, token = request.pop("channel"), request.pop("token")
    report = run(request, lambda: os.write(channel, f"{time.process_time()}\n".encode()))
    if os.getpid() == process:  # and not one that the code forked
        with suppress(BaseException):  # the code may have closed it
            sys.stdout.flush()
        # A lone surrogate of a message cannot be written.
        content = memoryview((token + json.dumps(report, ensure_ascii=False)).encode("utf-8", "replace"))
        while content:
            content = content[os.write(channel, content) :]
    os._exit(0)


if __name__ == "__main__":
    main()
