"""Weights and inputs in eight bits, as intgemm has them.

Dimensions: K inputs, N outputs of a matrix.
"""

from typing import NamedTuple

import numpy as np

LARGEST = 127  # -128 has no negative in eight bits, and intgemm never writes it


class Int8Matrix(NamedTuple):
    """A matrix of weights in eight bits, with one multiplier for all of them.

    Shape:
        - codes: (K, N), int8, from -127 to 127
        - multiplier: one number of float32; a code is the product of weight and multiplier, rounded
    """

    codes: np.ndarray
    multiplier: float


def codes_of(values: np.ndarray, multiplier: float) -> np.ndarray:
    r"""Numbers as codes of eight bits: weights by their multiplier, or the inputs of a product by their alpha.

    .. math:: c = \min(127, \max(-127, \mathrm{round}(m x)))

    A half is rounded to the even neighbour; the product :math:`m x` is one of float32.
    """
    scaled = np.asarray(values, np.float32) * np.float32(multiplier)
    return np.clip(np.rint(scaled), -LARGEST, LARGEST).astype(np.int8)


def values_of(codes: np.ndarray, multiplier: float) -> np.ndarray:
    r"""The numbers that codes stand for, in float32.

    .. math:: x = c \cdot \frac{1}{m}

    The engines multiply by the rounded inverse, too.
    """
    return codes.astype(np.float32) * (np.float32(1) / np.float32(multiplier))


def quantised(weights: np.ndarray) -> Int8Matrix:
    r"""A matrix in eight bits, as ``marian-conv`` writes it.

    .. math:: m = 127 / \max |w|

    The multiplier of zeros is 1.

    Raises:
        ValueError: a weight is not finite, or all are so small that the multiplier overflows.
    """
    largest = np.float32(np.abs(weights).max(initial=0))
    with np.errstate(over="ignore"):
        multiplier = np.float32(LARGEST) / largest if largest else np.float32(1)
    if not (np.isfinite(largest) and np.isfinite(multiplier)):
        raise ValueError(f"weights up to {largest} have no multiplier 127 / max|w| in float32")
    return Int8Matrix(codes_of(weights, float(multiplier)), float(multiplier))


def is_quantised(name: str) -> bool:
    """Whether ``marian-conv`` writes the item of this name in eight bits."""
    return "Wemb" in name or name.endswith("_W") or name[-3:-1] == "_W"
