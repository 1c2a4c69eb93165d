"""Multi-head attention against as many separate attentions with one head."""

from typing import Any

import torch

from attnzoo import SmallTransformerConfig
from attnzoo.transformer_layers import MultiHeadAttention

from .frame import Budget, Claim, Measurements, Verdict, decide, largest_difference, never_above
from .style import difference_bars

WIDTH = 64
HEADS = (2, 4, 8, 16)


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """For each number of heads and each seed, the largest difference in double precision."""
    found: Measurements = {}
    for heads in HEADS:
        differences = []
        for seed in budget.seeds:
            torch.manual_seed(seed)
            config = SmallTransformerConfig(hidden_size=WIDTH, num_attention_heads=heads)
            attention = MultiHeadAttention(config, 0).double().eval()
            states = torch.randn(2, 17, WIDTH, dtype=torch.float64)
            size = WIDTH // heads
            outputs = torch.zeros_like(states)
            for head in range(heads):  # each with its rows of the three projections, and its columns of W^O
                rows = slice(head * size, (head + 1) * size)
                projections = (attention.query_proj, attention.key_proj, attention.value_proj)
                query, key, value = (states @ projection.weight[rows].T for projection in projections)
                context = (query @ key.mT / size**0.5).softmax(dim=-1) @ value
                outputs = outputs + context @ attention.output_proj.weight[:, rows].T
            differences.append(largest_difference(attention(states)[0], outputs))
        found[str(heads)] = differences
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    return decide([never_above(f"largest difference with {heads} heads", found[str(heads)], 1e-12) for heads in HEADS])


def draw(found: Measurements, figure: Any) -> None:
    """The differences, beside the bound."""
    difference_bars(figure, {f"{heads} heads": found[str(heads)] for heads in HEADS}, 1e-12)


CLAIM = Claim(
    name="heads-are-single-heads",
    claim="Attention with h heads is h attentions with one head, side by side, and one output projection.",
    source="Vaswani et al. (2017), section 3.2.2",
    tutorials="Multi-head attention runs several attentions in parallel and concatenates their results.",
    of_wording="supported.",
    experiment=f"MultiHeadAttention of width {WIDTH} with 2 to 16 heads is compared, in double precision, with a "
    "loop over its heads, each with its own rows of the projections.",
    rule="Holds if the largest difference of the outputs is at most 1e-12 for each number of heads.",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {str(heads): [1e-15, 2e-15] for heads in HEADS},
        "does not hold here": {str(heads): [0.1, 0.1] for heads in HEADS},
    },
)
