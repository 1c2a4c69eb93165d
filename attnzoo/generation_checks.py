"""Checks of the options of ``generate()``, which a damaged or hostile ``generation_config.json`` may have set.

Transformers checks some of them and ignores others. An end token that is not in the vocabulary, for example, never ends
a sequence. The limits of sizes are far above what a model generates. They make a wrong file raise an error at once
instead of taking all memory.
"""

import math
import operator
import reprlib
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from torch import Tensor

from .zoo_config import check_size

MAX_COUNTS = {"max_new_tokens": 10**6, "max_length": 10**6, "num_beams": 10**4, "num_return_sequences": 10**5}
# Other options by the words of the message, the check, and their names.
KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "True or False": (
        lambda value: isinstance(value, bool),
        (
            *("do_sample", "use_cache", "renormalize_logits", "remove_invalid_values", "return_dict_in_generate"),
            "is_assistant",
            *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
        ),
    ),
    "a whole number of at least 0": (
        lambda value: _is_count(value),
        ("top_k", "num_beam_groups"),
    ),
    "a whole number from 0 to 1,000,000": (
        lambda value: _is_count(value) and int(value) <= 10**6,
        ("min_length", "min_new_tokens", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"),
    ),
    "a finite number": (
        lambda value: _is_finite(value),
        (
            *("temperature", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
            *("repetition_penalty", "encoder_repetition_penalty", "guidance_scale", "max_time", "penalty_alpha"),
        ),
    ),
    # The log p of a hypothesis is divided by its length to this power, which must be finite.
    "a number between -50 and 50": (
        lambda value: _is_finite(value) and -50 <= value <= 50,
        ("length_penalty",),
    ),
    "a whole number, the first token that it changes, and a finite number, the factor of each token": (
        lambda value: _is_pair(value) and _is_count(value[0]) and _is_finite(value[1]),
        ("exponential_decay_length_penalty",),
    ),
    "a list of pairs of a list of token ids and a finite number": (
        lambda value: _are_biases(value),
        ("sequence_bias",),
    ),
    "a WatermarkingConfig, or the dictionary of one": (
        lambda value: isinstance(value, Mapping) or hasattr(value, "construct_processor"),
        ("watermarking_config",),
    ),
}
ONE_TOKEN = ("pad_token_id", "bos_token_id", "forced_bos_token_id")
SOME_TOKENS = ("eos_token_id", "forced_eos_token_id", "decoder_start_token_id")  # the last: a start for each row
# No token outside the vocabulary is generated anyway, and some programs write -1 for none.
SUPPRESSED = ("suppress_tokens", "begin_suppress_tokens")


def check_generation(options: Mapping[str, Any], vocab_size: int, may_never_end: bool = False) -> None:
    """Check the counts, other numbers and tokens among the options of ``generate()``; None is an option not set.

    Args:
        options: by their names
        vocab_size: the number of words of the model's vocabulary
        may_never_end: whether ``eos_token_id`` may be -1, as in a ``GenerationConfig`` for Transformers' continuous
            batching. In a file, or as an argument of a call, it is more likely a mistake

    Raises:
        ValueError: one is of the wrong type or out of range, or a token is not in the vocabulary.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in MAX_COUNTS.keys() & given.keys():
        check_size(name, _whole(given[name]), MAX_COUNTS[name])
    for said, (is_right, names) in KINDS.items():
        for name in names:
            if name in given and not is_right(given[name]):
                raise ValueError(f"{name} must be {said}, got {reprlib.repr(given[name])}")
    for name in given.keys() & SUPPRESSED:
        if not isinstance(given[name], list | tuple | Tensor) or _tokens(given[name]) is None:
            raise _wrong_tokens(name, "a list of ids", given[name])
    for name in given.keys() & {*ONE_TOKEN, *SOME_TOKENS}:
        tokens = _tokens(given[name])
        if name in ONE_TOKEN and (not tokens or isinstance(given[name], list | tuple)):
            raise _wrong_tokens(name, "the id of a token", given[name])
        if not tokens:
            raise _wrong_tokens(name, "the id of a token, or a list of ids", given[name])
        if may_never_end and name == "eos_token_id" and tokens == [-1]:
            continue
        if not all(0 <= token < vocab_size for token in tokens):
            raise ValueError(
                f"{name} must be within the vocabulary, 0 to {vocab_size - 1} for vocab_size={vocab_size}, got "
                f"{reprlib.repr(given[name])}"
            )


def complete(options: Any, config: Any) -> None:
    """Take the special tokens that a generation config does not state from the model's config."""
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if getattr(options, name, None) is None:
            setattr(options, name, getattr(config, name, None))


def _wrong_tokens(name: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be {expected}, got {reprlib.repr(value)}; leave it out if there is none")


def _is_count(value: Any) -> bool:
    """Whether this is a whole number of at least 0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_finite(value: Any) -> bool:
    """Whether this is a number, neither infinite nor NaN."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _are_biases(value: Any) -> bool:
    """Whether this is ``[[[3, 4], -1.0], ...]`` or ``{(3, 4): -1.0, ...}``."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
        return False
    return all(isinstance(ids, list | tuple) and bool(_tokens(ids)) and _is_finite(bias) for ids, bias in pairs)


def _whole(value: Any) -> Any:
    """A whole number, of numpy and torch too, as an int; anything else as it is."""
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return value


def _tokens(value: Any) -> list[int] | None:
    """The ids of one token, or of a list or tensor of tokens; None for anything else."""
    values = value.flatten().tolist() if isinstance(value, Tensor) else value
    values = list(map(_whole, values if isinstance(values, list | tuple) else [values]))
    return values if all(type(one) is int for one in values) else None
