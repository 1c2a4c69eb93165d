"""Which of two tokens comes first, with and without positions, at lengths of training and beyond."""

from functools import partial
from typing import Any

import torch

from ..synthetic import FIRST, START, SYMBOLS, Batch
from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide
from .small_models import compare, transformer
from .style import lines, reference

KINDS = ("none", "sinusoidal", "learned")
LENGTHS = (8, 16, 24, 32)  # trained up to the second


def which_first(rows: int, length: int, generator: torch.Generator) -> Batch:
    """Two different symbols occur once each among others; the label says which of them comes first."""
    source = torch.randint(FIRST + 2, FIRST + SYMBOLS, (rows, length), generator=generator)
    places = torch.rand(rows, length, generator=generator).argsort(dim=1)[:, :2]
    source.scatter_(1, places, torch.tensor([FIRST, FIRST + 1]).expand(rows, 2))
    label = FIRST + (places[:, :1] > places[:, 1:]).long()
    return Batch(source, torch.full_like(label, START), label)


def trained_on_order(budget: Budget) -> Measurements:
    """The accuracy of an encoder with each kind of positions at each length."""
    models = {kind: partial(transformer, attention_pattern="bidirectional", position_embedding=kind) for kind in KINDS}
    return compare(budget, models, which_first, (4, LENGTHS[1]), LENGTHS, budget.choose(2, 300, 1500), 1e-3)


def draw(found: Measurements, figure: Any) -> None:
    """The accuracy against the length."""
    axis = figure.subplots()
    series = {f"{kind.replace('none', 'no')} positions": found[kind] for kind in KINDS}
    lines(axis, LENGTHS, series, xlabel="tokens", ylabel="accuracy", ylim=(0.4, 1.02))
    reference(axis, LENGTHS[1], "the longest in training")
    reference(axis, 0.5, "chance", horizontal=True)


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    without = at_most("accuracy at 16 tokens, none", found["none"][1], 0.6)
    return decide([without, *(at_least(f"accuracy at 16 tokens, {kind}", found[kind][1], 0.9) for kind in KINDS[1:])])


CLAIM = Claim(
    name="order-needs-positions",
    claim="An encoder cannot learn a task that needs the order of the tokens without positional encodings.",
    source="Vaswani et al. (2017), section 3.5",
    tutorials="Without positional encoding 'dog bites man' and 'man bites dog' are the same.",
    of_wording="supported for encoders.",
    experiment="An encoder of two layers learns which of two symbols comes first among 4 to 16 tokens, with no, "
    "sinusoidal and learned positions, in 1,500 steps.",
    rule="Holds if the accuracy at 16 tokens is at most 0.6 without positions (chance is 0.5), and at least "
    "0.9 with sinusoidal and with learned ones.",
    run=trained_on_order,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"none": [[0.5] * 3] * 4, "sinusoidal": [[1.0] * 3] * 4, "learned": [[0.95] * 3] * 4},
        "does not hold here": {"none": [[0.9] * 3] * 4, "sinusoidal": [[1.0] * 3] * 4, "learned": [[0.95] * 3] * 4},
    },
)
