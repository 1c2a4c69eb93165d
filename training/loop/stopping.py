"""Signals that stop a training after its current step."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def signals_to_stop() -> Iterator[list[int]]:
    """A list of the signals received so far; the second one stops the process at once."""
    received: list[int] = []

    def note(signum: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signum)

    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        yield received
        return
    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
