r"""The Transformer's stack (Vaswani et al., 2017, section 3.1): embeddings, N layers, and a mask.

Dimensions: B batch, T target length (queries), S source length (keys), D model width. Masks are bool, True =
attend.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, EncoderDecoderCache
from transformers import initialization as init
from transformers.masking_utils import find_packed_sequence_indices
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention import source_positions
from .cache_names import CACHE
from .cell_cache import CellCache
from .configuration_small_transformer import SmallTransformerConfig
from .copying import CopyableSource
from .library_internals import attention_backend
from .model_inputs import checked, embed, require_shape, require_tokens, targets_per_source
from .transformer_layers import MultiHeadAttention, Packing, PositionEmbedding, TransformerLayer, mask_for
from .zoo_model import SafetensorsModel


class SmallTransformerPreTrainedModel(SafetensorsModel):
    """Initialisation and loading, which all models of the family share."""

    config: SmallTransformerConfig
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True
    _supports_attention_backend = True
    _no_split_modules = ["TransformerLayer"]
    attention_patterns: tuple[str, ...] = ("encoder_decoder", "bidirectional", "causal")  # those that a class accepts

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__(config)
        if config.attention_pattern not in self.attention_patterns:
            fitting, name = " or ".join(map(repr, self.attention_patterns)), type(self).__name__
            raise ValueError(f"{name} needs attention_pattern={fitting}, got {config.attention_pattern!r}")

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        r"""Initialise as the authors' released code (Tensor2Tensor) does; the paper does not describe it.

        Word embeddings and the output projection from N(0, 1 / d_model), so that embeddings times the square root of
        d_model, and logits, start with a variance near 1; learned positions alike. Every other matrix from Glorot's
        uniform distribution, biases 0, layer normalisation the identity.
        """
        is_output = module is self.get_output_embeddings()
        if isinstance(module, nn.Embedding) or is_output:
            weight: Any = module.weight
            init.normal_(weight, std=self.config.hidden_size**-0.5)
            if (bias := getattr(module, "bias", None)) is not None:
                init.zeros_(bias)
            zero = self.config.closed_token if is_output else getattr(module, "padding_idx", None)
            if zero is not None:
                init.zeros_(weight[zero])
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        else:
            super()._init_weights(module)

    @staticmethod
    def _load_pretrained_model(model: Any, *args: Any, **kwargs: Any) -> Any:
        """Load the files as every model of the zoo does, and check the row that ``zero_start`` says is 0.

        Raises:
            ValueError: it is not.
        """
        loaded = SafetensorsModel._load_pretrained_model(model, *args, **kwargs)
        for name, module in model.named_modules():
            start = getattr(module, "padding_idx", None)  # of an embedding with such a row
            if start is not None and not module.weight.is_meta and bool(module.weight[start].any()):
                raise ValueError(
                    f"{name} has an embedding of the start token {start} that is not 0, and the config says "
                    "zero_start=True; are they the weights of another model? If not, set it to 0 and save them again"
                )
        return loaded

    @staticmethod
    def create_masks_for_generate(attention_mask: Tensor | None, inputs_embeds: Tensor, **kwargs: Any) -> Tensor | None:
        """The mask (B, S) for ``generate()`` with a static cache. The stack makes its own mask and positions from it.

        It is as long as the cache, so that a compiled step has the same shape at every length.
        """
        if attention_mask is None:
            return None
        num_keys = kwargs[CACHE].get_mask_sizes(inputs_embeds.shape[1], 0)[0]
        return nn.functional.pad(attention_mask, (0, num_keys - attention_mask.shape[1]))


class SmallTransformerStack(SmallTransformerPreTrainedModel):
    r"""Embeddings and N layers (section 3.1): the encoder, the decoder, or a model's only stack.

    .. math:: x_0 = \mathrm{Dropout}(\sqrt{d} \, E[w] + PE), \qquad x_n = \mathrm{Layer}_n(x_{n-1})

    Symbols: :math:`E` is the weight of ``embed_tokens``, :math:`d` is the model width. ``inputs_embeds`` replace
    :math:`E[w]` and are scaled in the same way. With the config's ``zero_start`` the row of the decoder's start token
    is 0 and has no gradient. The position of a token is its rank among the real tokens of its row.
    Padding does not change it. With ``norm="pre"`` a last layer normalisation follows.

    ``position_ids`` replace these ranks. If they start at 0 again within a row, and there is no ``attention_mask`` and
    no cache, the row holds several texts, and no token attends to another text (``DataCollatorWithFlattening``).

    With ``tokens_to_compute`` the other tokens are not computed, and their last hidden states may be 0. It must include
    the tokens that others attend to. It has no effect with a cache, on a GPU, or when the call requests the layers'
    outputs.

    Shape:
        - input_ids: (B, T); attention_mask: (B, T), and with a cache of P tokens (B, P + T), or as long as a static
          cache; or of four dimensions, (B or 1, H or 1, T, P + T): the tokens that each token may attend to
        - position_ids: (B or 1, T)
        - encoder_hidden_states: (B, S, D); encoder_attention_mask: (B, S); a source may have N targets, which follow
          each other in the batch, such as the beams of a search
        - tokens_to_compute: (B, T) bool, or None for all
        - last_hidden_state: (B, T, D)

    Raises:
        ValueError: no tokens, a mask or positions of another shape than the tokens, a text longer than the learned
            positions, a ``past_key_values`` of another batch, source or model.
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
        self.prefix = "decoder_" if self.has_cross_attention else ""  # of the arguments' names
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.closed_token)
        self.embedding_scale = config.hidden_size**0.5
        self.position_embedding = None if config.position_embedding == "none" else PositionEmbedding(config)
        self.dropout = config.dropout
        self.mixer = config.decoder_mixer if self.has_cross_attention else "attention"
        depth = config.decoder_depth if self.has_cross_attention else config.num_hidden_layers
        self.layers = nn.ModuleList(
            TransformerLayer(config, index, self.has_cross_attention, self.mixer) for index in range(depth)
        )
        self.final_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if config.norm == "pre" else None
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
        position_ids: Tensor | None = None,
        tokens_to_compute: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        names = f"{self.prefix}input_ids", f"{self.prefix}inputs_embeds"
        hidden_states = embed(self.embed_tokens, input_ids, inputs_embeds, *names) * self.embedding_scale  # (B, T, D)
        rows, length = hidden_states.shape[:2]
        is_4d_mask = attention_mask is not None and attention_mask.ndim == 4
        if is_4d_mask and self.mixer != "attention":
            raise ValueError(
                f"{self.prefix}attention_mask of four dimensions says which tokens attend to which, and "
                f"decoder_mixer={self.mixer!r} does not attend to tokens; give a mask of (batch, length)"
            )
        if is_causal not in (None, self.is_causal) and not is_4d_mask:
            pattern = self.config.attention_pattern
            raise ValueError(f"is_causal={is_causal} contradicts attention_pattern={pattern!r}; leave it out")
        if encoder_hidden_states is not None:
            width = self.config.hidden_size
            require_tokens("encoder_outputs[0]", encoder_hidden_states, "(batch, length, width)", 3, width)
            targets_per_source(encoder_hidden_states, hidden_states)
        cache: Any = self._cache(past_key_values, use_cache)
        if cache is not None:
            self._check_cache(cache, rows, encoder_hidden_states)
        past: Any = 0 if cache is None else _length(cache)
        num_keys = length if cache is None else cache.get_mask_sizes(length, 0)[0]  # a static cache has room for more
        # Allowed widths of a mask: all tokens so far, or the whole static cache.
        widths = (num_keys,) if isinstance(past, Tensor) else (past + length, num_keys)
        steps = torch.arange(length, device=hidden_states.device) + past  # (T,)
        num_positions = None if torch.compiler.is_compiling() else past + length
        is_real = texts = None
        if attention_mask is not None and is_4d_mask:
            keys = attention_mask.shape[3] if "cache" in kwargs else num_keys  # a paged cache has its own length
            shapes = [(b, h, length, keys) for b in (rows, 1) for h in (self.config.num_attention_heads, 1)]
            what = "(batch or 1, heads or 1, queries, keys)"
            require_shape("attention_mask of four dimensions", attention_mask, what, *shapes)
        else:
            is_real = _is_real(attention_mask, f"{self.prefix}attention_mask", rows, widths, hidden_states.device)
        positions = steps.unsqueeze(0) if is_real is None else source_positions(is_real)[0][:, steps]
        if position_ids is not None:
            positions = position_ids
            num_positions = self._check_positions(position_ids, rows, length)
            if attention_mask is None and past_key_values is None:
                texts = self._texts(position_ids.expand(rows, length))
        if self.position_embedding is not None:
            hidden_states = self.position_embedding(hidden_states, positions, num_positions)
        if self.training:
            hidden_states = nn.functional.dropout(hidden_states, self.dropout)
        is_last_alone = length == 1 and isinstance(past, int) and num_keys == past + 1
        has_future = self.is_causal and not is_last_alone
        recorded = ("output_hidden_states", "output_attentions")  # these have the shapes of a padded batch
        if cache is not None or any(kwargs.get(name, getattr(self.config, name)) for name in recorded):
            tokens_to_compute = None
        packing, source_packing, source_mask = Packing.of(tokens_to_compute), None, None
        if packing is not None:
            hidden_states = packing.pack(hidden_states)  # (N, D)
        backend = "eager" if kwargs.get("output_attentions") else attention_backend(self.config)
        if self.mixer == "attention":
            mask = attention_mask if is_4d_mask else _self_attention_mask(is_real, texts, steps, num_keys, has_future)
            mask = mask_for(backend, mask, (rows, length, num_keys))
        else:
            mask = None if is_real is None else is_real[:, steps]  # (B, T)
        if encoder_hidden_states is not None:
            sources, size = encoder_hidden_states.shape[:2]
            is_real_source = _is_real(encoder_attention_mask, "attention_mask", sources, (size,), hidden_states.device)
            if is_real_source is not None:
                shape = sources, rows // sources * length, size
                source_mask = mask_for(backend, is_real_source[:, None, None], shape)  # (B, 1, 1, S)
                source_packing = None if tokens_to_compute is None else Packing.of(is_real_source)
            if source_packing is not None:
                encoder_hidden_states = source_packing.pack(encoder_hidden_states)
        kwargs |= {"packing": packing, "source_packing": source_packing}
        for layer in self.layers:
            source = encoder_hidden_states, source_mask
            hidden_states = layer(hidden_states, mask, *source, past_key_values=cache, **kwargs)
        if self.final_norm is not None:
            hidden_states = self.final_norm(hidden_states)
        if packing is not None:
            hidden_states = packing.unpack(hidden_states)
        output = BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden_states, **{CACHE: cache})
        if self.config.copy and not self.is_causal:
            return CopyableSource(**output, source_ids=input_ids)
        return output

    def _check_positions(self, position_ids: Tensor, rows: int, length: int) -> int | None:
        """The largest of ``position_ids`` (B or 1, T) plus 1; None in a compiled graph. Raises if one is negative."""
        name = f"{self.prefix}position_ids"
        require_shape(name, position_ids, "(batch, length)", (rows, length), (1, length))
        if torch.compiler.is_compiling():  # a graph cannot branch on them
            return None
        least, most = (int(bound) for bound in position_ids.aminmax())
        if least < 0:
            raise ValueError(f"{name} must be at least 0, got {least}")
        return most + 1

    def _texts(self, position_ids: Tensor) -> Tensor | None:
        """For every token the number of its text within the row, (B, T); None if every row is one text.

        A new text starts where a position is not one more than the position before, as in every model of Transformers.
        """
        texts = find_packed_sequence_indices(position_ids)
        if texts is None or not self.config.is_encoder_decoder:
            return texts
        if torch.compiler.is_compiling():  # the values are not known here
            return None
        raise ValueError(
            f"{self.prefix}position_ids are not consecutive: several texts in a row need "
            "attention_pattern='bidirectional' or 'causal'; give every text a row, or one text an attention_mask"
        )

    def _cache(self, past_key_values: Cache | None, use_cache: bool | None) -> Cache | None:
        """The given cache, or a new one if ``use_cache`` in a causal stack. Others read a prefix of keys and values."""
        kind = EncoderDecoderCache if self.has_cross_attention else Cache
        if past_key_values is not None and not isinstance(past_key_values, kind):
            raise TypeError(f"past_key_values must be of {kind.__name__}, got {type(past_key_values).__name__}")
        if past_key_values is not None:
            self._check_kind(past_key_values)
        if past_key_values is not None or not use_cache or not self.is_causal:
            return past_key_values
        own = DynamicCache(config=self.config) if self.mixer == "attention" else CellCache(len(self.layers))
        return EncoderDecoderCache(own, DynamicCache(config=self.config)) if self.has_cross_attention else own

    def _check_kind(self, cache: Any) -> None:
        """Check that a cache has what the mixer stores: keys and values, or cells."""
        has_cells = isinstance(getattr(cache, "self_attention_cache", None), CellCache)
        if has_cells != (self.mixer != "attention"):
            kinds = "keys and values", "cells"
            raise TypeError(
                f"past_key_values has {kinds[has_cells]} of the target, and decoder_mixer={self.mixer!r} continues "
                f"{kinds[not has_cells]}; continue with the model that made the cache (a prefix has keys and values)"
            )

    def _check_cache(self, cache: Cache, rows: int, source: Tensor | None) -> None:
        """Check that a cache was filled by a model of these sizes, for these rows and this source (B, S, D)."""
        own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        parts: list[tuple[Any, int]] = [(own, rows)]
        if isinstance(cache, EncoderDecoderCache) and source is not None:
            parts.append((cache.cross_attention_cache, source.shape[0]))
            made_from = _length(cache.cross_attention_cache)
            if isinstance(made_from, int) and made_from not in (0, source.shape[1]):
                sizes = f"{made_from} tokens, this one has {source.shape[1]}"
                raise ValueError(f"past_key_values comes from a source of {sizes}; continue with the same source")
        heads = self.config.num_attention_heads
        for part, batch in parts:
            if len(part.layers) not in (0, len(self.layers)):
                sizes = f"{len(part.layers)} layers and the model {len(self.layers)}"
                raise ValueError(f"past_key_values has {sizes}; continue with the model that made the cache")
            keys: Any = getattr(part.layers[0], "keys", None) if part.layers else None
            expected = batch, heads, self.config.hidden_size // heads
            is_readable = keys is not None and keys.ndim == 4  # False if the cache is empty or of another form
            if is_readable and (found := (*keys.shape[:2], keys.shape[3])) != expected:
                raise ValueError(
                    f"past_key_values has keys of {found} (batch, heads, width of a head), this batch and model have "
                    f"{expected}; continue with the batch and the model that made the cache"
                )


def _length(cache: Cache) -> Any:
    """The number of tokens in a cache; a tensor in a compiled graph with a static cache, for all lengths."""
    length = cache.get_seq_length()
    return int(length) if isinstance(length, Tensor) and not torch.compiler.is_compiling() else length


def _is_real(
    attention_mask: Tensor | None, name: str, rows: int, widths: tuple[int, ...], device: torch.device
) -> Tensor | None:
    """A mask (B, S) of bool, True on real tokens; None if no token is padding. S is one of ``widths``."""
    if attention_mask is None:
        return None
    require_shape(name, attention_mask, "(batch, length)", *((rows, width) for width in widths))
    # A graph cannot branch on the mask's values, and the host would wait for a GPU to know them.
    is_known = attention_mask.device.type == "cpu" and not torch.compiler.is_compiling()
    is_full = is_known and bool(attention_mask.all())
    return None if is_full else attention_mask.to(device)


def _self_attention_mask(
    is_real: Tensor | None, texts: Tensor | None, steps: Tensor, num_keys: int, is_causal: bool
) -> Tensor | None:
    """Which tokens may attend to which: each to the real tokens of its text, but not to later ones if ``is_causal``.

    Shape:
        - is_real: (B, at most num_keys), or None if no token is padding
        - texts: (B, num_keys), the number of a token's text in its row, or None if every row is one text
        - steps: (T,), the places of the queries among the keys
        - returns: (B or 1, 1, T or 1, num_keys), or None if nothing is masked
    """
    mask = None
    if is_real is not None:
        mask = nn.functional.pad(is_real, (0, num_keys - is_real.shape[1]))[:, None, None]  # (B, 1, 1, num_keys)
    if texts is not None:
        mask = (texts.unsqueeze(2) == texts.unsqueeze(1)).unsqueeze(1)  # (B, 1, T, T); then there is no other mask
    if is_causal:
        no_future = torch.arange(num_keys, device=steps.device) <= steps.unsqueeze(1)  # (T, num_keys)
        mask = no_future[None, None] if mask is None else mask & no_future
    return mask
