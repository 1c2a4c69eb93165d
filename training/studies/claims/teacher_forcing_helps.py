"""Training on the true previous token, on the model's own, and on a mixture."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..synthetic import START, Batch, copy, logits_of
from .frame import Budget, Claim, Measurements, Verdict, at_least, decide
from .small_models import compare, recurrent
from .style import lines

RATIOS = {"teacher forcing": 1.0, "scheduled sampling": 0.5, "free running": 0.0}
LENGTHS = (4, 6, 8)


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
    """The accuracy of the free-running decoder after the same number of steps, by length."""
    models = {name: partial(recurrent, score="general", teacher_forcing_ratio=r) for name, r in RATIOS.items()}
    steps = budget.choose(2, 250, 600)
    lengths = (2, LENGTHS[-1])
    return compare(budget, models, copy, lengths, LENGTHS, steps, 4e-3, loss_of_labels, free_accuracy)


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""

    def gain(name: str) -> list[float]:
        return [a - b for a, b in zip(found["teacher forcing"][-1], found[name][-1], strict=True)]

    free = at_least("accuracy over free running, 8 tokens", gain("free running"), 0.1)
    sampled = at_least("accuracy over scheduled sampling, 8 tokens", gain("scheduled sampling"), 0.1)
    return decide([free, sampled], "the other training is free running; half of the true tokens are enough", [free])


def draw(found: Measurements, figure: Any) -> None:
    """The accuracy against the length."""
    label = "accuracy of the free-running decoder"
    lines(figure.subplots(), LENGTHS, found, xlabel="tokens", ylabel=label, ylim=(0, 1.02))


def _example(forced: float, sampled: float, free: float) -> Measurements:
    return {name: [[value, value]] for name, value in zip(RATIOS, (forced, sampled, free), strict=True)}


CLAIM = Claim(
    name="teacher-forcing-helps",
    claim="A decoder that reads its own words in training learns slower, since at first they are gibberish.",
    source="Williams and Zipser (1989), section 2; Bengio et al. (2015), section 2.4",
    tutorials="We feed the ground truth, because the generated word can be gibberish.",
    experiment="Luong's model learns to copy 2 to 8 tokens. In the same number of steps, it reads the true previous "
    "token always (teacher forcing), with probability 0.5 (scheduled sampling) or never (free running). "
    "Measured is the accuracy of a decoder that reads its own words.",
    rule="Holds if the accuracy of teacher forcing at 8 tokens is at least 0.1 above that of each other "
    "training. 'Only when the other training is free running' if that bound alone is met.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.95, 0.7, 0.3),
        "only when": _example(0.95, 0.94, 0.3),
        "does not hold here": _example(0.95, 0.94, 0.96),
    },
)
