"""The papers' models by name, for every config of the zoo."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from transformers import PreTrainedConfig

Config = TypeVar("Config", bound=PreTrainedConfig)


def config_of_paper(
    config_class: type[Config], papers: Mapping[str, dict[str, Any]], paper: str, overrides: dict[str, Any]
) -> Config:
    """The config with the fields that ``papers`` has for ``paper``, any field of it overridden.

    Raises:
        ValueError: no such paper, an override that is no field, or one that is given under two names.
    """
    if paper not in papers:
        raise ValueError(f"there is no paper {paper!r}; choose one of: {', '.join(papers)}")
    known = [f.name for f in dataclasses.fields(config_class)] + list(config_class.attribute_map)
    for name in overrides:
        if name not in known and not hasattr(PreTrainedConfig, name):  # such as output_attentions, a property
            nearest = "".join(f"; did you mean {n!r}?" for n in difflib.get_close_matches(name, known, n=1))
            raise ValueError(f"{config_class.__name__} has no field {name!r}{nearest}")
    for alias, field in config_class.attribute_map.items():
        if alias in overrides and field in overrides:
            raise ValueError(f"{alias} is another name of {field}; give one of them")
    fields = papers[paper] | overrides
    if overrides.get("id2label") is not None and "num_labels" not in overrides:
        fields.pop("num_labels", None)  # the paper's number belongs to its own labels
    return config_class(**fields)
