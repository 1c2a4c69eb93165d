"""The causal mask before the softmax, and after it with the rows normalised again."""

from typing import Any

import torch
from torch import Tensor

from attnzoo.attention import masked_softmax

from .frame import Budget, Check, Claim, Measurements, Verdict, at_most, decide, largest_difference, never_above
from .style import bars, lines

SPREADS = (1, 3, 10, 30, 60, 100, 200)
MODERATE = 10


def masked_after(scores: Tensor, mask: Tensor, kept: Tensor | float = 1.0) -> Tensor:
    """The softmax of all scores, then the mask, then each row divided by its sum; a row that sums to 0 is NaN."""
    weights = scores.softmax(dim=-1) * kept * mask
    return weights / weights.sum(dim=-1, keepdim=True)


def run(budget: Budget) -> Measurements:
    """Differences where both are finite, the share of rows that are 0 / 0, and the difference with dropout."""
    length = budget.choose(32, 64, 64)
    rows = budget.choose(4, 32, 128)
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    found: Measurements = {"spreads": list(SPREADS), "difference": [], "lost rows": [], "dropout": []}
    for spread in SPREADS:
        differences, lost = [], []
        for seed in budget.seeds:
            generator = torch.Generator().manual_seed(seed)
            scores = spread * torch.randn(rows, length, length, generator=generator)
            before, after = masked_softmax(scores, mask), masked_after(scores, mask)
            is_lost = after.isnan().any(dim=-1)
            lost.append(float(is_lost.float().mean()))
            differences.append(largest_difference(before[~is_lost], after[~is_lost]))
        found["difference"].append(differences)
        found["lost rows"].append(lost)
    for seed in budget.seeds:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(rows, length, length, generator=generator)
        kept = (torch.rand(scores.shape, generator=generator) > 0.1) / 0.9
        before, after = masked_softmax(scores, mask) * kept, masked_after(scores, mask, kept)
        found["dropout"].append(float((before - after.nan_to_num()).abs().mean() / before.mean()))
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    by_spread = dict(zip(found["spreads"], zip(found["difference"], found["lost rows"], strict=True), strict=True))
    moderate: list[Check] = []
    large: list[Check] = []
    for spread, (differences, lost) in by_spread.items():
        checks = moderate if spread <= MODERATE else large
        checks.append(never_above(f"largest difference, standard deviation {spread}", differences, 1e-4))
        checks.append(at_most(f"share of rows whose weights all underflow, standard deviation {spread}", lost, 1e-3))
    dropout = at_most("mean relative difference, dropout of 0.1 before the normalisation", found["dropout"], 0.01)
    moderate_scores = f"scores are moderate (a standard deviation of up to {MODERATE})"
    condition = f"{moderate_scores} and no weight is dropped between mask and normalisation"
    return decide([*moderate, *large, dropout], condition, moderate)


def draw(found: Measurements, figure: Any) -> None:
    """The rows that are lost, and the differences."""
    left, right = figure.subplots(1, 2)
    label = "standard deviation of the scores"
    lines(left, found["spreads"], {"lost": found["lost rows"]}, xlabel=label, ylabel="share of rows that are 0 / 0")
    left.set_xscale("log")
    names = [f"deviation {spread}:\nlargest" for spread in found["spreads"] if spread <= MODERATE]
    values = dict(zip(names, found["difference"], strict=False)) | {
        "deviation 1, dropout:\nmean, relative": found["dropout"]
    }
    bars(right, {name: [max(v, 1e-9) for v in of_name] for name, of_name in values.items()}, xlabel="difference")
    right.set_xscale("log")


def _example(lost: float, dropped: float, difference: float = 1e-7) -> Measurements:
    pairs = {"difference": [[difference, difference]] * 7, "lost rows": [[0.0, 0.0]] * 4 + [[lost, lost]] * 3}
    return {"spreads": list(SPREADS), **pairs, "dropout": [dropped, dropped]}


CLAIM = Claim(
    name="mask-before-or-after",
    claim="Masking before the softmax and masking after it, with the rows normalised again, are the same.",
    source="Vaswani et al. (2017), section 3.2.3, who mask before",
    tutorials="You can mask before or after the softmax, as long as each row sums to 1.",
    of_wording="supported up to a deviation of 10. Beyond, weights underflow. Dropout before the normalisation "
    "changes 8 %.",
    experiment="Causal masks on normally distributed scores of standard deviation 1 to 200, in single precision. "
    "Measured are the largest difference, the share of rows whose allowed weights all underflow to 0, and the "
    "difference if dropout of 0.1 comes between the mask and the normalisation, at deviation 1.",
    rule="Holds if the largest difference is at most 1e-4, at most 0.1 % of rows underflow, and dropout changes at "
    "most 1 %. 'Only when scores are moderate and no weight is dropped between' if the first two bounds are met up "
    "to a deviation of 10.",
    intervals_over="seeds {} of the scores",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.0, 0.0),
        "only when": _example(0.05, 0.1),
        "does not hold here": _example(0.05, 0.1, difference=0.1),
    },
)
