"""The inputs of the models, checked and converted in one place: token ids or embeddings, and masks.

Dimensions: B batch, N number of tokens, E embedding width, T target length.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers.generation.continuous_batching import PagedAttentionCache
from transformers.utils.generic import ModelOutput, TransformersKwargs

from .cache_names import CACHE
from .labels import check_padding, read_labels, shift_right, starts_target
from .messages import described
from .value_checks import Checks, is_readable, out_of_range

IDS = ("input_ids", "decoder_input_ids", "token_type_ids", "position_ids", "decoder_position_ids")
MASKS = ("attention_mask", "decoder_attention_mask", "encoder_attention_mask")
EMBEDDINGS = ("inputs_embeds", "decoder_inputs_embeds", "encoder_hidden_states")
LABELS = ("labels", "shift_labels")
FLAGS = ("use_cache", "output_attentions", "output_hidden_states", "skip_logits", "is_causal", "with_penalty")
CHECKED = {*IDS, *MASKS, *EMBEDDINGS, *LABELS, *FLAGS, "logits_to_keep"}
MASKED = -1000.0  # an additive mask hides a token at this value or below: exp(-1000) is 0 in every floating-point type

# Transformers (generate(), pipelines, decorators) passes these to every forward(), even if it does not use them. Any
# other unknown argument is an error, unless the class names it in ``other_arguments``.
COMMON_ARGUMENTS = {"return_dict", "use_cache", "output_attentions", "output_hidden_states"}
# Arguments that are dropped if forward() has no such parameter.
DROPPED_ARGUMENTS = ("use_cache", "labels", "token_type_ids")
# Arguments for several texts in one row. They repeat the information of position_ids or of a 4D mask, one of which is
# required.
PACKING_ARGUMENTS = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx", "is_causal"}
# Arguments of continuous batching: the attention with a paged cache reads them. Another "cache" is past_key_values.
PAGED_CACHE_ARGUMENTS = {"cache", "read_index", "write_index", "block_table", "logits_indices", "logits_processor_args"}

MOST_TOKENS = 10_000  # of one text of a user: far above a sentence, and the time may grow with their square

# Arguments whose default is the config's field of the same name.
CONFIG_DEFAULTS = ("output_attentions", "output_hidden_states")

Forward = TypeVar("Forward", bound=Callable[..., Any])


def checked(forward: Forward) -> Forward:
    """Wrap ``forward`` so that it checks its arguments before it computes anything. An error names the argument.

    ``cache`` is another name of ``past_key_values``: that of Transformers 5.24 and later, and of its ``generate()``.
    Ids and labels may be of any integer type. Every mask reaches ``forward`` as bool, see :func:`read_mask`.
    Embeddings that are not finite are set to 0 where the mask hides them. The values of tensors are not checked in a
    compiled or exported graph, which cannot branch on them.

    Raises:
        TypeError: an argument that ``forward`` does not know, one that is given twice, or one that must be a tensor and
            is not.
        ValueError: an argument has invalid values.
    """
    signature = inspect.signature(forward)
    _, *parameters, _ = signature.parameters  # all but self and **kwargs
    defaults = [name for name in CONFIG_DEFAULTS if name in parameters]
    embedded = [name for name in ("inputs_embeds", "decoder_inputs_embeds") if name in parameters]
    takes_past = "past_key_values" in parameters

    @functools.wraps(forward)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if takes_past and "cache" in kwargs and not isinstance(kwargs["cache"], PagedAttentionCache):
            if "past_key_values" in kwargs:
                raise TypeError(f"cache and past_key_values are names of the same argument; give {CACHE} alone")
            kwargs["past_key_values"] = kwargs.pop("cache")
        given = dict(zip(parameters, args, strict=False)) | kwargs
        if len(args) > len(parameters) or len(given) < len(args) + len(kwargs):  # too many, or one given twice
            signature.bind(self, *args, **kwargs)  # raises Python's own error
        _check_arguments(self, given, parameters)
        for name in defaults:
            if given.get(name) is None:
                given[name] = getattr(self.config, name)
        if "decoder_input_ids" in parameters and given.get("encoder_outputs") is not None:
            # Not in the decoder's own forward(), which reads what the model has checked or computed.
            _check_source(given["encoder_outputs"], given.get("past_key_values"))
        for name in embedded:
            embeddings = given.get(name)
            if embeddings is not None and is_readable(embeddings) and not bool(embeddings.isfinite().all()):
                mask = given.get(name.replace("inputs_embeds", "attention_mask"))
                given[name] = _without_padding(embeddings, mask, name)
        return forward(self, **given)

    return wrapper  # type: ignore[return-value]


def check_batch(model: Any, batch: dict[str, Any]) -> None:
    """Check masks and labels of a batch on the CPU, as ``forward`` does, and that its ids are in the vocabulary.

    Raises:
        TypeError, ValueError: as :func:`checked`; or an id is not in the vocabulary.
    """
    _, *parameters, _ = inspect.signature(type(model).forward).parameters
    given, size = dict(batch), model.config.vocab_size
    _check_arguments(model, given, parameters)
    for name in ("input_ids", "decoder_input_ids"):
        ids = given.get(name)
        if ids is not None and len(wrong := ids[(ids < 0) | (ids >= size)]):
            raise out_of_range(name, wrong, f"a vocabulary of {size}: ids", size)


def _check_arguments(model: Any, given: dict[str, Any], parameters: list[str]) -> None:
    """Check the arguments in ``given``, and convert them in place to what ``forward`` expects."""
    checks = Checks()
    for name in given:
        if name not in parameters:
            _check_extra(model, name, given, parameters)
    for name in DROPPED_ARGUMENTS:
        if name not in parameters:
            given.pop(name, None)
    for name, value in given.items():
        # Where Transformers records the states, not forward(), it also takes a list: the layers that are wanted.
        is_layers = name == "output_hidden_states" and name not in parameters and isinstance(value, list)
        is_flag = (value is True or value is False) and name in FLAGS
        if name in CHECKED and value is not None and not is_layers and not is_flag:
            given[name] = _read(model, name, value, checks)
    if "labels" in parameters and starts_target(given, parameters):
        check_padding(given["labels"], checks)
    checks.read()


def _read(model: Any, name: str, value: Any, checks: Checks) -> Any:
    """Check an argument by its name, and convert it to the type that ``forward`` expects."""
    if isinstance(value, Tensor) and value.is_meta and model.device.type != "meta":
        raise ValueError(f"{name} is on {value.device}, which has no values; the model is on {model.device}")
    if name in IDS:
        return _integers(value, name)
    if name in MASKS:
        return read_mask(value, name, checks)
    if name in LABELS:
        return read_labels(model, value, name, checks)
    if name in EMBEDDINGS and not (isinstance(value, Tensor) and value.is_floating_point()):
        raise TypeError(f"{name} must be a tensor of floating-point numbers, got {described(value)}")
    if name in FLAGS:
        require_flag(name, value)
    if name == "logits_to_keep" and (isinstance(value, bool) or not isinstance(value, int | Tensor)):
        raise TypeError(f"{name} must be a number, got {described(value)}")
    return value


def read_mask(mask: Tensor, name: str, checks: Checks | None = None) -> Tensor:
    """Convert any of Hugging Face's masks to bool, True on real tokens; the only place where masks are converted.

    A mask is of type bool; or it contains 1 and 0, as whole numbers or floating-point; or it is additive: it is
    floating-point, 0 on real tokens, and -inf or a large negative number on the others. If a mask of whole numbers is
    all 0, all tokens are padding. If a floating-point mask is all 0, its meaning is ambiguous, and it raises an error.
    A floating-point mask of four dimensions, (B, 1 or heads, T, S), is always additive.

    Raises:
        TypeError: not a tensor, or a complex one.
        ValueError: other values.
    """
    if not isinstance(mask, Tensor) or mask.is_complex():
        raise TypeError(f"{name} must be a tensor, 1 on real tokens and 0 on padding, got {described(mask)}")
    if mask.dtype == torch.bool:
        return mask
    own = Checks() if checks is None else checks
    if not mask.is_floating_point():
        is_real = mask.bool()
        if is_readable(mask):

            def not_binary() -> ValueError:
                low, high = (bound.item() for bound in mask.aminmax())
                return ValueError(
                    f"{name} must be 1 on real tokens and 0 on padding, got {low if low < 0 else high}; an additive "
                    "mask must be of a floating-point type"
                )

            own.add((is_real != mask).any(), not_binary)
    else:
        is_4d = mask.ndim == 4
        is_additive = ~(mask > 0).any() if is_4d else (mask < 0).any()
        is_real = torch.where(is_additive, mask == 0, mask == 1)
        if is_readable(mask) and mask.numel():
            hides = mask <= MASKED if is_4d else torch.where(is_additive, mask <= MASKED, mask == 1)
            is_wrong = (mask != 0) & ~hides

            def not_additive() -> ValueError:
                allowed = "of four dimensions must be" if is_4d else "must be 1 on real tokens and 0 on padding, or"
                return ValueError(
                    f"{name} {allowed} additive: 0 on real tokens and {MASKED:g} or less on the others; got "
                    f"{mask[is_wrong][0].item():g} among its values"
                )

            own.add(is_wrong.any(), not_additive)
            if not is_4d:
                ambiguous = f"{name} is floating-point and all 0: all padding, or none? Give a mask of type bool"
                own.add(~mask.any(), lambda: ValueError(ambiguous))
    if checks is None:
        own.read()
    return is_real


def require_model(model: Any) -> None:
    """Raise a TypeError unless this is a model with a config."""
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise TypeError(f"model must be a model of Transformers or of attnzoo, got {described(model)}")


def require_tokenizer(tokenizer: Any) -> None:
    """Raise a TypeError unless this is a tokenizer of Transformers."""
    if not callable(tokenizer) or not hasattr(tokenizer, "is_fast"):
        raise TypeError(f"tokenizer must be a tokenizer of Transformers, got {described(tokenizer)}")


@contextmanager
def naming_long_texts(config: Any, lengths: Iterable[tuple[str, int]]) -> Iterator[None]:
    """Name the text that has more tokens than the model has positions, if the ``with`` block ends with an error.

    A model of Transformers then raises an IndexError or a RuntimeError that does not name the text. Lengths are not
    checked before, since some models have a ``max_position_embeddings`` and read longer texts. Some keep two positions
    for padding.

    Args:
        config: the config of the model
        lengths: the name of every text, for the message, and its number of tokens

    Raises:
        ValueError: such a text is the reason.
    """
    try:
        yield
    except (IndexError, RuntimeError, ValueError) as error:
        most = getattr(config, "max_position_embeddings", None)
        if most is None or getattr(config, "position_embedding", "learned") != "learned":
            raise  # sinusoids have no last position
        keeps_two = not isinstance(error, ValueError)  # the models of attnzoo raise ValueErrors
        for name, length in lengths:
            if length > (most - 2 if keeps_two else most):
                positions = f"{length} tokens, and the model has {most} positions"
                raise ValueError(f"{name} has {positions} (max_position_embeddings); shorten or split it") from error
        raise


def require_flag(name: str, value: Any) -> None:
    """Raise a TypeError unless the value is True, False or None: the string "no" would count as True."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {described(value)}")


def require_shape(name: str, tensor: Tensor, what: str, *allowed: tuple[int, ...]) -> None:
    """Raise a ValueError unless the shape is one of ``allowed``; ``what`` names its dimensions."""
    shape = tuple(tensor.shape)
    if shape not in allowed:
        raise ValueError(f"{name} must be {what} = {' or '.join(map(str, dict.fromkeys(allowed)))}, got {shape}")


def require_tokens(name: str, tensor: Tensor, what: str, ndim: int, width: int | None = None) -> None:
    """Raise a ValueError unless the tensor has ``ndim`` dimensions, a row and a token, and this ``width``, if any."""
    if tensor.ndim != ndim or tensor.numel() == 0 or width not in (None, tensor.shape[-1]):
        what = what if width is None else what.replace("width", str(width))
        reason = ": an empty text has no token, leave it out" if tensor.ndim == ndim and not tensor.shape[1] else ""
        raise ValueError(f"{name} must be {what} with at least one token, got shape {tuple(tensor.shape)}{reason}")


def targets_per_source(sources: Tensor, targets: Tensor) -> int:
    """The number of rows of ``targets`` for each row of ``sources``; those of one source follow each other in the
    batch.

    Raises:
        ValueError: not every source has equally many targets.
    """
    rows, num_sources = targets.shape[0], sources.shape[0]  # len() would make an exported graph for one size only
    if rows < num_sources or rows % num_sources:
        raise ValueError(
            f"source and target are batches of {num_sources} and {rows} rows; every source needs one target, or "
            "as many as every other"
        )
    return rows // num_sources


def embed(
    embedding: nn.Embedding, ids: Tensor | None, embeddings: Tensor | None, ids_name: str, embeddings_name: str
) -> Tensor:
    """The embeddings of exactly one of ``ids`` (B, N) and ``embeddings`` (B, N, E), of at least one row and token.

    Raises:
        ValueError: both are given, or neither, or one of another shape, without a token, or on another device; an id
            that has no embedding.
    """
    given, name = (embeddings, embeddings_name) if ids is None else (ids, ids_name)
    if given is None or (ids is not None and embeddings is not None):
        raise ValueError(f"give exactly one of {ids_name} and {embeddings_name}")
    size, width = embedding.weight.shape[0], embedding.weight.shape[-1]
    # Until the module is called, its weights may be elsewhere or of another dtype.
    is_sharded = "forward" in vars(embedding) or (
        torch.distributed.is_available() and torch.distributed.is_initialized()
    )
    device, dtype = embedding.weight.device, embedding.weight.dtype
    if given.device != device and not is_sharded:
        raise ValueError(f"{name} is on {given.device} and the model on {device}; move one: {name}.to({str(device)!r})")
    if ids is None:
        require_tokens(name, given, "(batch, length, width)", 3, width)
        if given.dtype != dtype and not torch.is_autocast_enabled(given.device.type) and not is_sharded:
            raise ValueError(f"{name} must have the model's dtype {dtype}, got {given.dtype}")
        return given
    require_tokens(name, ids, "(batch, length)", 2)
    try:
        return embedding(ids)
    except IndexError as error:  # on a GPU, CUDA raises an assertion instead
        raise out_of_range(name, ids[(ids < 0) | (ids >= size)], f"a vocabulary of {size}: ids", size) from error


def source_mask(attention_mask: Tensor | None, states: Tensor) -> Tensor:
    """The mask (B, N) of ``states`` (B, N, E) as bool, True on real tokens. Without a mask all tokens are real.

    Raises:
        ValueError: a mask of another shape than the tokens, or of other values than :func:`read_mask` takes.
    """
    if attention_mask is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    require_shape("attention_mask", attention_mask, "(batch, source length)", tuple(states.shape[:2]))
    return read_mask(attention_mask, "attention_mask").to(states.device)


def target_ids(
    config: Any, input_ids: Tensor | None, ids: Tensor | None, embeddings: Tensor | None, past_key_values: Any
) -> Tensor | None:
    """The ids (B, T) of the target: ``ids``, or without any target those of the source, shifted right as in BART.

    Raises:
        ValueError: no target, and ``past_key_values`` continues one.
    """
    if input_ids is None or ids is not None or embeddings is not None:
        return ids
    if hasattr(past_key_values, "get_seq_length") and past_key_values.get_seq_length():
        raise ValueError("past_key_values continues a target; give its next tokens as decoder_input_ids")
    return shift_right(input_ids, config.decoder_start_token_id, config.pad_token_id)


def _check_extra(model: Any, name: str, given: dict[str, Any], parameters: list[str]) -> None:
    """Raise an error for an argument that ``forward`` does not have, except those Transformers passes to all models."""
    value = given[name]
    if name in COMMON_ARGUMENTS or name in getattr(model, "other_arguments", ()):
        return
    if value is None and name in TransformersKwargs.__optional_keys__:
        return
    is_part = model.config.is_encoder_decoder and "decoder_input_ids" not in parameters
    if name == "labels" and is_part:  # generate() in the Seq2SeqTrainer passes them to the encoder only
        return
    if name == "token_type_ids":  # some tokenizers always return them
        ids = _integers(value, name)
        if is_readable(ids) and bool(ids.any()):
            raise ValueError(
                f"token_type_ids has other values than 0, and {type(model).__name__} does not tell segments apart; "
                "leave it out: tokenizer(..., return_token_type_ids=False)"
            )
        return
    if name in PACKING_ARGUMENTS and "position_ids" in parameters:
        mask = given.get("attention_mask")
        if given.get("position_ids") is None and not (isinstance(mask, Tensor) and mask.ndim == 4):
            raise ValueError(f"{name} needs position_ids or a mask of four dimensions; give one of them")
        return
    is_paged = "position_ids" in parameters and isinstance(given.get("cache"), PagedAttentionCache)
    if name in PAGED_CACHE_ARGUMENTS and is_paged:
        return
    nearest = "".join(f"did you mean {near}? " for near in difflib.get_close_matches(name, parameters, n=1))
    raise TypeError(f"{type(model).__name__} has no argument {name}: {nearest}it takes {', '.join(parameters)}")


def _integers(ids: Any, name: str) -> Tensor:
    """``ids`` as int32 or int64, which embeddings take."""
    if not isinstance(ids, Tensor) or ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        hint = "; unpack a batch: model(**batch)" if hasattr(ids, "keys") else ""
        raise TypeError(f"{name} must be a tensor of whole numbers, got {described(ids)}{hint}")
    return ids if ids.dtype in (torch.int64, torch.int32) else ids.long()


def _check_source(outputs: Any, past_key_values: Any) -> None:
    """Check that ``encoder_outputs`` begin with finite states (B, S, D). The decoder checks their sizes."""
    if isinstance(outputs, Tensor):
        return  # the family's own check reports what is missing
    if not isinstance(outputs, ModelOutput | tuple | list):
        raise TypeError(f"encoder_outputs must be what get_encoder() returns, got {described(outputs)}")
    states = outputs[0] if len(outputs) else None
    if not isinstance(states, Tensor) or not states.is_floating_point():
        raise TypeError(f"encoder_outputs must begin with the encoder's last hidden states, got {described(states)}")
    require_tokens("encoder_outputs[0]", states, "(batch, length, width)", 3)
    if not is_readable(states) or (hasattr(past_key_values, "get_seq_length") and past_key_values.get_seq_length()):
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
