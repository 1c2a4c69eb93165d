"""Self-attention and cross-attention are one function of different sources."""

from typing import Any

import torch

from attnzoo import SmallTransformerConfig
from attnzoo.transformer_layers import MultiHeadAttention

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, largest_difference, never_above
from .style import difference_bars

SAME = "self-attention, cross-attention to the same tokens"
TORCH = "cross-attention, torch.nn.MultiheadAttention"
OTHER = "self-attention, cross-attention to other tokens"


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """Differences of self-attention from cross-attention to the same states, and to others."""
    found: Measurements = {
        SAME: [],
        TORCH: [],
        OTHER: [],
    }
    length = budget.choose(8, 32, 128)
    for seed in budget.seeds:
        torch.manual_seed(seed)
        attention = MultiHeadAttention(SmallTransformerConfig(hidden_size=64, num_attention_heads=4), 0).double().eval()
        states, others = torch.randn(2, 2, length, 64, dtype=torch.float64)
        theirs = torch.nn.MultiheadAttention(64, 4, bias=False, batch_first=True).double().eval()
        projections = (attention.query_proj, attention.key_proj, attention.value_proj)
        theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        theirs.out_proj.weight.copy_(attention.output_proj.weight)
        itself, across = attention(states)[0], attention(states, source=others)[0]
        found[SAME].append(largest_difference(itself, attention(states, source=states)[0]))
        torchs = theirs(states, others, others, need_weights=False)[0]
        found[TORCH].append(largest_difference(across, torchs))
        found[OTHER].append(largest_difference(itself, across))
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    same = [never_above(f"difference, {n}", found[n], 1e-12) for n in (SAME, TORCH)]
    return decide(
        [
            *same,
            at_least(f"difference, {OTHER}", found[OTHER], 0.01),
        ]
    )


def draw(found: Measurements, figure: Any) -> None:
    """The differences."""
    difference_bars(figure, {name.replace(", ", ",\n"): values for name, values in found.items()}, 1e-12)


CLAIM = Claim(
    name="self-is-cross",
    claim="Self-attention and cross-attention are one function: only the source of keys and values differs.",
    source="Vaswani et al. (2017), section 3.2.3",
    tutorials="In cross-attention the queries come from the decoder, and keys and values from the encoder.",
    of_wording="supported.",
    experiment="One module with and without a separate source, and torch's MultiheadAttention with the same "
    "weights, in double precision.",
    rule="Holds if the sequence itself as the source changes at most 1e-12, torch's module differs by at most "
    "1e-12, and another source changes at least 0.01.",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {
            SAME: [0.0, 0.0],
            TORCH: [1e-16, 0.0],
        }
        | {OTHER: [1.0, 0.9]},
        "does not hold here": {
            SAME: [0.1, 0.1],
            TORCH: [1e-16, 0.0],
        }
        | {OTHER: [1.0, 0.9]},
    },
)
