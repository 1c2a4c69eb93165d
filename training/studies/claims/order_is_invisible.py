"""What a permutation of the tokens changes, with and without positions."""

from typing import Any

import torch

from attnzoo import SmallTransformerConfig, SmallTransformerModel

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, largest_difference, never_above
from .style import difference_bars

KINDS: Any = ("none", "sinusoidal", "learned")
CAUSAL = "none, causal mask"


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The largest difference between the permuted outputs and the outputs of the permuted tokens.

    Under the causal mask the last token stays where it is, and its output alone is compared.
    """
    found: Measurements = {}
    length = budget.choose(16, 32, 128)
    for kind in (*KINDS, CAUSAL):
        differences = []
        pattern: Any = "causal" if kind == CAUSAL else "bidirectional"
        for seed in budget.seeds:
            torch.manual_seed(seed)
            config = SmallTransformerConfig(
                attention_pattern=pattern, vocab_size=50, hidden_size=64, num_hidden_layers=2,
                num_attention_heads=4, intermediate_size=128, position_embedding=kind.split(",")[0],
            )  # fmt: skip
            model = SmallTransformerModel(config).double().eval()
            tokens, order = torch.randint(3, 50, (2, length)), torch.randperm(length)
            if kind == CAUSAL:
                order = torch.cat([torch.randperm(length - 1), torch.tensor([length - 1])])
            straight = model(tokens).last_hidden_state[:, order]
            permuted = model(tokens[:, order]).last_hidden_state
            chosen = slice(-1, None) if kind == CAUSAL else slice(None)
            differences.append(largest_difference(straight[:, chosen], permuted[:, chosen]))
        found[kind] = differences
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    without = never_above("difference without positions", found["none"], 1e-10)
    causal = never_above("difference without positions, causal mask", found[CAUSAL], 1e-10)
    controls = [at_least(f"difference, {kind}", found[kind], 0.01) for kind in KINDS[1:]]
    return decide([without, causal, *controls], "there is no causal mask", [without, *controls])


def draw(found: Measurements, figure: Any) -> None:
    """The differences."""
    difference_bars(figure, {f"positions: {kind}": found[kind] for kind in (*KINDS, CAUSAL)}, 1e-10)


CLAIM = Claim(
    name="order-is-invisible",
    claim="Without positional encodings self-attention ignores the order: a permutation of the tokens only permutes "
    "the output.",
    source="Vaswani et al. (2017), section 3.5",
    tutorials="Attention has no notion of order, so we add positional encodings.",
    of_wording="supported for encoders. With a causal mask the order counts.",
    experiment="Two untrained layers of a Transformer, in double precision. The outputs of permuted tokens are "
    "compared with the permuted outputs, with no, sinusoidal and learned positions. Under a causal mask only "
    "the earlier tokens move, and the last output is compared.",
    rule="Holds if the largest difference is at most 1e-10 without positions, with and without a causal mask, and at "
    "least 0.01 with either kind of positions. 'Only when there is no causal mask' if all bounds but that of the "
    "causal mask are met.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        name: {"none": [none] * 2, CAUSAL: [causal] * 2, "sinusoidal": [1.0, 1.1, 1.0], "learned": [0.5, 0.6, 0.5]}
        for name, none, causal in (
            ("holds", 1e-15, 1e-15),
            ("only when", 1e-15, 0.5),
            ("does not hold here", 0.5, 0.5),
        )
    },
)
