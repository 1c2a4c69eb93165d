r"""The layers of the Transformer (Vaswani et al., 2017, section 3): attention in heads, feed-forward, positions.

Scores, mask, softmax and sum are in ``attention.py``. This file builds heads and the sublayers of a stack from them,
and has the recurrent unit that a decoder may have in place of self-attention.

Dimensions: B batch, T target length (queries), S source length (keys), D model width, H heads, K head width.
Masks are bool, True = attend.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask
from transformers import Cache, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .attention import attend, dot_score
from .cache_names import CACHE
from .cell_cache import CellCache
from .configuration_small_transformer import SmallTransformerConfig
from .fast_products import linear
from .library_internals import attention_backend

MAX_PACKED = 0.95  # a batch is not packed if a larger share of its tokens would be: packing would take longer


class Packing(NamedTuple):
    """Some tokens of a batch, one after the other, so that operations on single tokens skip the other tokens.

    Shape:
        - places: (N,) int64, where they are in the batch, row after row
        - shape: B and T of the batch
    """

    places: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, is_packed: Tensor | None) -> "Packing | None":
        """The tokens where ``is_packed`` (B, T) is True; None if nearly all are, or without ``is_packed``.

        None also on a GPU, where the host would wait to know their number.
        """
        if is_packed is None or is_packed.device.type != "cpu":
            return None
        if int(is_packed.sum()) > MAX_PACKED * is_packed.numel():
            return None
        return cls(is_packed.flatten().nonzero().squeeze(1), (is_packed.shape[0], is_packed.shape[1]))

    def pack(self, batch: Tensor) -> Tensor:
        """(B, T, D) to (N, D)."""
        return batch.flatten(0, 1).index_select(0, self.places)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, D) to (B, T, D), 0 for all other tokens."""
        batch = packed.new_zeros(self.shape[0] * self.shape[1], packed.shape[-1])
        return batch.index_copy(0, self.places, packed).unflatten(0, self.shape)


def mask_for(implementation: str, mask: Tensor | None, shape: tuple[int, int, int]) -> Any:
    """Convert a bool mask to the kind that a backend takes: a block mask for flex, an additive mask for paged eager.

    Shape:
        - mask: broadcastable to (B, H, T, S); ``shape`` is B, T, S
    """
    if mask is not None and implementation == "paged|eager":
        return torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    if mask is None or implementation != "flex_attention":
        return mask
    rows, queries, keys = shape
    every = mask.expand(rows, -1, queries, keys)
    heads = every.shape[1]

    def may_attend(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return every[row, head if heads > 1 else 0, query, key]

    return create_block_mask(may_attend, rows, heads if heads > 1 else None, queries, keys, device=mask.device)


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    r"""Scaled dot-product attention (section 3.2.1), by the names of Transformers' attention interface.

    .. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V

    Symbols: :math:`1 / \sqrt{d_k}` is ``scaling``. A query with nothing to attend to gets zeros.

    Shape:
        - query: (B, H, T, K); key, value: (B, H, S, K)
        - attention_mask: bool, broadcastable to (B, H, T, S)
        - returns: context (B, T, H, K), attention_weights (B, H, T, S)
    """
    context, attention_weights = attend(dot_score(query, key, scaling), value, attention_mask, dropout=dropout)
    return context.transpose(1, 2), attention_weights


class MultiHeadAttention(nn.Module):
    r"""Multi-head attention (section 3.2.2): to the same sequence, or across to the ``source``.

    .. math::
        \mathrm{head}_i = \mathrm{Attention}(x W_i^Q, y W_i^K, y W_i^V), \qquad
        \mathrm{MultiHead}(x, y) = [\mathrm{head}_1; \ldots; \mathrm{head}_h] W^O

    Symbols: :math:`x` is ``hidden_states``; :math:`y` is ``source``, and :math:`x` itself in self-attention;
    :math:`W_1^Q \ldots W_h^Q` side by side are the transposed weight of ``query_proj``, and so :math:`W^K, W^V, W^O` of
    ``key_proj``, ``value_proj`` and ``output_proj``, without bias unless the config's ``attention_bias`` asks for it.

    The backend is the config's ``attn_implementation``. A call that requests the weights uses the eager backend, since
    no other returns them. ``past_key_values`` caches keys and values: those of the sequence are appended, those of a
    source are computed once. A source may serve N sequences that follow each other in the batch, such as the beams of a
    search; it is not repeated.

    Three matrices and not one: a product with all of them at once is not faster here (1,344 tokens of width 256,
    forward and backward: 19 ms either way).

    Shape:
        - hidden_states: (B * N, T, D); source: (B, S, D); or only some tokens of each, (N, D), by ``packing`` and
          ``source_packing``
        - mask: bool, broadcastable to (B, H, T, S), or converted by :func:`mask_for`
        - returns: (B * N, T, D), attention_weights (B * N, H, T, S) or None
    """

    is_causal = False  # the mask alone says which tokens may be attended to; without a mask, all of them

    def __init__(self, config: SmallTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        size, bias = config.hidden_size, config.attention_bias
        self.head_size = size // config.num_attention_heads
        self.scaling = self.head_size**-0.5 if config.scale_scores else 1.0
        self.dropout = config.attention_dropout
        self.query_proj = nn.Linear(size, size, bias=bias)
        self.key_proj = nn.Linear(size, size, bias=bias)
        self.value_proj = nn.Linear(size, size, bias=bias)
        self.output_proj = nn.Linear(size, size, bias=bias)

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        source: Tensor | None = None,
        past_key_values: Cache | None = None,
        packing: Packing | None = None,
        source_packing: Packing | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        query = self._heads(linear(self.query_proj, hidden_states), packing)
        attended = (hidden_states, packing) if source is None else (source, source_packing)
        key, value = self._keys_and_values(*attended, source is not None, past_key_values)
        if CACHE == "cache" and "cache" in kwargs:  # a paged cache; before 5.24 the attention function updates it
            key, value = kwargs.pop("cache").update(key, value, self.layer_idx, kwargs)
        rows, length = query.shape[0], query.shape[2]
        is_shared = key.shape[0] < rows
        if is_shared:  # the queries of N sequences as those of one
            query = query.unflatten(0, (key.shape[0], -1)).transpose(1, 2).flatten(2, 3)  # (B, H, N * T, K)
        implementation = "eager" if kwargs.get("output_attentions") else attention_backend(self.config)
        interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        device = query.device.type
        is_autocast = torch.is_autocast_enabled(device)
        if is_autocast and device == "cpu":  # torch's fused attention needs ten times as long for its gradients in bf16
            query, key, value = query.float(), key.float(), value.float()
        options = {"dropout": self.dropout if self.training else 0.0, "scaling": self.scaling}
        with torch.autocast(device, enabled=is_autocast and device != "cpu"):
            context, attention_weights = interface(self, query, key, value, mask, **options, **kwargs)
        if is_shared and attention_weights is not None:
            attention_weights = attention_weights.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)
        context = context.reshape(rows, length, -1)  # (B * N, T, D), from (B, N * T, H, K)
        context = context if packing is None else packing.pack(context)
        return linear(self.output_proj, context), attention_weights

    def _keys_and_values(
        self, tokens: Tensor, packing: Packing | None, is_source: bool, past_key_values: Cache | None
    ) -> tuple[Tensor, Tensor]:
        cache, size = past_key_values, tokens.shape[1]
        if isinstance(past_key_values, EncoderDecoderCache):
            cache = past_key_values.cross_attention_cache if is_source else past_key_values.self_attention_cache
            if is_source and past_key_values.is_updated.get(self.layer_idx):
                layer: Any = cache.layers[self.layer_idx]
                return layer.keys[:, :, :size], layer.values[:, :, :size]
            if is_source:
                past_key_values.is_updated[self.layer_idx] = True
        key, value = (self._heads(linear(project, tokens), packing) for project in (self.key_proj, self.value_proj))
        if cache is None:
            return key, value
        keys, values = cache.update(key, value, self.layer_idx)
        # A cache of fixed size may have room for a longer source.
        return (keys[:, :, :size], values[:, :, :size]) if is_source else (keys, values)

    def _heads(self, projected: Tensor, packing: Packing | None) -> Tensor:
        padded = projected if packing is None else packing.unpack(projected)
        return padded.unflatten(-1, (-1, self.head_size)).transpose(1, 2)  # (B, H, T, K)


class SSRU(nn.Module):
    r"""The simpler simple recurrent unit of a decoder, in place of self-attention (Kim et al., 2019, "From Research to
    Production and Back: Ludicrously Fast Neural Machine Translation").

    .. math::
        f_t &= \sigma(W_t x_t + b_f) \\
        c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot W x_t \\
        o_t &= \mathrm{ReLU}(c_t)

    Symbols: :math:`x_t` is ``hidden_states``, :math:`W_t, b_f` are ``forget_gate_proj``, :math:`W` is the weight of
    ``candidate_proj``, without bias, :math:`c_t` is the cell, 0 before the first token, and :math:`o_t` is returned.

    Neither matrix product depends on an earlier cell. So both are computed for all tokens at once, and the loop over
    tokens has one operator.

    **Differs from the paper**: padding may be anywhere, and leaves the cell as it is.

    Shape:
        - hidden_states: (B, T, D); or only some tokens, (N, D), by ``packing``
        - mask: (B, T) bool, True on real tokens, or None if all are
        - past_key_values: an ``EncoderDecoderCache`` whose first cache is a :class:`CellCache`, or None
        - returns: as ``hidden_states``, and None in place of attention weights

    Raises:
        ValueError: a cell of another batch or width in ``past_key_values``.
    """

    def __init__(self, config: SmallTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.candidate_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.forget_gate_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        source: None = None,
        past_key_values: Any = None,
        packing: Packing | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        cache: CellCache | None = None if past_key_values is None else past_key_values.self_attention_cache
        candidate, gate = linear(self.candidate_proj, hidden_states), linear(self.forget_gate_proj, hidden_states)
        if packing is not None:
            candidate, gate = packing.unpack(candidate), packing.unpack(gate)
        rows, length, size = candidate.shape
        cell = None if cache is None else cache.load(self.layer_idx, rows, size)
        output, cell = run_ssru(candidate, gate, cell, mask)
        if cache is not None:
            cache.store(self.layer_idx, cell, length)
        return output if packing is None else packing.pack(output), None


def next_cell(cell: Tensor, forget: Tensor, candidate: Tensor) -> Tensor:
    """The next cell, f c + (1 - f) x for ``forget``, ``cell``, ``candidate``: exactly c where f is 1. All (B, D)."""
    return torch.lerp(candidate, cell, forget)


def run_ssru(
    candidate: Tensor, gate: Tensor, cell: Tensor | None = None, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The equations of :class:`SSRU` from the two products on, and the last cell. ``cell`` (B, D) is the first one.

    Cells are float32 at least. With 64 rows of 25 tokens and width 256, forward and backward on one thread, this loop
    takes 8 ms, a scan that doubles its reach 27 ms, and a loop with a backward pass written by hand 6 ms.

    Shape:
        - candidate: (B, T, D), W x; gate: (B, T, D), before the sigmoid
        - returns: (B, T, D), (B, D)
    """
    dtype = torch.promote_types(candidate.dtype, torch.float32)
    forget, new = gate.to(dtype).sigmoid(), candidate.to(dtype)
    if mask is not None:
        forget = forget.masked_fill(~mask.unsqueeze(-1), 1.0)
    cell = torch.zeros_like(new[:, 0]) if cell is None else cell
    cells = []
    for f, c in zip(forget.unbind(1), new.unbind(1), strict=True):
        cell = next_cell(cell, f, c)
        cells.append(cell)
    return torch.stack(cells, dim=1).relu().to(candidate.dtype), cell


# What reads earlier tokens in a layer, by the config's ``decoder_mixer``: its name there, and its class.
MIXERS: dict[str, tuple[str, type[MultiHeadAttention] | type[SSRU]]] = {
    "attention": ("self_attention", MultiHeadAttention),
    "ssru": ("ssru", SSRU),
}


class FeedForward(nn.Module):
    r"""Position-wise feed-forward network (section 3.3).

    .. math:: \mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2

    Symbols: :math:`W_1, b_1` are ``intermediate_proj``, :math:`W_2, b_2` are ``output_proj``. The maximum is the
    config's ``activation``, "relu"; "gelu" is :math:`x \Phi(x)` in its place.

    Shape:
        - hidden_states: (..., D)
        - returns: (..., D)
    """

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__()
        self.intermediate_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output_proj = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = nn.ReLU() if config.activation == "relu" else nn.GELU()

    def forward(self, hidden_states: Tensor) -> Tensor:
        return linear(self.output_proj, self.activation(linear(self.intermediate_proj, hidden_states)))


class TransformerLayer(GradientCheckpointingLayer):
    r"""One of the N layers of a stack (section 3.1): attention (or another of ``MIXERS``), attention to a source in a
    decoder that has one, and feed-forward, each with a residual connection and layer normalisation.

    .. math::
        x' = \mathrm{LayerNorm}(x + \mathrm{Dropout}(\mathrm{Sublayer}(x)))
        \quad \text{("post")}, \qquad
        x' = x + \mathrm{Dropout}(\mathrm{Sublayer}(\mathrm{LayerNorm}(x)))
        \quad \text{("pre")}

    **Differs from the paper**: with ``norm="pre"``, which GPT-2 has (Radford et al., 2019, section 2.3), and with
    another mixer than attention.

    Shape:
        - hidden_states: (B, T, D); source: (B, S, D)
        - mask: broadcastable to (B, H, T, T), or what else the mixer takes; source_mask: to (B, H, T, S)
        - returns: (B, T, D)
    """

    self_attention: MultiHeadAttention  # with the mixer "attention"
    self_attention_norm: nn.LayerNorm

    def __init__(
        self, config: SmallTransformerConfig, layer_idx: int, has_cross_attention: bool, mixer: str = "attention"
    ) -> None:
        super().__init__()
        self.is_pre_norm = config.norm == "pre"
        sizes = config.hidden_size, config.layer_norm_eps
        self.mixer_name, mixer_class = MIXERS[mixer]
        self.add_module(self.mixer_name, mixer_class(config, layer_idx))
        self.add_module(f"{self.mixer_name}_norm", nn.LayerNorm(*sizes))
        self.cross_attention = MultiHeadAttention(config, layer_idx) if has_cross_attention else None
        self.cross_attention_norm = nn.LayerNorm(*sizes) if has_cross_attention else None
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(*sizes)
        self.dropout = config.dropout

    @property
    def mixer(self) -> Any:
        """What reads the earlier tokens, an instance of a class of ``MIXERS``."""
        return getattr(self, self.mixer_name)

    @property
    def mixer_norm(self) -> nn.LayerNorm:
        """The normalisation of the mixer's sublayer."""
        return getattr(self, f"{self.mixer_name}_norm")

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,  # the packings, and arguments of the backend
    ) -> Tensor:
        def mix(x: Tensor) -> Tensor:
            return self.mixer(x, mask, None, past_key_values, **kwargs)[0]

        def attend_to_source(x: Tensor) -> Tensor:
            return self.cross_attention(x, source_mask, source, past_key_values, **kwargs)[0]  # type: ignore[misc]

        hidden_states = self.residual(hidden_states, mix, self.mixer_norm)
        if self.cross_attention_norm is not None:
            hidden_states = self.residual(hidden_states, attend_to_source, self.cross_attention_norm)
        return self.residual(hidden_states, self.feed_forward, self.feed_forward_norm)

    def residual(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
        """A sublayer with its residual connection and layer normalisation, see the equations above."""
        output = sublayer(norm(x) if self.is_pre_norm else x)
        if self.training:
            output = nn.functional.dropout(output, self.dropout)
        return x + output if self.is_pre_norm else norm(x + output)


def sinusoidal_positions(positions: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""Positional encoding by sines and cosines (section 3.5).

    .. math::
        PE_{(pos, 2i)} = \sin(pos / 10000^{2i / d}), \qquad PE_{(pos, 2i + 1)} = \cos(pos / 10000^{2i / d})

    Symbols: :math:`pos` is an entry of ``positions``, :math:`d` is ``size``, an even number.

    Shape:
        - positions: (...) int64
        - returns: (..., size)
    """
    even = torch.arange(0, size, 2, dtype=dtype, device=positions.device)
    angle = positions.unsqueeze(-1) * 10_000.0 ** (-even / size)  # (..., size / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def sinusoidal_halves(positions: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""Positional encoding as the authors' released code (Tensor2Tensor) and Marian have it: all sines, then all
    cosines, with rates from 1 to 1/10000, both included.

    .. math::
        PE_{(pos, i)} = \sin(pos \cdot r_i), \qquad PE_{(pos, d/2 + i)} = \cos(pos \cdot r_i), \qquad
        r_i = 10000^{-i / (d/2 - 1)}

    Symbols: :math:`pos` is an entry of ``positions``, :math:`d` is ``size``, an even number of at least 4.

    Shape:
        - positions: (...) int64
        - returns: (..., size)
    """
    numbers = torch.arange(size // 2, dtype=dtype, device=positions.device)
    angle = positions.unsqueeze(-1) * 10_000.0 ** (-numbers / (size // 2 - 1))  # (..., size / 2)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


# By the config's ``position_embedding``.
SINUSOIDS = {"sinusoidal": sinusoidal_positions, "sinusoidal_halves": sinusoidal_halves}


class PositionEmbedding(nn.Module):
    """Positional encoding, added to the embeddings (section 3.5): sinusoids, or a learned row per position.

    Sinusoids are computed for every batch, which takes little time compared with a layer, so a text may have any
    length.

    Shape:
        - positions: (B or 1, T) int64
        - embeddings: (B, T, D)
        - returns: (B, T, D), the sum

    Raises:
        ValueError: a position past the last learned one.
    """

    def __init__(self, config: SmallTransformerConfig) -> None:
        super().__init__()
        sizes = config.max_position_embeddings, config.hidden_size
        self.learned = nn.Embedding(*sizes) if config.position_embedding == "learned" else None
        self.sinusoids: Any = SINUSOIDS.get(config.position_embedding)  # a function, or None for learned positions

    def forward(self, embeddings: Tensor, positions: Tensor, num_positions: int | None) -> Tensor:
        """Every position is below ``num_positions``; None in a compiled graph, which must not depend on it."""
        if self.learned is not None:
            most = self.learned.num_embeddings
            if num_positions is not None and num_positions > most and (last := int(positions.max())) >= most:
                raise ValueError(
                    f"a text of {last + 1} tokens (position_ids up to {last}) is longer than max_position_embeddings="
                    f"{most}; cut it, or use position_embedding='sinusoidal'"
                )
            return embeddings + self.learned(positions)
        size, dtype = embeddings.shape[-1], torch.promote_types(embeddings.dtype, torch.float32)
        if num_positions is None or positions.numel() <= num_positions:  # else many positions are equal
            encoding = self.sinusoids(positions, size, dtype)
        else:
            every = torch.arange(num_positions, device=positions.device)
            encoding = nn.functional.embedding(positions, self.sinusoids(every, size, dtype))
        return embeddings + encoding.to(embeddings.dtype)
