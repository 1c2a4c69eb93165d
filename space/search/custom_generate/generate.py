"""``model.generate(**inputs, custom_generate="owner/attnzoo-search", trust_remote_code=True)``: attnzoo's search."""

from typing import Any

from transformers import PreTrainedModel

from attnzoo import search


def generate(model: PreTrainedModel, **arguments: Any) -> Any:
    """The sequences of ``model.generate(**arguments)``, sooner; see the section "Fast search" of attnzoo's docs.

    Raises:
        ValueError: as of ``generate`` and ``attnzoo.search``.
    """
    return model.generate(**arguments, custom_generate=search)
