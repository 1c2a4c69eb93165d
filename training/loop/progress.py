"""The progress of a training, saved in checkpoints: clock, position in the data, best evaluation, sums for the log.

Also the progress bar.
"""

import contextlib
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor
from tqdm import tqdm

from ..recipe import Training
from .batching import LengthBatchSampler, LengthBatchStream

# A kill then costs a minute of training, and writing little: the checkpoint of five million parameters takes a second.
SECONDS_TO_CHECKPOINT = 60.0


class Clock:
    """Steps and minutes of training; time spent in evaluations and checkpoints does not count."""

    def __init__(self, settings: Training) -> None:
        self.settings = settings
        self.steps = 0
        self._started = self._logged = self._saved = time.perf_counter()
        self._paused: float | None = None  # the time when a pause began

    def minutes(self) -> float:
        return (time.perf_counter() - self._started) / 60

    def progress(self, accelerator: Accelerator) -> float:
        """0 at the start, 1 at the end. It is the same on every process, so that all stop at the same step.

        With ``max_minutes`` it is the smaller of two shares: of the minutes, and of ``min_steps``.
        """
        if self.settings.max_steps is not None:
            return min(1.0, self.steps / self.settings.max_steps)
        assert self.settings.max_minutes is not None  # the recipe is checked
        done = min(1.0, self.minutes() / self.settings.max_minutes, self.steps / self.settings.min_steps)
        if accelerator.num_processes == 1:  # no device is waited for
            return done
        return broadcast(torch.tensor(done, device=accelerator.device)).item()

    def described(self) -> str:
        """The steps or the minutes; with ``min_steps``, which may prolong the training, both."""
        settings = self.settings
        most = settings.min_steps if settings.max_steps is None else settings.max_steps
        steps = f"{self.steps:,}/{most:,} steps"
        if settings.max_minutes is None:
            return steps
        minutes = f"{self.minutes():.1f}/{settings.max_minutes:.1f} minutes"
        return minutes if settings.min_steps == 1 else f"{minutes} and {steps}"

    def seconds_since_log(self) -> float:
        previous, self._logged = self._logged, time.perf_counter()
        return self._logged - previous

    def is_checkpoint_due(self) -> bool:
        """Whether the training has lasted too long since the last checkpoint, or since the start."""
        return time.perf_counter() - self._saved >= SECONDS_TO_CHECKPOINT

    def checkpoint_begins(self) -> None:
        self._saved = time.perf_counter()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        before = self._paused = time.perf_counter()
        yield
        self._paused = None
        pause = time.perf_counter() - before
        self._started += pause
        self._logged += pause
        self._saved += pause

    def state_dict(self) -> dict[str, Any]:
        now = time.perf_counter() if self._paused is None else self._paused  # a checkpoint is written in a pause
        return {"steps": self.steps, "minutes": (now - self._started) / 60, "seconds_since_log": now - self._logged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        now = time.perf_counter()
        self.steps = state["steps"]
        self._started = now - 60 * state["minutes"]
        self._saved = now
        self._logged = now - state["seconds_since_log"]


class SinceLog:
    """Sums since the last line of the log: the loss of this process, the steps, and the tokens of all processes."""

    def __init__(self, device: torch.device) -> None:
        self.loss = torch.zeros((), device=device)
        self.steps = self.tokens = 0

    def reset(self) -> None:
        self.loss.zero_()
        self.steps = self.tokens = 0

    def state_dict(self) -> dict[str, Any]:
        return {"loss": self.loss.item(), "steps": self.steps, "tokens": self.tokens}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss.fill_(state["loss"])
        self.steps, self.tokens = state["steps"], state["tokens"]


class Batch(NamedTuple):
    """The tensors of a batch on the device, and the number of its labels, counted where they were collated."""

    inputs: dict[str, Tensor]
    num_labels: int


@dataclass
class Batches:
    """The batches of one process, epoch after epoch, from any position in the data.

    Attributes:
        order: the batches of this process in an epoch.
        load: a function that makes the tensors of a batch.
        process, num_processes: this process takes every ``num_processes``-th batch, from number ``process`` on.
        epoch: the number of the current epoch.
        position: how many batches of the epoch this process has taken.
    """

    order: LengthBatchSampler | LengthBatchStream
    load: Callable[[list[Any]], Batch]
    process: int = 0
    num_processes: int = 1
    epoch: int = 0
    position: int = 0
    _iterator: Iterator[Any] | None = None

    def take(self, number: int) -> list[Batch]:
        """The next ``number`` batches; an empty list at the end of this process's epoch."""
        if self._iterator is None:
            self.order.start_at(self.epoch, self.position, self.process, self.num_processes)
            self._iterator = iter(self.order)
        batches = list(itertools.islice(self._iterator, number))
        self.position += len(batches)
        return list(map(self.load, batches))

    def end_epoch(self) -> None:
        """Go on with the next epoch. All processes do so at the same step."""
        self.epoch, self.position, self._iterator = self.epoch + 1, 0, None

    def epochs(self) -> float:
        """Finished epochs, plus the finished part of the current one if its length is known."""
        if self.order.batches_per_epoch is None:
            return self.epoch
        return self.epoch + self.position * self.num_processes / self.order.batches_per_epoch

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "taken": self.position * self.num_processes,
            "batches_per_epoch": self.order.batches_per_epoch,
            "batches_per_step": self.order.multiple_of,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        there, here = state["batches_per_epoch"], self.order.batches_per_epoch
        if there != here:
            raise ValueError(f"the data has changed: an epoch had {there} batches, and has {here} now")
        self.epoch, self.position, self._iterator = state["epoch"], state["taken"] // self.num_processes, None


class Best:
    """The best evaluation so far, the figures of the run at that time, and the number of evaluations since."""

    def __init__(self, greater_is_better: bool = False) -> None:
        self.greater_is_better = greater_is_better
        self.score = -math.inf if greater_is_better else math.inf
        self.evaluations = 0
        self.evaluations_since = 0
        self.figures: dict[str, Any] = {}

    def update(self, score: float, figures: dict[str, Any], is_warming_up: bool = False) -> bool:
        """Record the value of the task's metric in an evaluation; return whether it is the best so far. Of two equal
        values the later one is the better.

        Patience counts the evaluations that are not better. It does not count during the warm-up, or while the best
        BLEU or ROUGE is 0.
        """
        is_better = score > self.score if self.greater_is_better else score < self.score
        is_best = is_better or score == self.score
        if is_best:
            self.score, self.figures = score, figures
        has_learned = self.score > 0 or not self.greater_is_better
        self.evaluations_since = self.evaluations_since + 1 if has_learned and not (is_better or is_warming_up) else 0
        return is_best

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Whether none of the last ``patience`` evaluations was better."""
        return patience is not None and self.evaluations_since >= patience

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def progress_bar(clock: Clock, done: float, is_shown: bool) -> tqdm:
    """A bar of the training's share, of which ``done`` was done before; its description is that of the clock."""
    # A terminal sees the bar move; a log file gets a line now and then.
    return tqdm(
        total=1.0,
        initial=done,
        desc=clock.described(),
        bar_format="training {percentage:3.0f}%|{bar}| {desc}, {remaining} left{postfix}",
        mininterval=0.5 if sys.stderr.isatty() else 15,
        disable=not is_shown,
    )
