"""Run the check of a student's code in a process of its own, with limits of time, memory and output.

It keeps accidents from the grader: an endless loop, an exit, a wrong import, too much memory, too much output. It does
not keep out an attack: the code can read and write what its user can, and can change the checks in its own process.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from .assignment import Assignment

KEPT_OUTPUT = 2_000  # characters of what the code prints
MOST_OUTPUT = 1_000_000
PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "SYSTEMROOT", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def check_apart(path: Path, name: str, assignment: Assignment) -> dict[str, Any]:
    """The report of a check as JSON has it, made in a process of its own, and the beginning of what the code printed.

    Raises:
        ValueError: the system is Windows, which has no such limits.
    """
    if os.name == "nt":
        raise ValueError("a process with limits needs Linux or macOS; in Python, use attnzoo.check(module, kind=...)")
    request = {"path": str(path.resolve()), "name": name}
    request |= {each: getattr(assignment, each) for each in ("kind", "arguments", "options", "megabytes", "seed")}
    reading, writing = os.pipe()
    printed: list[bytes] = []
    reports: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {each: os.environ[each] for each in PASSED_ON if each in os.environ}
        environment |= {"HOME": folder, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
        # -P: a file in the folder cannot replace a module.
        command = [sys.executable, "-P", "-m", "attnzoo.grading.student", json.dumps(request), str(writing)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: _limit(assignment.seconds),
        )
        os.close(writing)
        assert process.stdout is not None
        readers = [
            threading.Thread(target=_read, args=(process.stdout, printed), daemon=True),
            threading.Thread(target=_read, args=(os.fdopen(reading, "rb"), reports), daemon=True),
        ]
        for reader in readers:
            reader.start()
        too_long = False
        try:
            process.wait(timeout=4 * assignment.seconds)
        except subprocess.TimeoutExpired:
            too_long = True
        finally:
            _end(process)
        for reader in readers:
            reader.join(timeout=5)  # a process that the code started may have left the group, and hold the pipe
    text, report = b"".join(printed), _report(b"".join(reports))
    length = sum(map(len, printed))
    if report is None:
        ended = {"name": "ends_the_process", "property": "runs", "where": f"with the code {process.returncode}"}
        if too_long or process.returncode == -getattr(signal, "SIGXCPU", 0):
            ended |= {"name": "too_slow", "where": f"it was ended after {assignment.seconds} seconds"}
        elif process.returncode == -getattr(signal, "SIGKILL", 0):
            ended |= {"name": "too_much_memory", "where": "the system ended it"}
        report = {"findings": [ended]}
    if length > MOST_OUTPUT:
        where = f"more than {MOST_OUTPUT // 1_000_000} MB"
        report["findings"].append({"name": "prints_too_much", "property": "runs", "where": where})
    return {**report, "printed": text[:KEPT_OUTPUT].decode("utf-8", "replace")}


def _limit(seconds: int) -> None:
    """Limit the seconds of one core, and the size of files; in the new process, before Python starts."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50 * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(source: IO[bytes], kept: list[bytes]) -> None:
    """Read to the end, and keep a little more than the largest output."""
    length = 0
    with source:
        while block := os.read(source.fileno(), 65536):
            if length <= MOST_OUTPUT:
                kept.append(block)
            length += len(block)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _report(content: bytes) -> dict[str, Any] | None:
    try:
        report = json.loads(content)
    except ValueError:
        return None
    return report if isinstance(report, dict) and isinstance(report.get("findings"), list) else None
