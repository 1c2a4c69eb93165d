"""Early ends of a command: errors that the user can correct, and signals, for which the last step is saved."""

import contextlib
import signal
import sys
from collections.abc import Iterator

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers.utils import logging

from attnzoo.commands.exits import message_of


class StoppedError(Exception):
    """The training was stopped by the signal of this number, and has written a checkpoint."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name} at step {step}")
        self.signum = signum


@contextlib.contextmanager
def exit_on_user_error(go_on: str = "the same command continues from there") -> Iterator[None]:
    """Exit with a message instead of a traceback if the user can correct the error; after a signal print how to resume.

    Raises:
        SystemExit: with status 1 after an error, and 128 plus the signal's number after a signal, as in a shell.
    """
    logging.disable_progress_bar()  # the bars of Transformers would mix with ours
    try:
        yield
    except BrokenPipeError:  # an OSError: the reader of the output has ended, which the command attnzoo expects
        raise
    except (OSError, ValueError, FloatingPointError, StrictDataclassError) as error:
        sys.exit(f"error: {message_of(error)}")
    except StoppedError as stopped:
        print(f"{stopped}; {go_on}", file=sys.stderr)
        sys.exit(128 + stopped.signum)
    except KeyboardInterrupt:
        print("stopped at once; what was saved before is kept", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except (MemoryError, RuntimeError) as error:
        # The CPU allocator raises a plain RuntimeError if memory runs out.
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        sys.exit(f"error: out of memory: lower training.batch_tokens or the sizes of the model ({error})")
