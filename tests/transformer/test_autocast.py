"""The Transformer's attention under autocast on a CPU: in float32, between projections in bfloat16."""

import pytest
import torch
from torch import Tensor

from attnzoo import SmallTransformerConfig
from attnzoo.transformer_layers import MultiHeadAttention

ROUNDING = 2.0**-8  # the largest relative error of a number as bfloat16
every_way = pytest.mark.parametrize(
    ("backend", "is_training"),
    [(backend, is_training) for backend in ("eager", "sdpa") for is_training in (False, True)],
)


def make_layer(backend: str, is_training: bool) -> MultiHeadAttention:
    """A layer of width 8, with two heads and without dropout."""
    config = SmallTransformerConfig(hidden_size=8, num_attention_heads=2, attention_dropout=0.0)
    config._attn_implementation = backend
    torch.manual_seed(0)
    return MultiHeadAttention(config, 0).train(is_training)


def run(layer: MultiHeadAttention, x: Tensor, mask: Tensor, enabled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The queries, keys and values, the context, and the layer's output."""
    projected: list[Tensor] = []
    contexts: list[Tensor] = []
    hooks = [
        project.register_forward_hook(lambda module, args, output: projected.append(output))
        for project in (layer.query_proj, layer.key_proj, layer.value_proj)
    ]
    hooks.append(layer.output_proj.register_forward_pre_hook(lambda module, args: contexts.append(args[0])))
    with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
        output, _ = layer(x, mask)
    for hook in hooks:
        hook.remove()
    return torch.stack(projected), contexts[0], output


@every_way
def test_scores_softmax_and_sum_are_not_rounded(backend: str, is_training: bool) -> None:
    layer = make_layer(backend, is_training)
    x = torch.randn(3, 7, 8)
    mask = torch.ones(3, 1, 7, 7, dtype=torch.bool)
    mask[1, :, :, 4:] = False  # padding
    projected, context, output = run(layer, x, mask, enabled=True)
    assert projected.dtype == output.dtype == torch.bfloat16
    assert context.dtype == torch.float32
    query, key, value = (part.double().unflatten(-1, (2, 4)).transpose(1, 2) for part in projected)
    scores = (query @ key.mT / 2).masked_fill(~mask, -torch.inf)  # the heads are 4 wide
    expected = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(context.double(), expected, rtol=1e-5, atol=1e-6)


@every_way
def test_outputs_and_gradients_are_near_those_of_float32(backend: str, is_training: bool) -> None:
    """They are finite even if there is nothing to attend to.

    From the input to the output there are two products, with scores below 1 between them, which do not enlarge an
    error. Each product rounds its input, its weight and its output, and in the backward pass both gradients that it
    reads and writes; the gradient of a weight is rounded once more. So there are eleven roundings, and the error is at
    most eleven times that of one.
    """
    layer = make_layer(backend, is_training)
    x, direction = torch.randn(2, 4, 9, 8) / 2
    mask = torch.ones(4, 1, 9, 9, dtype=torch.bool)
    mask[1, :, :, :5] = False  # padding
    mask[2] = False  # nothing but padding
    results = []
    for enabled in (True, False):
        layer.zero_grad()
        inputs = x.clone().requires_grad_()
        projected, _, output = run(layer, inputs, mask, enabled)
        (output.float() * direction).sum().backward()
        query, key, _ = projected.detach().float().unflatten(-1, (2, 4)).transpose(2, 3)
        assert (query @ key.mT / 2).abs().max() < 1
        results.append({"output": output.detach().float(), "input": inputs.grad})
        results[-1] |= {name: parameter.grad for name, parameter in layer.named_parameters()}
    rounded, exact = results
    assert len(exact) == 6
    for name, value in exact.items():
        assert rounded[name].dtype == torch.float32, name
        assert rounded[name].isfinite().all(), name
        error = (rounded[name] - value).norm() / value.norm()
        assert 0 < error < 11 * ROUNDING, name
