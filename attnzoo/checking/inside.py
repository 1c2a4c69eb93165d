"""The attention weights inside a call: which axis they are normalised over, and how their scores are scaled.

Dimensions: B batch, T queries, S keys, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .layer import Layer, Sizes
from .subject import first_line
from .tracing import PRODUCTS, Event, Trace

BADDBMM = (torch.baddbmm, Tensor.baddbmm)


@dataclass
class Inside:
    """An attention whose weights were recorded.

    ``first`` is the event that made the weights, ``last`` the last event that made weights (the same unless they are
    normalised again). ``key_axis`` and ``query_axis`` are axes of the last weights, None if they are not known.
    """

    layer: Layer
    inputs: tuple[Tensor, Tensor, Tensor]
    events: list[Event]
    first: int
    last: int
    context: Tensor
    allowed: Tensor | None = None
    causal: bool = False
    key_axis: int | None = None
    query_axis: int | None = None

    @property
    def weights(self) -> Tensor:
        """The weights as they are used."""
        return self.events[self.last].result

    @property
    def scores(self) -> Tensor:
        """The input of torch's softmax. Without one, the logarithm of the weights, which differs by a constant."""
        event = self.events[self.first]
        if event.is_softmax and isinstance(event.arguments[0], Tensor):
            return event.arguments[0]
        return event.result.clamp(min=1e-300).log()

    def run_again(self) -> tuple[Tensor, Tensor]:
        """The context with the weights as an independent variable, and that variable."""
        leaf = self.weights.detach().requires_grad_()
        trace = Trace(without_dropout=True, replaced={self.last: leaf})
        return self.layer(*self.inputs, self.allowed, self.causal, trace=trace).context, leaf


def look_inside(layer: Layer, sizes: Sizes, allowed: Tensor | None = None, causal: bool = False) -> Inside | str:
    """The attention of one call, or the reason why it cannot be recorded."""
    query, key, value = (part.clone().requires_grad_() for part in layer.inputs(sizes))
    inputs = (query, query, query) if layer.is_self else (query, key, value if layer.has_value else key)
    trace = Trace(without_dropout=True)
    try:
        context = layer(*inputs, allowed=allowed, causal=causal, trace=trace).context
    except Exception as error:
        return f"it cannot be called with gradients: {first_line(error)}"
    if not context.requires_grad:
        return "its output has no gradient"
    found = [(number, event) for number, event in trace.weights() if event.result.numel() % sizes.keys == 0]
    found = [(number, event) for number, event in found if _matters(context, event.result)]
    softmaxes = [number for number, event in found if event.is_softmax]
    if nn.functional.multi_head_attention_forward in trace.calls:
        return "it happens inside torch.nn.MultiheadAttention"
    if len(softmaxes) > 1:
        return f"it has {len(softmaxes)} softmaxes; check each attention layer separately"
    if not found:
        return "no tensor inside has weights that sum to one"
    inside = Inside(layer, inputs, trace.events, (softmaxes or [found[0][0]])[0], found[-1][0], context)
    inside.allowed, inside.causal = allowed, causal
    inside.key_axis = _key_axis(inside, sizes)
    inside.query_axis = _query_axis(inside, sizes)
    return inside


def _matters(context: Tensor, part: Tensor) -> bool:
    gradient = torch.autograd.grad(context.sum() + context.square().sum(), part, retain_graph=True, allow_unused=True)
    return gradient[0] is not None


def positions_of(value: Tensor, inputs: Tensor) -> list[int]:
    """The positions of ``inputs`` (B, T, D) that a scalar depends on."""
    if not value.requires_grad:
        return []
    gradient = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)[0]
    if gradient is None:
        return []
    return gradient.abs().sum(dim=(0, 2)).nonzero().flatten().tolist()


def _key_axis(inside: Inside, sizes: Sizes) -> int | None:
    axes = [axis for axis, size in enumerate(inside.weights.shape) if size == sizes.keys]
    if not inside.layer.is_self:
        return axes[0] if len(axes) == 1 else None
    context, leaf = inside.run_again()
    weighted = (context * noise(context)).sum()
    if not weighted.requires_grad:
        return None
    slope = torch.autograd.grad(weighted, leaf, create_graph=True, allow_unused=True)[0]
    if slope is None:
        return None
    for axis in axes:
        parts = slope.select(axis, 0), slope.select(axis, -1)  # a mask may hide one of them
        seen = [positions_of((part * noise(part)).sum(), inside.inputs[0]) for part in parts]
        if any(seen) and {*seen[0]} <= {0} and {*seen[1]} <= {sizes.keys - 1}:
            return axis
    return None


def _query_axis(inside: Inside, sizes: Sizes) -> int | None:
    axes = [axis for axis, size in enumerate(inside.weights.shape) if size == sizes.queries]
    axes = [axis for axis in axes if axis != inside.key_axis]
    return axes[0] if len(axes) == 1 else None


def noise(like: Tensor) -> Tensor:
    """Numbers drawn from N(0, 1), the same at every call, in the shape of ``like``."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(3)).to(like.dtype)


def foreign_positions(inside: Inside, sizes: Sizes) -> str | None:
    """The place where a score, value or output depends on a position that it should not, or None."""
    scores, last = inside.scores, inside.weights
    key_axis = inside.key_axis if inside.key_axis is not None else last.ndim - 1
    query_axis = inside.query_axis if inside.query_axis is not None else last.ndim - 2
    by_position = scores.shape == last.shape and last.ndim >= 3 and last.shape[key_axis] == sizes.keys
    by_position = by_position and query_axis != key_axis
    if by_position and last.shape[query_axis] == sizes.queries and not inside.layer.is_step:
        places = ((0, sizes.keys - 1), (sizes.queries - 1, 0)) if inside.events[inside.first].is_softmax else ()
        for place in places:
            entry = scores.movedim((query_axis, key_axis), (0, 1))[place]
            if not bool(torch.isfinite(entry).all()):
                continue
            query, key = ({*place}, {*place}) if inside.layer.is_self else ({place[0]}, {place[1]})
            for what, inputs, own in (("positions", inside.inputs[0], query), ("keys", inside.inputs[1], key)):
                seen = positions_of((entry * noise(entry)).sum(), inputs)
                if not {*seen} <= own:
                    return f"the score of query {place[0]} and key {place[1]} is computed from {what} {seen}"
        context, leaf = inside.run_again()
        for position in range(sizes.queries):
            part = context[:, position]
            slope = torch.autograd.grad((part * noise(part)).sum(), leaf, retain_graph=True, allow_unused=True)[0]
            if slope is None:
                continue
            axes = [axis for axis in range(slope.ndim) if axis != query_axis]
            seen = slope.abs().sum(dim=axes).nonzero().flatten().tolist()
            if not {*seen} <= {position}:
                return f"the output of position {position} is computed from the weights of queries {seen}"
    return None


@dataclass
class Scale:
    """The factor of the dot products, and the width of one head."""

    factor: float
    width: int


def measured_scale(inside: Inside) -> Scale | str:
    """The scale of dot-product scores, or a text that says why there is none or why it is unknown.

    The product that became the scores is found by comparing the two, up to a factor and a constant for each query. Its
    operands are followed back to the earliest tensors that differ from them by a factor alone.
    """
    scores = inside.scores.detach()
    axis = inside.key_axis if inside.key_axis is not None and inside.first == inside.last else scores.ndim - 1
    axis = axis if axis < scores.ndim else scores.ndim - 1
    for number in range(inside.first - 1, -1, -1):
        event = inside.events[number]
        operands = _operands(event, inside.events[:number])
        if operands is None or event.result.numel() != scores.numel():
            continue
        left, right, width = operands
        # baddbmm adds a tensor to the product.
        product = torch.bmm(left, right) if event.function in BADDBMM else event.result
        factor = _factor(product.detach().reshape(scores.shape), scores, axis)
        if factor is None:
            continue
        if any(_is_weight(part, inside) for part in (left, right)):
            return "the scores are not a dot product of a query and a key"
        for part in (left, right):
            factor *= _factor_of_origin(part, inside, number, width)
        return Scale(factor, width)
    return "the scores are not a dot product of a query and a key"


def _operands(event: Event, earlier: list[Event]) -> tuple[Tensor, Tensor, int] | None:
    """The two factors of a product and the size of the axis that is summed over."""
    tensors = [part for part in event.arguments if isinstance(part, Tensor)]
    if event.function in PRODUCTS and len(tensors) >= 2:
        return tensors[0], tensors[1], tensors[0].shape[-1]
    if event.function in BADDBMM and len(tensors) >= 3:
        return tensors[1], tensors[2], tensors[1].shape[-1]
    if event.function is torch.einsum and isinstance(event.arguments[0], str):
        equation, parts = event.arguments[0].replace(" ", ""), list(event.arguments[1:])
        parts = [item for part in parts for item in (part if isinstance(part, list | tuple) else (part,))]
        names, out = equation.split("->")[0].split(","), equation.split("->")[-1]
        if len(parts) == 2 and len(names) == 2:
            names = [name.replace("...", "") for name in names]
            summed = [letter for letter in names[0] if letter in names[1] and letter not in out]
            if len(summed) == 1:
                place = names[0].index(summed[0]) - len(names[0])
                return parts[0], parts[1], parts[0].shape[place]
    if event.function in (torch.sum, Tensor.sum) and tensors:
        for other in reversed(earlier):
            if other.result is tensors[0] and other.function in (torch.mul, Tensor.mul, Tensor.__mul__):
                factors = [part for part in other.arguments if isinstance(part, Tensor)]
                width = tensors[0].numel() // max(1, event.result.numel())
                return (factors[0], factors[1], width) if len(factors) == 2 else None
    return None


def _is_weight(part: Tensor, inside: Inside) -> bool:
    """Whether it is a parameter, or a view of one."""
    parameters = (weight for module in inside.layer.subject.modules for weight in module.parameters())
    place = part.untyped_storage().data_ptr()
    return any(weight.untyped_storage().data_ptr() == place for weight in parameters)


def _factor(product: Tensor, scores: Tensor, axis: int) -> float | None:
    """The number that turns the product into the scores, up to a constant for each query."""
    finite = torch.isfinite(scores) & (scores > -1e4)
    if not bool(finite.all()):
        scores, product = scores.where(finite, torch.zeros(())), product.where(finite, torch.zeros(()))
    count = finite.sum(dim=axis, keepdim=True).clamp(min=1)
    scores = (scores - scores.sum(dim=axis, keepdim=True) / count) * finite
    product = (product - product.sum(dim=axis, keepdim=True) / count) * finite
    if not float(product.square().sum()):
        return None
    factor = float((scores * product).sum() / product.square().sum())
    error = float((scores - factor * product).abs().max())
    return factor if factor and error <= 1e-4 * max(float(scores.abs().max()), 1e-12) else None


def _factor_of_origin(part: Tensor, inside: Inside, before: int, width: int) -> float:
    """The product of all scalar factors that were applied to an operand after it was computed."""
    values = part.detach()
    candidates = [*(each.detach() for each in inside.inputs), *(e.result.detach() for e in inside.events[:before])]
    for candidate in candidates:
        if candidate.numel() == 0 or values.numel() % candidate.numel():
            continue
        copies = values.numel() // candidate.numel()
        forms = [(candidate.flatten().abs(), values.flatten().abs())]
        if candidate.numel() % width == 0 and width > 1:
            rows = candidate.reshape(-1, width), _rows(values, width)
            forms.append((rows[0].norm(dim=1), rows[1].norm(dim=1)))
        for old, new in forms:
            old, new = old.sort().values, new.sort().values[::copies]
            total = float(old.square().sum())
            if len(old) != len(new) or not total:
                continue
            ratio = float((old * new).sum()) / total
            if ratio and float((new - ratio * old).abs().max()) <= 1e-6 * max(float(new.abs().max()), 1e-12):
                return ratio
    return 1.0


def _rows(values: Tensor, width: int) -> Tensor:
    """The vectors of one operand: along the last axis, or along the one before it in a transposed key."""
    is_transposed = values.shape[-1] != width and values.ndim > 1 and values.shape[-2] == width
    return (values.mT if is_transposed else values).reshape(-1, width)
