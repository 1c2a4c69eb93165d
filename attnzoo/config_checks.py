"""Checks of every config: sizes must be within limits, and special tokens within the vocabulary.

The limits are far above the sizes in any paper. They make a damaged or hostile ``config.json`` raise an error at once
instead of taking minutes or all memory.
"""

from typing import Any

import torch
from transformers import PreTrainedConfig

Names = tuple[str, ...]

MAX_LAYERS = 256
MAX_WIDTH = 2**16
MAX_HEADS = 1024  # attention heads, or hops
MAX_ROWS = 10**7  # rows of an embedding: words or positions
MAX_LABELS = 10**6  # each has a name in the config


def check_sizes(config: PreTrainedConfig, *, layers: Names, widths: Names, rows: Names, heads: Names = ()) -> None:
    """Raise an error if a named field is not a whole number from 1 to the limit of its kind.

    Raises:
        ValueError: a size or ``num_labels`` is outside its limits.
    """
    limits = {layers: MAX_LAYERS, heads: MAX_HEADS, widths: MAX_WIDTH, rows: MAX_ROWS, ("num_labels",): MAX_LABELS}
    for names, most in limits.items():
        for name in names:
            check_size(name, getattr(config, name), most)


def check_size(name: str, value: Any, most: int) -> None:
    """Raise a ValueError unless ``value`` is a whole number from 1 to ``most``."""
    if type(value) is not int:  # a value set through an alias has not been checked
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value:,}")


def check_rates(config: PreTrainedConfig, *names: str) -> None:
    """Raise a ValueError unless the named dropout rates are at least 0 and below 1."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {getattr(config, name)}")


def check_arguments(config: PreTrainedConfig, others: dict[str, Any]) -> None:
    """Check the labels and the dtype, which Transformers uses before it validates the config.

    Args:
        config: its fields, as they were given
        others: the other arguments of the config

    Raises:
        ValueError: too many labels, ``id2label`` keys that are not whole numbers, or an unknown dtype.
    """
    if config.id2label is None and "num_labels" in others:
        check_size("num_labels", others["num_labels"], MAX_LABELS)
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
