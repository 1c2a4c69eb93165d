"""Models that read a text and generate nothing, as one graph: input_ids, attention_mask -> logits.

The structured self-attentive classifier also returns its attention; for pairs it also reads token_type_ids.

Dimensions: B texts, S length, R hops, V width of the encoder's outputs, G gate size, K labels.
"""

from typing import Any

import numpy as np
import onnx

from .attention_graph import attend
from .generation_graphs import text_inputs
from .graph import BOOL, INT64, Graph, Weights, numbers
from .recurrent_graph import EncoderGraph
from .transformer_graph import StackGraph


def self_attentive(model: Any, weights: Weights) -> onnx.ModelProto:
    """Lin's classifier (Lin et al., 2017, sections 2.1 and 4): logits (B, K) and A, attention (B, R, S)."""
    g, config, base = Graph(weights), model.config, model.model
    input_ids, attention_mask = text_inputs(g)
    if base.gate is None:
        matrix, attention = _annotated(g, base, input_ids, attention_mask)
    else:
        kinds = g.input("token_type_ids", np.int64, ["B", "S"])
        second_mask = g.op("Mul", attention_mask, kinds)
        masks = [g.op("Sub", attention_mask, second_mask), second_mask]
        # The encoder takes real tokens from any place, so that a sentence is a row in which the other one is padding.
        both = _annotated(g, base, g.op("Concat", input_ids, input_ids, axis=0), g.op("Concat", *masks, axis=0))
        (first, second), halves = (g.op("Split", part, outputs=2, axis=0, num_outputs=2) for part in both)
        gates = [
            g.op("MatMul", g.op("Transpose", part, perm=[1, 0, 2]), numbers(weight))  # (R, B, G)
            for part, weight in ((first, base.gate.first_weight), (second, base.gate.second_weight))
        ]
        matrix = g.op("Transpose", g.op("Mul", *gates), perm=[1, 0, 2])
        if config.compare_hops:
            difference = g.op("Abs", g.op("Sub", first, second))
            matrix = g.op("Concat", matrix, g.op("Mul", first, second), difference, axis=-1)
        attention = g.op("Add", *halves)
    hidden = g.op("Relu", g.linear(g.reshape(matrix, 0, -1), model.hidden_proj))
    g.output("logits", g.linear(hidden, model.classifier), np.float32, ["B", config.num_labels])
    g.output("attention", attention, np.float32, ["B", config.num_hops, "S"])
    return g.model("model")


def _annotated(g: Graph, base: Any, input_ids: str, attention_mask: str) -> tuple[str, str]:
    """:class:`attnzoo.attention.StructuredSelfAttention`: M (B, R, V) and A (B, R, S)."""
    states, _ = EncoderGraph(base.rnn, base.config.cell, base.embed_tokens)(g, input_ids, attention_mask)
    scores = g.product(g.op("Tanh", g.linear(states, base.attention.key_proj)), base.attention.hops)  # (B, S, R)
    mask = g.unsqueeze(g.op("Cast", attention_mask, to=BOOL), 1)
    return attend(g, g.op("Transpose", scores, perm=[0, 2, 1]), states, mask)


def small_transformer(model: Any, weights: Weights) -> onnx.ModelProto:
    """The stack with one of its heads: logits of every token (B, S, ...), or of the texts (B, K)."""
    g, config = Graph(weights), model.config
    input_ids, attention_mask = text_inputs(g)
    states, _ = StackGraph(model.model.first_stack).read(g, input_ids, attention_mask)
    head, shape = model.lm_head if hasattr(model, "lm_head") else model.classifier, ["B", "S"]
    if type(model).__name__.endswith("ForSequenceClassification"):
        # The last real token of a causal stack, the first one of a bidirectional stack.
        is_last = int(config.attention_pattern == "causal")
        place = g.op("ArgMax", attention_mask, axis=1, keepdims=1, select_last_index=is_last)  # (B, 1)
        states, shape = g.op("GatherND", states, g.op("Cast", place, to=INT64), batch_dims=1), ["B"]  # (B, D)
    g.output("logits", g.linear(states, head), np.float32, [*shape, head.out_features])
    return g.model("model")
