"""Encoder, decoder and both are one stack of layers under three masks."""

from typing import Any

import torch

from attnzoo import SmallTransformerConfig, SmallTransformerModel

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, largest_difference, never_above
from .style import difference_bars

SIZES: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
}  # fmt: skip


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """Differences of stacks with the same weights, in double precision."""
    found: Measurements = {"encoder": [], "decoder": [], "encoder of both": [], "without a mask": []}
    length = budget.choose(12, 32, 128)
    for seed in budget.seeds:
        torch.manual_seed(seed)
        encoder, decoder, both = (
            SmallTransformerModel(SmallTransformerConfig(attention_pattern=pattern, **SIZES)).double().eval()
            for pattern in ("bidirectional", "causal", "encoder_decoder")
        )
        decoder.decoder.load_state_dict(encoder.encoder.state_dict())
        both.encoder.load_state_dict(encoder.encoder.state_dict())
        tokens = torch.randint(3, 50, (2, length))
        full = torch.ones(1, 1, length, length, dtype=torch.bool)
        read, written = encoder(tokens).last_hidden_state, decoder(tokens).last_hidden_state
        found["decoder"].append(largest_difference(encoder(tokens, full.tril()).last_hidden_state, written))
        found["encoder"].append(largest_difference(decoder(tokens, full).last_hidden_state, read))
        found["encoder of both"].append(largest_difference(both.encoder(tokens).last_hidden_state, read))
        found["without a mask"].append(largest_difference(read, written))
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    same = [never_above(f"difference, {n}", found[n], 1e-10) for n in ("encoder", "decoder", "encoder of both")]
    return decide(
        [*same, at_least("difference, encoder and decoder, each with its own mask", found["without a mask"], 0.01)]
    )


def draw(found: Measurements, figure: Any) -> None:
    """The differences."""
    names = {
        "encoder": "causal stack, full mask\n= encoder",
        "decoder": "bidirectional stack, causal mask\n= decoder",
        "encoder of both": "encoder of the encoder-decoder\n= encoder",
        "without a mask": "encoder and decoder,\neach with its own mask",
    }
    difference_bars(figure, {name: found[key] for key, name in names.items()}, 1e-10)


CLAIM = Claim(
    name="three-masks",
    claim="Encoder (BERT) and decoder (GPT) are one stack that differs only in its mask. An encoder-decoder has such "
    "an encoder; its decoder also has cross-attention.",
    source="Devlin et al. (2019), section 3 and footnote 4",
    tutorials="BERT is the encoder, GPT is the decoder: the difference is the masking.",
    of_wording="supported for the stack. BERT and GPT also learn different tasks.",
    experiment="Stacks with the same weights, in double precision. Three pairs are compared: the bidirectional stack "
    "under a causal mask and the decoder; the causal stack under a full mask and the encoder; the encoder of the "
    "encoder-decoder and the encoder.",
    rule="Holds if each pair differs by at most 1e-10, and encoder and decoder with their own masks by at least 0.01.",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {"encoder": [0.0, 0.0], "decoder": [0.0, 0.0], "encoder of both": [0.0, 0.0]}
        | {"without a mask": [1.0, 1.0]},
        "does not hold here": {"encoder": [0.0, 0.0], "decoder": [0.5, 0.5], "encoder of both": [0.0, 0.0]}
        | {"without a mask": [1.0, 1.0]},
    },
)
