"""Early ends of a command: Ctrl-C, an output that is closed, and errors that the user can correct."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def exit_when_interrupted() -> Iterator[None]:
    """Exit without a traceback after Ctrl-C, and if the reader of the output ends first: ``attnzoo ... | head``.

    Raises:
        SystemExit: with 128 plus the number of SIGINT or SIGPIPE, as in a shell; or with a message if the output cannot
            be written, for example to a full disk.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: print() would write to the other of the two
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (open to the end)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # at Python's own flush, at its end, an error could not be caught
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        _discard_output()
        sys.exit(128 + 13)  # SIGPIPE, which Windows does not name
    except OSError as error:
        _discard_output()
        sys.exit(f"error: the output cannot be written: {error}")


def message_of(error: Exception) -> str:
    """The message of an error; that of a file without "[Errno 2]"."""
    if not isinstance(error, OSError) or error.strerror is None or error.filename is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"there is no file or folder {str(error.filename)!r}"
    if isinstance(error, IsADirectoryError):
        return f"{str(error.filename)!r} is a folder; give a file"
    return f"{str(error.filename)!r}: {error.strerror}"


def _discard_output() -> None:
    """Let Python's last flush of what was not written succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
