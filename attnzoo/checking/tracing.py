r"""Record the tensors that torch makes in a call, among them the attention weights.

Attention weights are recognised by their properties: a tensor that depends on the input, without negative values, whose
sums over some axis are all 1. So the code may compute the softmax in any way.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SOFTMAXES = {functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
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
PRODUCTS = {torch.matmul, torch.bmm, torch.mm, Tensor.matmul, Tensor.bmm, Tensor.mm, Tensor.__matmul__}
LARGEST = 200_000  # numbers; no attention weights of a check are larger


class Event(NamedTuple):
    """One call of a function of torch, with one tensor that it returned."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    result: Tensor

    @property
    def is_softmax(self) -> bool:
        """Whether it is torch's softmax."""
        return self.function in SOFTMAXES


class Trace(TorchFunctionMode):
    """Record the tensors of a call.

    ``without_dropout`` makes every dropout the identity. ``replaced`` holds tensors to return in place of results, by
    the number of the event.
    """

    def __init__(self, without_dropout: bool = False, replaced: dict[int, Tensor] | None = None) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.without_dropout = without_dropout
        self.replaced = replaced or {}
        self.calls: set[Any] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.calls.add(func)
        if func in DROPOUTS and self.without_dropout:
            return args[0] if args else kwargs["input"]
        if func is functional.scaled_dot_product_attention and _is_dense(args):
            with self:  # its dropout becomes the identity, too
                return plain_attention(*args, **kwargs)
        result = func(*args, **kwargs)
        for part in result if isinstance(result, tuple | list) else (result,):
            if isinstance(part, Tensor) and part.is_floating_point() and 0 < part.numel() <= LARGEST:
                if len(self.events) in self.replaced and part is result:
                    result = part = self.replaced[len(self.events)]
                # Positional tensors, in the order of the call; those by name follow.
                self.events.append(Event(func, (*args, *kwargs.values()), part))
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
            ordered = values.flatten().sort().values
            if any(len(other) == len(ordered) and torch.equal(other, ordered) for other in seen):
                continue
            seen.append(ordered)
            yield number, event


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
    tolerance = 1e-8 if values.dtype == torch.float64 else 1e-4
    sums = ((axis, values.sum(dim=axis)) for axis in range(values.ndim) if values.shape[axis] > 1)
    return [axis for axis, total in sums if bool(((total - 1).abs() < tolerance).all())]
