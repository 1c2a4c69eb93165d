"""The parts of a model between its products, in the order of the engine's loops: every number to the last bit."""

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import EncoderDecoderCache

from attnzoo.cell_cache import CellCache
from attnzoo.firefox.engine_order import (
    C_LIBRARY,
    LayerNormInOrder,
    SSRUInOrder,
    attention_in_order,
    positions_in_order,
)
from attnzoo.firefox.parameters import config_of
from attnzoo.transformer_layers import SSRU, eager_attention_forward, sinusoidal_halves
from tests.firefox.models import SIZES

Number = np.float32
pytestmark = pytest.mark.usefixtures("no_gradients")


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(Number)


def total(terms: Any) -> Number:
    """The terms one after the other, as the engine's loops add them; each sum is rounded to float32."""
    return Number(list(itertools.accumulate(terms))[-1])


def exp(value: Number) -> Number:
    C_LIBRARY.expf.restype, C_LIBRARY.expf.argtypes = ctypes.c_float, [ctypes.c_float]
    return Number(C_LIBRARY.expf(value))


def test_a_normalisation_is_that_of_the_loops() -> None:
    values, norm = draw(3, 50), nn.LayerNorm(50, 1e-6)
    norm.weight.copy_(torch.from_numpy(draw(50)))
    norm.bias.copy_(torch.from_numpy(draw(2, 50)[1]))
    found = LayerNormInOrder(norm)(torch.from_numpy(values))
    torch.testing.assert_close(found, norm(torch.from_numpy(values)))
    weight, bias = norm.weight.numpy(), norm.bias.numpy()
    for row, numbers in zip(found.numpy(), values, strict=True):
        mean = total(numbers) / Number(50)
        sigma = np.sqrt(total((x - mean) * (x - mean) for x in numbers) / Number(50) + Number(1e-6))
        assert row.tolist() == [g * ((x - mean) / sigma) + b for g, x, b in zip(weight, numbers, bias, strict=True)]


def test_an_attention_is_that_of_the_loops() -> None:
    query, key, value = draw(1, 2, 3, 12), draw(1, 2, 40, 12), draw(2, 2, 40, 12)[1:]
    tensors = [torch.from_numpy(one) for one in (query, key, value)]
    found, weights = attention_in_order(nn.Module(), *tensors, None)
    plain = eager_attention_forward(nn.Module(), *tensors, None, scaling=12**-0.5)
    for one, other in zip((found, weights), plain, strict=True):
        torch.testing.assert_close(one, other)
    for head, step in itertools.product(range(2), range(3)):
        q, keys, values = query[0, head, step], key[0, head], value[0, head]
        scores = [total(a * b for a, b in zip(q, k, strict=True)) * (Number(1) / np.sqrt(Number(12))) for k in keys]
        powers = [exp(score - max(scores)) for score in scores]
        shares = [power / total(powers) for power in powers]
        assert weights[0, head, step].tolist() == shares
        assert found[0, step, head].tolist() == [
            total(w * v[i] for w, v in zip(shares, values, strict=True)) for i in range(12)
        ]


def test_a_recurrent_step_is_that_of_the_loops() -> None:
    ssru = SSRU(config_of(SIZES, 0), 0)
    cache: Any = EncoderDecoderCache(CellCache(1), CellCache(1))
    other: Any = EncoderDecoderCache(CellCache(1), CellCache(1))
    cell = np.zeros(8, Number)
    for values in torch.from_numpy(draw(5, 1, 1, 8)):
        found, _ = SSRUInOrder(ssru)(values, past_key_values=cache)
        torch.testing.assert_close(found, ssru(values, past_key_values=other)[0])
        candidate, gate = ssru.candidate_proj(values)[0, 0].numpy(), ssru.forget_gate_proj(values)[0, 0].numpy()
        forget = [Number(1) / (Number(1) + exp(-one)) for one in gate]
        cell = np.array([f * c + (Number(1) - f) * new for f, c, new in zip(forget, cell, candidate, strict=True)])
        assert found[0, 0].tolist() == np.maximum(cell, 0).tolist()
    assert cache.get_seq_length() == 5


def test_positions_are_those_in_halves() -> None:
    positions = torch.arange(300)[None]
    found = positions_in_order(positions, 64)
    torch.testing.assert_close(found, sinusoidal_halves(positions, 64, torch.float64).float(), atol=1e-4, rtol=0)
    assert found[0, 0].tolist() == [0.0] * 32 + [1.0] * 32
