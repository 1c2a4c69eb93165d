"""The variance of dot products, by the width of the vectors."""

from typing import Any

import torch

from .frame import Budget, Claim, Measurements, Verdict, at_most, decide
from .style import lines

WIDTHS = (4, 16, 64, 256, 1024)


def run(budget: Budget) -> Measurements:
    """The variance divided by the width, for each width and seed, of raw and of scaled products."""
    pairs = budget.choose(20_000, 50_000, 200_000)
    found: Measurements = {"raw": [], "scaled": []}
    for width in WIDTHS:
        raw = []
        for seed in budget.seeds:
            generator = torch.Generator().manual_seed(seed)
            total = torch.zeros(pairs)
            for first in range(0, width, 64):  # in parts, for the memory
                size = min(64, width - first)
                query, key = (torch.randn(pairs, size, generator=generator) for _ in range(2))
                total += (query * key).sum(dim=1)
            raw.append(float(total.var()))
        found["raw"].append(raw)
        found["scaled"].append([variance / width for variance in raw])
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    return decide(
        [
            at_most(f"distance of variance / d_k from 1 at d_k = {width}", [abs(v - 1) for v in of_width], 0.05)
            for width, of_width in zip(WIDTHS, found["scaled"], strict=True)
        ]
    )


def draw(found: Measurements, figure: Any) -> None:
    """The variance against the width."""
    axis = figure.subplots()
    series = {"q·k": found["raw"], "q·k / root of d_k": found["scaled"]}
    lines(axis, WIDTHS, series, xlabel="width d_k", ylabel="variance")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)


CLAIM = Claim(
    name="dot-products-spread",
    claim="The dot product of two vectors with independent entries of mean 0 and variance 1 has variance d_k.",
    source="Vaswani et al. (2017), section 3.2.1, footnote 4",
    tutorials="Dividing by the square root of d_k brings the variance of the scores back to 1.",
    of_wording="supported.",
    experiment="The variance of the dot products of standard normal vectors of width 4 to 1024, divided by the width.",
    rule="Holds if the variance divided by d_k is within 0.05 of 1 at each width.",
    intervals_over="seeds {} of the vectors",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {"scaled": [[1.01, 0.99, 1.0]] * 5},
        "does not hold here": {"scaled": [[1.01, 0.99, 1.0]] * 4 + [[2.0, 2.1, 1.9]]},
    },
)
