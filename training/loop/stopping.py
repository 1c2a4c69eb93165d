"""Signals that stop a training after its current step."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has no such signal


@contextlib.contextmanager
def signals_to_stop() -> Iterator[list[int]]:
    """A list of the signals received so far; the second one stops the process at once.

    A closed terminal stops the training too, unless its signal is ignored, as under nohup. It never stops the process
    at once: the system and a shell may both send it.
    """
    received: list[int] = []
    terminals = [number for number in (1, 2) if os.isatty(number)]  # standard output and standard error

    def note(signum: int, frame: Any) -> None:
        if signum == HANGUP:  # what is written to a closed terminal is an error, and would end the training
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                for number in terminals:
                    os.dup2(nowhere.fileno(), number)
        elif {*received} - {HANGUP}:
            raise KeyboardInterrupt
        received.append(signum)

    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        yield received
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if HANGUP is not None and signal.getsignal(HANGUP) != signal.SIG_IGN:
        numbers.append(HANGUP)
    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
