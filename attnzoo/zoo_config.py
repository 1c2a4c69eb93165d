"""The base class of all configs: checks of the fields, and the models of papers by name.

The limits of sizes are far above the sizes in any paper. They make a damaged or hostile ``config.json`` raise an error
at once instead of taking minutes or all memory.
"""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any, Self

import torch
from transformers import PreTrainedConfig

from .json_files import read_mapping
from .library_internals import attention_backend

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
FLAGS = ("output_hidden_states", "output_attentions", "return_dict", "is_encoder_decoder")  # of the base class
# The greatest value of every size, by the name of its field. An alias of a field follows the field.
MAX_SIZES = {
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_hidden_layers"), 256),
    **dict.fromkeys(("num_attention_heads", "num_hops"), 1024),
    **dict.fromkeys(("embedding_size", "encoder_hidden_size", "decoder_hidden_size", "hidden_size"), 2**16),
    **dict.fromkeys(
        ("attention_size", "attention_hidden_size", "readout_size", "classifier_size", "intermediate_size"), 2**16
    ),
    # Rows of an embedding: words or positions.
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "max_source_positions", "window_size"), 10**7),
    "num_labels": 10**6,  # each has a name in the config
}
MOST = 10**6
# The ranges of other numbers: the words of the message, the check, and the fields.
RANGES: dict[str, tuple[Callable[[Any], bool], tuple[str, ...]]] = {
    "at least 0 and below 1": (lambda value: 0 <= value < 1, ("dropout", "attention_dropout", "classifier_dropout")),
    "between 0 and 1": (lambda value: 0 <= value <= 1, ("teacher_forcing_ratio",)),
    "above 0 and at most 1": (lambda value: 0 < value <= 1, ("layer_norm_eps",)),
    # The square of the greatest one is within float32; for larger ones a loss or a weight would be infinite.
    "above 0 and at most 1,000,000": (
        lambda value: value is not None and 0 < value <= MOST,
        ("initializer_range", "confidence_temperature"),
    ),
    "between 0 and 1,000,000": (lambda value: 0 <= value <= MOST, ("penalty_coefficient", "coverage_loss_coefficient")),
    "between -100 and 100": (lambda value: -100 <= value <= 100, ("confidence_bias",)),
    "between -1,000,000 and 1,000,000": (lambda value: value is None or -MOST <= value <= MOST, ("forget_gate_bias",)),
}


class ZooConfig(PreTrainedConfig):
    """A config whose fields are checked when it is made: sizes, rates, special tokens, labels and dtype.

    Raises:
        StrictDataclassError: a field is out of range. It wraps the ValueError of :meth:`validate_architecture` or
            :meth:`validate_token_ids`.
        ValueError: too many labels, an ``id2label`` that does not number its labels, or an unknown dtype.
    """

    @classmethod
    def _of_paper(cls, papers: dict[str, dict[str, Any]], paper: str, overrides: dict[str, Any]) -> Self:
        """The config with the fields that ``papers`` has for ``paper``; ``overrides`` replace any of them.

        Raises:
            ValueError: no such paper, an override that is not a field, or one that is given under two names.
        """
        if paper not in papers:
            raise ValueError(f"there is no paper {paper!r}; choose one of: {', '.join(papers)}")
        known = [field.name for field in dataclasses.fields(cls)] + list(cls.attribute_map)
        for name in overrides:
            if name not in known and not hasattr(PreTrainedConfig, name):  # properties, too: output_attentions
                nearest = "".join(f"; did you mean {n!r}?" for n in difflib.get_close_matches(name, known, n=1))
                raise ValueError(f"{cls.__name__} has no field {name!r}{nearest}")
        for alias, field in cls.attribute_map.items():
            if alias in overrides and field in overrides:
                raise ValueError(f"{alias} is another name of {field}; give one of them")
        fields = papers[paper] | overrides
        if overrides.get("id2label") is not None and "num_labels" not in overrides:
            fields.pop("num_labels", None)  # the paper's number belongs to its own labels
        return cls(**fields)

    # What to do with the folder of a model of another type.
    of_another_type = "load it with an Auto class of Transformers"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Make the config that a file describes; ``kwargs`` are the caller's. See :func:`refuse_kernels`.

        Raises:
            ValueError: it belongs to a model of another type, for which Transformers only warns; or it names a kernel.
        """
        found = config_dict.get("model_type", cls.model_type)
        if found != cls.model_type:
            raise ValueError(
                f"{cls.__name__} needs model_type={cls.model_type!r}, got {found!r}; {cls.of_another_type}"
            )
        if "attn_implementation" not in kwargs:
            refuse_kernels(config_dict)
        return super().from_dict(config_dict, **kwargs)

    @classmethod
    def from_json_file(cls, json_file: Any) -> Any:
        """Make the config that a file describes; see :func:`refuse_kernels`."""
        return cls.from_dict(read_mapping(json_file))

    def __post_init__(self, **kwargs: Any) -> None:
        # Transformers uses the labels and the dtype before it validates the config.
        if kwargs.get("num_labels") is None:
            kwargs.pop("num_labels", None)
        else:  # from_pretrained(folder, num_labels=5) gives it in addition to the file's id2label, which it replaces
            check_size("num_labels", kwargs["num_labels"], MAX_SIZES["num_labels"])
        if self.id2label is not None:
            self._check_labels()
        dtype = getattr(torch, self.dtype, None) if isinstance(self.dtype, str) else self.dtype
        if self.dtype is not None and not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype must be the name of one of torch's types, such as 'float32', got {self.dtype!r}")
        super().__post_init__(**kwargs)

    def _check_labels(self) -> None:
        """Raise a ValueError unless ``id2label`` names the labels 0, 1 and so on."""
        if not isinstance(self.id2label, dict) or not self.id2label:
            raise ValueError(
                f"id2label must be a dictionary of the labels' names by their numbers, such as {{0: 'no', 1: 'yes'}}, "
                f"got {self.id2label!r}; leave it out for names made from num_labels"
            )
        for label in self.id2label:
            if not str(label).isdecimal():
                raise ValueError(f"id2label must have the labels' numbers for its keys, got {label!r}")
        numbers = sorted(int(label) for label in self.id2label)
        if missing := [number for number, label in enumerate(numbers) if number != label]:
            raise ValueError(
                f"id2label must number its {len(numbers)} labels from 0 to {len(numbers) - 1}; {missing[0]} is missing"
            )

    def validate_base_fields(self) -> None:
        """Check fields of Transformers' base class, which accepts anything for them.

        Raises:
            ValueError: an unknown problem type, a flag that is neither True nor False, an attention function that is
                not a name, or ``longest_source`` or ``usual_score``, with which pipelines compare, out of range.
        """
        for name in ("longest_source", "usual_score"):
            value = getattr(self, name, None)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and -MOST <= value <= MOST):
                raise ValueError(f"{name} must be a number between {-MOST:,} and {MOST:,}, got {value!r}")
        if self.problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(f"problem_type must be one of {', '.join(PROBLEM_TYPES)}, got {self.problem_type!r}")
        for name in FLAGS:
            value = getattr(self, name, None)
            if value is not None and not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        backend: Any = attention_backend(self)
        if not isinstance(backend, str | dict):
            raise ValueError(f"attn_implementation must be a name such as 'sdpa', got {backend!r}")

    def validate_architecture(self) -> None:
        """Check sizes, rates and other numbers, as far as the config has such fields.

        Raises:
            ValueError: a size is not a whole number from 1 to its limit in ``MAX_SIZES``, or another number is not in
                its range in ``RANGES``.
        """
        super().validate_architecture()
        other_names = {field: f"{field} (also called {alias})" for alias, field in self.attribute_map.items()}
        for name, most in MAX_SIZES.items():
            if hasattr(self, name):
                check_size(other_names.get(name, name), getattr(self, name), most)
        for words, (is_allowed, names) in RANGES.items():
            for name in names:
                if hasattr(self, name) and not is_allowed(getattr(self, name)):
                    raise ValueError(f"{name} must be {words}, got {getattr(self, name)}")

    def validate_token_ids(self) -> None:
        """Check that special tokens are in the vocabulary; Transformers only warns.

        Raises:
            ValueError: the id of padding, of the start or of one of the ends is outside the vocabulary.
        """
        size = self.vocab_size
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            value = getattr(self, name, None)
            for token in value if isinstance(value, list) else [value]:
                if token is not None and not 0 <= token < size:
                    raise ValueError(
                        f"{name} must be within the vocabulary, 0 to {size - 1} for vocab_size={size}, got {value}"
                    )


def refuse_kernels(fields: Any) -> None:
    """Raise a ValueError if the fields that a file has, or those of a config inside it, name a kernel of the Hub.

    Transformers would download the kernel, which is code, and run it. A caller may ask for it.
    """
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if "attn_implementation" in str(name) and "/" in str(value):
            raise ValueError(
                f"{name}={value!r} in config.json is code on the Hub, which is not run unless you ask for it: remove "
                "it there, or pass attn_implementation to from_pretrained"
            )
        refuse_kernels(value)


def check_size(name: str, value: Any, most: int) -> None:
    """Raise a ValueError unless ``value`` is a whole number from 1 to ``most``."""
    if type(value) is not int:  # a value set through an alias has not been checked
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if not 1 <= value <= most:
        limit = "at least 1" if value < 1 else f"at most {most:,}"
        raise ValueError(f"{name} must be {limit}, got {value:,}")
