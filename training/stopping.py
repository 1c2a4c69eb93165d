"""What tells a training to stop: Ctrl-C and SIGTERM, after which it saves its last step."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class StoppedError(Exception):
    """The training was told to stop, by the signal of this number, and has saved what it needs to go on."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name} at step {step}")
        self.signum = signum


@contextlib.contextmanager
def signals_to_stop() -> Iterator[list[int]]:
    """A list of the signals to stop that have come; the second one stops at once."""
    received: list[int] = []

    def note(signum: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signum)

    if threading.current_thread() is not threading.main_thread():  # which alone may listen
        yield received
        return
    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
