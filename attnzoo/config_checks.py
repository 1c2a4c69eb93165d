"""Checks of every config: sizes and rates must be within limits, and special tokens within the vocabulary.

The limits are far above the sizes in any paper. They make a damaged or hostile ``config.json`` raise an error at once
instead of taking minutes or all memory.
"""

import math
from typing import Any

import torch
from transformers import PreTrainedConfig

# The greatest value of every size, by the name of its field. An alias of a field follows the field.
MAX_SIZES = {
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_hidden_layers"), 256),
    **dict.fromkeys(("num_attention_heads", "num_hops"), 1024),
    **dict.fromkeys(("embedding_size", "encoder_hidden_size", "decoder_hidden_size", "hidden_size"), 2**16),
    **dict.fromkeys(("attention_size", "attention_hidden_size", "readout_size", "gate_size"), 2**16),
    **dict.fromkeys(("classifier_size", "intermediate_size"), 2**16),
    # Rows of an embedding: words or positions.
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "max_source_positions", "window_size"), 10**7),
    "num_labels": 10**6,  # each has a name in the config
}
RATES = ("dropout", "attention_dropout", "classifier_dropout")


def check_numbers(config: PreTrainedConfig, unused: str = "") -> None:
    """Check the sizes, the dropout rates and the scale of the initial weights, as far as the config has such fields.

    Args:
        config: its fields
        unused: the name of a size that this config does without

    Raises:
        ValueError: a size is not a whole number from 1 to its limit, a rate is not at least 0 and below 1, or
            ``initializer_range`` is not above 0 and finite.
    """
    for name, most in MAX_SIZES.items():
        if hasattr(config, name) and name != unused:
            check_size(name, getattr(config, name), most)
    for name in RATES:
        if not 0 <= getattr(config, name, 0) < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {getattr(config, name)}")
    scale = getattr(config, "initializer_range", 1)
    if scale is None or not 0 < scale < math.inf:
        raise ValueError(f"initializer_range must be above 0 and finite, got {scale}")


def check_size(name: str, value: Any, most: int) -> None:
    """Raise a ValueError unless ``value`` is a whole number from 1 to ``most``."""
    if type(value) is not int:  # a value set through an alias has not been checked
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value:,}")


def check_arguments(config: PreTrainedConfig, others: dict[str, Any]) -> None:
    """Check the labels and the dtype, which Transformers uses before it validates the config.

    Args:
        config: its fields, as they were given
        others: the other arguments of the config

    Raises:
        ValueError: too many labels, ``id2label`` keys that are not whole numbers, or an unknown dtype.
    """
    if config.id2label is None and "num_labels" in others:
        check_size("num_labels", others["num_labels"], MAX_SIZES["num_labels"])
    for label in config.id2label or ():
        if not str(label).isdecimal():
            raise ValueError(f"id2label must have the labels' numbers for its keys, got {label!r}")
    dtype = getattr(torch, config.dtype, None) if isinstance(config.dtype, str) else config.dtype
    if config.dtype is not None and not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype must be the name of one of torch's types, such as 'float32', got {config.dtype!r}")


def check_token_ids(config: PreTrainedConfig) -> None:
    """Check that special tokens are in the vocabulary: padding, the start, and the end (there may be several ends).

    Raises:
        ValueError: a special token is outside the vocabulary.
    """
    size = config.vocab_size
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(config, name, None)
        for token in value if isinstance(value, list) else [value]:
            if token is not None and not 0 <= token < size:
                raise ValueError(
                    f"{name} must be within the vocabulary, 0 to {size - 1} for vocab_size={size}, got {value}"
                )
