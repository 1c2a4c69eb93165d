"""Attention with matrices against attention with loops."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnzoo.attention import attend, dot_score

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, largest_difference, never_above, seconds_of
from .style import lines, reference

WIDTH = 16


def looped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The sums of equation 1 as they are written: a loop over queries, one over keys and one over the width."""
    rows, keys, values = query.tolist(), key.tolist(), value.tolist()
    outputs = []
    for q in rows:
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(WIDTH) for k in keys]
        total = sum(math.exp(score) for score in scores)
        weights = [math.exp(score) / total for score in scores]
        outputs.append([sum(w * v[i] for w, v in zip(weights, values, strict=True)) for i in range(WIDTH)])
    return torch.tensor(outputs, dtype=query.dtype)


def vectorised(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same with matrices."""
    return attend(dot_score(query, key, WIDTH**-0.5), value)[0]


def run(budget: Budget) -> Measurements:
    """Differences, and the time of the loops divided by that of the matrices, for each length."""
    lengths = budget.choose((8, 16), (8, 32, 128), (8, 32, 128, 256))
    found: Measurements = {"lengths": list(lengths), "difference": [], "speed": []}
    for length in lengths:
        differences, ratios = [], []
        for seed in budget.seeds:
            torch.manual_seed(seed)
            parts = torch.randn(3, length, WIDTH, dtype=torch.float64)
            differences.append(largest_difference(looped(*parts), vectorised(*parts)))
            slow = seconds_of(partial(looped, *parts), budget.choose(1, 3, 5))
            ratios.append(slow / seconds_of(partial(vectorised, *parts), 20))
        found["difference"].append(differences)
        found["speed"].append(ratios)
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    names = [f"{length} tokens" for length in found["lengths"]]
    same = [never_above(f"difference, {n}", v, 1e-12) for n, v in zip(names, found["difference"], strict=True)]
    faster = [at_least(f"time of loops / of matrices, {n}", v, 10) for n, v in zip(names, found["speed"], strict=True)]
    return decide([*same, *faster], "more than a few tokens are computed", [*same, faster[-1]])


def draw(found: Measurements, figure: Any) -> None:
    """The ratio of the times."""
    axis = figure.subplots()
    lines(axis, found["lengths"], {"": found["speed"]}, xlabel="tokens", ylabel="time of loops / of matrices")
    reference(axis, 10, "the bound", horizontal=True)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")


def _example(fewest: float, most: float, difference: float = 1e-16) -> Measurements:
    pair = [[difference, difference]] * 2
    return {"lengths": [8, 256], "difference": pair, "speed": [[fewest] * 2, [most] * 2]}


CLAIM = Claim(
    name="vectors-equal-loops",
    claim="Attention with matrix products computes what loops over queries and keys do, and far faster.",
    source="Vaswani et al. (2017), section 3.2.1",
    tutorials="We pack the queries into a matrix Q and compute everything at once.",
    of_wording="supported.",
    experiment=f"Scaled dot-product attention of width {WIDTH}, computed with Python loops and with matrices, in "
    "double precision, at several lengths.",
    rule="Holds if the largest difference is at most 1e-12 and loops take at least 10 times as long at every "
    "length. 'Only when more than a few tokens are computed' if the bound on time is met at the largest "
    "length.",
    intervals_over="seeds {}, each timed",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(20, 2000),
        "only when": _example(2, 2000),
        "does not hold here": _example(20, 2000, 0.1),
    },
    uses_clock=True,
)
