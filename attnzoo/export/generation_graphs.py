"""The three graphs of a model that generates. They are the same for every family, whose parts a ``Decoder`` makes.

- encoder: input_ids, attention_mask -> tokens, what is attended to, and the first state
- step: tokens, attention_mask, what is attended to, state -> logits, next_state, attention
- greedy: input_ids, attention_mask, max_new_tokens -> tokens, scores, attention; a loop around the step

Dimensions: B sources, R rows (equally many for each source), S source length, T tokens of the output.
"""

from typing import Any, Protocol

import numpy as np
import onnx

from .graph import BOOL, INT64, Graph, Weights

Ports = dict[str, tuple[Any, list[Any]]]  # of a graph: types and shapes by name


class Decoder(Protocol):
    """The parts of a family's graphs.

    Attributes:
        source: the encoder's outputs that every step attends to; the first dimension is B
        state: what a step passes to the next; the first dimension is R
        attention: None for a decoder that attends to no source
    """

    config: Any
    source: Ports
    state: Ports
    attention: Any

    def first_tokens(self, g: Graph, input_ids: str) -> str:
        """The tokens (B,) that the first step reads: the start token, except for a decoder that continues its input."""
        return g.op("Expand", [self.config.decoder_start_token_id], g.size(input_ids, 0))

    def read(self, g: Graph, input_ids: str, attention_mask: str) -> tuple[dict[str, str], dict[str, str]]:
        """What the steps attend to, and the state before the first step."""

    def step(
        self, g: Graph, tokens: str, source: dict[str, str], state: dict[str, str]
    ) -> tuple[str, dict[str, str], str | None]:
        """Logits (R, vocabulary) after the tokens (R,), the next state, and the attention weights (R, S)."""


def generation_graphs(decoder: Decoder, ends: list[int], padding: int, weights: Weights) -> dict[str, onnx.ModelProto]:
    """The models encoder, step and greedy.

    Args:
        decoder: the parts
        ends: the end tokens
        padding: the token after an end
        weights: how weights are stored
    """
    return {
        "encoder": _encoder(decoder, Graph(weights)),
        "step": _step(decoder, Graph(weights)),
        "greedy": _greedy(decoder, Graph(weights), ends, padding),
    }


def text_inputs(g: Graph) -> tuple[str, str]:
    """input_ids and attention_mask."""
    return g.input("input_ids", np.int64, ["B", "S"]), g.input("attention_mask", np.int64, ["B", "S"])


def _encoder(decoder: Decoder, g: Graph) -> onnx.ModelProto:
    input_ids, attention_mask = text_inputs(g)
    source, state = decoder.read(g, input_ids, attention_mask)
    g.output("tokens", decoder.first_tokens(g, input_ids), np.int64, ["B"])
    for name, (dtype, shape) in (decoder.source | decoder.state).items():
        g.output(name, (source | state)[name], dtype, ["B" if size == "R" else size for size in shape])
    return g.model("encoder")


def _step(decoder: Decoder, g: Graph) -> onnx.ModelProto:
    tokens = g.input("tokens", np.int64, ["R"])
    source = {name: g.input(name, *port) for name, port in decoder.source.items()}
    if decoder.attention is not None:
        source["attention_mask"] = g.input("attention_mask", np.int64, ["B", "S"])
    state = {name: g.input(name, *port) for name, port in decoder.state.items()}
    logits, after, attention = decoder.step(g, tokens, source, state)
    g.output("logits", logits, np.float32, ["R", decoder.config.vocab_size])
    for name, (dtype, shape) in decoder.state.items():
        g.output(f"next_{name}", after[name], dtype, [f"next_{size}" if size == "T" else size for size in shape])
    if attention is not None:
        g.output("attention", attention, np.float32, ["R", "S"])
    return g.model("step")


def _greedy(decoder: Decoder, g: Graph, ends: list[int], padding: int) -> onnx.ModelProto:
    input_ids, attention_mask = text_inputs(g)
    limit = g.input("max_new_tokens", np.int64, [])
    source, state = decoder.read(g, input_ids, attention_mask)
    source["attention_mask"] = attention_mask
    rows = g.size(input_ids, 0)
    carried = [decoder.first_tokens(g, input_ids), g.op("Expand", True, rows), *(state[name] for name in decoder.state)]

    body = Graph(parent=g)
    body.input("iteration", np.int64, [])
    body.input("is_unfinished", np.bool_, [])
    tokens, is_open = body.input("tokens_in", np.int64, ["B"]), body.input("is_open", np.bool_, ["B"])
    ports = {
        name: (dtype, [{"R": "B", "T": None}.get(size, size) for size in shape])
        for name, (dtype, shape) in decoder.state.items()
    }
    before = {name: body.input(f"{name}_in", *port) for name, port in ports.items()}
    logits, after, attention = decoder.step(body, tokens, source, before)
    log_probs = body.op("LogSoftmax", logits, axis=-1)
    best = body.op("ArgMax", log_probs, axis=-1, keepdims=0)
    score = body.op("ReduceMax", log_probs, [1], keepdims=0)
    best = body.op("Where", is_open, best, padding)
    score = body.op("Where", is_open, score, np.float32(0))
    still_open = is_open
    for end in ends:
        still_open = body.op("And", still_open, body.op("Not", body.op("Equal", best, end)))
    any_open = body.op("ReduceMax", body.op("Cast", still_open, to=INT64), [0], keepdims=0)
    body.output("is_unfinished_out", body.op("Cast", any_open, to=BOOL), np.bool_, [])
    body.output("tokens_out", best, np.int64, ["B"])
    body.output("is_open_out", still_open, np.bool_, ["B"])
    for name, port in ports.items():
        body.output(f"{name}_out", after[name], *port)
    body.output("every_token", best, np.int64, ["B"])
    body.output("every_score", score, np.float32, ["B"])
    if attention is not None:
        body.output("every_attention", attention, np.float32, ["B", "S"])

    count = len(carried) + 2 + (attention is not None)
    results = g.op("Loop", limit, True, *carried, outputs=count, body=body.proto("body"))[len(carried) :]
    g.output("tokens", g.op("Transpose", results[0], perm=[1, 0]), np.int64, ["B", "T"])
    g.output("scores", g.op("Transpose", results[1], perm=[1, 0]), np.float32, ["B", "T"])
    if attention is not None:
        g.output("attention", g.op("Transpose", results[2], perm=[1, 0, 2]), np.float32, ["B", "T", "S"])
    return g.model("greedy")
