"""Tiny random Transformers that the tests share: every mask, norm, activation, kind of position and bias.

Their weights are drawn wide, so that scores differ, beams really change places and a lost key shows in the first
digits.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attnzoo import (
    SmallTransformerConfig,
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerForTokenClassification,
    SmallTransformerModel,
)

PAD, BOS, EOS = 0, 1, 2
VOCAB_SIZE = 13
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 32,
    "dropout": 0.0,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "encoder_decoder-post-sinusoidal": {"attention_pattern": "encoder_decoder"},
    "encoder_decoder-pre-learned": {
        "attention_pattern": "encoder_decoder",
        "norm": "pre",
        "activation": "gelu",
        "position_embedding": "learned",
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    "bidirectional-post-learned": {
        "attention_pattern": "bidirectional",
        "activation": "gelu",
        "position_embedding": "learned",
        "attention_bias": True,
    },
    "bidirectional-pre-none": {
        "attention_pattern": "bidirectional",
        "norm": "pre",
        "position_embedding": "none",
        "scale_scores": False,
        "tie_word_embeddings": False,
    },
    "causal-pre-learned": {
        "attention_pattern": "causal",
        "norm": "pre",
        "activation": "gelu",
        "position_embedding": "learned",
        "attention_bias": True,
    },
    "causal-post-sinusoidal": {"attention_pattern": "causal", "tie_word_embeddings": False},
}
GENERATING = [name for name in VARIANTS if not name.startswith("bidirectional")]
LANGUAGE_MODELS: dict[str, type[PreTrainedModel]] = {
    "encoder_decoder": SmallTransformerForConditionalGeneration,
    "bidirectional": SmallTransformerForMaskedLM,
    "causal": SmallTransformerForCausalLM,
}
# Every class, with a variant for each pattern that it is for.
HEADS: list[tuple[type[PreTrainedModel], str]] = [
    (SmallTransformerModel, "encoder_decoder-post-sinusoidal"),
    (SmallTransformerModel, "bidirectional-post-learned"),
    (SmallTransformerModel, "causal-pre-learned"),
    (SmallTransformerForConditionalGeneration, "encoder_decoder-post-sinusoidal"),
    (SmallTransformerForConditionalGeneration, "encoder_decoder-pre-learned"),
    (SmallTransformerForCausalLM, "causal-pre-learned"),
    (SmallTransformerForCausalLM, "causal-post-sinusoidal"),
    (SmallTransformerForMaskedLM, "bidirectional-post-learned"),
    (SmallTransformerForMaskedLM, "bidirectional-pre-none"),
    (SmallTransformerForSequenceClassification, "bidirectional-post-learned"),
    (SmallTransformerForSequenceClassification, "causal-pre-learned"),
    (SmallTransformerForTokenClassification, "bidirectional-pre-none"),
    (SmallTransformerForTokenClassification, "causal-post-sinusoidal"),
]
HEAD_IDS = [f"{model_class.__name__.removeprefix('SmallTransformer')}-{variant}" for model_class, variant in HEADS]


def tiny_config(variant: str, **overrides: Any) -> SmallTransformerConfig:
    return SmallTransformerConfig(**(SIZES | VARIANTS[variant] | overrides))


def tiny_model(
    variant: str,
    model_class: type[PreTrainedModel] | None = None,
    seed: int = 0,
    std: float = 0.5,
    dtype: torch.dtype = torch.float64,
    attention: str = "sdpa",
    **overrides: Any,
) -> Any:
    """A model in eval mode, every weight from N(0, std^2); the language model of its pattern if no class is given."""
    config = tiny_config(variant, **overrides)
    model_class = model_class or LANGUAGE_MODELS[config.attention_pattern]
    model = model_class._from_config(config, attn_implementation=attention)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=generator)
    return model.to(dtype).eval()


def words(rows: int, length: int, seed: int = 0, vocab_size: int = VOCAB_SIZE) -> Tensor:
    """Ordinary tokens (rows, length)."""
    return torch.randint(3, vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(is_real: list[list[int]], seed: int = 0) -> dict[str, Tensor]:
    """input_ids and attention_mask; any tokens lie under the padding, not only the pad token."""
    mask = torch.tensor(is_real)
    return {"input_ids": words(*mask.shape, seed=seed), "attention_mask": mask}


# A full row, padding on the left, on the right, on both sides and in between, and nothing but padding.
EVERY_PADDING = [
    [1, 1, 1, 1, 1, 1],
    [0, 0, 1, 1, 1, 1],
    [1, 1, 1, 0, 0, 0],
    [0, 1, 1, 1, 1, 0],
    [1, 0, 1, 1, 0, 1],
    [0, 0, 0, 0, 0, 0],
]


def inputs(config: SmallTransformerConfig, target_length: int = 4) -> dict[str, Tensor]:
    """A batch with every kind of padding, and the target that an encoder-decoder needs."""
    batch = padded(EVERY_PADDING)
    if config.is_encoder_decoder:
        batch["decoder_input_ids"] = words(len(EVERY_PADDING), target_length, seed=1)
    return batch


def labels_for(model: PreTrainedModel, rows: int = len(EVERY_PADDING), length: int = len(EVERY_PADDING[0])) -> Tensor:
    """Labels that a head takes: a class of each row, or a word or class at each token, some of them left out."""
    if isinstance(model, SmallTransformerForSequenceClassification):
        return torch.arange(rows) % model.config.num_labels
    labels = words(rows, length, seed=2)
    if isinstance(model, SmallTransformerForTokenClassification):
        labels = labels % model.config.num_labels
    labels[0, length // 2 :] = -100
    return labels
