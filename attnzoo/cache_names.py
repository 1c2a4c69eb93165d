"""The names of a cache: Transformers 5.24 renamed ``past_key_values`` to ``cache`` in outputs and in ``generate()``."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from transformers.modeling_outputs import BaseModelOutputWithPast

CACHE = "cache" if hasattr(BaseModelOutputWithPast, "cache") else "past_key_values"


def cache_argument(forward: Callable[..., Any]) -> str | None:
    """The name by which a model's ``forward`` takes a cache, its own or that of the library; None if it takes none."""
    return next((name for name in ("past_key_values", "cache") if name in signature(forward).parameters), None)
