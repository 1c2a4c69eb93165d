r"""The Transformer's stack (Vaswani et al., 2017, section 3.1): embeddings, N layers, and a mask.

Letters in shapes: B batch, T target length (queries), S source length (keys), D model width. Masks are bool, True =
attend.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, EncoderDecoderCache
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention import source_positions
from .configuration_small_transformer import SmallTransformerConfig
from .model_inputs import checked, embed
from .safetensors_model import SafetensorsModel
from .transformer_layers import MultiHeadAttention, Packing, PositionEmbedding, TransformerLayer


class SmallTransformerPreTrainedModel(SafetensorsModel):
    """Initialisation and loading, as every model of the family shares them."""

    config: SmallTransformerConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True
    _no_split_modules = ["TransformerLayer"]
    attention_patterns: tuple[str, ...] = ("encoder_decoder", "bidirectional", "causal")  # those that a class is for

    def __init__(self, config: SmallTransformerConfig, *args: Any) -> None:
        config.validate()  # its fields may have been set one by one since it was made
        if config.attention_pattern not in self.attention_patterns:
            raise ValueError(
                f"{type(self).__name__} needs attention_pattern={' or '.join(map(repr, self.attention_patterns))}, "
                f"got {config.attention_pattern!r}"
            )
        super().__init__(config)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        r"""Initialise as the authors' released code (Tensor2Tensor) does, for the paper does not say.

        Word embeddings and the output projection from N(0, 1 / d_model), so that embeddings times the square root of
        d_model, and logits, start with a variance near 1; learned positions alike. Every other matrix from Glorot's
        uniform distribution, biases 0, layer normalisation the identity.
        """
        if isinstance(module, nn.Embedding) or module is self.get_output_embeddings():
            init.normal_(module.weight, std=self.config.hidden_size**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        else:
            super()._init_weights(module)

    @staticmethod
    def create_masks_for_generate(attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
        """The mask as ``generate()`` has it: the stack makes its own of it, whatever the cache."""
        return attention_mask

    def _resize_token_embeddings(
        self, new_num_tokens: int, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize both embeddings: the source's, which Hugging Face knows as the input's, and the target's."""
        resized = super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if hasattr(self.base_model, "encoder") and hasattr(self.base_model, "decoder"):
            decoder: Any = self.base_model.decoder
            requires_grad = decoder.embed_tokens.weight.requires_grad
            decoder.embed_tokens = self._get_resized_embeddings(
                decoder.embed_tokens, new_num_tokens, pad_to_multiple_of, mean_resizing
            ).requires_grad_(requires_grad)
        return resized


class SmallTransformerStack(SmallTransformerPreTrainedModel):
    r"""Embeddings and N layers (section 3.1): the encoder, the decoder, or all there is.

    .. math:: x_0 = \mathrm{Dropout}(\sqrt{d} \, E[w] + PE), \qquad x_n = \mathrm{Layer}_n(x_{n-1})

    Symbols: :math:`E` is the weight of ``embed_tokens``, :math:`d` the model width; ``inputs_embeds`` are :math:`E[w]`,
    and are scaled like it. Positions are ranks among the real tokens of a row: padding moves nothing, wherever it
    stands. With ``norm="pre"`` a last layer normalisation follows.

    Where the last hidden states of some tokens alone are ``needed``, nothing is computed of the others, and theirs may
    be 0; needed are those that others attend to, too. It has no effect with a cache, or when the layers' outputs are
    asked for.

    Shape:
        - input_ids: (B, T); attention_mask: (B, T), and with a cache of P tokens (B, P + T)
        - encoder_hidden_states: (B, S, D); encoder_attention_mask: (B, S); there may be N targets to each, one after
          the other in the batch, as the beams of a search
        - needed: (B, T) bool, or None for all
        - last_hidden_state: (B, T, D)

    Raises:
        ValueError: no tokens, a mask of another shape than its tokens, a text longer than the learned positions.
        TypeError: a ``past_key_values`` of another kind than the model makes.
    """

    _can_record_outputs = {
        "hidden_states": TransformerLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attention"),
        "cross_attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="cross_attention"),
    }

    def __init__(self, config: SmallTransformerConfig, is_causal: bool) -> None:
        super().__init__(config)
        self.is_causal = is_causal
        self.has_cross_attention = is_causal and config.attention_pattern == "encoder_decoder"
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embedding_scale = config.hidden_size**0.5
        self.position_embedding = None if config.position_embedding == "none" else PositionEmbedding(config)
        self.dropout = config.dropout
        self.layers = nn.ModuleList(
            TransformerLayer(config, index, self.has_cross_attention) for index in range(config.num_hidden_layers)
        )
        is_pre_norm = config.norm == "pre"
        self.final_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if is_pre_norm else None
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        needed: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        hidden_states = self._embed(input_ids, inputs_embeds) * self.embedding_scale  # (B, T, D)
        rows, length = hidden_states.shape[:2]
        cache = self._cache(past_key_values, use_cache)
        past = 0 if cache is None else int(cache.get_seq_length())
        num_keys = length if cache is None else cache.get_mask_sizes(length, 0)[0]  # a static cache has room for more
        is_real = _is_real(attention_mask, (rows, past + length), hidden_states.device)
        steps = torch.arange(past, past + length, device=hidden_states.device)  # (T,)
        if self.position_embedding is not None:
            positions = steps.unsqueeze(0) if is_real is None else source_positions(is_real)[0][:, -length:]
            hidden_states = self.position_embedding(hidden_states, positions, past + length)
        if self.training:
            hidden_states = nn.functional.dropout(hidden_states, self.dropout)
        mask = _self_attention_mask(is_real, steps, past + length, num_keys, self.is_causal)
        if cache is not None or self._is_recorded(kwargs):
            needed = None
        packing = memory_packing = None
        if needed is not None and (packing := Packing.of(needed)) is not None:
            hidden_states = packing.pack(hidden_states)  # (N, D)
        memory_mask = None
        if encoder_hidden_states is not None:
            shape = tuple(encoder_hidden_states.shape[:2])
            if rows < shape[0] or rows % shape[0]:
                raise ValueError(
                    f"source and target are batches of {shape[0]} and {rows} rows; "
                    "every source needs one target, or as many as every other"
                )
            made_from = 0
            if isinstance(cache, EncoderDecoderCache):
                made_from = int(cache.cross_attention_cache.get_seq_length())
            if made_from not in (0, shape[1]):
                raise ValueError(
                    f"past_key_values comes from a source of {made_from} tokens, this one has {shape[1]}; continue "
                    "with the source that the cache was made from"
                )
            is_real_memory = _is_real(encoder_attention_mask, shape, hidden_states.device)
            if is_real_memory is not None:
                memory_mask = is_real_memory[:, None, None]  # (B, 1, 1, S)
                if needed is not None and (memory_packing := Packing.of(is_real_memory)) is not None:
                    encoder_hidden_states = memory_packing.pack(encoder_hidden_states)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                mask,
                encoder_hidden_states,
                memory_mask,
                past_key_values=cache,
                packing=packing,
                memory_packing=memory_packing,
                **kwargs,
            )
        if self.final_norm is not None:
            hidden_states = self.final_norm(hidden_states)
        if packing is not None:
            hidden_states = packing.unpack(hidden_states)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden_states, past_key_values=cache)

    def _embed(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """The embeddings of exactly one of ``input_ids`` (B, T) and ``inputs_embeds`` (B, T, D)."""
        prefix = "decoder_" if self.has_cross_attention else ""
        return embed(self.embed_tokens, input_ids, inputs_embeds, f"{prefix}input_ids", f"{prefix}inputs_embeds")

    def _is_recorded(self, kwargs: dict[str, Any]) -> bool:
        """Whether the caller wants to see the states and weights of the layers, which are those of a padded batch."""
        names = ("output_hidden_states", "output_attentions")
        return any(kwargs.get(name, getattr(self.config, name)) for name in names)

    def _cache(self, past_key_values: Cache | None, use_cache: bool | None) -> Cache | None:
        """The cache to go on from, or a new one where one is wanted."""
        if not self.is_causal:
            return None
        kind = EncoderDecoderCache if self.has_cross_attention else Cache
        if past_key_values is not None and not isinstance(past_key_values, kind):
            raise TypeError(f"past_key_values must be of {kind.__name__}, got {type(past_key_values).__name__}")
        if past_key_values is not None or not use_cache:
            return past_key_values
        cache = DynamicCache(config=self.config)
        return EncoderDecoderCache(cache, DynamicCache(config=self.config)) if self.has_cross_attention else cache


def _is_real(attention_mask: Tensor | None, shape: tuple[int, ...], device: torch.device) -> Tensor | None:
    """Hugging Face's attention_mask (B, S) as bool, True on real tokens; the only place where it is converted.

    None where nothing is padded.
    """
    if attention_mask is None:
        return None
    if attention_mask.shape != shape:
        raise ValueError(
            f"attention_mask must be (batch, length) = {tuple(shape)}, the tokens of a cache among them, "
            f"got {tuple(attention_mask.shape)}"
        )
    if attention_mask.is_floating_point() and bool((attention_mask < 0).any()):
        raise ValueError("attention_mask must be 1 on real tokens and 0 on padding; this one has negative values")
    is_real = attention_mask.to(device=device, dtype=torch.bool)
    if torch.compiler.is_compiling():  # a graph cannot branch on what the mask holds
        return is_real
    return None if bool(is_real.all()) else is_real


def _self_attention_mask(
    is_real: Tensor | None, steps: Tensor, total: int, num_keys: int, is_causal: bool
) -> Tensor | None:
    """Who may attend to whom: every token to the real ones, in a causal stack to those that are not to come.

    Shape:
        - is_real: (B, total), or None where nothing is padded
        - steps: (T,), the places of the queries among the keys
        - num_keys: at least total; a cache of fixed size has room after the last token
        - returns: (B or 1, 1, T or 1, num_keys), or None where nothing is masked
    """
    mask = None
    if is_real is not None:
        mask = nn.functional.pad(is_real, (0, num_keys - is_real.shape[1]))[:, None, None]  # (B, 1, 1, num_keys)
    is_last_alone = len(steps) == 1 and num_keys == total
    if is_causal and not is_last_alone:
        no_future = torch.arange(num_keys, device=steps.device) <= steps.unsqueeze(1)  # (T, num_keys)
        mask = no_future[None, None] if mask is None else mask & no_future
    return mask
