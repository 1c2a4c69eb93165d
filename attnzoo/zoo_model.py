"""The base class of all models: loading from safetensors only, and resizing of embeddings.

Files of safetensors hold only numbers. A pickle may run code, so no pickle is loaded, as a model or as an adapter.
"""

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import ModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils import GENERATION_CONFIG_NAME, cached_file

from .cache_names import CACHE
from .copying import Copied, CopyingLMOutput, pointer_generator, source_ids_of
from .generation_checks import check_generation, complete
from .generation_options import ZooGenerationMixin
from .json_files import read_mapping
from .labels import check_labels, check_padding, shift_right
from .loss import IGNORED, Count, coverage_loss, loss_and_logits, refuse_withheld_labels
from .model_inputs import require_shape, require_tokens
from .value_checks import Checks

CONVERT = "which may run code; convert weights that you trust with torch.load(..., weights_only=True) and"
MAX_NEW_WEIGHTS = 10**8  # that a file may lack: those of a new head or of added words


@dataclass
class SelfAttentiveClassifierOutput(ModelOutput):
    """What the classifier returns.

    Shape:
        - loss: a scalar if there are labels, the task's loss plus the weighted penalty
        - logits: (B, K)
        - hidden_states, attentions: on request; attentions are a 1-tuple of (B, 1, R, S), A
        - penalty: (B,), without the coefficient; for a pair the sum of the penalties of its sentences. None in
          inference (``torch.no_grad()``, ``torch.inference_mode()``) without labels and without ``output_attentions``
    """

    loss: Tensor | None = None
    logits: Tensor = None  # type: ignore[assignment]
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    penalty: Tensor | None = None


class OtherSizesError(ValueError, RuntimeError):
    """The weights do not fit the config: a RuntimeError, as Transformers raises, and bad input, as all other errors."""


class SafetensorsModel(PreTrainedModel):
    """A Hugging Face model whose weights are loaded from safetensors only; ``save_pretrained`` writes only these.

    Raises:
        ValueError: ``use_safetensors=False``, or an adapter that is a pickle.
        OSError: no safetensors, or damaged ones.
        OtherSizesError: weights of other sizes than the config states.
        ValueError: the config asks for far more weights than the files hold; ``generation_config.json`` is damaged, or
            has a token outside the vocabulary or another option that cannot be right.
    """

    main_input_name = "input_ids"
    base_model_prefix = "model"
    supports_gradient_checkpointing = True

    def __init__(self, config: Any) -> None:
        config.validate()  # its fields may have been set one by one since it was made
        super().__init__(config)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Load as every Hugging Face model does, but never a pickle. For damaged weights the OSError names them."""
        if kwargs.get("use_safetensors") is False:
            raise ValueError(f"use_safetensors=False would load a pickle, {CONVERT} save_pretrained")
        kwargs["use_safetensors"] = True
        try:
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except SafetensorError as error:
            damage = f"damaged or incomplete ({error}); download or save them again"
            raise OSError(f"the weights of {str(pretrained_model_name_or_path)!r} are {damage}") from error
        except RuntimeError as error:
            if "ignore_mismatched_sizes" not in str(error):
                raise
            place = f"the weights of {str(pretrained_model_name_or_path)!r} have other sizes than its config states"
            raise OtherSizesError(f"{place}; ignore_mismatched_sizes=True would replace them by new ones") from error

    def save_pretrained(  # type: ignore[override]  # the other arguments by name
        self, save_directory: Any, is_main_process: bool = True, state_dict: Any = None, **kwargs: Any
    ) -> None:
        """Save as every Hugging Face model does. What ``tie_word_embeddings=False`` unties is saved for every module.

        PEFT sets this where it has trained one of the embeddings and the output, and the others may still share a
        tensor. Transformers would save that once, and draw the rest anew when it loads.
        """
        if not getattr(self.config, "tie_word_embeddings", True):
            weights, seen = dict(self.state_dict() if state_dict is None else state_dict), set[int]()
            for name, weight in weights.items():
                if (place := weight.data_ptr()) in seen:
                    weights[name] = weight.clone()
                seen.add(place)
            state_dict = weights
        super().save_pretrained(save_directory, is_main_process, state_dict, **kwargs)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the embedding of the input and, in an encoder-decoder, that of the decoder.

        Raises:
            ValueError: a model with ``zero_start`` would lose its start token.
        """
        closed = getattr(self.config, "closed_token", None)
        multiple = pad_to_multiple_of or 1
        if closed is not None and new_num_tokens is not None and -(-new_num_tokens // multiple) * multiple <= closed:
            raise ValueError(
                f"new_num_tokens={new_num_tokens} is without the start token, decoder_start_token_id={closed}, which "
                f"zero_start=True needs; keep at least {closed + 1} tokens"
            )
        decoder = getattr(self.base_model, "decoder", None)
        if decoder is not None and decoder.embed_tokens is not self.get_input_embeddings():
            decoder.resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        return super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)

    def adjust_generation_fn(
        self,
        generation_config: Any,
        from_auto_class: Any,
        from_pipeline: Any,
        pretrained_model_name_or_path: Any,
        *args: Any,
        **options: Any,
    ) -> None:
        """Load ``generation_config.json`` as Transformers does, and check it.

        Transformers ignores a damaged file, and would decode differently. Special tokens that the file does not state
        are those of ``config.json``.
        """
        place, file = pretrained_model_name_or_path, "generation_config"
        stated = {} if generation_config is None else vars(generation_config)
        if generation_config is None and place is not None:
            names = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
            wanted = {name: options[name] for name in names if name in options}
            with contextlib.suppress(OSError):  # there is no such file
                file = str(cached_file(place, GENERATION_CONFIG_NAME, **wanted))
                stated = read_mapping(file)
        try:
            check_generation(stated, self.config.vocab_size)
            super().adjust_generation_fn(  # type: ignore[misc]
                generation_config, from_auto_class, from_pipeline, place, *args, **options
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file}: {error}") from error
        complete(self.generation_config, self.config)

    @staticmethod
    def _load_pretrained_model(
        model: Any, state_dict: Any, checkpoint_files: list[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Check the files, and load them. This step of Transformers loads the files of models and of adapters.

        Without safetensors of an adapter, Transformers would load its pickle even if ``use_safetensors`` is True.
        """
        for file in checkpoint_files or ():
            if Path(file).suffix != ".safetensors":
                raise ValueError(f"{file} is a pickle, {CONVERT} safetensors.torch.save_file")
        if state_dict is None and checkpoint_files:
            _check_size(model, checkpoint_files)
            if not getattr(model, "is_quantized", False):
                _refuse_whole_numbers(model, checkpoint_files)
        return PreTrainedModel._load_pretrained_model(model, state_dict, checkpoint_files, *args, **kwargs)


class ConditionalGenerationMixin(ZooGenerationMixin):
    """What the encoder-decoders with an output projection share: the forward pass, and ``generate()``."""

    config: Any
    model: Any
    lm_head: nn.Linear
    training: bool

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """What the decoder reads for ``labels``, as the Trainer's collator asks; see :func:`shift_right`.

        Raises:
            ValueError: a label follows a -100, as with padding on the left: the decoder would read the padding.
        """
        checks = Checks()
        check_padding(labels, checks)
        checks.read()
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    def add_target(self, inputs: dict[str, Any], labels: Tensor | None, num_items: Count) -> None:
        """Check the labels (B, T), and add the decoder's input that belongs to them to the model's arguments.

        Raises:
            ValueError: the labels do not fit the target; or a ``Trainer`` withholds the labels, and no target is given.
        """
        if labels is None:
            names = "decoder_input_ids", "decoder_inputs_embeds"
            if num_items is not None and all(inputs.get(name) is None for name in names):  # the source would be used
                raise ValueError(
                    "num_items_in_batch is given without labels and without decoder_input_ids, as by a Trainer that "
                    "smooths labels; let DataCollatorForSeq2Seq(tokenizer, model=model) make decoder_input_ids"
                )
            return
        inputs["use_cache"] = False  # a training step has no next token
        require_tokens("labels", labels, "(batch, target length)", 2)
        if check_labels(labels, inputs, "decoder_"):
            return
        if not is_prefix(inputs.get("past_key_values")):
            raise ValueError("labels start a new target and past_key_values continues one; give decoder_input_ids")
        inputs["decoder_input_ids"] = shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    def predict(
        self,
        inputs: dict[str, Any],
        labels: Tensor | None = None,
        num_items_in_batch: Count = None,
        smoothing: float = 0.0,
        skip_logits: bool = False,
    ) -> Seq2SeqLMOutput:
        """The logits of the target, and with ``labels`` their loss: what ``forward`` returns; the classes explain it.

        ``inputs`` are the arguments of ``model``, and get others added.
        """
        coefficient = self.config.coverage_loss_coefficient if getattr(self.config, "coverage", False) else 0.0
        refuse_withheld_labels(labels, num_items_in_batch, self.training, "coverage_loss_coefficient", coefficient)
        self.add_target(inputs, labels, num_items_in_batch)
        if labels is not None and skip_logits:  # nothing reads what comes after the last label
            inputs["tokens_to_compute"] = (labels != IGNORED).flip(1).cummax(dim=1).values.flip(1)
        outputs = self.model(**inputs, return_dict=True)
        copied = self.copied(outputs, inputs) if self.config.copy else None
        lm_head = self.lm_head if copied is None else lambda hidden: pointer_generator(self.lm_head(hidden), copied)
        hidden = outputs.last_hidden_state
        closed = getattr(self.config, "closed_token", None)
        loss, logits = loss_and_logits(lm_head, hidden, labels, num_items_in_batch, smoothing, skip_logits, closed)
        if labels is not None and loss is not None and coefficient:
            loss = loss + coefficient * coverage_loss(outputs.alignments, labels, num_items_in_batch)
        head: dict[str, Any] = {"loss": loss, "logits": logits}
        if copied is None:
            return with_head(Seq2SeqLMOutput, outputs, **head)
        head["copy_probabilities"] = copied.gate.neg().sigmoid()
        asked = inputs.get("output_attentions")
        if asked or (asked is None and self.config.output_attentions):
            head["copy_attentions"] = (copied.attention_weights.unsqueeze(1),)  # (B, 1, T, S)
        return with_head(CopyingLMOutput, outputs, **head)

    def copied(self, outputs: Any, inputs: dict[str, Any]) -> Copied:
        """What the mixture of writing and copying needs, from the outputs of ``model`` and its arguments."""
        raise NotImplementedError(f"{type(self).__name__} does not copy")

    def source_ids(self, inputs: dict[str, Any], source: Tensor) -> Tensor:
        """The tokens (B, S) of the encoder's outputs ``source`` (B, S, D), among the arguments of ``forward``.

        Raises:
            ValueError: they are not there.
        """
        given = inputs.get("encoder_outputs")
        ids = None if given is None else source_ids_of(given)
        ids = inputs.get("input_ids") if ids is None else ids
        if ids is None:
            raise ValueError(
                "copy=True copies tokens of the source and needs them: give input_ids, beside encoder_outputs too if "
                "these come without the tokens, and not inputs_embeds"
            )
        require_shape("input_ids", ids, "(batch, source length)", tuple(source.shape[:2]))
        return ids


def is_prefix(past_key_values: Any) -> bool:
    """Whether a target may start after this cache: None, or keys and values of no source, as prefix tuning makes."""
    if isinstance(past_key_values, EncoderDecoderCache):
        return not past_key_values.cross_attention_cache.get_seq_length()
    return past_key_values is None


def with_head(output_class: type[ModelOutput], outputs: ModelOutput, **head: Any) -> Any:
    """The output of a model with a head: what the head adds, and what ``outputs`` has for its other fields."""
    fields: Any = output_class.__dataclass_fields__  # type: ignore[attr-defined]  # all outputs are dataclasses
    return output_class(**head, **{name: value for name, value in outputs.items() if name in fields})


def joined_outputs(encoder: ModelOutput, decoder: Any) -> Seq2SeqModelOutput:
    """The output of an encoder-decoder: what both parts return, under the names that Transformers has for it."""
    return Seq2SeqModelOutput(
        last_hidden_state=decoder.last_hidden_state,
        **{CACHE: decoder.get(CACHE)},
        decoder_hidden_states=decoder.hidden_states,
        decoder_attentions=decoder.attentions or None,  # a decoder may have no self-attention
        cross_attentions=decoder.cross_attentions,
        encoder_last_hidden_state=encoder[0],
        encoder_hidden_states=encoder.get("hidden_states"),  # another output class may lack it
        encoder_attentions=encoder.get("attentions"),
    )


def _refuse_whole_numbers(model: Any, files: list[str]) -> None:
    """Raise a ValueError for weights of a type without fractions, which Transformers would cast."""
    prefix = f"{model.base_model_prefix}."
    own = {name.removeprefix(prefix) for name, _ in model.named_parameters()}
    for file in files:
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118  (no dictionary)
                dtype = weights.get_slice(name).get_dtype()
                if name.removeprefix(prefix) in own and not dtype.startswith(("F", "BF")):
                    raise ValueError(f"{name} in {file} has the type {dtype}; weights need a type such as F32")


def _check_size(model: Any, files: list[str]) -> None:
    """Raise an error if the config asks for far more weights than the files hold, before memory is allocated.

    At this point the model is on the meta device. A quantised file may hold one number for eight weights.
    """
    wanted = sum(parameter.numel() for parameter in model.parameters() if parameter.is_meta)
    if wanted <= MAX_NEW_WEIGHTS:
        return
    held = 0
    for file in files:
        with safe_open(file, framework="pt") as weights:
            held += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    if wanted > 8 * held + MAX_NEW_WEIGHTS:
        raise ValueError(
            f"the config asks for {wanted:,} weights and the files next to it have {held:,}: the sizes in config.json "
            "are not those of this model; save or download it again"
        )
