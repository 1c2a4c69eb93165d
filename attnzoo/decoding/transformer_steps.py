r"""The small Transformer's decoder for ``search()``, one token after the other.

In a step of a small model, modules, caches and masks take as long as the products. So here one product computes
queries, keys and values. The keys of a source's beams stay side by side, and a mask says which beam has seen which key.
Reordering the beams reorders rows of this mask; no key moves. The beams of a search soon come from one ancestor, so
most of their tokens are the same, with one key for all of them. When the room for keys is full, keys that no beam sees
any more are dropped. So the number of keys grows with the length, and not with the length times the number of beams.
An SSRU has one cell for each row in place of keys, and reordering the beams reorders the cells.

Dimensions: B sources (or prompts, where there is no source), G groups of rows that share their keys, N rows in
each, R = G * N rows, T tokens so far, S tokens of a group's keys or of a source, D model width, H heads, K head width.
Masks are bool, True = attend.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import Cache, DynamicCache, EncoderDecoderCache

from ..cache_names import CACHE
from ..cell_cache import CellCache
from ..copying import Copied, source_ids_of
from ..fast_products import is_untouched
from ..generation_options import SearchRefusedError
from ..library_internals import attention_backend, is_given
from ..model_inputs import read_mask, source_mask
from ..transformer_layers import SSRU, MultiHeadAttention, TransformerLayer, next_cell
from .repeated_product import RepeatedProduct

SCALED_DOT_PRODUCTS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")  # all compute it
ROOM = 32  # tokens of every row for which room is made, and positions encoded


class TransformerSearchDecoder:
    """The decoder's last hidden states for sequences that grow by one token at a time.

    Args:
        model: whose decoder it is
        arguments: the arguments with which ``generate()`` would call the model
        num_sources: B, the number of sources, or of prompts in a decoder-only model
        num_beams: the beams of a source; if there are several, the rows of a source may change places

    Raises:
        SearchRefusedError: hooks, adapters, quantised layers, dropout or another attention function, which a step would
            bypass; or a cache of the caller's.
        TypeError, ValueError: masks that the model's ``forward`` refuses.
    """

    reads = frozenset({"encoder_outputs", "attention_mask", "decoder_attention_mask", CACHE, "logits_to_keep"})

    def __init__(self, model: Any, arguments: dict[str, Any], num_sources: int, num_beams: int) -> None:
        decoder = model.model.decoder
        if not is_untouched(decoder):
            name, part = next(
                (name, part)
                for name, part in decoder.named_modules()
                if not is_untouched(part) and all(is_untouched(child) for child in part.children())
            )
            raise SearchRefusedError(
                "search() reads the decoder's weights itself and would bypass hooks or adapters or quantised layers, "
                f"here {name} ({type(part).__module__}.{type(part).__name__}); leave out custom_generate"
            )
        if decoder.training and (decoder.dropout or decoder.config.attention_dropout):
            raise SearchRefusedError(
                f"search() has no dropout, and the model is in training mode with dropout={decoder.dropout}; call "
                "model.eval(), or leave out custom_generate"
            )
        if (backend := attention_backend(decoder.config)) not in SCALED_DOT_PRODUCTS:
            raise SearchRefusedError(
                f"search() computes scaled dot-product attention, and attn_implementation={backend!r} may compute "
                "something else; leave out custom_generate"
            )
        cache = arguments.get(CACHE)
        if cache is not None and is_given(cache):
            raise SearchRefusedError("search() neither reads nor fills past_key_values; leave out custom_generate")
        self.decoder, self.num_sources, self.num_beams = decoder, num_sources, num_beams
        self.device = decoder.device
        self.zero = torch.zeros((), dtype=decoder.dtype, device=decoder.device)
        mask, target_mask = (
            None if arguments.get(name) is None else read_mask(arguments[name], name)
            for name in ("attention_mask", "decoder_attention_mask")
        )
        self.prompt_mask = mask
        self.source: dict[str, Tensor | None] = {}
        self.source_mask: Tensor | None = None
        self.copy_head = getattr(model, "copy_head", None)
        self.copied: Copied | None = None  # of the step that was read last
        if decoder.has_cross_attention:
            outputs, self.prompt_mask = arguments["encoder_outputs"], target_mask
            self.source = {"encoder_hidden_states": outputs[0], "encoder_attention_mask": mask}
            if self.copy_head is not None:
                self.copied_from = outputs[0], source_mask(mask, outputs[0]), source_ids_of(outputs)
            if mask is not None and not bool(mask.all()):
                self.source_mask = self._added(mask.to(self.device)[:, None, None])  # (B, 1, 1, S)
        if self.prompt_mask is not None:  # given for each row; one for each prompt is kept
            self.prompt_mask = self.prompt_mask[:: len(self.prompt_mask) // num_sources]
        # Set by the first read: its cache, which tokens a row has seen, and the position of the next token.
        self.cached: Any = None  # the layers of the target's cache, and those of the source's
        self.layers: list[_SearchLayer] = []  # made in the second read
        self.mask: Tensor | None = None  # (G, 1, N, S), None where all have seen all
        self.length, self.room = 0, 0  # S, and how large it may become
        self.positions = torch.empty(0)  # of the token after the prompt, (B, 1), or (1, 1) where all are alike
        self.encodings: Iterator[Tensor] = iter(())  # of the next tokens' positions

    def read(self, sequences: Tensor) -> Tensor:
        """Read the last token of every sequence (R, T), in the first call all tokens; returns their states (R, D)."""
        states = self._read_prompts(sequences) if self.cached is None else self._read_last(sequences)
        if self.copy_head is not None:
            self.copied = self.copy_head(states.unsqueeze(1), *self.copied_from)
        return states

    def _read_last(self, sequences: Tensor) -> Tensor:
        if not self.layers:
            repeats = len(sequences) // self.num_sources
            parts: Any = zip_longest(self.decoder.layers, *self.cached)
            for layer, own, of_source in parts:
                steps = STEPS[type(layer.mixer)](layer.mixer, own, repeats, self.num_beams > 1)
                self.layers.append(_SearchLayer(layer, steps, of_source))
            self.encodings = self._encode_positions(sequences.shape[1], repeats)
        x = self.decoder.embed_tokens(sequences[:, -1].to(self.device)) * self.decoder.embedding_scale  # (R, D)
        if self.decoder.position_embedding is not None:
            x = x + next(self.encodings)
        number = x.shape[0] // self.num_sources if self.num_beams > 1 else 1  # N
        if self.length + number > self.room:
            self._make_room(number)
        start, self.length, added = self.length, self.length + number, None
        if self.mask is not None:
            own = torch.eye(number, dtype=torch.bool, device=self.device)  # each row sees its new token
            self.mask = torch.cat([self.mask, own.expand(self.mask.shape[0], 1, -1, -1)], dim=3)
            added = self._added(self.mask)
        for layer in self.layers:
            x = layer.step(x, start, added, self.source_mask)
        return x if self.decoder.final_norm is None else self.decoder.final_norm(x)

    def _encode_positions(self, length: int, repeats: int) -> Iterator[Tensor]:
        """The encodings (R or 1, D) of the next tokens' positions; sinusoids are computed for many steps at once."""
        embedding = self.decoder.position_embedding
        count = 1 if embedding.learned is not None else ROOM
        positions = self.positions.repeat_interleave(repeats if len(self.positions) > 1 else 1, dim=0)  # (R or 1, 1)
        while True:
            ahead = positions + torch.arange(count, device=self.device)
            nothing = self.zero.expand(*ahead.shape, self.decoder.config.hidden_size)
            yield from embedding(nothing, ahead, length + count - 1).unbind(dim=1)
            positions, length = positions + count, length + count

    def reorder(self, rows: Tensor) -> None:
        """Continue from the tokens that ``rows`` (R,) have seen. A row is replaced by a row of its own group."""
        rows = rows.to(self.device)
        for layer in self.layers:
            layer.steps.reorder(rows)
        if self.mask is not None:
            seen = self.mask.squeeze(1).flatten(0, 1)  # (R, S)
            self.mask = seen.index_select(0, rows).unflatten(0, (self.mask.shape[0], -1)).unsqueeze(1)

    def _added(self, mask: Tensor) -> Tensor:
        """The mask as 0 or -inf, to add to the scores of all layers."""
        return torch.where(mask, self.zero, -torch.inf)

    def _make_room(self, number: int) -> None:
        """Drop the keys that no row sees any more, and make room for more tokens of the N rows of a group."""
        order = None
        more = number * ROOM
        if self.num_beams == 1:
            more = max(more, self.length)  # no key can be dropped, so room is doubled, and keys move seldom
        elif self.mask is not None:
            is_seen = self.mask.any(dim=2).squeeze(1)  # (G, S)
            if (most := int(is_seen.sum(dim=1).max())) < self.length:
                order = is_seen.int().argsort(dim=1, descending=True, stable=True)[:, :most]
                self.mask = self.mask.take_along_dim(order[:, None, None], dim=3)
                self.length = most
        for layer in self.layers:
            layer.steps.make_room(self.length, more, order)
        self.room = self.length + more

    def _read_prompts(self, sequences: Tensor) -> Tensor:
        """Read the prompts with the decoder itself, once for the rows of a source, which have the same prompt."""
        repeats = len(sequences) // self.num_sources
        has_keys = self.decoder.mixer == "attention"
        own = DynamicCache() if has_keys else CellCache(len(self.decoder.layers))  # no config: reading it is slow
        of_source = DynamicCache()
        cache: Cache = EncoderDecoderCache(own, of_source) if self.source else own
        prompts = sequences[::repeats].to(self.device)
        outputs = self.decoder(prompts, self.prompt_mask, past_key_values=cache, use_cache=True, **self.source)
        seen = torch.ones(self.num_sources, sequences.shape[1], dtype=torch.bool, device=self.device)
        self.positions = torch.full((1, 1), sequences.shape[1], device=self.device)
        if self.prompt_mask is not None:
            seen = self.prompt_mask.to(self.device)
            self.positions = seen.sum(dim=1, keepdim=True)
        if has_keys and self.num_beams > 1:
            self.mask = seen[:, None, None].expand(-1, 1, repeats, -1)
        elif has_keys and self.prompt_mask is not None:
            self.mask = seen[:, None, None].repeat_interleave(repeats, dim=0)
        self.cached = own.layers, of_source.layers  # the second is empty if the model has no source
        self.length = self.room = sequences.shape[1]
        return outputs.last_hidden_state[:, -1].repeat_interleave(repeats, dim=0)


class _SelfAttentionSteps:
    """Self-attention, step by step; ``own`` is its layer in the cache. Without beams each row has its own keys."""

    def __init__(self, attention: MultiHeadAttention, own: Any, repeats: int, has_beams: bool) -> None:
        self.scaling, self.head_size = attention.scaling, attention.head_size
        copies = 1 if has_beams else repeats
        # Keys and values (2, G, H, S, K).
        self.keys_and_values = torch.stack([own.keys, own.values]).repeat_interleave(copies, dim=1)
        self.inputs = RepeatedProduct.of(attention.query_proj, attention.key_proj, attention.value_proj)
        self.output = RepeatedProduct.of(attention.output_proj)

    def make_room(self, length: int, more: int, order: Tensor | None) -> None:
        """Keep the first S keys, or those of ``order`` (G, S), with room for more."""
        kept = self.keys_and_values[:, :, :, :length]
        if order is not None:
            kept = self.keys_and_values.take_along_dim(order[None, :, None, :, None], dim=3)
        self.keys_and_values = pad(kept, (0, 0, 0, more))

    def reorder(self, rows: Tensor) -> None:
        """Do nothing: the decoder reorders its mask, and no key moves."""

    def step(self, x: Tensor, start: int, mask: Tensor | None) -> Tensor:
        """(R, D) to (R, D), after ``start`` keys."""
        groups, heads = self.keys_and_values.shape[1:3]
        parts = self.inputs(x).view(groups, -1, 3, heads, self.head_size).permute(2, 0, 3, 1, 4)  # (3, G, H, N, K)
        number = parts.shape[3]
        self.keys_and_values.narrow(3, start, number).copy_(parts[1:])
        keys, values = self.keys_and_values.narrow(3, 0, start + number).unbind()
        return self.output(_attend(parts[0], keys, values, mask, self.scaling))


class _SSRUSteps:
    """An :class:`SSRU`, step by step; ``own`` is its layer in the cache."""

    def __init__(self, ssru: SSRU, own: Any, repeats: int, has_beams: bool) -> None:
        self.cell = own.cell.repeat_interleave(repeats, dim=0)  # (R, D)
        bias = ssru.forget_gate_proj.bias
        weights = [ssru.candidate_proj.weight, ssru.forget_gate_proj.weight]
        self.inputs = RepeatedProduct(weights, torch.cat([torch.zeros_like(bias), bias]))

    def make_room(self, length: int, more: int, order: Tensor | None) -> None:
        """Do nothing: a cell has the same size after any number of tokens."""

    def reorder(self, rows: Tensor) -> None:
        self.cell = self.cell.index_select(0, rows)

    def step(self, x: Tensor, start: int, mask: Tensor | None) -> Tensor:
        """(R, D) to (R, D)."""
        candidate, gate = self.inputs(x).to(self.cell.dtype).chunk(2, dim=1)
        self.cell = next_cell(self.cell, gate.sigmoid(), candidate)
        return self.cell.relu().to(x.dtype)


# By the class of a layer's mixer.
STEPS: dict[type, type[_SelfAttentionSteps] | type[_SSRUSteps]] = {
    MultiHeadAttention: _SelfAttentionSteps,
    SSRU: _SSRUSteps,
}


class _SearchLayer:
    """A layer, step by step; ``steps`` are those of its mixer, ``of_source`` is its layer in the source's cache."""

    def __init__(self, layer: TransformerLayer, steps: _SelfAttentionSteps | _SSRUSteps, of_source: Any) -> None:
        self.layer, self.steps = layer, steps
        self.own_norm, self.last_norm = _function_of(layer.mixer_norm), _function_of(layer.feed_forward_norm)
        self.source_norm = None if layer.cross_attention_norm is None else _function_of(layer.cross_attention_norm)
        if (cross := layer.cross_attention) is not None:
            self.source, self.scaling = (of_source.keys, of_source.values), cross.scaling
            self.source_query = RepeatedProduct.of(cross.query_proj)
            self.source_output = RepeatedProduct.of(cross.output_proj)
        self.intermediate = RepeatedProduct.of(layer.feed_forward.intermediate_proj)
        self.feed_forward_output = RepeatedProduct.of(layer.feed_forward.output_proj)

    def step(self, x: Tensor, start: int, mask: Tensor | None, source_mask: Tensor | None) -> Tensor:
        """(R, D) to (R, D), after ``start`` keys."""
        layer = self.layer

        def attend_to_source(x: Tensor) -> Tensor:
            keys, values = self.source
            sources, heads, _, size = keys.shape
            query = self.source_query(x).view(sources, -1, heads, size).transpose(1, 2)
            return self.source_output(_attend(query, keys, values, source_mask, self.scaling))

        def feed_forward(x: Tensor) -> Tensor:
            return self.feed_forward_output(layer.feed_forward.activation(self.intermediate(x)))

        x = layer.residual(x, lambda x: self.steps.step(x, start, mask), self.own_norm)
        if self.source_norm is not None:
            x = layer.residual(x, attend_to_source, self.source_norm)
        return layer.residual(x, feed_forward, self.last_norm)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    """Attention of queries (G, H, N, K) in every head: (R, D)."""
    context = scaled_dot_product_attention(query, key, value, mask, scale=scaling)  # (G, H, N, K)
    return context.transpose(1, 2).reshape(-1, context.shape[1] * context.shape[3])


def _function_of(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """Layer normalisation as a plain function. A call of the module takes twice as long."""
    return partial(
        torch.layer_norm, normalized_shape=norm.normalized_shape, weight=norm.weight, bias=norm.bias, eps=norm.eps
    )
