r"""The gradient of the softmax of unscaled dot products, by the width of the keys.

For :math:`s = \mathrm{softmax}(z)` the Jacobian is :math:`\partial s_i / \partial z_j = s_i (\delta_{ij} - s_j)`. Its
Frobenius norm is measured, of dot products of normally distributed queries and keys.
"""

from typing import Any

import torch

from .frame import Budget, Claim, Measurements, Verdict, at_most, decide
from .style import lines

WIDTHS = (4, 16, 64, 256, 1024)
KEYS = 32


def run(budget: Budget) -> Measurements:
    """The mean norm for each width and seed, of unscaled and of scaled products."""
    queries = budget.choose(200, 2000, 5000)
    found: Measurements = {"unscaled": [], "scaled": []}
    for width in WIDTHS:
        for name, scale in (("unscaled", 1.0), ("scaled", width**-0.5)):
            norms = []
            for seed in budget.seeds:
                generator = torch.Generator().manual_seed(seed)
                query = torch.randn(queries, 1, width, generator=generator)
                key = torch.randn(queries, KEYS, width, generator=generator)
                weights = (scale * (query @ key.mT)).softmax(dim=-1)[:, 0]  # (queries, KEYS)
                jacobian = weights.diag_embed() - weights.unsqueeze(2) * weights.unsqueeze(1)
                norms.append(float(jacobian.flatten(1).norm(dim=1).mean()))
            found[name].append(norms)
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""

    def ratio(place: int) -> list[float]:
        return [raw / scaled for raw, scaled in zip(found["unscaled"][place], found["scaled"][place], strict=True)]

    checks = {w: at_most(f"gradient / that with the scale, d_k = {w}", ratio(i), 0.5) for i, w in enumerate(WIDTHS)}
    return decide([*checks.values()], "d_k is at least 256", [checks[w] for w in checks if w >= 256])


def draw(found: Measurements, figure: Any) -> None:
    """The norm against the width."""
    axis = figure.subplots()
    series = {"unscaled": found["unscaled"], "divided by the root of d_k": found["scaled"]}
    lines(axis, WIDTHS, series, xlabel="width of the keys, d_k", ylabel="norm of the softmax's Jacobian")
    axis.set_xscale("log", base=2)
    axis.set_ylim(0)


CLAIM = Claim(
    name="softmax-gradient",
    claim="Without the scale, large dot products leave the softmax with much smaller gradients.",
    source="Vaswani et al. (2017), section 3.2.1",
    tutorials="We divide by the square root of d_k, otherwise the softmax saturates and the gradients vanish.",
    of_wording="not supported for keys of common width: unscaled, the gradient is 1.2 times as large at 16, and "
    "0.82 times at 64. Training suffers at 16 all the same, see training-needs-the-scale.",
    experiment=f"The mean norm of the softmax's Jacobian over {KEYS} keys, of standard normal queries and keys of "
    "width 4 to 1024, with and without the scale. It is the "
    "gradient by the input of the softmax. That by the query has one factor more, 1 / sqrt(d_k), if there is a scale.",
    rule="Holds if the norm without the scale is at most half of that with the scale at every width. 'Only when d_k is "
    "at least 256' if that bound is met at 256 and 1024.",
    intervals_over="seeds {} of the vectors",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        name: {"unscaled": [[value, value] for value in values], "scaled": [[0.25, 0.25]] * 5}
        for name, values in {
            "holds": (0.1, 0.1, 0.1, 0.05, 0.01),
            "only when": (0.3, 0.3, 0.2, 0.1, 0.05),
            "does not hold here": (0.3,) * 5,
        }.items()
    },
)
