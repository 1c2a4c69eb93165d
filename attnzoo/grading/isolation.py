"""Run the check of a student's code in a process of its own, with limits of time, memory and output.

It keeps accidents from the grader: an endless loop, an exit, a wrong import, too much memory, too much output. It does
not keep out an attack: the code can read and write what its user can, and can change the checks in its own process.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from .assignment import Assignment

KEPT_OUTPUT = 2_000  # characters of what the code prints
MOST_OUTPUT = 1_000_000
LONGEST_START = 300  # seconds until the code begins to run, on a busy machine
OF_FINDING = ("name", "property", "where")
PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "SYSTEMROOT", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def check_apart(path: Path, name: str, assignment: Assignment) -> dict[str, Any]:
    """The report of a check as JSON has it, made in a process of its own, and the beginning of what the code printed.

    Raises:
        ValueError: the system is Windows, which has no such limits.
    """
    if os.name == "nt":
        raise ValueError("a process with limits needs Linux or macOS; in Python, use attnzoo.check(module, kind=...)")
    reading, writing = os.pipe()
    token = secrets.token_hex()  # the code does not know it, so that it cannot write a report of its own
    request = {"path": os.path.abspath(path), "name": name, "channel": writing, "token": token}
    limits = ("megabytes", "seconds")
    request |= {each: getattr(assignment, each) for each in ("kind", "arguments", "options", "points", "seed", *limits)}
    printed: list[bytes] = []
    reports: list[bytes] = []
    with _temporary_folder() as folder:
        environment = {each: os.environ[each] for each in PASSED_ON if each in os.environ}
        environment |= {"HOME": folder, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
        before = _seconds_of_core()
        process = subprocess.Popen(
            # -P: a file in the folder cannot replace a module.
            [sys.executable, "-P", "-m", "attnzoo.grading.student"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        os.close(writing)
        assert process.stdin is not None
        assert process.stdout is not None
        begun = threading.Event()
        readers = [
            threading.Thread(target=_read, args=(process.stdout, printed, None), daemon=True),
            threading.Thread(target=_read, args=(os.fdopen(reading, "rb"), reports, begun), daemon=True),
        ]
        for reader in readers:
            reader.start()
        too_long = False
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(request).encode())
            begun.wait(timeout=LONGEST_START)
            process.wait(timeout=4 * assignment.seconds)
        except subprocess.TimeoutExpired:
            too_long = True
        finally:
            _end(process)
        for reader in readers:
            reader.join(timeout=5)  # a process that the code started may have left the group, and hold the pipe
    content = b"".join(reports)
    report = _report(content, token)
    if report is None:
        start = float(content.partition(b"\n")[0] or "inf")  # the seconds before the code began, if it did
        used = _seconds_of_core() - before - start
        report = {"findings": [ended(process.returncode, too_long, assignment, used)]}
    if sum(map(len, printed)) > MOST_OUTPUT:
        where = f"more than {MOST_OUTPUT // 1_000_000} MB"
        report["findings"].append({"name": "prints_too_much", "property": "runs", "where": where})
    return {**report, "printed": b"".join(printed)[:KEPT_OUTPUT].decode("utf-8", "replace")}


def ended(code: int, too_long: bool, assignment: Assignment, used: float) -> dict[str, str]:
    """The finding for a process that ended without a report; ``used`` are its code's seconds of one core."""
    seconds = assignment.seconds
    if too_long:
        where = f"it was ended after {4 * seconds} seconds on the clock; it waits, or the machine was too busy"
        return {"name": "too_slow", "property": "runs", "where": where}
    is_killed = code == -signal.SIGKILL
    if code == -signal.SIGXCPU or (is_killed and used >= seconds):  # it may ignore the first signal
        return {"name": "too_slow", "property": "runs", "where": f"it was ended after {seconds} seconds of one core"}
    if is_killed:
        return {"name": "too_much_memory", "property": "runs", "where": "the system ended it"}
    return {"name": "ends_the_process", "property": "runs", "where": f"with the code {code}"}


def _seconds_of_core() -> float:
    """The seconds of one core that ended child processes took."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _temporary_folder() -> Iterator[str]:
    """A folder that is removed with all that the code put there, as far as possible."""
    folder = tempfile.mkdtemp()
    try:
        yield folder
    finally:
        with suppress(RecursionError):  # of folders in folders
            shutil.rmtree(folder, ignore_errors=True)


def _read(source: IO[bytes], kept: list[bytes], begun: threading.Event | None) -> None:
    """Read to the end, and keep a little more than the largest output. ``begun`` is set at the first output."""
    length = 0
    with source:
        while block := os.read(source.fileno(), 65536):
            if length <= MOST_OUTPUT:
                kept.append(block)
            length += len(block)
            if begun is not None:
                begun.set()
    if begun is not None:
        begun.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _report(content: bytes, token: str) -> dict[str, Any] | None:
    """The report after the token; None if there is none that is whole."""
    _, found, text = content.rpartition(token.encode())
    try:
        report = json.loads(text) if found else None
    except (ValueError, RecursionError):
        return None
    return report if _is_report(report) else None


def _is_report(report: Any) -> bool:
    """Whether it has what :mod:`attnzoo.grading.grades` reads."""
    if not isinstance(report, dict) or not isinstance(report.get("findings"), list):
        return False
    findings = report["findings"]
    if not all(isinstance(each, dict) and _is_texts([each.get(key) for key in OF_FINDING]) for each in findings):
        return False
    lists = [report.get(key, []) for key in ("checked", "assumed", "asserted")]
    reasons = report.get("not_checked", {})
    return all(map(_is_texts, lists)) and isinstance(reasons, dict) and _is_texts([*reasons.values()])


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)
