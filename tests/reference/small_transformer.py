"""The Transformer of the paper as loops: one sentence, one token, one head, one score at a time.

The executable specification of the layers, the stack and the three masks. Weights are read from a module by their
names; everything else is written from the equations. Padding is not masked here: it is left out.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnzoo import SmallTransformerConfig
from tests.reference import attention, copying
from tests.reference.attentional_rnn import Weights, below

Vectors = list[Tensor]
# Which places of the other sequence a token at a place may attend to.
Sees = Callable[[int, int], bool]


def sees_all(place: int, other: int) -> bool:
    return True


def sees_the_past(place: int, other: int) -> bool:
    return other <= place


def linear(weights: Weights, x: Tensor) -> Tensor:
    return weights["weight"] @ x + weights.get("bias", 0)


def multi_head(config: SmallTransformerConfig, weights: Weights, xs: Vectors, ys: Vectors, sees: Sees) -> Vectors:
    """Vaswani et al., 2017, section 3.2.2: [head_1; ...; head_h] W^O, head_i = Attention(x W_i^Q, y W_i^K, y W_i^V)."""
    num_heads = config.num_attention_heads
    outputs = []
    for place, x in enumerate(xs):
        heads = []
        for head in range(num_heads):
            # W_i is h rows of the transposed W of all heads.
            query = linear(below(weights, "query_proj."), x).chunk(num_heads)[head]
            scores: list[attention.Score] = []
            values = []
            for other, y in enumerate(ys):
                key = linear(below(weights, "key_proj."), y).chunk(num_heads)[head]
                score = attention.scaled_dot if config.scale_scores else attention.dot
                scores.append(score(query, key) if sees(place, other) else None)
                values.append(linear(below(weights, "value_proj."), y).chunk(num_heads)[head])
            heads.append(attention.context(attention.softmax(scores), values) if ys else torch.zeros_like(query))
        outputs.append(linear(below(weights, "output_proj."), torch.cat(heads)))
    return outputs


def feed_forward(config: SmallTransformerConfig, weights: Weights, x: Tensor) -> Tensor:
    """Section 3.3: max(0, x W_1 + b_1) W_2 + b_2; GELU is x times the normal distribution function of x."""
    inner = linear(below(weights, "intermediate_proj."), x)
    if config.activation == "relu":
        inner = torch.stack([value if value > 0 else value * 0 for value in inner])
    else:
        inner = torch.stack([value * (1 + torch.erf(value / math.sqrt(2))) / 2 for value in inner])
    return linear(below(weights, "output_proj."), inner)


def layer_norm(config: SmallTransformerConfig, weights: Weights, x: Tensor) -> Tensor:
    """Ba et al., 2016, eq. 4: g (x - mean) / std + b."""
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return weights["weight"] * (x - mean) / torch.sqrt(variance + config.layer_norm_eps) + weights["bias"]


def residual(
    config: SmallTransformerConfig, weights: Weights, xs: Vectors, sublayer: Callable[[Vectors], Vectors]
) -> Vectors:
    """Section 5.4: LayerNorm(x + Sublayer(x)); with norm="pre" x + Sublayer(LayerNorm(x))."""
    if config.norm == "pre":
        normed = sublayer([layer_norm(config, weights, x) for x in xs])
        return [x + output for x, output in zip(xs, normed, strict=True)]
    return [layer_norm(config, weights, x + output) for x, output in zip(xs, sublayer(xs), strict=True)]


def ssru(weights: Weights, xs: Vectors) -> Vectors:
    """Kim et al., 2019: f_t = sigma(W_t x_t + b_f), c_t = f_t c_{t-1} + (1 - f_t) W x_t, o_t = max(0, c_t)."""
    cell, outputs = torch.zeros_like(xs[0]), []
    for x in xs:
        gate = 1 / (1 + torch.exp(-linear(below(weights, "forget_gate_proj."), x)))
        cell = gate * cell + (1 - gate) * (weights["candidate_proj.weight"] @ x)
        outputs.append(torch.stack([value if value > 0 else value * 0 for value in cell]))
    return outputs


def layer(config: SmallTransformerConfig, weights: Weights, xs: Vectors, memory: Vectors | None, sees: Sees) -> Vectors:
    """Section 3.1: self-attention or an SSRU, attention to the memory if there is one, feed-forward."""

    def attend_to_itself(xs: Vectors) -> Vectors:
        return multi_head(config, below(weights, "self_attention."), xs, xs, sees)

    def attend_to_memory(xs: Vectors) -> Vectors:
        assert memory is not None
        return multi_head(config, below(weights, "cross_attention."), xs, memory, sees_all)

    def transform(xs: Vectors) -> Vectors:
        return [feed_forward(config, below(weights, "feed_forward."), x) for x in xs]

    def run_ssru(xs: Vectors) -> Vectors:
        return ssru(below(weights, "ssru."), xs)

    if memory is not None and config.decoder_mixer == "ssru":
        xs = residual(config, below(weights, "ssru_norm."), xs, run_ssru)
    else:
        xs = residual(config, below(weights, "self_attention_norm."), xs, attend_to_itself)
    if memory is not None:
        xs = residual(config, below(weights, "cross_attention_norm."), xs, attend_to_memory)
    return residual(config, below(weights, "feed_forward_norm."), xs, transform)


def position_encoding(position: int, size: int) -> Tensor:
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))."""
    encoding = torch.zeros(size, dtype=torch.float64)
    for i in range(size // 2):
        angle = position / 10000 ** (2 * i / size)
        encoding[2 * i], encoding[2 * i + 1] = math.sin(angle), math.cos(angle)
    return encoding


def position_encoding_in_halves(position: int, size: int) -> Tensor:
    """Marian: PE(pos, i) = sin(pos r_i), PE(pos, d/2 + i) = cos(pos r_i), r_i = 10000^(-i / (d/2 - 1))."""
    encoding = torch.zeros(size, dtype=torch.float64)
    for i in range(size // 2):
        angle = position * 10000 ** (-i / (size / 2 - 1))
        encoding[i], encoding[size // 2 + i] = math.sin(angle), math.cos(angle)
    return encoding


def stack(
    config: SmallTransformerConfig, weights: Weights, words: list[int], memory: Vectors | None, sees: Sees
) -> Vectors:
    """Sections 3.1, 3.4 and 3.5: embeddings times sqrt(d) plus positions, N layers."""
    xs = []
    for position, word in enumerate(words):
        x = weights["embed_tokens.weight"][word] * math.sqrt(config.hidden_size)
        if config.position_embedding == "sinusoidal":
            x = x + position_encoding(position, config.hidden_size)
        elif config.position_embedding == "sinusoidal_halves":
            x = x + position_encoding_in_halves(position, config.hidden_size)
        elif config.position_embedding == "learned":
            x = x + weights["position_embedding.learned.weight"][position]
        xs.append(x)
    for index in range(config.num_hidden_layers if memory is None else config.decoder_depth):
        xs = layer(config, below(weights, f"layers.{index}."), xs, memory, sees)
    if config.norm == "pre":
        xs = [layer_norm(config, below(weights, "final_norm."), x) for x in xs]
    return xs


def transformer(
    config: SmallTransformerConfig, weights: Weights, source: list[int], target: list[int] | None = None
) -> Vectors:
    """The last hidden state of every token, of the target if there is one, else of the only text."""
    if config.attention_pattern == "causal":
        return stack(config, below(weights, "decoder."), source, None, sees_the_past)
    encoded = stack(config, below(weights, "encoder."), source, None, sees_all)
    if target is None:
        return encoded
    return stack(config, below(weights, "decoder."), target, encoded, sees_the_past)


def marian_logits(
    config: SmallTransformerConfig, weights: Weights, source: list[int], target: list[int]
) -> list[Tensor]:
    """The logits after every token of a target that begins with the start token, which is never predicted."""
    logits = []
    for h in transformer(config, below(weights, "model."), source, target):
        of_word = weights["lm_head.weight"] @ h + weights["lm_head.bias"]
        of_word[config.decoder_start_token_id] = -1e4
        logits.append(of_word)
    return logits


def copying_logits(
    config: SmallTransformerConfig, weights: Weights, source: list[int], target: list[int]
) -> list[Tensor]:
    """See et al., 2017, section 2.2, with one head on top of the decoder: the log-probabilities after every token.

    a_tj = softmax_j((W h_t) . h_j / sqrt(d)); p_gen by the context of a and h_t.
    """
    model = below(weights, "model.")
    encoded = stack(config, below(model, "encoder."), source, None, sees_all)
    w, b = weights["copy_head.gate.gate_proj.weight"][0], weights["copy_head.gate.gate_proj.bias"][0]
    logits = []
    for h in transformer(config, model, source, target):
        query = weights["copy_head.query_proj.weight"] @ h
        attended = attention.softmax([attention.scaled_dot(query, state) for state in encoded])
        context = attention.context(attended, encoded) if encoded else torch.zeros_like(h)
        p_gen = copying.generation_probability(w, b, context, h)
        logits.append(copying.mixture(weights["lm_head.weight"] @ h, p_gen, attended, source))
    return logits
