"""The protocol of all systems: a line of JSON in, a line of JSON out, and the clock in between.

A system is a process of its own that stays alive, so that the driver can take rounds of all systems in turn. Its first
line describes it. A request is one line, such as ::

    {"task": "train", "variant": "general_feeding", "source_length": 32, "batch_size": 64, "optimiser": "fused"}

and so is the reply: {"seconds": [...], "cpu_seconds": [...], "tokens": n, "peak_mb": m}, seconds for each
repetition and the tokens of all, or {"error": "..."}.
"""

import gc
import json
import os
import resource
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, ClassVar

import torch
from torch import Tensor

from tests.benchmarks.workload import VOCABULARY, Pairs, batches

# What a model is: the score of its attention, and whether the attentional vector is fed into the next step.
VARIANTS = {"general_feeding": ("general", True), "additive_feeding": ("additive", True), "general": ("general", False)}
STEPS = 25  # of the decoder in decoding; the end token is forbidden
BATCHES = 4  # that training goes round


class System(ABC):
    """A model of one toolkit, built by the toolkit's own code at the sizes of ``workload.py``.

    Attributes:
        package: the distribution whose version is reported.
        variants: those of ``VARIANTS`` that the toolkit has.
        notes: notes for readers of the table.
    """

    package: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    decodes: ClassVar[bool] = True
    notes: ClassVar[str] = ""
    model: torch.nn.Module

    @abstractmethod
    def __init__(self, score: str, has_input_feeding: bool) -> None:
        """Build ``self.model``."""

    @abstractmethod
    def batch(self, pairs: Pairs) -> Any:
        """The pairs in the form of the toolkit; this is not timed."""

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The mean cross-entropy of the target tokens over the whole vocabulary."""

    def decode(self, batch: Any, beams: int) -> int:
        """Decode ``STEPS`` steps of every source; returns the number of steps of the longest result."""
        raise NotImplementedError


class Worker:
    """Answers the requests of one process."""

    def __init__(self, system: type[System]) -> None:
        self.system = system
        self.models: dict[str, System] = {}
        self.optimisers: dict[tuple[str, str], torch.optim.Optimizer] = {}
        self.batches: dict[tuple[Any, ...], list[tuple[Pairs, Any]]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        tasks: dict[str, Callable[..., dict[str, Any]]] = {
            "train": self.train,
            "decode": self.decode,
            "check": self.check,
        }
        return tasks[request.pop("task")](**request) | {"peak_mb": peak_mb()}

    def train(
        self,
        variant: str,
        source_length: int,
        batch_size: int = 64,
        optimiser: str = "fused",
        bucketed: bool = True,
        first: int = 0,
        repeat: int = 1,
    ) -> dict[str, Any]:
        """Forward, loss, backward and update on ``repeat`` batches, from number ``first`` on, cyclically."""
        system = self._model(variant)
        system.model.train()
        data = self._data(variant, batch_size, source_length, bucketed, BATCHES)
        if (variant, optimiser) not in self.optimisers:
            parameters = system.model.parameters()
            adam = torch.optim.Adam(parameters, lr=1e-4, fused=optimiser == "fused")
            self.optimisers[variant, optimiser] = adam
        update = self.optimisers[variant, optimiser]
        losses: list[Tensor] = []

        def step(batch: Any) -> None:
            update.zero_grad(set_to_none=True)
            loss = system.loss(batch)
            loss.backward()
            update.step()
            losses.append(loss.detach())

        chosen = [data[i % len(data)] for i in range(first, first + repeat)]
        reply = timed([partial(step, batch) for _, batch in chosen])
        return reply | {
            "tokens": sum(pairs.tokens for pairs, _ in chosen),
            "loss": float(losses[0]),
            "source_padding": sum(pairs.source_padding for pairs, _ in chosen) / repeat,
            "target_padding": sum(pairs.target_padding for pairs, _ in chosen) / repeat,
        }

    def decode(
        self, variant: str, source_length: int, batch_size: int = 64, beams: int = 1, repeat: int = 1
    ) -> dict[str, Any]:
        """Greedy or beam search, ``repeat`` times; the tokens are those of the best result of each source."""
        system = self._model(variant)
        system.model.eval()
        data = self._data(variant, batch_size, source_length, True, 1)
        steps: list[int] = []

        @torch.no_grad()
        def search() -> None:
            steps.append(system.decode(data[0][1], beams))

        reply = timed([search] * repeat)
        if set(steps) != {STEPS}:
            raise RuntimeError(f"decoding was to take {STEPS} steps and took {sorted(set(steps))}")
        return reply | {"tokens": STEPS * batch_size * repeat}

    def check(self, variant: str) -> dict[str, Any]:
        """The difference between the loss of a batch and that of its sentences one by one, without padding."""
        system = self._model(variant)
        system.model.eval()
        (mixed,) = batches(1, 8, 32, bucketed=False)
        with torch.no_grad():
            together = float(system.loss(system.batch(mixed))) * mixed.tokens
            singles = [Pairs([s], [t]) for s, t in zip(mixed.sources, mixed.targets, strict=True)]
            alone = sum(float(system.loss(system.batch(single))) * single.tokens for single in singles)
        parameters = sum(parameter.numel() for parameter in system.model.parameters())
        return {"difference": abs(together - alone) / alone, "loss": alone / mixed.tokens, "parameters": parameters}

    def _model(self, variant: str) -> System:
        if variant not in self.system.variants:
            raise ValueError(f"{self.system.package} has no {variant}; it has: {', '.join(self.system.variants)}")
        if variant not in self.models:
            torch.manual_seed(1)
            self.models[variant] = self.system(*VARIANTS[variant])
            initialise(self.models[variant].model)
        return self.models[variant]

    def _data(self, variant: str, size: int, source_length: int, bucketed: bool, count: int) -> list[tuple[Pairs, Any]]:
        key = (variant, size, source_length, bucketed, count)
        if key not in self.batches:
            made = batches(count, size, source_length, bucketed=bucketed)
            self.batches[key] = [(pairs, self.models[variant].batch(pairs)) for pairs in made]
        return self.batches[key]


@torch.no_grad()
def initialise(model: torch.nn.Module) -> None:
    """The same initialisation for all systems, U(-0.1, 0.1), since a search depends on the distributions."""
    for parameter in model.parameters():
        parameter.uniform_(-0.1, 0.1)


def timed(calls: list[Callable[[], None]]) -> dict[str, Any]:
    """For each call the wall-clock seconds, and the processor seconds of all threads of this process."""
    seconds, cpu_seconds = [], []
    for call in calls:
        gc.collect()
        start, cpu_start = time.perf_counter(), time.process_time()
        call()
        cpu_seconds.append(time.process_time() - cpu_start)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds}


def peak_mb() -> float:
    """The peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB


def serve(system: type[System]) -> None:
    """Describe ``system``, then answer requests until there are no more."""
    # What a toolkit prints goes to the errors; the replies have a copy of the output of their own.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(reply: dict[str, Any]) -> None:
        print(json.dumps(reply), file=replies, flush=True)

    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    torch.set_num_threads(threads)
    worker = Worker(system)
    say(
        {
            "version": version(system.package),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "variants": system.variants,
            "decodes": system.decodes,
            "notes": system.notes,
            "vocabulary": VOCABULARY,
            "peak_mb": peak_mb(),
        }
    )
    for line in sys.stdin:
        try:
            say(worker.answer(json.loads(line)))
        except Exception as error:  # the driver decides what to do with it
            traceback.print_exc()
            say({"error": f"{type(error).__name__}: {error}"})
