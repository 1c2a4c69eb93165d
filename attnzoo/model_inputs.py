"""The inputs of the models, checked and converted in one place: token ids or embeddings, masks, and the target made
from labels.

Letters in shapes: B batch, N number of tokens, E embedding width, T target length.
"""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers.utils.generic import ModelOutput, TransformersKwargs

IDS = ("input_ids", "decoder_input_ids", "token_type_ids", "position_ids", "decoder_position_ids")
MASKS = ("attention_mask", "decoder_attention_mask", "encoder_attention_mask")
EMBEDDINGS = ("inputs_embeds", "decoder_inputs_embeds", "encoder_hidden_states")
LABELS = ("labels", "shift_labels")
NUMBERS = {"logits_to_keep": (int,)}  # those of a loss are checked beside it
IGNORED_LABEL = -100
MASKED = -1000.0  # an additive mask hides a token at this value or below: exp(-1000) is 0 in every floating-point type

# Transformers passes these to every forward() (from generate(), pipelines, decorators), used there or not. Any
# other unknown argument is an error, unless the class names it in ``other_arguments``.
COMMON_ARGUMENTS = {"return_dict", "use_cache", "output_attentions", "output_hidden_states"}
# Those that are dropped if forward() has no such parameter.
DROPPED_ARGUMENTS = ("use_cache", "labels", "token_type_ids")
ENCODER_EXTRA_ARGUMENTS = {"labels"}  # generate() in the Seq2SeqTrainer passes them to the encoder only
# Arguments for several texts in one row. They repeat what position_ids or a 4D mask say, and have no effect without
# these.
PACKING_ARGUMENTS = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx", "is_causal"}
# Arguments of continuous batching: the attention with a paged cache reads them.
PAGED_CACHE_ARGUMENTS = {"cache", "read_index", "write_index", "block_table", "logits_indices", "logits_processor_args"}

Forward = TypeVar("Forward", bound=Callable[..., Any])


def checked(forward: Forward) -> Forward:
    """Wrap ``forward`` so that it checks its arguments before it computes anything. An error names the argument.

    Ids and labels may be of any integer type. Every mask reaches ``forward`` as bool, see :func:`read_mask`.
    Embeddings that are not finite are set to 0 where the mask hides them. The values of tensors are not checked in a
    compiled or exported graph, which cannot branch on them.

    Raises:
        TypeError: an argument that ``forward`` does not know, or an argument that must be a tensor and is not.
        ValueError: an argument has invalid values.
    """
    parameters = [name for name in inspect.signature(forward).parameters if name not in ("self", "kwargs")]

    @functools.wraps(forward)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        positional = parameters[: len(args)]
        if len(args) > len(parameters) or any(name in kwargs for name in positional):
            return forward(self, *args, **kwargs)  # Python raises its own error
        given = dict(zip(positional, args, strict=True))
        given.update(kwargs)
        for name in kwargs:
            if name not in parameters:
                _check_extra(self, name, given, parameters)
        for name in DROPPED_ARGUMENTS:
            if name not in parameters:
                given.pop(name, None)
        for name, value in given.items():
            if value is None:
                continue
            if isinstance(value, Tensor) and value.is_meta and self.device.type != "meta":
                raise ValueError(f"{name} is on {value.device}, which has no values; the model is on {self.device}")
            if name in IDS:
                given[name] = _integers(value, name)
            elif name in MASKS:
                given[name] = read_mask(value, name)
            elif name in EMBEDDINGS:
                _check_floats(value, name)
            elif name in LABELS:
                given[name] = _read_labels(self, value, name)
            elif name in NUMBERS:
                _check_number(value, name)
            elif name == "encoder_outputs":
                _check_source(value)
                if "decoder_input_ids" in parameters:  # a decoder alone reads what its own model's encoder returned
                    _check_finite(value[0], given.get("past_key_values"))
        for prefix in ("", "decoder_"):
            embeddings, mask = given.get(f"{prefix}inputs_embeds"), given.get(f"{prefix}attention_mask")
            if embeddings is not None and _is_readable(embeddings) and not bool(embeddings.isfinite().all()):
                given[f"{prefix}inputs_embeds"] = _without_padding(embeddings, mask, f"{prefix}inputs_embeds")
        return forward(self, **given)

    return wrapper  # type: ignore[return-value]


def read_mask(mask: Tensor, name: str) -> Tensor:
    """Convert any of Hugging Face's masks to bool, True on real tokens; the only place where masks are converted.

    A mask is bool; or of 1 and 0, as whole numbers or floating-point; or additive, which is floating-point, 0
    on real tokens and -inf or a large negative number on others. A mask of zeros only means padding if it is of whole
    numbers; a floating-point one could mean either and raises an error. A floating-point mask of four dimensions,
    (B, 1 or heads, T, S), is always additive.

    Raises:
        TypeError: not a tensor, or a complex one.
        ValueError: other values.
    """
    if not isinstance(mask, Tensor) or mask.is_complex():
        raise TypeError(f"{name} must be a tensor, 1 on real tokens and 0 on padding, got {_what(mask)}")
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        if _is_readable(mask) and mask.numel():
            low, high = (bound.item() for bound in mask.aminmax())
            if low < 0 or high > 1:
                raise ValueError(
                    f"{name} must be 1 on real tokens and 0 on padding, got {low if low < 0 else high}; an additive "
                    "mask must be of a floating-point type"
                )
        return mask.bool()
    if mask.ndim == 4:
        fits = (mask == 0) | (mask <= MASKED)
        if _is_readable(mask) and not bool(fits.all()):
            raise ValueError(
                f"{name} of four dimensions and floating-point must be additive, 0 where a token is attended to and "
                f"{MASKED:g} or less where not; got {mask[~fits][0].item():g} among its values"
            )
        return torch.where((mask > 0).any(), mask > 0, mask == 0)  # in a graph, where nothing was looked at
    is_additive = (mask < 0).any()
    if _is_readable(mask) and mask.numel():
        fits = (mask == 0) | torch.where(is_additive, mask <= MASKED, mask == 1)
        if not bool(fits.all()):
            raise ValueError(
                f"{name} must be 1 on real tokens and 0 on padding, or additive: 0, and {MASKED:g} or less on "
                f"padding; got {mask[~fits][0].item():g} among its values"
            )
        if not bool(mask.any()):
            raise ValueError(
                f"{name} is floating-point and all 0, which can mean all padding or, as an additive mask, no "
                "padding; give a mask of type bool or of whole numbers"
            )
    return torch.where(is_additive, mask == 0, mask == 1)


def embed(
    embedding: nn.Embedding, ids: Tensor | None, embeddings: Tensor | None, ids_name: str, embeddings_name: str
) -> Tensor:
    """The embeddings of exactly one of ``ids`` (B, N) and ``embeddings`` (B, N, E), of at least one row and token.

    Raises:
        ValueError: both are given, or neither, or one of another shape, without a token, or on another device; an id
            that has no embedding.
    """
    if (ids is None) == (embeddings is None):
        raise ValueError(f"give exactly one of {ids_name} and {embeddings_name}")
    if ids is not None:
        if ids.ndim != 2 or ids.numel() == 0:
            raise ValueError(
                f"{ids_name} must be (batch, length) with at least one token, got shape {tuple(ids.shape)}"
            )
        _check_device(embedding, ids, ids_name)
        if torch.compiler.is_compiling():
            return embedding(ids)
        try:
            return embedding(ids)
        except IndexError as error:  # on a GPU, CUDA raises an assertion instead
            size = embedding.weight.shape[0]
            wrong = ids[(ids < 0) | (ids >= size)]
            raise ValueError(
                f"{ids_name} has the id {wrong[0].item()}, out of range for a vocabulary of {size}: ids are 0 to "
                f"{size - 1}"
            ) from error
    assert embeddings is not None
    width = embedding.weight.shape[-1]
    if embeddings.ndim != 3 or embeddings.numel() == 0 or embeddings.shape[-1] != width:
        raise ValueError(
            f"{embeddings_name} must be (batch, length, {width}) with at least one token, "
            f"got shape {tuple(embeddings.shape)}"
        )
    _check_device(embedding, embeddings, embeddings_name)
    is_autocast = torch.is_autocast_enabled(embeddings.device.type)
    if embeddings.dtype != embedding.weight.dtype and not is_autocast and not _is_sharded(embedding):
        raise ValueError(
            f"{embeddings_name} must have the model's dtype {embedding.weight.dtype}, got {embeddings.dtype}"
        )
    return embeddings


def source_mask(attention_mask: Tensor | None, states: Tensor, name: str = "attention_mask") -> Tensor:
    """The mask (B, N) of ``states`` (B, N, E) as bool, True on real tokens; all are where none is given.

    Raises:
        ValueError: a mask of another shape than the tokens, or of other values than :func:`read_mask` takes.
    """
    if attention_mask is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    if attention_mask.shape != states.shape[:2]:
        raise ValueError(
            f"{name} must be (batch, source length) = {tuple(states.shape[:2])}, got {tuple(attention_mask.shape)}"
        )
    return read_mask(attention_mask, name).to(states.device)


def check_target_labels(labels: Tensor, ids: Tensor | None, embeddings: Tensor | None, is_new: bool) -> None:
    """Refuse labels (B, T) that do not fit the target, which is ids or embeddings, or made of them if ``is_new``.

    Raises:
        ValueError: no label, another shape than the target's, or no target where an old one goes on.
    """
    if labels.ndim != 2 or labels.numel() == 0:
        raise ValueError(
            f"labels must be (batch, target length) with at least one token, got shape {tuple(labels.shape)}"
        )
    target = embeddings if ids is None else ids
    if target is None and not is_new:
        raise ValueError("labels start a new target and past_key_values continues one; give decoder_input_ids")
    if target is not None and labels.shape != target.shape[:2]:
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} do not fit a target of shape {tuple(target.shape[:2])}"
        )


def refuse_lost_labels(num_items: Any, ids: Tensor | None, embeddings: Tensor | None) -> None:
    """Raise a ValueError if a Trainer counts labels, which it keeps for its own loss, and there is no target either.

    The source would be taken as the target.
    """
    if num_items is not None and ids is None and embeddings is None:
        raise ValueError(
            "num_items_in_batch is given without labels and without decoder_input_ids, as by a Trainer that smooths "
            "labels; let DataCollatorForSeq2Seq(tokenizer, model=model) make decoder_input_ids"
        )


def shift_right(labels: Tensor, start_token_id: int, pad_token_id: int) -> Tensor:
    """What a decoder reads for ``labels`` (B, T): the start token, then the labels without the last.

    Raises:
        ValueError: a label after a -100, as left padding makes it: the decoder would read the padding. A compiled graph
            cannot look.
    """
    is_padding = labels == IGNORED_LABEL
    if _is_readable(labels) and bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any()):
        raise ValueError("labels have a token after a -100; pad them on the right (tokenizer.padding_side='right')")
    start = labels.new_full((len(labels), 1), start_token_id)
    return torch.cat([start, labels[:, :-1].masked_fill(is_padding[:, :-1], pad_token_id)], dim=1)


def _check_extra(model: Any, name: str, given: dict[str, Any], parameters: list[str]) -> None:
    """Raise an error for an argument that ``forward`` does not have, except those Transformers passes to all models."""
    value = given[name]
    is_part = model.config.is_encoder_decoder and "decoder_input_ids" not in parameters
    if (
        name in COMMON_ARGUMENTS
        or name in getattr(model, "other_arguments", ())
        or (name in ENCODER_EXTRA_ARGUMENTS and is_part)
        or (value is None and name in TransformersKwargs.__optional_keys__)
    ):
        return
    if name == "token_type_ids":  # some tokenizers always return them
        ids = _integers(value, name)
        if _is_readable(ids) and bool(ids.any()):
            raise ValueError(
                f"token_type_ids has other values than 0, and {type(model).__name__} does not tell segments apart; "
                "leave it out: tokenizer(..., return_token_type_ids=False)"
            )
        return
    if "position_ids" in parameters:
        mask = given.get("attention_mask")
        has_positions_or_mask = given.get("position_ids") is not None or (isinstance(mask, Tensor) and mask.ndim == 4)
        if name in PACKING_ARGUMENTS and has_positions_or_mask:
            return
        if name in PACKING_ARGUMENTS:
            raise ValueError(f"{name} needs position_ids or a mask of four dimensions; give one of them")
        if name in PAGED_CACHE_ARGUMENTS and given.get("cache") is not None:
            return
    nearest = "".join(f"did you mean {near}? " for near in difflib.get_close_matches(name, parameters, n=1))
    raise TypeError(f"{type(model).__name__} has no argument {name}: {nearest}it takes {', '.join(parameters)}")


def _is_readable(tensor: Tensor) -> bool:
    """Whether the tensor's values can be read: not while compiling, and not on the meta device."""
    return not torch.compiler.is_compiling() and not tensor.is_meta


def _is_sharded(module: nn.Module) -> bool:
    """Whether the weights may be on another device or of another dtype until the module is called."""
    return hasattr(module, "_hf_hook") or (torch.distributed.is_available() and torch.distributed.is_initialized())


def _check_device(embedding: nn.Embedding, tensor: Tensor, name: str) -> None:
    device = embedding.weight.device
    if tensor.device != device and not _is_sharded(embedding):
        raise ValueError(
            f"{name} is on {tensor.device} and the model on {device}; move one: {name}.to({str(device)!r})"
        )


def _integers(ids: Any, name: str) -> Tensor:
    """``ids`` as int32 or int64, which embeddings take."""
    if not isinstance(ids, Tensor):
        hint = "; unpack a batch: model(**batch)" if hasattr(ids, "keys") else ""
        raise TypeError(f"{name} must be a tensor of whole numbers, got {_what(ids)}{hint}")
    if ids.dtype in (torch.int64, torch.int32):
        return ids
    if ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise TypeError(f"{name} must be a tensor of whole numbers, got {_what(ids)}")
    return ids.long()


def _check_floats(values: Any, name: str) -> None:
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise TypeError(f"{name} must be a tensor of floating-point numbers, got {_what(values)}")


def _check_number(value: Any, name: str) -> None:
    is_number = isinstance(value, NUMBERS[name]) and not isinstance(value, bool)
    if not is_number and not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a number, got {_what(value)}")


def _check_source(outputs: Any) -> None:
    """Check that ``encoder_outputs`` begin with states (B, S, D). The decoder checks their sizes."""
    if isinstance(outputs, Tensor):
        return  # the family's own check reports what is missing
    if not isinstance(outputs, ModelOutput | tuple | list):
        raise TypeError(f"encoder_outputs must be what get_encoder() returns, got {_what(outputs)}")
    states = outputs[0] if len(outputs) else None
    if not isinstance(states, Tensor) or not states.is_floating_point():
        raise TypeError(f"encoder_outputs must begin with the encoder's last hidden states, got {_what(states)}")
    if states.ndim != 3 or states.numel() == 0:
        raise ValueError(
            "encoder_outputs must begin with states (batch, length, width) of at least one token, got shape "
            f"{tuple(states.shape)}"
        )


def _check_finite(states: Tensor, past: Any) -> None:
    if not _is_readable(states) or (hasattr(past, "get_seq_length") and past.get_seq_length()):
        return  # they were checked when the cache was empty
    if not bool(states.isfinite().all()):
        raise ValueError("encoder_outputs has values that are not finite (NaN or infinite)")


def _without_padding(embeddings: Tensor, mask: Tensor | None, name: str) -> Tensor:
    """Set embeddings (B, N, E) to 0 on padding, since recurrent cells would carry a NaN further."""
    is_finite = embeddings.isfinite().all(dim=-1)  # (B, N)
    if mask is not None and mask.ndim == 2 and mask.shape[1] >= is_finite.shape[-1] and len(mask) == len(is_finite):
        is_padding = ~mask[:, -is_finite.shape[1] :].to(embeddings.device)
        if bool((is_finite | is_padding).all()):
            return embeddings.masked_fill(is_padding.unsqueeze(-1), 0.0)
    raise ValueError(f"{name} has values that are not finite (NaN or infinite) on real tokens")


def _read_labels(model: Any, labels: Any, name: str) -> Tensor:
    """Check labels; whole numbers become int64. Token labels must be in the vocabulary; others may be real."""
    if not isinstance(labels, Tensor) or labels.is_complex():
        raise TypeError(f"{name} must be a tensor, got {_what(labels)}")
    has_vocabulary = model.get_output_embeddings() is not None
    if labels.is_floating_point() or labels.dtype == torch.bool:
        if has_vocabulary:
            raise TypeError(f"{name} must be a tensor of whole numbers, got {_what(labels)}")
        if _is_readable(labels) and not bool(labels.isfinite().all()):
            raise ValueError(f"{name} has values that are not finite (NaN or infinite)")
        return labels
    labels = labels.long()
    if has_vocabulary and _is_readable(labels) and labels.numel():
        low, high = (bound.item() for bound in labels.aminmax())
        size = model.config.vocab_size
        if low < 0 or high >= size:  # may also be -100, which is allowed
            wrong = labels[(labels != IGNORED_LABEL) & ((labels < 0) | (labels >= size))]
            if len(wrong):
                raise ValueError(
                    f"{name} has the id {wrong[0].item()}, out of range for vocab_size={size}: labels are 0 to "
                    f"{size - 1}, or {IGNORED_LABEL} where there is nothing to predict"
                )
    return labels


def _what(value: Any) -> str:
    """A short description of a value, for an error message."""
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}"
    shown = repr(value)
    return f"{type(value).__name__}: {shown if len(shown) < 60 else shown[:57] + '...'}"
