r"""What a model computes between its products, in the order of the loops of Mozilla's engine.

The last bits of a sum in float32 depend on the order of its terms. If the sum is then rounded to a code of eight bits,
they may decide between two codes, and so between two words. The engine adds from the first term to the last, rounds
every operation to float32, and takes exp, sin and pow from the C library. These layers do the same, number by number,
for one sentence and one step of the decoder at a time.

Dimensions: B batch, T queries, S keys, H heads, K head width, D model width.
"""

import ctypes
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..transformer_layers import SSRU

C_LIBRARY = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)  # None: the one that the process has loaded
ONE = np.float32(1)


def by_c_library(name: str, *values: np.ndarray | np.float32) -> np.ndarray:
    """A function of the C library on float32, such as "expf", for every number; NumPy's may differ in the last bit."""
    function = C_LIBRARY[name]
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float] * len(values)
    return np.vectorize(function, otypes=[np.float32])(*values)


def sum_in_order(terms: np.ndarray, axis: int = -1) -> np.ndarray:
    """The sum along an axis, from the first term to the last, in float32; ``np.sum`` adds in pairs."""
    return np.add.accumulate(terms, axis=axis).take(-1, axis=axis)


def positions_in_order(positions: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""The positions of ``sinusoidal_halves``; the cosines are computed as :math:`\sin(pos \cdot r_i + \pi / 2)`."""
    half = np.float32(size // 2 - 1)
    rates = by_c_library("powf", np.float32(1e-4), np.arange(size // 2, dtype=np.float32) / half)
    angles = positions.numpy()[..., None].astype(np.float32) * rates
    both = np.concatenate([angles, angles + np.float32(np.pi / 2)], axis=-1)
    return torch.from_numpy(by_c_library("sinf", both)).to(dtype)


def attention_in_order(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention with the signature of Transformers' attention interface; ignores the mask.

    Shape:
        - query: (B, H, T, K); key, value: (B, H, S, K)
        - returns: context (B, T, H, K), attention_weights (B, H, T, S)
    """
    queries, keys, values = query.numpy(), key.numpy(), value.numpy()
    scores = sum_in_order(queries[..., :, None, :] * keys[..., None, :, :]) * (ONE / np.sqrt(np.float32(key.shape[-1])))
    powers = by_c_library("expf", scores - scores.max(-1, keepdims=True))
    weights = powers / sum_in_order(powers)[..., None]
    context = sum_in_order(weights[..., None] * values[..., None, :, :], axis=-2)
    return torch.from_numpy(context).transpose(1, 2), torch.from_numpy(weights)


class LayerNormInOrder(nn.Module):
    """The normalisation of ``nn.LayerNorm``.

    Shape:
        - values: (..., D)
        - returns: (..., D)
    """

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight.detach().numpy(), norm.bias.detach().numpy()
        self.size, self.epsilon = np.float32(len(self.weight)), np.float32(norm.eps)

    def forward(self, values: Tensor) -> Tensor:
        numbers = values.numpy()
        centred = numbers - (sum_in_order(numbers) / self.size)[..., None]
        deviation = np.sqrt(sum_in_order(centred * centred) / self.size + self.epsilon)[..., None]
        return torch.from_numpy(self.weight * (centred / deviation) + self.bias)


class SSRUInOrder(nn.Module):
    """One step of an SSRU, with the cell in the cache, which it needs.

    Shape:
        - hidden_states: (B, 1, D)
        - returns: (B, 1, D), and None in place of attention weights
    """

    def __init__(self, ssru: SSRU) -> None:
        super().__init__()
        self.ssru = ssru

    def forward(
        self, hidden_states: Tensor, mask: Any = None, source: None = None, past_key_values: Any = None, **kwargs: Any
    ) -> tuple[Tensor, None]:
        candidate, gate = (
            project(hidden_states[:, 0]).numpy() for project in (self.ssru.candidate_proj, self.ssru.forget_gate_proj)
        )
        cells, layer = past_key_values.self_attention_cache, self.ssru.layer_idx
        before = cells.load(layer, *candidate.shape)
        forget = ONE / (ONE + by_c_library("expf", -gate))
        kept = np.zeros_like(candidate) if before is None else forget * before.numpy()
        cell = torch.from_numpy(kept + (ONE - forget) * candidate)
        cells.store(layer, cell, 1)
        return cell.relu().unsqueeze(1), None
