"""The Transformer as graphs: its stack under every mask, and a step of its decoder with a cache.

Dimensions: B sources or texts, R rows (equally many for each source), S source length, T target length, N
queries of a row, P keys, D model width, H heads, K head width.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from ..transformer_layers import SSRU, FeedForward, MultiHeadAttention, TransformerLayer
from ..transformer_stack import SmallTransformerStack
from .attention_graph import Positions, attend
from .generation_graphs import Decoder, Ports
from .graph import BOOL, FLOAT, Graph, numbers


class StackGraph:
    """A :class:`SmallTransformerStack`: its embeddings, its layers, and its last normalisation."""

    def __init__(self, stack: SmallTransformerStack) -> None:
        self.stack, self.config = stack, stack.config
        self.layers: Any = stack.layers
        self.heads = self.config.num_attention_heads
        self.size = self.config.hidden_size // self.heads

    def embed(self, g: Graph, ids: str, positions: str) -> str:
        """Tokens (R, T) at their positions, (R or 1, T): (R, T, D)."""
        x = g.op("Mul", g.rows(self.stack.embed_tokens.weight, ids), np.float32(self.stack.embedding_scale))
        embedding = self.stack.position_embedding
        if embedding is None:
            return x
        if embedding.learned is not None:
            return g.op("Add", x, g.rows(embedding.learned.weight, positions))
        width = self.config.hidden_size
        in_halves = self.config.position_embedding == "sinusoidal_halves"
        last = width // 2 - 1 if in_halves else width // 2
        frequencies = (10_000.0 ** (-torch.arange(width // 2, dtype=torch.float32) / last)).numpy()
        angle = g.op("Mul", g.unsqueeze(g.op("Cast", positions, to=FLOAT), 2), frequencies)  # (R or 1, T, D / 2)
        waves = [g.op("Sin", angle), g.op("Cos", angle)]
        if in_halves:
            return g.op("Add", x, g.op("Concat", *waves, axis=2))
        waves = g.op("Concat", *(g.unsqueeze(wave, 3) for wave in waves), axis=3)
        return g.op("Add", x, g.reshape(waves, 0, 0, width))  # not -1, which has no value for an empty sequence

    def to_heads(self, g: Graph, x: str) -> str:
        """(R, T, D) as (R, H, T, K)."""
        return g.op("Transpose", g.reshape(x, 0, 0, self.heads, self.size), perm=[0, 2, 1, 3])

    def heads_of(self, g: Graph, x: str, attention: MultiHeadAttention) -> list[str]:
        """The queries, keys and values of a self-attention, each (R, H, T, K)."""
        projected = g.linear(x, attention.query_proj, attention.key_proj, attention.value_proj)
        return [self.to_heads(g, part) for part in g.op("Split", projected, outputs=3, axis=-1, num_outputs=3)]

    def attend(
        self, g: Graph, attention: MultiHeadAttention, query: str, key: str, value: str, mask: str | None
    ) -> tuple[str, str]:
        """Attention as in section 3.2.1, in every head: the output (B, H, N, K) and the weights (B, H, N, P)."""
        query = g.op("Mul", query, np.float32(attention.scaling)) if attention.scaling != 1 else query
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        return attend(g, scores, value, mask)

    def join(self, g: Graph, heads: str, attention: MultiHeadAttention) -> str:
        """The projection of the heads (B, H, N, K) side by side: (B, N, D)."""
        by_token = g.reshape(g.op("Transpose", heads, perm=[0, 2, 1, 3]), 0, 0, self.config.hidden_size)
        return g.linear(by_token, attention.output_proj)

    def norm(self, g: Graph, x: str, norm: Any) -> str:
        weight, bias = numbers(norm.weight), numbers(norm.bias)
        return g.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=float(norm.eps))

    def residual(self, g: Graph, x: str, layer: TransformerLayer, norm: Any, sublayer: Callable[[str], str]) -> str:
        if layer.is_pre_norm:
            return g.op("Add", x, sublayer(self.norm(g, x, norm)))
        return self.norm(g, g.op("Add", x, sublayer(x)), norm)

    def feed_forward(self, g: Graph, part: FeedForward, x: str) -> str:
        inner = g.linear(x, part.intermediate_proj)
        return g.linear(g.op("Relu" if self.config.activation == "relu" else "Gelu", inner), part.output_proj)

    def run(
        self,
        g: Graph,
        x: str,
        mix: Callable[[int, str], str],
        attend_to_memory: Callable[[int, str], str] | None = None,
    ) -> str:
        """Run the layers on ``x``. The two functions compute a layer's mixer and its attention to the memory, from its
        number and its input.
        """
        for number, layer in enumerate(self.layers):
            x = self.residual(g, x, layer, layer.mixer_norm, partial(mix, number))
            if attend_to_memory is not None:
                x = self.residual(g, x, layer, layer.cross_attention_norm, partial(attend_to_memory, number))
            part = layer.feed_forward
            x = self.residual(g, x, layer, layer.feed_forward_norm, partial(self.feed_forward, g, part))
        return x if self.stack.final_norm is None else self.norm(g, x, self.stack.final_norm)

    def read(self, g: Graph, ids: str, attention_mask: str) -> tuple[str, list[str]]:
        """Whole texts (B, S): the last hidden states (B, S, D), and every layer's keys and values (B, H, S, K)."""
        mask = g.unsqueeze(g.op("Cast", attention_mask, to=BOOL), 1, 2)  # (B, 1, 1, S)
        if self.stack.is_causal:
            places = g.op("Range", 0, g.squeeze(g.size(ids, 1), 0), 1)
            no_future = g.op("LessOrEqual", g.unsqueeze(places, 0), g.unsqueeze(places, 1))  # (S, S)
            mask = g.op("And", mask, no_future)
        kept: list[str] = []

        def attend_to_itself(number: int, x: str) -> str:
            attention = self.layers[number].self_attention
            query, key, value = self.heads_of(g, x, attention)
            kept.extend((key, value))
            return self.join(g, self.attend(g, attention, query, key, value, mask)[0], attention)

        ranks = Positions.of(g, attention_mask).ranks
        return self.run(g, self.embed(g, ids, ranks), attend_to_itself), kept


class _KeysAndValues:
    """Self-attention with a cache of all layers' keys and values, key_0, value_0, ... (R, H, P, K)."""

    def __init__(self, stack: StackGraph) -> None:
        self.stack = stack
        shape = ["R", stack.heads, "T", stack.size]
        layers = range(len(stack.layers))
        self.ports: Ports = {f"{part}_{number}": (np.float32, shape) for number in layers for part in ("key", "value")}

    def first_state(self, g: Graph, rows: str) -> dict[str, str]:
        """Caches without a token."""
        empty = g.op("Expand", np.float32(0), g.op("Concat", rows, [self.stack.heads, 0, self.stack.size], axis=0))
        return dict.fromkeys(self.ports, empty)

    def position(self, g: Graph, state: dict[str, str]) -> str:
        """(1, 1), the number of tokens before."""
        return g.unsqueeze(g.size(state["key_0"], 2), 0)

    def step(
        self, g: Graph, number: int, y: str, state: dict[str, str], mask: str | None
    ) -> tuple[str, dict[str, str]]:
        """The output of a layer (R, D), and its extended caches.

        A product of two dimensions and its bias are one operator for ONNX Runtime, and heads (R, H, 1, K) need no
        transposition.
        """
        attention = self.stack.layers[number].self_attention
        projected = g.linear(y, attention.query_proj, attention.key_proj, attention.value_proj)
        heads = g.reshape(projected, 0, -1, 1, self.stack.size)  # (R, 3 H, 1, K)
        query, *new = g.op("Split", heads, outputs=3, axis=1, num_outputs=3)
        names = f"key_{number}", f"value_{number}"
        keys, values = (g.op("Concat", state[name], part, axis=2) for name, part in zip(names, new, strict=True))
        context, _ = self.stack.attend(g, attention, query, keys, values, mask)
        return g.linear(g.reshape(context, 0, -1), attention.output_proj), {names[0]: keys, names[1]: values}


class _Cells:
    """SSRUs, with the cells of all layers, cell_0, ... (R, D), and number (R,), how many tokens they have read."""

    def __init__(self, stack: StackGraph) -> None:
        self.stack = stack
        shape = ["R", stack.config.hidden_size]
        self.ports: Ports = {f"cell_{number}": (np.float32, shape) for number in range(len(stack.layers))}
        self.ports["number"] = np.int64, ["R"]

    def first_state(self, g: Graph, rows: str) -> dict[str, str]:
        """Cells of 0, and no token."""
        zero = g.op("Expand", np.float32(0), g.op("Concat", rows, [self.stack.config.hidden_size], axis=0))
        return dict.fromkeys(self.ports, zero) | {"number": g.op("Expand", [0], rows)}

    def position(self, g: Graph, state: dict[str, str]) -> str:
        """(R, 1), the number of tokens before."""
        return g.unsqueeze(state["number"], 1)

    def step(
        self, g: Graph, number: int, y: str, state: dict[str, str], mask: str | None
    ) -> tuple[str, dict[str, str]]:
        """The output of a layer (R, D), and its next cell."""
        ssru, cell = self.stack.layers[number].ssru, state[f"cell_{number}"]
        candidate, gate = g.linear(y, ssru.candidate_proj), g.op("Sigmoid", g.linear(y, ssru.forget_gate_proj))
        cell = g.op("Add", candidate, g.op("Mul", gate, g.op("Sub", cell, candidate)))
        return g.op("Relu", cell), {f"cell_{number}": cell, "number": g.op("Add", state["number"], [1])}


# By the class of the layers' mixer.
MIXERS: dict[type, type[_KeysAndValues] | type[_Cells]] = {MultiHeadAttention: _KeysAndValues, SSRU: _Cells}


class _CachedDecoder(Decoder):
    """A decoder with the state of its mixer."""

    def __init__(self, model: Any) -> None:
        self.config, self.lm_head = model.config, model.lm_head
        self.stack = StackGraph(model.model.decoder)
        self.mixer = MIXERS[type(self.stack.layers[0].mixer)](self.stack)
        self.state = dict(self.mixer.ports)

    def run_step(
        self,
        g: Graph,
        x: str,
        state: dict[str, str],
        mask: str | None,
        attend_to_memory: Callable[[int, str], str] | None = None,
    ) -> tuple[str, dict[str, str]]:
        """Logits (R, vocabulary) of tokens with these embeddings (R, 1, D), and the state after them."""
        after: dict[str, str] = {}

        def mix(number: int, y: str) -> str:
            output, new = self.mixer.step(g, number, y, state, mask)
            after.update(new)
            return output

        x = self.stack.run(g, g.squeeze(x, 1), mix, attend_to_memory)
        return g.logits(x, self.lm_head, self.config.closed_token), after


class Seq2SeqGraphs(_CachedDecoder):
    """The encoder-decoder, as the parts of the graphs in ``generation_graphs.py``.

    Every step attends to memory_key_0, memory_value_0, ... (B, H, S, K), which are made once. The attention that a step
    returns is the mean of the heads of the last layer.
    """

    attention = True

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.encoder = StackGraph(model.model.encoder)
        shape = ["B", self.stack.heads, "S", self.stack.size]
        layers = range(len(self.stack.layers))
        self.source = {f"memory_{part}_{number}": (np.float32, shape) for number in layers for part in ("key", "value")}

    def read(self, g: Graph, input_ids: str, attention_mask: str) -> tuple[dict[str, str], dict[str, str]]:
        """The memory's keys and values, and the state before the first token."""
        x, _ = self.encoder.read(g, input_ids, attention_mask)
        source = {}
        for number, layer in enumerate(self.stack.layers):
            for part, project in (("key", layer.cross_attention.key_proj), ("value", layer.cross_attention.value_proj)):
                source[f"memory_{part}_{number}"] = self.stack.to_heads(g, g.linear(x, project))
        return source, self.mixer.first_state(g, g.size(input_ids, 0))

    def step(
        self, g: Graph, tokens: str, source: dict[str, str], state: dict[str, str]
    ) -> tuple[str, dict[str, str], str]:
        sources = g.root.size(source["attention_mask"], 0)
        mask = g.unsqueeze(g.op("Cast", source["attention_mask"], to=BOOL), 1, 2)  # (B, 1, 1, S)
        weights = ""

        def attend_to_memory(number: int, y: str) -> str:
            nonlocal weights
            attention = self.stack.layers[number].cross_attention
            query = g.linear(y, attention.query_proj)
            query = g.reshape(query, sources, -1, self.stack.heads, self.stack.size)  # (B, R / B, H, K)
            query = g.op("Transpose", query, perm=[0, 2, 1, 3])
            key, value = source[f"memory_key_{number}"], source[f"memory_value_{number}"]
            context, weights = self.stack.attend(g, attention, query, key, value, mask)
            by_row = g.reshape(g.op("Transpose", context, perm=[0, 2, 1, 3]), -1, self.config.hidden_size)
            return g.linear(by_row, attention.output_proj)

        x = self.stack.embed(g, g.unsqueeze(tokens, 1), self.mixer.position(g, state))
        logits, after = self.run_step(g, x, state, None, attend_to_memory)
        mean = g.op("ReduceMean", weights, [1], keepdims=0)  # (B, R / B, S)
        return logits, after, g.reshape(mean, -1, g.root.size(source["attention_mask"], 1))


class CausalGraphs(_CachedDecoder):
    """The causal language model. The encoder reads the prompt without its last token, which the first step reads.

    mask (R, P + 1) is the attention mask of the tokens in the cache and of the one that a step reads.
    """

    attention = None
    source: Ports = {}

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.state["mask"] = np.int64, ["R", "M"]

    def first_tokens(self, g: Graph, input_ids: str) -> str:
        return g.op("Gather", input_ids, -1, axis=1)

    def read(self, g: Graph, input_ids: str, attention_mask: str) -> tuple[dict[str, str], dict[str, str]]:
        """No source, and the caches of the prompt without its last token."""
        bounds = [0], [-1], [1]
        before, mask = (g.op("Slice", part, *bounds) for part in (input_ids, attention_mask))
        _, kept = self.stack.read(g, before, mask)
        return {}, dict(zip(self.state, [*kept, attention_mask], strict=True))

    def step(
        self, g: Graph, tokens: str, source: dict[str, str], state: dict[str, str]
    ) -> tuple[str, dict[str, str], None]:
        mask = g.unsqueeze(g.op("Cast", state["mask"], to=BOOL), 1, 2)  # (R, 1, 1, P + 1)
        count = g.op("ReduceSum", state["mask"], [1], keepdims=1)
        position = g.op("Max", g.op("Sub", count, [1]), [0])  # (R, 1)
        x = self.stack.embed(g, g.unsqueeze(tokens, 1), position)
        logits, after = self.run_step(g, x, state, mask)
        new = g.op("Expand", [1], g.op("Concat", g.size(tokens, 0), [1], axis=0))
        return logits, after | {"mask": g.op("Concat", state["mask"], new, axis=1)}, None
