"""What later tokens change in the outputs of earlier ones."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from attnzoo import SmallTransformerConfig, SmallTransformerModel

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, largest_difference, never_above, shipped
from .style import difference_bars


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The largest change of the first half's outputs when the second half is replaced."""
    length = budget.choose(16, 64, 256)
    found: Measurements = {"causal": [], "bidirectional": [], "causal, trained": []}
    trained, _ = shipped("small-transformer-sotu-causal", AutoModelForCausalLM)
    for seed in budget.seeds:
        torch.manual_seed(seed)
        tokens, others = torch.randint(3, 1000, (2, 4, length))
        changed = torch.cat([tokens[:, : length // 2], others[:, length // 2 :]], dim=1)
        models = {"causal, trained": trained.double()}
        for pattern in ("causal", "bidirectional"):
            config = SmallTransformerConfig(
                attention_pattern=pattern, vocab_size=1000, hidden_size=64, num_hidden_layers=2,
                num_attention_heads=4, intermediate_size=128,
            )  # fmt: skip
            models[pattern] = SmallTransformerModel(config).double().eval()
        for name, model in models.items():
            before, after = (model(ids)[0][:, : length // 2] for ids in (tokens, changed))
            found[name].append(largest_difference(before, after))
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    causal = [never_above(f"change, {name}", found[name], 1e-10) for name in ("causal", "causal, trained")]
    return decide([*causal, at_least("change, bidirectional", found["bidirectional"], 0.01)])


def draw(found: Measurements, figure: Any) -> None:
    """The changes."""
    difference_bars(figure, found, 1e-10)


CLAIM = Claim(
    name="no-leak",
    claim="With the causal mask a token sees nothing of the tokens after it.",
    source="Vaswani et al. (2017), section 3.2.3",
    tutorials="We set the scores of future tokens to minus infinity, so the model cannot cheat.",
    of_wording="supported.",
    experiment="The second half of random texts is replaced by other tokens. Measured is the largest change in the "
    "outputs of the first half, in double precision, for untrained stacks and for "
    "small-transformer-sotu-causal.",
    rule="Holds if the change is at most 1e-10 with the causal mask, and at least 0.01 without it, as a control.",
    intervals_over="seeds {}, of texts and untrained models",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {"causal": [0.0, 0.0], "causal, trained": [1e-14, 0.0], "bidirectional": [0.5, 0.6, 0.5]},
        "does not hold here": {"causal": [0.0, 0.0], "causal, trained": [0.2, 0.2], "bidirectional": [0.5, 0.6, 0.5]},
    },
)
