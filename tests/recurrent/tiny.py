"""Tiny random models that the tests share: one per wiring, score, window, cell and encoder that differ in code path.

Their weights are drawn much wider than any paper's, so that scores differ, beams really change places and a lost state
shows in the first digits.
"""

from typing import Any

import torch
from torch import Tensor

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration

PAD, BOS, EOS = 0, 1, 2
FIRST_WORD = 3  # ids from here on are ordinary tokens

# decoder_hidden_size is 2 * encoder_hidden_size: the dot score asks for it, and Luong's states need no bridge then.
SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "embedding_size": 6,
    "encoder_hidden_size": 4,
    "decoder_hidden_size": 8,
    "attention_size": 5,
    "readout_size": 7,
    "window_size": 2,
    "max_source_positions": 6,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "bahdanau-cho_gru-additive": {"wiring": "bahdanau", "cell": "cho_gru", "score": "additive"},
    "bahdanau-lstm-additive-2-layers": {
        "wiring": "bahdanau",
        "cell": "lstm",
        "score": "additive",
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "bahdanau-gru-general-monotonic": {"wiring": "bahdanau", "cell": "gru", "score": "general", "window": "monotonic"},
    "luong-lstm-general-feeding": {"wiring": "luong", "cell": "lstm", "score": "general", "input_feeding": True},
    "luong-gru-concat": {"wiring": "luong", "cell": "gru", "score": "concat", "decoder_hidden_size": 6},
    "luong-lstm-dot": {"wiring": "luong", "cell": "lstm", "score": "dot"},
    "luong-lstm-general-predictive-feeding": {
        "wiring": "luong",
        "cell": "lstm",
        "score": "general",
        "window": "predictive",
        "input_feeding": True,
    },
    "luong-gru-location-monotonic": {"wiring": "luong", "cell": "gru", "score": "location", "window": "monotonic"},
    "cho-cho_gru-forward": {"wiring": "cho", "cell": "cho_gru", "bidirectional": False},
    "sutskever-lstm-2-layers-reversed": {
        "wiring": "sutskever",
        "cell": "lstm",
        "bidirectional": False,
        "reverse_source": True,
        "encoder_hidden_size": 8,  # as wide and as deep as the decoder: its start is copied
        "encoder_layers": 2,
        "decoder_layers": 2,
        "readout_size": 8,
    },
    "bahdanau-rnn-additive-reversed": {
        "wiring": "bahdanau",
        "cell": "rnn",
        "score": "additive",
        "bidirectional": False,
        "reverse_source": True,
    },
    "luong-lstm-general-predictive-feeding-2-layers-reversed": {
        "wiring": "luong",
        "cell": "lstm",
        "score": "general",
        "window": "predictive",
        "input_feeding": True,
        "bidirectional": False,
        "reverse_source": True,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "forget_gate_bias": 1.0,
    },
}
ATTENTION_VARIANTS = [name for name, fields in VARIANTS.items() if fields["wiring"] in ("bahdanau", "luong")]
# Those whose steps read more than the token and the recurrent state: the attentional vector, or Cho's c.
FED_VARIANTS = [name for name, fields in VARIANTS.items() if fields.get("input_feeding") or fields["wiring"] == "cho"]


def tiny_config(variant: str, **overrides: Any) -> AttentionalRNNConfig:
    return AttentionalRNNConfig(**(SIZES | VARIANTS[variant] | overrides))


def tied(variant: str) -> dict[str, Any]:
    """The fields that tie the variant's embeddings and output projection."""
    return {"tie_word_embeddings": True, "embedding_size": tiny_config(variant).readout_size}


def tiny_model(
    variant: str, seed: int = 0, std: float = 0.7, dtype: torch.dtype = torch.float64, **overrides: Any
) -> AttentionalRNNForConditionalGeneration:
    """A model in eval mode, every weight from N(0, std^2)."""
    model = AttentionalRNNForConditionalGeneration(tiny_config(variant, **overrides))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=generator)
    return model.to(dtype).eval()


def random_words(rows: int, length: int, seed: int = 0, vocab_size: int = SIZES["vocab_size"]) -> Tensor:
    """Ordinary tokens (rows, length)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(FIRST_WORD, vocab_size, (rows, length), generator=generator)


def padded_batch(lengths: list[int], side: str = "right", seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sources of these lengths, padded on one side: input_ids and attention_mask, each (rows, longest)."""
    words = random_words(len(lengths), max(lengths), seed)
    steps = torch.arange(max(lengths))
    if side == "left":
        steps = steps.flip(0)
    mask = steps < torch.tensor(lengths).unsqueeze(1)
    return words.where(mask, torch.tensor(PAD)), mask.long()


def alignments_of(outputs: Any) -> Tensor:
    """The alignments (B, T, S) of a model's outputs; zeros where it has no attention and so no ``cross_attentions``."""
    if outputs.cross_attentions is None:
        rows, source_length = outputs.encoder_last_hidden_state.shape[:2]
        return outputs.logits.new_zeros(rows, outputs.logits.shape[1], source_length)
    return outputs.cross_attentions[0][:, 0]
