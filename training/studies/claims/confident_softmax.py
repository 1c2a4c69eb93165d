"""The derivative of a softmax that is almost certain: 0.99 times 0.01."""

from typing import Any

import torch

from .frame import Budget, Claim, Measurements, Verdict, decide, never_above
from .style import lines

CERTAINTIES = (0.5, 0.8, 0.9, 0.99, 0.999)
KEYS = (2, 8, 32)


def run(budget: Budget) -> Measurements:
    """The derivative of the largest weight by its own score, by autograd, for each certainty and number of keys."""
    found: Measurements = {"derivatives": {}, "errors": {}}
    for keys in KEYS:
        derivatives, errors = [], []
        for certainty in CERTAINTIES:
            of_seeds = []
            for seed in budget.seeds:
                generator = torch.Generator().manual_seed(seed)
                others = torch.randn(keys - 1, generator=generator, dtype=torch.float64)
                odds = torch.tensor(certainty / (1 - certainty), dtype=torch.float64)
                score = odds.log() + others.logsumexp(0)  # then the softmax has this certainty
                scores = torch.cat([score[None], others]).requires_grad_()
                (gradient,) = torch.autograd.grad(scores.softmax(0)[0], scores)
                of_seeds.append(float(gradient[0]))
            derivatives.append(of_seeds)
            errors.append([abs(value - certainty * (1 - certainty)) for value in of_seeds])
        found["derivatives"][str(keys)], found["errors"][str(keys)] = derivatives, errors
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    return decide(
        [
            never_above(
                f"distance from s (1 - s) at s = {certainty}, {keys} keys", found["errors"][str(keys)][i], 1e-12
            )
            for keys in KEYS
            for i, certainty in enumerate(CERTAINTIES)
        ]
    )


def draw(found: Measurements, figure: Any) -> None:
    """The derivative against the certainty."""
    axis = figure.subplots()
    series = {f"{keys} keys": found["derivatives"][str(keys)] for keys in KEYS}
    lines(axis, CERTAINTIES, series, xlabel="largest weight s", ylabel="derivative of s with respect to its score")
    derivative = found["derivatives"]["2"][CERTAINTIES.index(0.99)][0]
    axis.annotate(f"{derivative:.4f}", (0.99, derivative), xytext=(0.93, 0.06), arrowprops={"arrowstyle": "->"})


CLAIM = Claim(
    name="confident-softmax",
    claim="If a softmax gives 0.99 to one key, its derivative with respect to the score of that key is 0.99 x 0.01 = "
    "0.0099.",
    source="Vaswani et al. (2017), section 3.2.1, of which this is the arithmetic",
    tutorials="If one weight is 0.99, its gradient is 0.99 times 0.01, and almost nothing is learned.",
    of_wording="the arithmetic is right. That almost nothing is learned is not tested.",
    experiment="The derivative of the largest weight with respect to its score, by autograd in double precision, for "
    "weights of 0.5 to 0.999 and 2 to 32 keys.",
    rule="Holds if the derivative is within 1e-12 of s (1 - s) in each case.",
    intervals_over="seeds {} of the scores",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {"errors": {str(keys): [[1e-17, 2e-17]] * 5 for keys in KEYS}},
        "does not hold here": {"errors": {str(keys): [[0.01, 0.01]] * 5 for keys in KEYS}},
    },
)
