r"""The gradient of the softmax of unscaled dot products, by the width of the keys.

For :math:`s = \mathrm{softmax}(z)` the Jacobian is :math:`\partial s_i / \partial z_j = s_i (\delta_{ij} - s_j)`. Its
Frobenius norm is measured, of dot products of normally distributed queries and keys.
"""

from typing import Any

import torch

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide
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

    def loss(name: str, place: int) -> list[float]:
        pairs = zip(found[name][place], found[name][0], strict=True)
        return [1 - norm / smallest for norm, smallest in pairs]

    checks = {w: at_least(f"gradient lost at d_k = {w}", loss("unscaled", i), 0.2) for i, w in enumerate(WIDTHS) if i}
    flat = at_most("gradient lost with the scale, at d_k = 1024", loss("scaled", len(WIDTHS) - 1), 0.1)
    return decide([*checks.values(), flat], "d_k is at least 64", [*(checks[w] for w in checks if w >= 64), flat])


def draw(found: Measurements, figure: Any) -> None:
    """The norm against the width."""
    axis = figure.subplots()
    series = {"unscaled": found["unscaled"], "divided by the root of d_k": found["scaled"]}
    lines(axis, WIDTHS, series, xlabel="width of the keys, d_k", ylabel="norm of the softmax's Jacobian")
    axis.set_xscale("log", base=2)
    axis.set_ylim(0)


CLAIM = Claim(
    name="softmax-gradient",
    claim="Without the scale, large dot products leave the softmax with extremely small gradients.",
    source="Vaswani et al. (2017), section 3.2.1",
    tutorials="We divide by the square root of d_k, otherwise the softmax saturates and the gradients vanish.",
    experiment=f"The mean norm of the softmax's Jacobian over {KEYS} keys, of standard normal queries and keys of "
    "width 4 to 1024, with and without the scale.",
    rule="The gradient lost is 1 minus the norm divided by that at d_k = 4. Holds if at least 20 % is lost "
    "without the scale at every larger width, and at most 10 % with the scale at d_k = 1024. 'Only when d_k "
    "is at least 64' if the bounds are met from 64 on.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {
            "unscaled": [[0.3, 0.31], [0.2, 0.21], [0.1, 0.11], [0.05, 0.05], [0.01, 0.01]],
            "scaled": [[0.3, 0.3]] * 5,
        },
        "only when": {
            "unscaled": [[0.3, 0.31], [0.29, 0.3], [0.1, 0.11], [0.05, 0.05], [0.01, 0.01]],
            "scaled": [[0.3, 0.3]] * 5,
        },
        "does not hold here": {"unscaled": [[0.3, 0.31]] * 5, "scaled": [[0.3, 0.3]] * 5},
    },
)
