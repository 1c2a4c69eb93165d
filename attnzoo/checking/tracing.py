r"""Record the tensors that torch makes in a call, among them the attention weights.

Attention weights are recognised by their properties: a tensor that depends on the input, without negative values, whose
sums over some axis are all 1. So the code may compute the softmax in any way.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..library_internals import origin_of

SOFTMAXES = {functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
LOG_SOFTMAXES = {functional.log_softmax, torch.log_softmax, Tensor.log_softmax, torch.special.log_softmax}
EXPONENTIALS = {torch.exp, Tensor.exp, Tensor.exp_}
DIVISIONS = {torch.div, torch.true_divide, Tensor.div, Tensor.div_, Tensor.true_divide, Tensor.__truediv__}
RECIPROCALS = {torch.reciprocal, Tensor.reciprocal, Tensor.reciprocal_, Tensor.__rtruediv__, functional.normalize}
RECIPROCALS |= {torch.rsqrt, Tensor.rsqrt, Tensor.rsqrt_}
POWERS = {torch.pow, Tensor.pow, Tensor.pow_, Tensor.__pow__, torch.float_power, Tensor.float_power}
DROPOUTS = {
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
    torch.dropout,
    torch.feature_dropout,
}
ADDED_PRODUCTS = {torch.baddbmm, torch.addmm, Tensor.baddbmm, Tensor.addmm}  # each adds one to its first argument
PRODUCTS = {
    *ADDED_PRODUCTS,
    torch.matmul,
    torch.bmm,
    torch.mm,
    torch.mv,
    torch.dot,
    torch.einsum,
    functional.linear,
    functional.conv1d,
    Tensor.matmul,
    Tensor.bmm,
    Tensor.mm,
    Tensor.mv,
    Tensor.dot,
    Tensor.__matmul__,
    Tensor.__rmatmul__,
}
# A softmax by hand subtracts one of these, which does not change it. Without gradients, its input is the scores.
SHIFTS = {torch.amax, Tensor.amax, torch.max, Tensor.max, torch.logsumexp, Tensor.logsumexp}
LARGEST = 200_000  # numbers; no attention weights of a check are larger


class Event(NamedTuple):
    """One call of a function of torch, with one tensor that it returned.

    ``edge`` and ``values`` are those of the result at the time of the call: an operation in place may change it later.
    ``values`` is None except for a product of the input with a weight (a projection).
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    result: Tensor
    edge: GradientEdge | None
    values: Tensor | None

    @property
    def is_softmax(self) -> bool:
        """Whether it is torch's softmax."""
        return self.function in SOFTMAXES

    @property
    def is_negative_power(self) -> bool:
        """Whether it is a power with a negative exponent, such as ``** -1``."""
        return self.function in POWERS and bool((torch.as_tensor(self.arguments[1]) < 0).any())

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among its arguments."""
        parts = [part for each in self.arguments for part in (each if isinstance(each, list | tuple) else (each,))]
        return [part for part in parts if isinstance(part, Tensor)]

    @property
    def factors(self) -> list[Tensor]:
        """The tensors that a product multiplies; what it adds, such as a mask, does not make it a projection."""
        return self.tensors[1:] if self.function in ADDED_PRODUCTS else self.tensors


class Trace(TorchFunctionMode):
    """Record the tensors of a call.

    ``without_dropout`` makes every dropout the identity.
    """

    def __init__(self, without_dropout: bool = False) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.without_dropout = without_dropout

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUTS and self.without_dropout:
            return args[0] if args else kwargs["input"]
        if func is functional.scaled_dot_product_attention and _is_dense(args):
            with self:  # its dropout becomes the identity, too
                return plain_attention(*args, **kwargs)
        if func is functional.multi_head_attention_forward and _is_dense(args):
            # It asks whether a mode is active, and would come back here; its own operations shall.
            with patch.object(functional, "has_torch_function", lambda _: False), self:
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if func in SHIFTS and torch.is_grad_enabled():
            result = result.detach() if isinstance(result, Tensor) else type(result)([p.detach() for p in result])
        for part in result if isinstance(result, tuple | list) else (result,):
            if isinstance(part, Tensor) and part.is_floating_point() and 0 < part.numel() <= LARGEST:
                edge = get_gradient_edge(part) if part.grad_fn is not None else None
                event = Event(func, (*args, *kwargs.values()), part, edge, None)  # arguments by name follow the others
                if func in PRODUCTS and edge is not None and any(map(is_weight, event.factors)):
                    event = event._replace(values=part.detach().clone())
                self.events.append(event)
        return result

    def weights(self) -> Iterator[tuple[int, Event]]:
        """The events that made attention weights, without views and copies of earlier ones."""
        seen: list[Tensor] = []
        for number, event in enumerate(self.events):
            if not event.result.requires_grad:
                continue
            values = event.result.detach()
            if not (event.is_softmax or normalised_axes(values)) or values.numel() < 2:
                continue
            ordered = values.double().flatten().sort().values
            if any(len(other) == len(ordered) and torch.allclose(other, ordered, rtol=1e-6) for other in seen):
                continue
            seen.append(ordered)
            yield number, event


def masks_of_one_type() -> AbstractContextManager[Any]:
    """Give torch's fused attention an additive mask in the type of its query.

    Checks run in float64, and code often makes its mask in float32. On some processors torch then reads wrong numbers.
    """
    fused = functional.scaled_dot_product_attention

    def attention(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *args: Any, **kw: Any
    ) -> Any:
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(query.dtype)
        return fused(query, key, value, attn_mask, *args, **kw)

    return patch.object(functional, "scaled_dot_product_attention", attention)


def is_weight(part: Tensor) -> bool:
    """Whether it is a parameter or a view of one, or independent of the input of a traced call."""
    return not part.requires_grad or isinstance(origin_of(part), nn.Parameter)


def _is_dense(args: tuple[Any, ...]) -> bool:
    return all(not part.is_nested for part in args[:3] if isinstance(part, Tensor))


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``F.scaled_dot_product_attention`` in single operations, which a trace can see."""
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], dim=-3) for part in (key, value))
    scores = torch.matmul(query, key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal=1)
        scores = scores.masked_fill(hidden, float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = torch.softmax(scores, dim=-1)
    if attn_mask is not None:
        weights = weights.masked_fill((scores == float("-inf")).all(dim=-1, keepdim=True), 0.0)  # as the fused kernel
    if dropout_p:
        weights = functional.dropout(weights, dropout_p)
    return torch.matmul(weights, value)


def normalised_axes(values: Tensor) -> list[int]:
    """The axes over which all sums are 1, if no value is negative; axes of size 1 do not count."""
    if not bool(torch.isfinite(values).all()) or float(values.min()) < 0 or float(values.max()) > 1 + 1e-5:
        return []
    sums = ((axis, values.sum(dim=axis)) for axis in range(values.ndim) if values.shape[axis] > 1)
    return [axis for axis, total in sums if bool(((total - 1).abs() < 1e-5).all())]
