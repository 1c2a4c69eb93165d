"""The arguments of :func:`attnzoo.check`: the kinds of code, and the values that can be used."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from .paper_steps import PAPERS

KINDS = {
    "attention": "(query, key, value, mask), (query, keys, mask) or a decoder block (x, memory, masks) -> output, or "
    "(output, weights)",
    "self_attention": "(x, mask) -> output, or (output, weights)",
    "mask": "(ids), (lengths) or (size) -> mask",
    "loss": "(logits, labels) or (logits, labels, mask) -> number",
    "encoder": "(ids or vectors, mask or lengths) -> outputs, or (outputs, state)",
    "decoder_step": "functions start, step, whole, reorder; or (token, hidden, encoder_outputs, mask)",
    "language_model": "(ids, mask) -> logits",
    "encoder_decoder": "(source, source_mask, target) -> logits",
}
LISTED = "\n".join(f"    {name!r}: {what}" for name, what in KINDS.items())


class OptionError(ValueError):
    """An argument of the check has a value that cannot be used, whatever the code is."""


def _is_number(value: Any, of: type = Integral) -> bool:
    return isinstance(value, of) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_number(value) and value >= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# What an argument may be, in words, and the test of a value that is not None.
VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "causal": ("True, False or None", lambda value: isinstance(value, bool)),
    "mask": ("'attend', 'ignore' or 'additive'", lambda value: value in ("attend", "ignore", "additive")),
    "scale": (
        "'sqrt', a number or None",
        lambda value: value in ("auto", "sqrt") or (_is_number(value, Real) and abs(value) < float("inf")),
    ),
    "num_heads": ("a whole number of at least 1", _is_size),
    "width": (
        "a whole number of at least 1, or one for each input",
        lambda value: _is_size(value) or (isinstance(value, tuple) and bool(value) and all(map(_is_size, value))),
    ),
    "vocab_size": ("a whole number of at least 2", lambda value: _is_size(value) and value >= 2),
    "pad": ("a whole number", _is_number),
    "batch_first": ("True, False or None", lambda value: isinstance(value, bool)),
    "paper": (f"one of {', '.join(PAPERS)}", lambda value: _is_text(value) and value in PAPERS),
    "call": ("a line such as 'token, state, keys, mask -> logits, state, alignment'", _is_text),
    "parameters": (
        "a table of names and blocks, such as {'attention.weight': 'W_a U_a'}",
        lambda value: isinstance(value, dict) and all(_is_text(part) for pair in value.items() for part in pair),
    ),
}


def check_options(kind: str | None, options: dict[str, Any], functions: dict[str, Any]) -> None:
    """Check the arguments.

    Raises:
        OptionError: a value cannot be used, or some do not go together.
    """
    if kind is not None and not (_is_text(kind) and kind in KINDS):
        raise OptionError(f"unknown kind {kind!r}; choose one of {', '.join(KINDS)}\n{LISTED}")
    for name, value in options.items():
        words, is_usable = VALUES[name]
        if value is not None and not is_usable(value):
            raise OptionError(f"{name} is {words}, got {value!r}")
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise OptionError(f"{name} is a function, got {function!r}")
    paper = options["paper"]
    if paper is not None and kind not in (None, "attention", "decoder_step"):
        raise OptionError(f"paper={paper!r} needs kind='attention', kind='decoder_step' or none, got {kind!r}")
    if paper is None and (options["call"] is not None or options["parameters"] is not None):
        raise OptionError("call and parameters tell how to compare with a paper; pass paper=..., too")
