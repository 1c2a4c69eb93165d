"""A trained model as a folder that ONNX Runtime runs without torch: graphs, tokenizer, ``run.py`` and a card."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch

from .. import json_files
from ..generation_checks import check_generation
from ..library_internals import forward_hooks
from ..loading import require_finite
from ..new_folders import new_folder
from . import array_search, run
from .generation_graphs import generation_graphs
from .graph import WEIGHTS, Weights
from .reading_graphs import self_attentive, small_transformer
from .recurrent_graph import RecurrentGraphs
from .transformer_graph import CausalGraphs, Seq2SeqGraphs

# For each class of model that can be exported: the task of its export, and what makes its parts or its graph.
GENERATING: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "AttentionalRNNForConditionalGeneration": ("text-to-text", RecurrentGraphs),
    "SmallTransformerForConditionalGeneration": ("text-to-text", Seq2SeqGraphs),
    "SmallTransformerForCausalLM": ("continuation", CausalGraphs),
}
READING: dict[str, tuple[str, Callable[[Any, Weights], onnx.ModelProto]]] = {
    "SelfAttentiveForSequenceClassification": ("classification", self_attentive),
    "SmallTransformerForSequenceClassification": ("classification", small_transformer),
    "SmallTransformerForTokenClassification": ("token-classification", small_transformer),
    "SmallTransformerForMaskedLM": ("fill-mask", small_transformer),
}
# The options of a generation config that the exported model has, and those without effect on what is generated.
KNOWN_OPTIONS = {
    *("eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id", "max_new_tokens", "max_length"),
    *("num_beams", "length_penalty", "early_stopping", "do_sample", "temperature", "top_k", "top_p"),
    *("use_cache", "output_attentions", "output_hidden_states", "output_scores", "output_logits"),
    *("return_dict_in_generate", "transformers_version", "num_return_sequences", "_from_model_config"),
}


def to_onnx(
    model: Any, folder: str | Path, tokenizer: Any = None, weights: Weights = "float32", card: str | None = None
) -> Path:
    """Write a model as ONNX graphs, with the program that runs them: see ``docs/export.md``.

    Args:
        model: a model of the zoo with a head
        folder: for the export; it must not exist, or be empty
        tokenizer: the model's; without it the export takes arrays of ids, not texts
        weights: "float32"; "float16", half the size, which computes in float32; or "int8", a quarter of it
        card: the model's own card, which is copied as ``MODEL_CARD.md``

    Returns:
        the folder

    Raises:
        ValueError: the model, or an option of its generation config, has no counterpart in the export; nothing is
            written.
        FileExistsError: the folder is not empty.
    """
    check_exportable(model, weights)
    if tokenizer is not None and not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{type(tokenizer).__name__} is not a fast tokenizer; an export needs its tokenizer.json")
    name = type(model).__name__
    with torch.no_grad():
        if name in GENERATING:
            task, make = GENERATING[name]
            end = model.generation_config.eos_token_id
            ends = [] if end is None else end if isinstance(end, list) else [end]
            padding = model.generation_config.pad_token_id
            padding = padding if padding is not None else ends[0] if ends else 0
            graphs = generation_graphs(make(model), ends, padding, weights)
        else:
            task, graph_of = READING[name]
            graphs = {"model": graph_of(model, weights)}
    with new_folder(folder) as part:
        for graph, proto in graphs.items():
            (part / f"{graph}.onnx").write_bytes(proto.SerializeToString())
        model.config.save_pretrained(part)
        if name in GENERATING:
            model.generation_config.save_pretrained(part)
        if tokenizer is not None:
            tokenizer.save_pretrained(part)
        for module in (run, array_search, json_files):
            shutil.copy(str(module.__file__), part)
        write_details(part, {"model_class": name, "task": task, "weights": weights}, card)
    return Path(folder)


def write_details(part: Path, details: dict[str, Any], card: str | None) -> None:
    """Write what was exported, and how, with a checksum of every file so far; and the model's own card."""
    details["sha256"] = {path.name: json_files.checksum(path) for path in sorted(part.iterdir())}
    (part / run.DETAILS).write_text(json.dumps(details, indent=2) + "\n", encoding="utf-8")
    if card is not None:
        (part / "MODEL_CARD.md").write_text(card, encoding="utf-8")


def check_exportable(model: Any, weights: str) -> None:
    """Raise a ValueError for a model that cannot be exported; the message names the reason."""
    if weights not in WEIGHTS:
        raise ValueError(f"weights must be one of {', '.join(map(repr, WEIGHTS))}, got {weights!r}")
    name = type(model).__name__
    if name not in GENERATING and name not in READING:
        raise ValueError(f"{name} has no ONNX export; these have: {', '.join([*GENERATING, *READING])}")
    refuse_copying(model, "ONNX")
    refuse_changed_weights(model)
    if name in GENERATING:
        _check_options(model)


def refuse_copying(model: Any, form: str) -> None:
    """Raise a ValueError if a model copies from its source or has coverage, which no export can do."""
    for field in ("copy", "coverage"):
        if getattr(model.config, field, False):
            raise ValueError(f"{field}=True has no counterpart in an export to {form}; export a model without it")


def refuse_changed_weights(model: Any) -> None:
    """Raise a ValueError if a model has adapters, hooks or other weights than its config says, or NaN."""
    name = type(model).__name__
    with torch.device("meta"):
        plain = {key: tuple(value.shape) for key, value in type(model)(model.config).state_dict().items()}
    found = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    if different := sorted(set(plain.items()) ^ set(found.items())):
        raise ValueError(
            f"{name} has other weights than its config says, such as {different[0][0]}; merge adapters "
            "(merge_and_unload) and undo quantisation before an export"
        )
    if hooked := [key or name for key, module in model.named_modules() if forward_hooks(module)]:
        raise ValueError(f"{hooked[0]} has forward hooks, which an export would lose; remove them")
    require_finite(model, name)


def _check_options(model: Any) -> None:
    """Raise a ValueError for an option of the generation config that an export does not have."""
    check_generation(vars(model.generation_config), model.config.vocab_size)
    options = model.generation_config.to_diff_dict()
    unknown = sorted(key for key, value in options.items() if key not in KNOWN_OPTIONS and value is not None)
    if (options.get("num_return_sequences") or 1) > 1:
        unknown.append("num_return_sequences")
    if options.get("do_sample") and (options.get("num_beams") or 1) > 1:
        unknown.append("num_beams")  # an export samples without beams
    if unknown:
        raise ValueError(
            f"the generation config has {unknown[0]}={options[unknown[0]]!r}, which an export does not have; "
            "remove it from model.generation_config, or from the model's generation_config.json"
        )
    start, own = (getattr(some, "decoder_start_token_id", None) for some in (model.generation_config, model.config))
    if model.config.is_encoder_decoder and start not in (None, own):
        raise ValueError(f"decoder_start_token_id={start} of the generation config is not the model's ({own})")
