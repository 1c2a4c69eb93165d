"""The additive score as a kernel that never holds tanh(q + k) of all pairs, alone or step by step.

Dimensions: B batch, T target length (queries), S source length (keys), A attention width, r rows and t steps of
a chunk, n rows of a loop's step. "..." stands for (B,), or (B, H) where there are heads.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Additive attention holds about this many elements of tanh(q + k) at a time, and at least those of one query: 2 MB in
# float32, which fit a core's cache. On other devices than a CPU it is 64 times as many.
ADDITIVE_CHUNK_ELEMENTS = 2**19


def fast_additive_score(query: Tensor, key: "Tensor | PassedKey", vector: Tensor) -> Tensor:
    r""":func:`additive_score` (Bahdanau et al., 2014, appendix A.1.2).

    .. math:: e_{ts} = v^\top \tanh(q_t + k_s)

    Query and key come already projected. The sums :math:`q_t + k_s` of all pairs, (..., T, S, A), are never in memory
    at once: they are computed in chunks, and again in the backward pass. Differentiable once. It computes in
    float32 at least, and returns the wider dtype of query and key, under autocast too.

    Shape:
        - query: (..., T, A)
        - key: (..., S, A)
        - vector: (A,)
        - returns: (..., T, S)
    """
    dtype, shape = torch.promote_types(query.dtype, key.dtype), query.shape[:-1]
    with torch.autocast(query.device.type, enabled=False):  # forward and backward pass must use the same dtype
        query = _one_batch(query, torch.promote_types(dtype, torch.float32))
        if isinstance(key, PassedKey):
            scores = key.scores(query, vector)
        else:
            scores, _ = _AdditiveScore.apply(query, _one_batch(key, query.dtype), vector.to(query.dtype), True, False)
    return scores.view(*shape, scores.shape[-1]).to(dtype)


def _one_batch(values: Tensor, dtype: torch.dtype) -> Tensor:
    """(..., N, A) as (B, N, A)."""
    return values.to(dtype).reshape(math.prod(values.shape[:-2]), *values.shape[-2:])


class PassedKey:
    """A key (B, S, A) of additive scores that passes through the steps of a loop, and its gradient back through them.

    Every step then adds its part to one gradient in place, instead of making one as large as the key.
    """

    def __init__(self, key: Tensor) -> None:
        self.key, self.dtype, self.is_first = key, key.dtype, True

    def __getitem__(self, rows: slice) -> "PassedKey":
        return self  # the number of rows is that of the queries

    def scores(self, query: Tensor, vector: Tensor) -> Tensor:
        """The scores (n, T, S) of a query (n, T, A), which has the first n rows."""
        tensors = query, self.key.to(query.dtype), vector.to(query.dtype)
        scores, self.key = _AdditiveScore.apply(*tensors, self.is_first, True)
        self.is_first = False
        return scores


class _AdditiveScore(torch.autograd.Function):
    """Scores of a query (n, T, A), a key (B, S, A) and a vector (A,), by ``sigmoid_of_pairs``; and the key, if it is
    passed on.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, vector: Tensor, is_first: bool, is_passed: bool
    ) -> tuple[Tensor, Tensor | None]:
        ctx.is_first = is_first
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, vector)
        scores = query.new_empty(*query.shape[:2], key.shape[1])
        for rows, steps in pair_chunks(query.shape[1], key[: len(query)]):
            scores[rows, steps] = sigmoid_of_pairs(query[rows, steps], key[rows]) @ vector
        return scores.mul_(2).sub_(vector.sum()), key if is_passed else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_scores: Tensor | None, grad_key: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, vector = ctx.saved_tensors
        slope, grad_query, grad_vector = 4 * vector, torch.zeros_like(query), torch.zeros_like(vector)
        if grad_key is None:
            grad_key = torch.zeros_like(key)
        if grad_scores is not None:
            for rows, steps in pair_chunks(query.shape[1], key[: len(query)]):
                grad_chunk = grad_scores[rows, steps]  # (r, t, S)
                sigmoid = sigmoid_of_pairs(query[rows, steps], key[rows])  # (r, t, S, A)
                grad_vector += grad_chunk.flatten() @ sigmoid.flatten(0, -2)
                derivative = sigmoid.addcmul_(sigmoid, sigmoid, value=-1)
                grad_query[rows, steps] = (grad_chunk.unsqueeze(-2) @ derivative).squeeze(-2)
                for step in range(grad_chunk.shape[1]):
                    grad_key[rows].addcmul_(derivative[:, step], grad_chunk[:, step].unsqueeze(-1))
            grad_vector = 2 * grad_vector - grad_scores.sum()
        if ctx.is_first:  # the factor that is the same at every step
            grad_key *= slope
        return grad_query.mul_(slope), grad_key, grad_vector, None, None


def pair_chunks(num_steps: int, key: Tensor) -> list[tuple[slice, slice]]:
    """Chunks of rows and of ``num_steps`` target steps that additive attention to a key (B, S, A) takes at a time."""
    elements = ADDITIVE_CHUNK_ELEMENTS * (1 if key.device.type == "cpu" else 64)
    of_query = max(1, key.shape[1] * key.shape[2])
    steps = min(max(1, elements // of_query), max(1, num_steps))
    rows = max(1, elements // (of_query * steps))
    return [
        (slice(row, min(row + rows, len(key))), slice(step, step + steps))
        for row in range(0, len(key), rows)
        for step in range(0, num_steps, steps)
    ]


def sigmoid_of_pairs(query: Tensor, key: Tensor) -> Tensor:
    r""":math:`\sigma = \sigma(2 (q_t + k_s))`, whence :math:`\tanh(q_t + k_s) = 2 \sigma - 1`.

    Its derivative is :math:`4 (\sigma - \sigma^2)`. On a CPU torch makes a sigmoid in a sixth of the time of a tanh.

    Shape:
        - query: (..., t, A)
        - key: (..., S, A)
        - returns: (..., t, S, A)
    """
    return torch.add(2 * query.unsqueeze(-2), key.unsqueeze(-3), alpha=2).sigmoid_()
