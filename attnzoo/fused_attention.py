r"""The attention of a decoder's loop, step by step, with a backward pass written by hand.

The equations of ``attention.py``, for one query a row. What every step adds to the gradients of values, keys and
weights is left to matrix products over all steps; :math:`\tanh(q_t + k_s)` of the additive score is made, as there, by
a sigmoid, some rows at a time, and again in the backward pass. Packed values and :class:`Rows` are those of
``fused_cells.py``.

Letters in shapes: B batch, T target length, S source length, H hidden width, V width of the values, A attention width,
n rows of one step, N rows of all steps.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from .attention import pair_chunks, sigmoid_of_pairs
from .fused_cells import Rows, product, weight_gradient


class DotSteps:
    r"""Scores :math:`q_t^\top k_s`, step by step; ``key`` is (B, S, H)."""

    num_tensors = 1

    def __init__(self, rows: Rows, key: Tensor) -> None:
        self.rows, self.key = rows, key

    def forward(self, step: int, query: Tensor) -> Tensor:
        """The scores (n, S) of a query (n, H)."""
        return _products(query, self.key[: len(query)])

    def start_backward(self) -> None:
        """Nothing to prepare."""

    def backward(self, step: int, grad_scores: Tensor) -> Tensor:
        """The gradient (n, H) of the query."""
        return torch.bmm(grad_scores.unsqueeze(1), self.key[: len(grad_scores)]).squeeze(1)

    def gradients(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor]:
        """After the first step's: of the tensors, from the queries (N, H) and the scores (N, S) of all steps."""
        return [_sum_of_outer_products(self.rows, grad_scores, queries)]


class AdditiveSteps:
    r"""Scores :math:`v^\top \tanh(W q_t + k_s)`; ``key`` is (B, S, A), ``weight`` (A, H), ``vector`` (A,).

    All but the product with the weight is in float32 at least: a small tanh is the difference of two sigmoids.
    """

    num_tensors = 3

    def __init__(self, rows: Rows, key: Tensor, weight: Tensor, vector: Tensor) -> None:
        wide = torch.promote_types(key.dtype, torch.float32)
        self.rows, self.dtype, self.weight = rows, key.dtype, weight
        self.key, self.vector = key.to(wide), vector.to(wide)
        self.projected = self.key.new_empty(rows.total, len(weight))

    def forward(self, step: int, query: Tensor) -> Tensor:
        self.projected[self.rows.at(step)] = product(query, self.weight.t())
        scores = self.vector.new_empty(len(query), self.key.shape[1])
        for chunk, sigmoid in self._sigmoids(step):
            scores[chunk] = sigmoid @ self.vector
        return scores.mul_(2).sub_(self.vector.sum()).to(self.dtype)

    def start_backward(self) -> None:
        self.grad_projected = torch.empty_like(self.projected)
        self.grad_vector = torch.zeros_like(self.vector)
        self.grad_key = torch.zeros_like(self.key)

    def backward(self, step: int, grad_scores: Tensor) -> Tensor:
        grad_projected, grad_scores = self.grad_projected[self.rows.at(step)], grad_scores.to(self.key.dtype)
        for chunk, sigmoid in self._sigmoids(step):
            grad_chunk = grad_scores[chunk]
            self.grad_vector += grad_chunk.flatten() @ sigmoid.flatten(0, 1)
            slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1)
            grad_projected[chunk] = torch.bmm(grad_chunk.unsqueeze(1), slope).squeeze(1)
            self.grad_key[chunk].addcmul_(slope, grad_chunk.unsqueeze(2))
        return product(grad_projected.mul_(4 * self.vector), self.weight).to(self.dtype)

    def gradients(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor]:
        grad_key = self.grad_key.mul_(4 * self.vector)
        grad_weight = weight_gradient(self.grad_projected.to(self.dtype), queries, self.weight)
        grad_vector = 2 * self.grad_vector - grad_scores.sum(dtype=self.key.dtype)
        return [grad_key.to(self.dtype), grad_weight, grad_vector.to(self.dtype)]

    def _sigmoids(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        """Some rows at a time, and what ``sigmoid_of_pairs`` makes of them (r, S, A)."""
        key, projected = self.key[: self.rows.sizes[step]], self.projected[self.rows.at(step)]
        for chunk, _ in pair_chunks(1, key):
            yield chunk, sigmoid_of_pairs(projected[chunk].unsqueeze(1), key[chunk]).squeeze(1)


class MonotonicSteps:
    """The window of local-m; ``positions`` is (B, S), ``length`` (B,)."""

    num_tensors = 2

    def __init__(self, rows: Rows, size: int, positions: Tensor, length: Tensor) -> None:
        self.rows, self.size, self.positions, self.length = rows, size, positions, length

    def distance(self, step: int, query: Tensor) -> Tensor:
        """(n, S), of every source token from the middle of the window."""
        middle = (self.length[: len(query)] - 1).clamp(min=0, max=step)
        return self.positions[: len(query)] - middle.unsqueeze(1)


class PredictiveSteps:
    r"""The window of local-p, and its Gaussian :math:`\exp(-d^2 / 2\sigma^2)` of the distance d, :math:`\sigma = D/2`.

    ``weight`` (H, H) and ``vector`` (H,) are :math:`W_p` and :math:`v_p`.
    """

    num_tensors = 4

    def __init__(
        self, rows: Rows, size: int, positions: Tensor, length: Tensor, weight: Tensor, vector: Tensor
    ) -> None:
        self.rows, self.size, self.positions, self.length = rows, size, positions, length
        self.weight, self.vector = weight, vector
        self.hidden = vector.new_empty(rows.total, len(weight))
        self.relative = vector.new_empty(rows.total)
        self.variance = (size / 2) ** 2

    def distance(self, step: int, query: Tensor) -> Tensor:
        now = self.rows.at(step)
        hidden = self.hidden[now].copy_(product(query, self.weight.t())).tanh_()
        torch.sigmoid(hidden @ self.vector, out=self.relative[now])
        return self._distance(step)

    def gaussian(self, distance: Tensor) -> Tensor:
        return torch.exp(distance.square() / (-2 * self.variance))

    def start_backward(self) -> None:
        self.grad_sums = torch.empty_like(self.hidden)  # of what the tanh is taken of
        self.grad_logit = torch.empty_like(self.relative)

    def backward(self, step: int, grad_used: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the weights (n, S), before the Gaussian, and of the query (n, H)."""
        now, size = self.rows.at(step), len(weights)
        distance = self._distance(step)
        grad_weights = grad_used * self.gaussian(distance)
        # d gaussian / d p = gaussian * distance / variance, where p = length * sigmoid(logit)
        grad_middle = (grad_weights * weights * distance).sum(dim=1) / self.variance
        relative, hidden = self.relative[now], self.hidden[now]
        grad_logit = grad_middle * self.length[:size] * (relative - relative.square())
        grad_sums = torch.outer(grad_logit, self.vector) * (1 - hidden.square())
        self.grad_logit[now], self.grad_sums[now] = grad_logit, grad_sums
        return grad_weights, product(grad_sums, self.weight)

    def gradients(self, queries: Tensor) -> list[Tensor | None]:
        return [None, None, weight_gradient(self.grad_sums, queries, self.weight), self.grad_logit @ self.hidden]

    def _distance(self, step: int) -> Tensor:
        size = self.rows.sizes[step]
        middle = self.length[:size] * self.relative[self.rows.at(step)]
        return self.positions[:size] - middle.unsqueeze(1)


class AttentionSteps:
    """One look at the source at every step: score, mask, normalise, sum; ``value`` is (B, S, V), ``mask`` (B, S)."""

    def __init__(
        self,
        rows: Rows,
        score: DotSteps | AdditiveSteps,
        window: MonotonicSteps | PredictiveSteps | None,
        value: Tensor,
        mask: Tensor,
    ) -> None:
        self.rows, self.score, self.window = rows, score, window
        self.value, self.excluded = value, ~mask
        self.context = value.new_empty(rows.total, value.shape[2])
        self.weights = value.new_empty(rows.total, value.shape[1])  # the softmax
        if isinstance(window, PredictiveSteps):
            self.weighted = torch.empty_like(self.weights)  # times the Gaussian
        # Only then can a softmax have nothing to choose from.
        self.is_any_empty = window is not None or not bool(mask.any(dim=1).all())

    def forward(self, step: int, query: Tensor) -> Tensor:
        """The context (n, V) of a query (n, H)."""
        now, size, window = self.rows.at(step), len(query), self.window
        scores, excluded = self.score.forward(step, query), self.excluded[:size]
        if window is not None:
            distance = window.distance(step, query)
            excluded = excluded | (distance.abs() > window.size)
        scores.masked_fill_(excluded, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=1, out=self.weights[now])
        if self.is_any_empty:
            weights.masked_fill_(excluded, 0.0)
        if isinstance(window, PredictiveSteps):
            weights = torch.mul(weights, window.gaussian(distance), out=self.weighted[now])
        context = torch.bmm(weights.unsqueeze(1), self.value[:size])
        return self.context[now].copy_(context.squeeze(1))

    def start_backward(self) -> None:
        self.grad_context = torch.empty_like(self.context)
        self.grad_scores = torch.empty_like(self.weights)
        self.score.start_backward()
        if isinstance(self.window, PredictiveSteps):
            self.window.start_backward()

    def backward(self, step: int, grad_context: Tensor) -> Tensor:
        """From the gradient of the context (n, V) to that of the query (n, H)."""
        now, size = self.rows.at(step), len(grad_context)
        self.grad_context[now] = grad_context
        grad_weights = _products(grad_context, self.value[:size])  # (n, S)
        weights = self.weights[now]
        grad_query = None
        if isinstance(self.window, PredictiveSteps):
            grad_weights, grad_query = self.window.backward(step, grad_weights, weights)
        product = weights * grad_weights
        grad_scores = torch.addcmul(product, weights, product.sum(dim=1, keepdim=True), value=-1)
        self.grad_scores[now] = grad_scores
        of_scores = self.score.backward(step, grad_scores)
        return of_scores if grad_query is None else of_scores.add_(grad_query)

    def gradients(self, queries: Tensor) -> list[Tensor | None]:
        """After the first step's: of value, mask, the score's and the window's tensors, from all queries (N, H)."""
        weighted = self.weighted if isinstance(self.window, PredictiveSteps) else self.weights
        gradients = [_sum_of_outer_products(self.rows, weighted, self.grad_context), None]
        gradients += self.score.gradients(queries, self.grad_scores)
        if isinstance(self.window, PredictiveSteps):
            gradients += self.window.gradients(queries)
        elif self.window is not None:
            gradients += [None, None]
        return gradients


def _products(rows: Tensor, matrices: Tensor) -> Tensor:
    """Of a row (n, H) with every row of its matrix (n, S, H): (n, S).

    The row stands on the left: with a matrix of one column on the right the same product takes ten times as long.
    """
    return torch.bmm(rows.unsqueeze(1), matrices.mT).squeeze(1)


def _sum_of_outer_products(rows: Rows, left: Tensor, right: Tensor) -> Tensor:
    r""":math:`\sum_t l_t r_t^\top` (B, S, V) of every row of the batch, from packed left (N, S) and right (N, V)."""
    left, right = (_padded(rows, packed).transpose(0, 1) for packed in (left, right))
    return left.mT @ right


def _padded(rows: Rows, packed: Tensor) -> Tensor:
    """Packed (N, ...) as (T, B, ...), zeros where a row has ended."""
    steps, batch = len(rows.sizes), rows.sizes[0]
    if rows.total < steps * batch:
        whole = packed.new_zeros(steps * batch, *packed.shape[1:])
        packed = whole.index_copy_(0, rows.padded_index(packed.device), packed)
    return packed.unflatten(0, (steps, batch))
