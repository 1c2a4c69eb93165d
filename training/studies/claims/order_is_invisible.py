"""What a permutation of the tokens changes, with and without positions."""

from typing import Any

import torch

from attnzoo import SmallTransformerConfig, SmallTransformerModel

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide, largest_difference
from .style import difference_bars

KINDS: Any = ("none", "sinusoidal", "learned")


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The largest difference between the permuted outputs and the outputs of the permuted tokens."""
    found: Measurements = {}
    length = budget.choose(16, 32, 128)
    for kind in KINDS:
        differences = []
        for seed in budget.seeds:
            torch.manual_seed(seed)
            config = SmallTransformerConfig(
                attention_pattern="bidirectional", vocab_size=50, hidden_size=64, num_hidden_layers=2,
                num_attention_heads=4, intermediate_size=128, position_embedding=kind,
            )  # fmt: skip
            model = SmallTransformerModel(config).double().eval()
            tokens, order = torch.randint(3, 50, (2, length)), torch.randperm(length)
            straight = model(tokens).last_hidden_state[:, order]
            differences.append(largest_difference(straight, model(tokens[:, order]).last_hidden_state))
        found[kind] = differences
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    without = at_most("difference without positions", found["none"], 1e-10)
    return decide([without, *(at_least(f"difference, {kind}", found[kind], 0.01) for kind in KINDS[1:])])


def draw(found: Measurements, figure: Any) -> None:
    """The differences."""
    difference_bars(figure, {f"positions: {kind}": found[kind] for kind in KINDS}, 1e-10)


CLAIM = Claim(
    name="order-is-invisible",
    claim="Without positional encodings self-attention ignores the order: a permutation of the tokens only "
    "permutes the output.",
    source="Vaswani et al. (2017), section 3.5",
    tutorials="Attention has no notion of order, so we add positional encodings.",
    experiment="Two untrained layers of the Transformer encoder, in double precision. The outputs of permuted "
    "tokens are compared with the permuted outputs, with no, sinusoidal and learned positions.",
    rule="Holds if the largest difference is at most 1e-10 without positions, and at least 0.01 with either kind.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"none": [1e-15, 1e-15], "sinusoidal": [1.0, 1.1, 1.0], "learned": [0.5, 0.6, 0.5]},
        "does not hold here": {"none": [0.5, 0.6, 0.5], "sinusoidal": [1.0, 1.1, 1.0], "learned": [0.5, 0.6, 0.5]},
    },
)
