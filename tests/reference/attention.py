"""The attention of the papers as loops: one target step, one source position, one score at a time.

The executable specification of ``attnzoo/attention.py``. Every function here is a formula of a paper on single vectors
and scalars; nothing is batched, nothing is fast, and gradients are plain autograd.

A score is None where there is nothing to attend to: on padding, outside a window, past the end of a table.
"""

import math

import torch
from torch import Tensor

Score = Tensor | None


def dot(h_t: Tensor, h_s: Tensor) -> Tensor:
    """Luong et al., 2015, section 3.1, "dot": h_t^T h_s."""
    assert h_t.shape == h_s.shape
    return (h_t * h_s).sum()


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """Vaswani et al., 2017, eq. 1, before the softmax: q^T k / sqrt(d_k)."""
    return dot(q, k) / math.sqrt(len(k))


def general(h_t: Tensor, h_s: Tensor, w_a: Tensor) -> Tensor:
    """Luong et al., 2015, section 3.1, "general": h_t^T W_a h_s."""
    return dot(h_t, w_a @ h_s)


def additive(s: Tensor, h_j: Tensor, w_a: Tensor, u_a: Tensor, v_a: Tensor) -> Tensor:
    """Bahdanau et al., 2014, appendix A.1.2: v_a^T tanh(W_a s_{i-1} + U_a h_j)."""
    return dot(v_a, torch.tanh(w_a @ s + u_a @ h_j))


def additive_with_coverage(
    s: Tensor, h_j: Tensor, covered: Tensor, w_a: Tensor, u_a: Tensor, v_a: Tensor, w_c: Tensor
) -> Tensor:
    """See et al., 2017, eq. 11: v^T tanh(W_h h_i + W_s s_t + w_c c_i^t), c_i^t the attention to i so far."""
    return dot(v_a, torch.tanh(w_a @ s + u_a @ h_j + w_c * covered))


def concat(h_t: Tensor, h_s: Tensor, w_a: Tensor, v_a: Tensor) -> Tensor:
    """Luong et al., 2015, section 3.1, "concat": v_a^T tanh(W_a [h_t; h_s]), with one W_a for both."""
    return dot(v_a, torch.tanh(w_a @ torch.cat([h_t, h_s])))


def location(h_t: Tensor, position: int, w_a: Tensor) -> Score:
    """Luong et al., 2015, section 3.1, "location": entry s of W_a h_t; words past the last row of W_a are ignored."""
    return (w_a @ h_t)[position] if position < len(w_a) else None


def softmax(scores: list[Score]) -> list[Tensor]:
    """Bahdanau et al., 2014, eq. 6: exp(e_j) / sum_k exp(e_k), over the real tokens; 0 everywhere else."""
    exponentials = [None if score is None else torch.exp(score) for score in scores]
    total = sum(e for e in exponentials if e is not None)
    return [torch.zeros((), dtype=torch.float64) if e is None else e / total for e in exponentials]


def context(weights: list[Tensor], values: list[Tensor]) -> Tensor:
    """Bahdanau et al., 2014, eq. 5: c_i = sum_j a_ij h_j."""
    total = torch.zeros_like(values[0])
    for weight, value in zip(weights, values, strict=True):
        total = total + weight * value
    return total


def ranks(is_real: list[bool]) -> list[int | None]:
    """The source position s of every token: its rank among the real tokens, from 0; None for padding."""
    positions: list[int | None] = []
    for real in is_real:
        positions.append(sum(is_real[: len(positions)]) if real else None)
    return positions


def monotonic_position(t: int, num_tokens: int) -> int:
    """Luong et al., 2015, section 3.2, local-m: p_t = t; the authors' released code stops at the last source token."""
    return t if t < num_tokens else num_tokens - 1


def predicted_position(h_t: Tensor, w_p: Tensor, v_p: Tensor, num_tokens: int) -> Tensor:
    """Luong et al., 2015, section 3.2, local-p: p_t = S sigmoid(v_p^T tanh(W_p h_t)), S the number of source tokens."""
    return num_tokens * torch.sigmoid(dot(v_p, torch.tanh(w_p @ h_t)))


def in_window(s: int, p_t: Tensor | int, d: int) -> bool:
    """Luong et al., 2015, section 3.2: whether position s is in [p_t - D, p_t + D]."""
    return bool(p_t - d <= s <= p_t + d)


def gaussian(s: int, p_t: Tensor, d: int) -> Tensor:
    """Luong et al., 2015, section 3.2, local-p: exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D/2.

    It multiplies the weight that the softmax gave to s; nothing is normalised after it.
    """
    sigma = d / 2
    return torch.exp(-((s - p_t) ** 2) / (2 * sigma**2))
