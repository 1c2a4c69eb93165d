"""Training on the true previous token, on the model's own, and on a mixture, for a growing number of steps."""

from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ..synthetic import FIRST, START, SYMBOLS, Batch, asked_in_order, copy, logits_of
from .frame import Budget, Claim, Measurements, Verdict, at_least, decide
from .small_models import compare, recurrent
from .style import lines

RATIOS = {"teacher forcing": 1.0, "scheduled sampling": 0.5, "free running": 0.0}
LENGTH = 8
STEPS = (50, 100, 200, 400, 800)


def count_on(rows: int, length: int, generator: torch.Generator) -> Batch:
    """From the first number of the source the numbers that follow it: the last answer alone gives the next."""
    numbers = torch.randint(SYMBOLS, (rows, length), generator=generator)
    return asked_in_order(numbers + FIRST, (numbers[:, :1] + torch.arange(length)) % SYMBOLS + FIRST)


TASKS = {"copy": copy, "count on": count_on}


def loss_of_labels(model: Any, batch: Batch) -> Tensor:
    """The model's own loss: it then reads its own words as often as ``teacher_forcing_ratio`` says."""
    return model(input_ids=batch.source, labels=batch.labels).loss


@torch.no_grad()
def free_accuracy(model: Any, batch: Batch) -> float:
    """The share of right tokens if the decoder reads what it wrote itself."""
    written = torch.full_like(batch.source[:, :1], START)
    for _ in range(batch.labels.shape[1]):
        logits = logits_of(model, batch._replace(inputs=written))
        written = torch.cat([written, logits[:, -1:].argmax(dim=-1)], dim=1)
    return float((written[:, 1:] == batch.labels).float().mean())


def run(budget: Budget) -> Measurements:
    """For each task and training, the accuracy of the free-running decoder after each number of steps, by seed."""
    models = {name: partial(recurrent, score="general", teacher_forcing_ratio=r) for name, r in RATIOS.items()}
    every = budget.choose((2, 4), STEPS[:3], STEPS)
    found: Measurements = {"steps": list(every)}
    for task, batches in TASKS.items():
        found[task] = {name: [] for name in RATIOS}
        for steps in every:
            after = compare(budget, models, batches, (2, LENGTH), (LENGTH,), steps, 4e-3, loss_of_labels, free_accuracy)
            for name, (of_seeds,) in after.items():
                found[task][name].append(of_seeds)
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""

    def gain(task: str) -> list[float]:
        curves = [zip(*found[task][name], strict=True) for name in ("teacher forcing", "free running")]
        return [fmean(forced) - fmean(free) for forced, free in zip(*curves, strict=True)]

    copied, counted = (at_least(f"{task}: mean accuracy minus free running's", gain(task), 0.1) for task in TASKS)
    return decide([copied, counted], "the next word depends on the word before it", [counted])


def draw(found: Measurements, figure: Any) -> None:
    """The accuracy against the number of steps, for each task."""
    for axis, task in zip(figure.subplots(1, 2, sharey=True), TASKS, strict=True):
        label = "accuracy of the free-running decoder" if task == "copy" else ""
        lines(axis, found["steps"], found[task], xlabel=f"{task}: training steps", ylabel=label, ylim=(0, 1.02))
        axis.set_xscale("log", base=2)
        axis.set_xticks(found["steps"], found["steps"])


def _example(copied: float, counted: float) -> Measurements:
    curves = {
        task: {"teacher forcing": [[0.9, 0.9]], "scheduled sampling": [[0.8, 0.8]], "free running": [[free, free]]}
        for task, free in zip(TASKS, (copied, counted), strict=True)
    }
    return {"steps": [100], **curves}


CLAIM = Claim(
    name="teacher-forcing-helps",
    claim="A decoder that reads its own words in training learns slower, since at first they are gibberish.",
    source="Williams and Zipser (1989), section 2; Bengio et al. (2015), section 2.4",
    tutorials="We feed the ground truth, because the generated word can be gibberish.",
    of_wording="supported where a word depends on the word before it. In copying the gain is at most 0.02.",
    experiment=f"Luong's model learns to copy 2 to {LENGTH} tokens, and to count on from the first of 2 to {LENGTH} "
    f"numbers, modulo {SYMBOLS}. It reads the true previous token always (teacher forcing), with probability 0.5 "
    f"(scheduled sampling) or never (free running), in trainings of {STEPS[0]} to {STEPS[-1]} steps. Measured is the "
    f"accuracy at length {LENGTH} of a decoder that reads its own words.",
    rule="Holds if on both tasks the accuracy of teacher forcing, as a mean over these trainings, is at least 0.1 "
    "above that of free running. 'Only when the next word depends on the word before it' if that holds for counting "
    "alone.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.7, 0.3),
        "only when": _example(0.89, 0.3),
        "does not hold here": _example(0.89, 0.88),
    },
)
