"""One stack, trained under the bidirectional mask to fill gaps and under the causal one to continue."""

from typing import Any

import torch

from ..synthetic import FIRST, IGNORED, START, SYMBOLS, Batch
from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide
from .small_models import compare, transformer
from .style import bars, reference

LENGTH = 12  # of palindromes


def palindromes(rows: int, generator: torch.Generator) -> torch.Tensor:
    """Texts whose second half mirrors the first."""
    half = torch.randint(FIRST, FIRST + SYMBOLS, (rows, LENGTH // 2), generator=generator)
    return torch.cat([half, half.flip(1)], dim=1)


def gaps(rows: int, is_second: int, generator: torch.Generator) -> Batch:
    """A token of the first (0) or the second half (1) is masked, and is to be named."""
    text = palindromes(rows, generator)
    place = torch.randint(LENGTH // 2, (rows, 1), generator=generator) + is_second * (LENGTH // 2)
    masked = text.scatter(1, place, 2)
    labels = torch.full_like(text, IGNORED).scatter(1, place, text.gather(1, place))
    return Batch(text[:, :0], masked, labels)


def continued(rows: int, is_second: int, generator: torch.Generator) -> Batch:
    """Each token is to be named from those before it; those of one half are counted."""
    text = palindromes(rows, generator)
    inputs = torch.cat([torch.full_like(text[:, :1], START), text[:, :-1]], dim=1)
    labels = torch.full_like(text, IGNORED)
    half = slice(LENGTH // 2, None) if is_second else slice(LENGTH // 2)
    labels[:, half] = text[:, half]
    return Batch(text[:, :0], inputs, labels)


def run(budget: Budget) -> Measurements:
    """The accuracy in the first and in the second half of the texts, for each mask."""
    steps = budget.choose(2, 600, 3000)
    found: Measurements = {}
    for pattern, task in (("bidirectional", gaps), ("causal", continued)):
        models = {pattern: lambda mask=pattern: transformer(attention_pattern=mask)}
        found |= compare(budget, models, task, (0, 1), (0, 1), steps)
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    encoder = [at_least(f"bidirectional: accuracy, {h} half", found["bidirectional"][i], 0.9) for i, h in
               enumerate(("first", "second"))]  # fmt: skip
    blind = at_most("causal: accuracy, first half", found["causal"][0], 0.2)
    return decide([*encoder, blind, at_least("causal: accuracy, second half", found["causal"][1], 0.9)])


def draw(found: Measurements, figure: Any) -> None:
    """The accuracies."""
    halves = ("first", "second")
    series = {f"{name}, {half} half": of[i] for name, of in found.items() for i, half in enumerate(halves)}
    axis = figure.subplots()
    bars(axis, series, xlabel="accuracy", xlim=(0, 1.02))
    reference(axis, 1 / SYMBOLS, "chance")


CLAIM = Claim(
    name="masks-decide-what-is-learned",
    claim="An encoder learns to use both sides of a token, a decoder only what comes before it.",
    source="Devlin et al. (2019), sections 1 and 3.1",
    tutorials="BERT sees left and right context, GPT only the left one.",
    of_wording="supported.",
    experiment=f"One stack of two layers learns palindromes of {LENGTH} tokens in 3,000 steps. Under the bidirectional "
    "mask it fills a gap, under the causal mask it predicts each token. Read from the left, the first half of a "
    "palindrome is random, and the second half follows from the first.",
    rule="Holds if, under the bidirectional mask, the accuracy is at least 0.9 in both halves, and under the "
    "causal mask at most 0.2 in the first half and at least 0.9 in the second.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"bidirectional": [[0.99] * 3, [0.98] * 3], "causal": [[0.06] * 3, [0.99] * 3]},
        "does not hold here": {"bidirectional": [[0.99] * 3, [0.98] * 3], "causal": [[0.6] * 3, [0.99] * 3]},
    },
)
