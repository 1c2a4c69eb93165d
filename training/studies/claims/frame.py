"""A claim: its text, its experiment, and the rule of its verdict.

The rule is a pure function of the measurements. It compares 95 % confidence intervals with bounds: a bound is met if
the whole interval is on the claimed side of it. The main verdicts:

- "holds": all bounds of the claim are met;
- "only when ...": the bounds are met for a part of the cases only;
- "does not hold here": neither. An interval that contains its bound does not meet it, and is called undecided.

What must be true in every case, such as equality or a finite output, is judged by its worst value, not by a mean.

The *margin* of a bound says how close it is to failing: for "at least", the lower end of the interval divided by the
bound, and for "at most", the bound divided by the upper end. The bound is met if the margin is at least 1.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer

from attnzoo.shipped_models import model_path

from ...statistics import Interval, bootstrap_mean, student_mean
from . import NAMES

Measurements = dict[str, Any]  # lists, numbers and texts, as JSON has them; "notes" are lines for the page
HOLDS, ONLY_WHEN, HOLDS_WHEN, FAILS, UNDECIDED = (
    "holds", "only when", "holds when", "does not hold here", "undecided here",
)  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """The size of an experiment: "seconds" only shows that it runs, "quick" takes at most two minutes."""

    name: Literal["seconds", "quick", "full"]
    seeds: tuple[int, ...]

    def choose(self, seconds: Any, quick: Any, full: Any) -> Any:
        """One of three values, such as a number of training steps."""
        return {"seconds": seconds, "quick": quick, "full": full}[self.name]


BUDGETS = {
    "seconds": Budget("seconds", (1, 2, 3)),
    "quick": Budget("quick", (1, 2, 3)),
    "full": Budget("full", (1, 2, 3, 4, 5)),
}


def interval(values: Sequence[float]) -> Interval:
    """By Student's t for fewer than 30 values, otherwise by 2,000 bootstrap samples of their mean.

    Raises:
        ValueError: there are fewer than two values, or one is not finite.
    """
    if len(values) < 2:
        raise ValueError(f"an interval needs two values or more, got {len(values)}")
    sample = _finite(values)
    return student_mean(sample) if len(sample) < 30 else bootstrap_mean(sample, samples=2000)


def _finite(values: Sequence[float]) -> np.ndarray:
    sample = np.asarray(values, float)
    if not np.isfinite(sample).all():
        raise ValueError(f"a measured value is not finite: {sample[~np.isfinite(sample)][0]}")
    return sample


class Check(NamedTuple):
    """A measured quantity and the bound that it must meet; if ``is_range``, by every value."""

    what: str
    interval: Interval
    side: Literal["at least", "at most"]
    bound: float
    is_range: bool = False

    @property
    def margin(self) -> float:
        if self.side == "at least":
            return self.interval.low / self.bound
        return self.bound / self.interval.high if self.interval.high > 0 else float("inf")

    @property
    def state(self) -> str:
        if self.margin >= 1:
            return "met"
        if self.is_range:
            return "not met"
        other = self.interval.high < self.bound if self.side == "at least" else self.interval.low > self.bound
        return "not met" if other else "undecided"


def at_least(what: str, values: Sequence[float], bound: float) -> Check:
    """The check that the mean of ``values`` is at least ``bound``, which is positive."""
    return Check(what, interval(values), "at least", bound)


def at_most(what: str, values: Sequence[float], bound: float) -> Check:
    """The check that the mean of ``values`` is at most ``bound``, which is positive."""
    return Check(what, interval(values), "at most", bound)


def never_below(what: str, values: Sequence[float], bound: float) -> Check:
    """The check that no value is below ``bound``, which is positive."""
    return Check(what, _range(values), "at least", bound, is_range=True)


def never_above(what: str, values: Sequence[float], bound: float) -> Check:
    """The check that no value is above ``bound``, which is positive."""
    return Check(what, _range(values), "at most", bound, is_range=True)


def _range(values: Sequence[float]) -> Interval:
    sample = _finite(values)
    return Interval(float(sample.mean()), float(sample.min()), float(sample.max()))


class Verdict(NamedTuple):
    """The text of the verdict, the checks that decide it, and all others."""

    text: str
    deciding: tuple[Check, ...]
    others: tuple[Check, ...] = ()

    @property
    def kind(self) -> str:
        return ONLY_WHEN if self.text.startswith((ONLY_WHEN, HOLDS_WHEN)) else self.text

    @property
    def margin(self) -> float:
        """The smallest margin of the deciding checks."""
        return min(check.margin for check in self.deciding)


def decide(claimed: Sequence[Check], condition: str = "", under_condition: Sequence[Check] = ()) -> Verdict:
    """The verdict from all checks of the claim, and from those that remain if ``condition`` is true.

    A check whose interval contains its bound is undecided: it neither supports a claim nor refutes it.
    """
    claimed, under_condition = tuple(claimed), tuple(under_condition)
    if all(check.margin >= 1 for check in claimed):
        return Verdict(HOLDS, claimed, tuple(c for c in under_condition if c not in claimed))
    others = tuple(check for check in claimed if check not in under_condition)
    if under_condition and all(check.margin >= 1 for check in under_condition):
        is_refuted = any(check.state == "not met" for check in others)
        text = f"{ONLY_WHEN} {condition}" if is_refuted else f"{HOLDS_WHEN} {condition}, undecided otherwise"
        return Verdict(text, under_condition, others)
    deciding = under_condition or claimed
    text = FAILS if any(check.state == "not met" for check in (*claimed, *deciding)) else UNDECIDED
    return Verdict(text, deciding, others if under_condition else ())


@dataclass(frozen=True)
class Claim:
    """A claim with its experiment.

    Attributes:
        name: the name on the command line; the file's name with "-" for "_".
        claim: the claim in one sentence.
        source: the paper and section that states it first or best.
        tutorials: the wording of common tutorials.
        of_wording: what the measurements say of that wording, which may claim more.
        experiment: what is measured, and on what.
        rule: the rule of the verdict in words, with its bounds.
        run: the experiment.
        judge: the rule, a pure function of the measurements.
        draw: draws the measurements into an empty figure.
        examples: invented measurements for the tests, by the verdict that the rule must give.
        intervals_over: what an interval is taken over; "{}" stands for the seeds.
        uses_clock: whether it measures time, so that it needs a machine without other work.
        is_identity: whether it is true by algebra, so that the experiment checks the code and the numbers.
    """

    name: str
    claim: str
    source: str
    tutorials: str
    of_wording: str
    experiment: str
    rule: str
    run: Callable[[Budget], Measurements]
    judge: Callable[[Measurements], Verdict]
    draw: Callable[[Measurements, Any], None]
    examples: Mapping[str, Measurements]
    intervals_over: str = "seeds {}, of weights and data"
    uses_clock: bool = False
    is_identity: bool = False


def load_claim(name: str) -> Claim:
    """The claim of this name, from :data:`NAMES`."""
    return import_module(f".{name.replace('-', '_')}", __package__).CLAIM


def load_claims() -> list[Claim]:
    """All claims."""
    return [load_claim(name) for name in NAMES]


# What several experiments measure ------------------------------------------------------------------------------------


# MEASURES are the names of this file that the hash of a result covers.
MEASURES = (
    "Budget", "BUDGETS", "seconds_of", "saved_bytes", "gradient_by_distance", "shipped", "largest_difference",
)  # fmt: skip


def seconds_of(call: Callable[[], Any], repeats: int) -> float:
    """The shortest time of a call, after one that is not counted. Other work on the machine only adds time."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def saved_bytes(call: Callable[[], Any]) -> int:
    """The bytes that a call keeps for its gradient, each storage counted once."""
    storages: dict[int, int] = {}

    def count(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
        kept = call()
    del kept
    return sum(storages.values())


def gradient_by_distance(output: Tensor, inputs: Tensor) -> list[float]:
    """The norm of the gradient of a random projection of the last output, by each input: how much it depends on each.

    Shape:
        - output: (B, T, D), computed from ``inputs`` (B, T, I)
        - returns: T numbers from distance 0 on, the mean over the batch
    """
    projected = (output[:, -1] * torch.randn_like(output[:, -1])).sum()
    (gradient,) = torch.autograd.grad(projected, inputs)
    return gradient.norm(dim=2).mean(dim=0).flip(0).tolist()


def shipped(name: str, auto_class: Any) -> tuple[Any, Any]:
    """A model that comes with attnzoo or attnzoo-models, in evaluation mode, and its tokenizer."""
    folder = model_path(name)
    return auto_class.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def largest_difference(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of two tensors."""
    return float((one - other).abs().max())
