r"""The small Transformer as a Hugging Face model (Vaswani et al., 2017): one stack, three masks.

The equations are in ``attention.py`` and ``transformer_layers.py``, the stack of N layers is in
``transformer_stack.py``. A model here has one stack (an encoder as BERT, or a decoder as GPT) or two (the paper's
encoder and decoder), and a head.

Dimensions: B batch, T target length, S source length, D model width, H heads, K width of a head, P prefix.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, EncoderDecoderCache
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPast,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
    SequenceClassifierOutputWithPast,
    TokenClassifierOutput,
)
from transformers.modeling_utils import slice_logits_to_keep
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import can_return_tuple

from .cache_names import CACHE
from .configuration_small_transformer import SmallTransformerConfig
from .copying import Copied, CopyHead, source_ids_of
from .generation_options import ZooGenerationMixin
from .labels import check_labels
from .loss import IGNORED, Count, loss_and_logits, loss_of_texts, require_label_shape, token_cross_entropy
from .model_inputs import checked, source_mask, target_ids
from .transformer_stack import SmallTransformerPreTrainedModel, SmallTransformerStack
from .zoo_model import ConditionalGenerationMixin, joined_outputs, with_head


class SmallTransformerModel(SmallTransformerPreTrainedModel):
    r"""The Transformer without an output projection (Vaswani et al., 2017, section 3.1; figure 1).

    The config's ``attention_pattern`` selects the stacks and their masks:

    - ``encoder_decoder`` has ``encoder`` and ``decoder``. A token attends to the whole source; a target token also to
      itself and those before it
    - ``bidirectional`` has ``encoder``. A token attends to its whole text
    - ``causal`` has ``decoder``. A token attends to itself and the tokens before it

    Without a target, the target is the source shifted right, as in BART.

    Shape:
        - input_ids, attention_mask: (B, S); padding may be anywhere; with one stack a mask of four dimensions may say
          which tokens each token may attend to, see :class:`SmallTransformerStack`
        - decoder_input_ids, decoder_attention_mask: (B, T), only for "encoder_decoder"
        - position_ids: (B or 1, S); the default is the rank of each token among the real tokens of its row. With one
          stack a row may hold several texts, and the positions of each text start at 0
        - decoder_position_ids: (B or 1, T), the same for the target
        - past_key_values: the cache of earlier tokens, or the keys and values (B, H, P, K) of a prefix, which come
          before the text in every layer (prefix tuning); "bidirectional" takes a prefix only
        - tokens_to_compute: (B, T) bool, see :class:`SmallTransformerStack`
        - last_hidden_state: (B, T, D); with one stack (B, S, D)
        - encoder_attentions (B, H, S, S), decoder_attentions (B, H, T, T) and cross_attentions (B, H, T, S) of every
          layer, with ``output_attentions=True`` and any backend; with one stack ``attentions``

    Raises:
        ValueError: an empty source or target, batches of different sizes, a mask of another shape than its tokens, a
            text longer than the learned positions, an argument of the decoder for a model with one stack.
        TypeError: a ``past_key_values`` of another kind than the model makes.
    """

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__(config)
        if config.attention_pattern != "causal":
            self.encoder = SmallTransformerStack(config, is_causal=False)
        if config.attention_pattern != "bidirectional":
            self.decoder = SmallTransformerStack(config, is_causal=True)
        if config.is_encoder_decoder:
            self._tied_weights_keys = {"decoder.embed_tokens.weight": "encoder.embed_tokens.weight"}
        self.post_init()

    @property
    def first_stack(self) -> SmallTransformerStack:
        """The stack that reads ``input_ids``."""
        return self.decoder if self.config.attention_pattern == "causal" else self.encoder

    def get_input_embeddings(self) -> nn.Module:
        return self.first_stack.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.first_stack.embed_tokens = value  # type: ignore[assignment]

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        decoder_position_ids: Tensor | None = None,
        use_cache: bool | None = None,
        tokens_to_compute: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast | Seq2SeqModelOutput:
        text = input_ids, attention_mask, inputs_embeds, position_ids
        kwargs |= {"use_cache": use_cache, "return_dict": True}
        if not self.config.is_encoder_decoder:
            of_decoder = (decoder_input_ids, decoder_attention_mask, decoder_inputs_embeds, decoder_position_ids)
            if any(argument is not None for argument in (*of_decoder, encoder_outputs)):
                raise ValueError(
                    f"attention_pattern={self.config.attention_pattern!r} has one stack, which reads input_ids and "
                    "attention_mask; the decoder's arguments and encoder_outputs are for 'encoder_decoder'"
                )
            outputs = self.first_stack(*text, tokens_to_compute, past_key_values=past_key_values, **kwargs)
            names = "last_hidden_state", CACHE, "hidden_states", "attentions"
            return BaseModelOutputWithPast(**{name: outputs.get(name) for name in names})
        if attention_mask is not None and attention_mask.ndim == 4:
            raise ValueError(
                "attention_mask of four dimensions does not tell the decoder which tokens of the source are real; give "
                "encoder_outputs=model.get_encoder()(input_ids, mask_of_four_dimensions), and an attention_mask of "
                "(batch, source length)"
            )
        target = target_ids(self.config, input_ids, decoder_input_ids, decoder_inputs_embeds, past_key_values)
        if target is not decoder_input_ids and attention_mask is not None:
            # With a 1 for the start token.
            decoder_attention_mask = nn.functional.pad(attention_mask[:, :-1], (1, 0), value=1)
        if encoder_outputs is None:
            real_tokens = None if tokens_to_compute is None else attention_mask
            encoder_outputs = self.encoder(*text, real_tokens, **kwargs)
        elif isinstance(encoder_outputs, (tuple, list)):
            ids = source_ids_of(encoder_outputs)  # the head reads them
            encoder_outputs = BaseModelOutput(*(part for part in encoder_outputs if part is not ids or part is None))
        elif isinstance(encoder_outputs, Tensor):
            raise TypeError("encoder_outputs must be a tuple or an output of the encoder, got a tensor; give (tensor,)")
        of_target = target, decoder_attention_mask, decoder_inputs_embeds, decoder_position_ids, tokens_to_compute
        outputs = self.decoder(*of_target, encoder_outputs[0], attention_mask, past_key_values, **kwargs)
        return joined_outputs(encoder_outputs, outputs)


class SmallTransformerWithOutputProjection(SmallTransformerPreTrainedModel):
    """What the heads over the vocabulary share: the model, and a linear layer to a logit for every word."""

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__(config)
        self.model = SmallTransformerModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=config.output_bias)
        self.post_init()


class SmallTransformerWithClassifier(SmallTransformerPreTrainedModel):
    """What the classifiers share: the model, dropout, and a linear layer to a logit for every label."""

    attention_patterns = ("bidirectional", "causal")

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__(config)
        self.model = SmallTransformerModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)  # type: ignore[arg-type]  # from id2label
        self.post_init()


class SmallTransformerForConditionalGeneration(SmallTransformerWithOutputProjection, ConditionalGenerationMixin):
    r"""The encoder-decoder with its output projection: translation, as in the paper, and anything from text to text.

    .. math:: p(y_i | y_{<i}, x) = \mathrm{softmax}(W h_i)

    Symbols: :math:`h_i` is the decoder's last hidden state, :math:`W` the weight of ``lm_head``, which is the
    embeddings' unless ``tie_word_embeddings=False``; a bias is added only with ``output_bias=True``. With the config's
    ``copy`` it is one of two parts of :func:`pointer_generator`, and the other is ``copy_head``. With ``zero_start``
    the start token is left out of the softmax.

    Shape:
        - labels: (B, T), -100 where there is nothing to predict; the decoder reads them shifted right by one
        - smoothing: label smoothing, the probability that the loss spreads evenly over all words
        - skip_logits: return the loss without the logits, which are then never stored, and skip padding and the target
          after its last label; for training loops that need only the loss
        - num_items_in_batch: the number that the summed loss is divided by. ``Trainer`` passes it for accumulated
          gradients. The default is the number of labels
        - logits: (B, T, vocab_size)
        - copy_probabilities, copy_attentions: with ``copy``, see :class:`CopyingLMOutput`

    Raises:
        ValueError: as :class:`SmallTransformerModel`; also ``labels`` that do not fit the batch.
    """

    attention_patterns = ("encoder_decoder",)
    _tied_weights_keys = {"lm_head.weight": "model.encoder.embed_tokens.weight"}

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__(config)
        self.copy_head = CopyHead(config.hidden_size) if config.copy else None
        self.post_init()

    def _supports_default_dynamic_cache(self) -> bool:  # type: ignore[override]  # generate() asks a model, no class
        """Whether ``generate()`` makes the cache. One of cells is made by the decoder."""
        return self.config.decoder_mixer == "attention"

    @property
    def _is_stateful(self) -> bool:  # type: ignore[override]
        """Whether a cache cannot be taken back to an earlier token, as assisted decoding does."""
        return self.config.decoder_mixer != "attention"

    def copied(self, outputs: Any, inputs: dict[str, Any]) -> Copied:
        """A head of its own chooses what is copied."""
        assert self.copy_head is not None  # by the config
        source = outputs.encoder_last_hidden_state
        mask = source_mask(inputs.get("attention_mask"), source)
        return self.copy_head(outputs.last_hidden_state, source, mask, self.source_ids(inputs, source))

    def _expand_inputs_for_generation(
        self, expand_size: int = 1, is_encoder_decoder: bool = True, input_ids: Any = None, **inputs: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Repeat the inputs of ``generate()`` for every beam, but not the source, which all its beams share."""
        source = {name: inputs.pop(name) for name in ("encoder_outputs", "attention_mask") if name in inputs}
        repeat = super()._expand_inputs_for_generation  # type: ignore[misc]  # its self is typed as a protocol
        input_ids, inputs = repeat(expand_size, False, input_ids, **inputs)
        return input_ids, inputs | source

    def _reorder_cache(self, past_key_values: EncoderDecoderCache, beam_idx: Any) -> EncoderDecoderCache:
        """Reorder the target's keys and values only: the beams of a source share those of the source."""
        past_key_values.self_attention_cache.reorder_cache(beam_idx)
        return past_key_values

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        decoder_position_ids: Tensor | None = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Count = None,
        smoothing: float = 0.0,  # Trainer takes every argument with "label" in its name for a column of the data
        skip_logits: bool = False,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": decoder_attention_mask,
            "encoder_outputs": encoder_outputs,
            "past_key_values": past_key_values,
            "inputs_embeds": inputs_embeds,
            "decoder_inputs_embeds": decoder_inputs_embeds,
            "position_ids": position_ids,
            "decoder_position_ids": decoder_position_ids,
            "use_cache": use_cache,
        }
        return self.predict(inputs | kwargs, labels, num_items_in_batch, smoothing, skip_logits)


class SmallTransformerForCausalLM(SmallTransformerWithOutputProjection, ZooGenerationMixin):
    r"""The causal stack with its output projection, as GPT (Radford et al., 2018, section 3.1).

    .. math:: p(w_{i + 1} | w_{\le i}) = \mathrm{softmax}(W h_i)

    Symbols: :math:`h_i` is the last hidden state, :math:`W` the weight of ``lm_head``, the embeddings' unless
    ``tie_word_embeddings=False``.

    **Differs from the paper**: the defaults are those of Vaswani et al. GPT has ``activation="gelu"``,
    ``position_embedding="learned"`` and ``attention_bias=True``.

    Shape:
        - labels: (B, T), the ids of ``input_ids``, -100 where there is nothing to predict. They are shifted here, so
          the first token of a row is never predicted. Pad on the right to train: as in every causal model of
          Transformers, the first word after padding is predicted from the padding
        - shift_labels: (B, T), instead of labels: for each token the id of the next one, already shifted
        - smoothing, skip_logits, num_items_in_batch: as in :class:`SmallTransformerForConditionalGeneration`
        - logits_to_keep: without labels, the number of last tokens to return logits for (0: all); or the places of the
          tokens, (N,) or (B, N); or a bool mask of them, (B, T)
        - logits: (B, T, vocab_size)

    Raises:
        ValueError: as :class:`SmallTransformerModel`; also ``labels`` that do not fit the batch.
    """

    attention_patterns = ("causal",)
    other_arguments = ("shift_labels",)  # not a parameter of forward(): Trainer would need it in every row of data
    _tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}

    def _prepare_position_ids_for_generation(self, inputs_tensor: Tensor, model_kwargs: dict[str, Any]) -> None:
        """Do nothing: the stack counts only real tokens, but ``generate()`` would also count padding on the right."""

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Count = None,
        smoothing: float = 0.0,
        skip_logits: bool = False,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        inputs: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
            **kwargs,
        }
        shift_labels = inputs.pop("shift_labels", None)
        if isinstance(logits_to_keep, int) and logits_to_keep < 0:
            raise ValueError(f"logits_to_keep must be at least 0, or the places of tokens, got {logits_to_keep}")
        if labels is not None and shift_labels is None:
            check_labels(labels, inputs)
            shift_labels = nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)  # a token predicts the one after it
        if shift_labels is not None:
            check_labels(shift_labels, inputs)
            inputs["use_cache"] = False  # a training step has no next token
            inputs["tokens_to_compute"] = _attended_or_labelled(inputs, shift_labels) if skip_logits else None
        outputs = self.model(**inputs, return_dict=True)
        hidden = outputs.last_hidden_state
        if shift_labels is None:
            hidden = slice_logits_to_keep(hidden, logits_to_keep)
        loss, logits = loss_and_logits(self.lm_head, hidden, shift_labels, num_items_in_batch, smoothing, skip_logits)
        return with_head(CausalLMOutputWithPast, outputs, loss=loss, logits=logits)


# Trainer reads this table to decide whether to shift labels that it smooths itself.
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[SmallTransformerConfig.model_type] = SmallTransformerForCausalLM.__name__


class SmallTransformerForMaskedLM(SmallTransformerWithOutputProjection):
    r"""The bidirectional stack with its output projection, as BERT (Devlin et al., 2019, section 3.1, task 1).

    .. math:: p(w_i | w_{\setminus i}) = \mathrm{softmax}(W h_i)

    Symbols: :math:`h_i` is the last hidden state at a masked token, :math:`W` the weight of ``lm_head``, the
    embeddings' unless ``tie_word_embeddings=False``.

    **Differs from the paper**: no segment embeddings, no normalisation of the embeddings, no layer between the stack
    and the output projection.

    Shape:
        - labels: (B, T), the word at a masked token, -100 everywhere else
        - smoothing, skip_logits, num_items_in_batch: as in :class:`SmallTransformerForConditionalGeneration`
        - logits: (B, T, vocab_size)

    Raises:
        ValueError: as :class:`SmallTransformerModel`; also ``labels`` that do not fit the batch.
    """

    attention_patterns = ("bidirectional",)
    _tied_weights_keys = {"lm_head.weight": "model.encoder.embed_tokens.weight"}

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Count = None,
        smoothing: float = 0.0,
        skip_logits: bool = False,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        inputs: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            **kwargs,
        }
        if labels is not None:
            check_labels(labels, inputs)
            inputs["tokens_to_compute"] = _attended_or_labelled(inputs, labels) if skip_logits else None
        outputs = self.model(**inputs, return_dict=True)
        hidden = outputs.last_hidden_state
        loss, logits = loss_and_logits(self.lm_head, hidden, labels, num_items_in_batch, smoothing, skip_logits)
        return with_head(MaskedLMOutput, outputs, loss=loss, logits=logits)


class SmallTransformerForSequenceClassification(SmallTransformerWithClassifier):
    r"""One stack and a linear classifier of one token's state. In a bidirectional stack this is the first token (Devlin
    et al., 2019, section 4.1), in a causal stack the last one, which has seen the text (Radford et al., 2018, section
    3.2).

    .. math:: p(c | w) = \mathrm{softmax}(W h_i + b)

    Symbols: :math:`h_i` is the last hidden state of the first or last real token, :math:`W, b` are ``classifier``.

    **Differs from the paper**: BERT has one more layer in front, the pooler.

    Shape:
        - labels: (B,) classes or, for regression, numbers; (B, num_labels) of zeros and ones for the config's
          ``problem_type="multi_label_classification"``
        - smoothing: label smoothing, the probability that the loss spreads evenly over all labels; single labels only
        - logits: (B, num_labels)

    Raises:
        ValueError: as :class:`SmallTransformerModel`; also ``labels`` that do not fit the problem type, smoothing of
            other than single labels.
    """

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Count = None,
        smoothing: float = 0.0,
        **kwargs: Any,
    ) -> SequenceClassifierOutputWithPast:
        inputs: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
            **kwargs,
        }
        if labels is not None:
            inputs["use_cache"] = False
        outputs = self.model(**inputs, return_dict=True)
        attention_mask, states = inputs.get("attention_mask"), outputs.last_hidden_state
        if attention_mask is not None and attention_mask.ndim != 2:
            raise ValueError(
                "attention_mask must be (batch, length) to classify texts: the first or last real token is read, "
                f"got {tuple(attention_mask.shape)}"
            )
        is_real = source_mask(None if attention_mask is None else attention_mask[:, -states.shape[1] :], states)
        if self.config.attention_pattern == "causal":
            token = states.shape[1] - 1 - is_real.flip(1).int().argmax(dim=1)  # (B,) the last real one
        else:
            token = is_real.int().argmax(dim=1)  # (B,) the first real one
        rows = torch.arange(states.shape[0], device=states.device)
        logits = self.classifier(self.dropout(states[rows, token]))
        loss = loss_of_texts(self.config, logits, labels, num_items_in_batch, smoothing)
        return with_head(SequenceClassifierOutputWithPast, outputs, loss=loss, logits=logits)


class SmallTransformerForTokenClassification(SmallTransformerWithClassifier):
    r"""One stack and a linear classifier of every token's state (Devlin et al., 2019, section 5.3): tags of words.

    .. math:: p(c_i | w) = \mathrm{softmax}(W h_i + b)

    Symbols: :math:`h_i` is the last hidden state of a token, :math:`W, b` are ``classifier``. In a causal stack a token
    sees only itself and the tokens before it.

    Shape:
        - labels: (B, T) classes, -100 where there is nothing to predict, as on padding and within a word
        - smoothing: label smoothing, the probability that the loss spreads evenly over all labels
        - logits: (B, T, num_labels)

    Raises:
        ValueError: as :class:`SmallTransformerModel`; also ``labels`` that do not fit the text or ``num_labels``.
    """

    problem_type = "single_label_classification"  # of every token, whatever the config has for texts

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Count = None,
        smoothing: float = 0.0,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        inputs: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            "past_key_values": past_key_values,
            **kwargs,
        }
        if labels is not None:
            check_labels(labels, inputs)
        outputs = self.model(**inputs, use_cache=False, return_dict=True)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            require_label_shape("single_label_classification", logits.flatten(0, 1), labels.flatten())
            loss = token_cross_entropy(logits, labels, num_items_in_batch, smoothing)
        return with_head(TokenClassifierOutput, outputs, loss=loss, logits=logits)


def _attended_or_labelled(inputs: dict[str, Any], labels: Tensor) -> Tensor | None:
    """(B, T): the tokens that others attend to, or from which a label is predicted; None for all tokens."""
    attention_mask = inputs.get("attention_mask")
    if attention_mask is None or attention_mask.shape != labels.shape:  # an error, unless a cache has earlier tokens
        return None
    return attention_mask.bool() | (labels != IGNORED)
