r"""The attentional RNN encoder-decoder as a Hugging Face model, from Cho et al. (2014) to Luong et al. (2015).

The equations are in ``attention.py``, ``recurrent_cells.py``, ``recurrent_encoder.py`` and ``recurrent_decoder.py``.
This file makes models of them: it embeds tokens, converts masks and caches, and names the outputs as every Hugging Face
encoder-decoder does.

Dimensions: B batch, T target length, S source length, L layers, V width of the encoder's outputs, R readout.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils import can_return_tuple

from .attention import AdditiveScore, LocationScore, Score, Source
from .cache_names import CACHE
from .configuration_attentional_rnn import WIRING_DEFAULTS, AttentionalRNNConfig
from .copying import Copied, CopyingDecoderOutput, CopyingModelOutput
from .loss import Count
from .model_inputs import checked, embed, require_tokens, source_mask, target_ids, targets_per_source
from .recurrent_cache import RecurrentDecoderCache, check_target_mask
from .recurrent_cells import WITH_CELL_STATE, RecurrentState
from .recurrent_decoder import WIRINGS, BahdanauDecoder, DecoderState
from .recurrent_encoder import RecurrentEncoder, RecurrentEncoderOutput, as_encoder_outputs
from .zoo_model import ConditionalGenerationMixin, SafetensorsModel, joined_outputs


class AttentionalRNNPreTrainedModel(SafetensorsModel):
    """Initialisation and loading, which all models of the family share."""

    config: AttentionalRNNConfig
    # The decoder cannot return to the state of an earlier token, as assisted decoding requires.
    _is_stateful = True

    def activation_checkpointing_enable(
        self, activation_checkpointing_kwargs: Any = None, every_n_layers: int = 1, offload: bool = False
    ) -> None:
        """Save memory in training: recompute the encoder's layers and the decoder's loop in the backward pass.

        Raises:
            ValueError: ``use_reentrant=True``, which loses the gradients of recurrent states, since these are tuples.
        """
        options = {"use_reentrant": False} | (activation_checkpointing_kwargs or {})
        if options["use_reentrant"] is not False:
            raise ValueError(
                f"use_reentrant={options['use_reentrant']} would lose the gradients of recurrent states; leave it out "
                "of gradient_checkpointing_kwargs, or give use_reentrant=False"
            )
        super().activation_checkpointing_enable(options, every_n_layers, offload)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        r"""Initialise as the paper of the wiring does, r being the config's ``initializer_range``.

        Cho (2014, section 4.1.1) and Bahdanau (2014, appendix B.1), r = 0.01: recurrent matrices orthogonal, gate by
        gate; all biases 0; everything else from N(0, r^2). The decoder then sets Bahdanau's additive score itself:
        :math:`W_a, U_a` from N(0, (r / 10)^2), :math:`v_a` to 0. Sutskever (2014, section 3.4), r = 0.08, and Luong
        (2015, section 4.1), r = 0.1: everything from U(-r, r). A score that is not the papers' sets what it owns
        itself, see :class:`Score`.
        """
        scale: Any = self.config.initializer_range  # the config fills it in
        own = dict(module.named_parameters(recurse=False))
        if own and isinstance(module, Score) and not isinstance(module, AdditiveScore | LocationScore):
            module.init_weights()
            return
        is_uniform = WIRING_DEFAULTS[self.config.wiring].is_uniform
        for name, parameter in own.items():
            if is_uniform:
                init.uniform_(parameter, -scale, scale)
            elif name.startswith("bias"):
                init.zeros_(parameter)
            elif name.startswith("weight_h"):  # torch's weight_hh_l0 and ChoGRU's weight_hidden, gates stacked in rows
                gates = parameter.new_empty(parameter.shape).split(parameter.shape[1])
                init.copy_(parameter, torch.cat([nn.init.orthogonal_(gate) for gate in gates]))
            else:
                init.normal_(parameter, std=scale)
        if isinstance(module, nn.LSTM) and self.config.forget_gate_bias is not None:
            # Of torch's two biases, which are added, one takes the value and the other nothing.
            for name, value in (("bias_ih_l0", self.config.forget_gate_bias), ("bias_hh_l0", 0.0)):
                bias = own[name].clone()
                bias[module.hidden_size : 2 * module.hidden_size] = value  # gates i, f, g, o
                init.copy_(own[name], bias)


class AttentionalRNNEncoder(AttentionalRNNPreTrainedModel):
    """Source embedding and RNN, in one direction or both; returns :class:`RecurrentEncoderOutput`."""

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        sizes = config.embedding_size, config.encoder_hidden_size, config.encoder_layers
        one_way = ("backward",) if config.reverse_source else ("forward",)
        directions = ("forward", "backward") if config.bidirectional else one_way
        self.rnn = RecurrentEncoder(config.cell, *sizes, config.dropout, directions)
        self.post_init()

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> RecurrentEncoderOutput:
        embeddings = self.dropout(embed(self.embed_tokens, input_ids, inputs_embeds, "input_ids", "inputs_embeds"))
        outputs, state = self.rnn(embeddings, source_mask(attention_mask, embeddings))
        return RecurrentEncoderOutput(
            last_hidden_state=outputs[-1],
            final_hidden=state.hidden,
            final_cell=state.cell,
            hidden_states=(embeddings, *outputs) if output_hidden_states else None,
            source_ids=input_ids if self.config.copy else None,
        )


class AttentionalRNNDecoder(AttentionalRNNPreTrainedModel):
    """Target embedding and the decoder of the config's wiring. Its last hidden state is the paper's readout."""

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__(config)
        self.gradient_checkpointing = False
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.wiring = WIRINGS[config.wiring](config)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        # Transformers calls this once for every module that owns a parameter: the score's projections come one by one.
        super()._init_weights(module)
        score = self.wiring.attention.score if isinstance(self.wiring, BahdanauDecoder) else None
        if isinstance(score, AdditiveScore):
            if module in (score.query_proj, score.key_proj):
                scale: float = self.config.initializer_range  # type: ignore[assignment]  # the config fills it in
                init.normal_(module.weight, std=scale / 10)
            elif module is score:
                init.zeros_(module.score_vector)

    @can_return_tuple
    @checked
    def forward(
        self,
        encoder_outputs: RecurrentEncoderOutput,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: RecurrentDecoderCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        tokens_to_compute: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        names = "decoder_input_ids", "decoder_inputs_embeds"
        embeddings = self.dropout(embed(self.embed_tokens, input_ids, inputs_embeds, *names))  # (B, T, E)
        cache: Any = self._cache(past_key_values, use_cache)
        state, source, position = self._start(embeddings, encoder_outputs, encoder_attention_mask, cache)
        check_target_mask(attention_mask, embeddings, position)
        has_many_targets = embeddings.shape[0] > encoder_outputs.last_hidden_state.shape[0]  # for one source
        needs_all_steps = cache is not None or output_attentions or output_hidden_states or has_many_targets
        needs_all_steps = needs_all_steps or embeddings.device.type != "cpu"  # the host would wait for the lengths
        lengths = None
        if tokens_to_compute is not None and not needs_all_steps:
            places = torch.arange(1, embeddings.shape[1] + 1, device=tokens_to_compute.device)
            lengths = (tokens_to_compute * places).amax(dim=1).clamp(min=1).tolist()  # up to the last True
        run = self.wiring
        if self.gradient_checkpointing and self.training:
            run = partial(self._gradient_checkpointing_func, run)
        outputs = run(embeddings, state, source, position, lengths)
        if cache is not None:
            cache.store(outputs.state, source, embeddings.shape[1], self.config)
        weights = outputs.attention_weights  # (B, T, S), or None without attention
        needs_alignments = self.config.copy or self.config.coverage
        return CopyingDecoderOutput(
            last_hidden_state=outputs.readout,
            **{CACHE: cache},
            hidden_states=(embeddings, *outputs.hidden_states, outputs.readout) if output_hidden_states else None,
            cross_attentions=(weights.unsqueeze(1),) if output_attentions and weights is not None else None,
            copy_gate=outputs.gate,
            alignments=weights if needs_alignments else None,
        )

    def _cache(self, past: Any, use_cache: bool | None) -> RecurrentDecoderCache | None:
        """The given cache; without one, a new cache if ``use_cache``, else None."""
        if past is not None and not isinstance(past, RecurrentDecoderCache):
            raise TypeError(
                f"past_key_values must be a RecurrentDecoderCache, got {type(past).__name__}: "
                "a recurrent decoder carries a state, not keys and values"
            )
        if past is None and (self.config.use_cache if use_cache is None else use_cache):
            return RecurrentDecoderCache()
        return past

    def _start(
        self,
        embeddings: Tensor,
        encoder_outputs: RecurrentEncoderOutput,
        encoder_attention_mask: Tensor | None,
        cache: RecurrentDecoderCache | None,
    ) -> tuple[DecoderState, Source | None, int]:
        """The state before the first target token, the source, and the number of tokens read before."""
        value, attention = encoder_outputs.last_hidden_state, self.wiring.attention
        targets = targets_per_source(value, embeddings)
        if cache is not None:
            state, source, position = cache.load(self.config, (embeddings.shape[0], *value.shape[:2]))
            if state is not None and (source is None or source.value is value):
                return state, source, position
        else:
            state, position = None, 0
        # Prepare the source: this is the first call, or the encoder's outputs are others, such as repeated rows.
        mask = source_mask(encoder_attention_mask, value)
        source = None if attention is None else attention.prepare(value, mask)
        if state is None:
            final = RecurrentState(encoder_outputs.final_hidden, encoder_outputs.final_cell)
            if targets > 1:
                final = final.map(lambda part: part.repeat_interleave(targets, dim=0))
            state = self.wiring.initial_state(final, source)
        return state, source, position


class AttentionalRNNModel(AttentionalRNNPreTrainedModel):
    r"""The attentional RNN without an output projection, from Cho et al. (2014) to Luong et al. (2015).

    The config's ``wiring`` selects the decoder. Equations and symbols are in :class:`RecurrentEncoder`,
    :class:`ChoDecoder`, :class:`SutskeverDecoder`, :class:`BahdanauDecoder`, :class:`LuongDecoder` and the score
    classes of ``attention.py``.

    Shape:
        - input_ids, attention_mask: (B, S); padding may be anywhere
        - decoder_input_ids: (B, T); the default, without ``decoder_inputs_embeds``, is ``input_ids`` shifted right
        - encoder_outputs: the output of ``get_encoder()``, or its ``to_tuple()``
        - last_hidden_state: (B, T, readout_size), the readout
        - cross_attentions: with ``output_attentions=True`` a 1-tuple of (B, 1, T, S), the alignments; None without
          attention. Each row sums to 1 (to less with window="predictive"). A row is 0 if there is nothing to attend
          to: the source is all padding, or the window is past the positions of the location score
        - decoder_hidden_states: embeddings (B, T, E), each layer's states (B, T, H), the readout
        - tokens_to_compute: (B, T) bool, or None for all; nothing is computed after the last True of a row. It only
          saves time: it has no effect with a cache, with several targets of a source, on a GPU, with a decoder that
          computes all steps at once, or when the call requests alignments or hidden states

    Raises:
        ValueError: an empty source or target, batches of different sizes, a mask of another shape than its
            tokens, padding before a token of the target, ``past_key_values`` or ``encoder_outputs`` of another
            config, another batch or another source length.
        TypeError: ``past_key_values`` or ``encoder_outputs`` of another kind.
    """

    _tied_weights_keys = {"decoder.embed_tokens.weight": "encoder.embed_tokens.weight"}

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__(config)
        self.encoder = AttentionalRNNEncoder(config)
        self.decoder = AttentionalRNNDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.embed_tokens = value  # type: ignore[assignment]

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: RecurrentEncoderOutput | None = None,
        past_key_values: RecurrentDecoderCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        tokens_to_compute: Tensor | None = None,
        **kwargs: Any,
    ) -> Seq2SeqModelOutput:
        if encoder_outputs is None:
            source = input_ids, attention_mask, inputs_embeds
            encoder_outputs = self.encoder(*source, output_hidden_states, return_dict=True)
        sizes = self.config.encoder_layers, self.config.encoder_output_size
        encoder_outputs = as_encoder_outputs(encoder_outputs, *sizes, has_cell=self.config.cell in WITH_CELL_STATE)
        target = target_ids(self.config, input_ids, decoder_input_ids, decoder_inputs_embeds, past_key_values)
        given = target, decoder_attention_mask, attention_mask, past_key_values, decoder_inputs_embeds
        requests = use_cache, output_attentions, output_hidden_states, tokens_to_compute
        outputs = self.decoder(encoder_outputs, *given, *requests, return_dict=True)
        both = joined_outputs(encoder_outputs, outputs)
        return CopyingModelOutput(**both, copy_gate=outputs.copy_gate, alignments=outputs.alignments)


class AttentionalRNNForConditionalGeneration(AttentionalRNNPreTrainedModel, ConditionalGenerationMixin):
    r"""The attentional RNN with its output projection: translation, transliteration, grapheme-to-phoneme, ...

    .. math:: p(y_i | y_{<i}, x) = \mathrm{softmax}(W_o t_i)

    Symbols: :math:`t_i` is the readout of :class:`AttentionalRNNModel` (Luong's :math:`\tilde h_t`), :math:`W_o`
    (Luong's :math:`W_s`) is the weight of ``lm_head``, without bias. With the config's ``copy`` it is one of two parts
    of :func:`pointer_generator`.

    Shape:
        - labels: (B, T), -100 where there is nothing to predict; the decoder reads them shifted right by one
        - smoothing: label smoothing, the probability that the loss spreads evenly over all words
        - skip_logits: return the loss without the logits, which are then never stored, and skip the target after its
          last label; for training loops that need only the loss
        - num_items_in_batch: the number that the summed loss is divided by. ``Trainer`` passes it for accumulated
          gradients. The default is the number of labels
        - logits: (B, T, vocab_size)
        - copy_probabilities, copy_attentions: with ``copy``, see :class:`CopyingLMOutput`
        - loss: a scalar; with ``coverage`` also :func:`coverage_loss` times ``coverage_loss_coefficient``

    Raises:
        ValueError: as :class:`AttentionalRNNModel`; also ``labels`` that do not fit the batch.
    """

    _tied_weights_keys = {"lm_head.weight": "model.encoder.embed_tokens.weight"}

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__(config)
        self.model = AttentionalRNNModel(config)
        self.lm_head = nn.Linear(config.readout_size, config.vocab_size, bias=False)  # type: ignore[arg-type]
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # generate() would make a cache of keys and values. The decoder makes its own cache, of states.
        return False

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: RecurrentEncoderOutput | None = None,
        past_key_values: RecurrentDecoderCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
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
            "use_cache": use_cache,
            "output_attentions": output_attentions,
            "output_hidden_states": output_hidden_states,
        }
        return self.predict(inputs | kwargs, labels, num_items_in_batch, smoothing, skip_logits)

    def copied(self, outputs: Any, inputs: dict[str, Any]) -> Copied:
        """The decoder's own attention chooses what is copied."""
        ids = self.source_ids(inputs, outputs.encoder_last_hidden_state)
        return Copied(outputs.copy_gate, outputs.alignments, ids)

    def add_target(self, inputs: dict[str, Any], labels: Tensor | None, num_items: Tensor | int | None) -> None:
        """Add the target, in training with a part of its tokens replaced (see ``teacher_forcing_ratio``)."""
        super().add_target(inputs, labels, num_items)
        # Not in generate(), which makes no gradients, and whose prompt must not change.
        is_mixed = self.training and torch.is_grad_enabled() and self.config.teacher_forcing_ratio < 1
        if is_mixed and inputs.get("past_key_values") is None:
            inputs |= self._mixed_target(**inputs)

    def _mixed_target(
        self,
        encoder_outputs: RecurrentEncoderOutput | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        **inputs: Any,
    ) -> dict[str, Any]:
        """The encoder's outputs, and the target (B, T) with some tokens after the first replaced by the model's words.

        Each token stays with the probability ``teacher_forcing_ratio`` (Bengio et al., 2015, section 2.4). No gradient
        passes through the choice of a word. So the words are chosen first, and read like given ones afterwards.
        """
        if encoder_outputs is None:
            names = ("input_ids", "attention_mask", "inputs_embeds", "output_hidden_states")
            encoder_outputs = self.model.encoder(*map(inputs.get, names), return_dict=True)
        target = target_ids(self.config, inputs.get("input_ids"), decoder_input_ids, decoder_inputs_embeds, None)
        if target is None:
            raise ValueError(
                f"teacher_forcing_ratio={self.config.teacher_forcing_ratio} mixes tokens and needs labels or "
                "decoder_input_ids, not decoder_inputs_embeds"
            )
        require_tokens("decoder_input_ids", target, "(batch, length)", 2)
        cache = RecurrentDecoderCache()
        source: dict[str, Any] = {"encoder_outputs": encoder_outputs, "attention_mask": inputs.get("attention_mask")}
        mixed = [target[:, :1]]
        with torch.no_grad():
            for given in target[:, 1:].split(1, dim=1):
                outputs = self.predict(source | {"decoder_input_ids": mixed[-1], "past_key_values": cache})
                own = outputs.logits.argmax(dim=-1)  # type: ignore[union-attr]  # without labels there are logits
                is_kept = torch.rand(given.shape, device=given.device) < self.config.teacher_forcing_ratio
                mixed.append(torch.where(is_kept, given, own))
        return {"encoder_outputs": encoder_outputs, "decoder_input_ids": torch.cat(mixed, dim=1)}
