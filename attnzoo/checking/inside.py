"""The attention weights inside a call: their axes, the positions they are computed from, and the scale of their scores.

A call may make them all at once, or in a loop over rows, heads or queries; then there are several tensors of weights.

Dimensions: B batch, H heads, T queries, S keys, D width.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from .layer import Layer, Sizes
from .subject import first_line
from .tracing import (
    DIVISIONS,
    EXPONENTIALS,
    LOG_SOFTMAXES,
    PRODUCTS,
    RECIPROCALS,
    SOFTMAXES,
    Event,
    Trace,
    is_weight,
    normalised_axes,
)

SHOWN = -1e4  # scores below are those of hidden keys
LIMIT = 6  # tensors of weights to look at; those of a loop are made by the same code


class Weights(NamedTuple):
    """One tensor of attention weights.

    ``scores`` is the input of its softmax, also of one written by hand, or None. ``key_axis`` and ``query_axis`` are
    None if they are not known. ``slopes`` are the derivatives by the weights of the output at each query.
    """

    values: Tensor
    is_softmax: bool
    scores: Tensor | None
    key_axis: int | None
    query_axis: int | None
    slopes: list[Tensor]

    @property
    def axes(self) -> list[int]:
        """The axes over which the weights sum to one."""
        return normalised_axes(self.values.detach())

    def axis_of_queries(self, sizes: Sizes) -> int | None:
        """The axis of queries; if the outputs do not tell it, the one of their number that is not normalised."""
        if self.query_axis is not None or self.values.ndim < 2:
            return self.query_axis
        normalised = self.axes
        axes = [n for n, size in enumerate(self.values.shape) if size == sizes.queries and n not in normalised]
        return axes[0] if len(axes) == 1 else None

    def axis_of_keys(self) -> int | None:
        """The axis of keys; where their number does not tell it, the one that is normalised."""
        return self.key_axis if self.key_axis is not None else next(iter(self.axes), None)

    @property
    def only_query(self) -> int | None:
        """The query whose output alone depends on them, as on the weights of a loop over queries."""
        places = [place for place, slope in enumerate(self.slopes) if bool(slope.any())]
        return places[0] if len(places) == 1 else None


@dataclass
class Inside:
    """An attention whose weights were recorded.

    ``normalised`` are tensors that a softmax made, or that sum to one over some axis. ``used`` are the tensors by which
    values are multiplied; empty if the code does not multiply tensors of them. Both have at most ``LIMIT`` tensors;
    ``numbers`` counts the entries of all that are normalised. ``unused`` are those that the output does not depend on.
    """

    inputs: tuple[Tensor, Tensor, Tensor]
    context: Tensor
    events: list[Event]
    normalised: list[Weights]
    used: list[Weights]
    numbers: int
    unused: list[Tensor]

    @property
    def is_half(self) -> bool:
        """Whether something is computed in 16 bits."""
        return any(event.result.dtype in (torch.float16, torch.bfloat16) for event in self.events)

    def adds_keys(self, sizes: Sizes) -> bool:
        """Whether a softmax is over some more keys than those given, as with ``add_zero_attn`` of torch."""
        shapes = (event.result.shape for event in self.events if event.is_softmax and event.result.ndim > 1)
        return any(sizes.keys < shape[-1] <= sizes.keys + 4 for shape in shapes)

    @property
    def normalises(self) -> bool:
        """Whether something may make weights sum to one: a softmax, or a quotient of tensors of the input."""
        functions = SOFTMAXES | LOG_SOFTMAXES | EXPONENTIALS | RECIPROCALS
        quotients = (e for e in self.events if e.function in DIVISIONS and len(e.tensors) == 2)
        divides = any(e.tensors[1].requires_grad for e in quotients)
        return divides or any(e.function in functions or e.is_negative_power for e in self.events)

    @property
    def weights(self) -> list[Weights]:
        """The normalised weights, or the used ones if none is normalised."""
        return self.normalised or self.used


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
    try:  # code that changes tensors in place may not have one, either
        torch.autograd.grad(context.sum(), inputs, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        return f"its output has no gradient: {first_line(error)}"
    events = trace.events
    normalised = [(number, event.result) for number, event in trace.weights()]
    softmaxes = [pair for pair in normalised if events[pair[0]].is_softmax]
    normalised = softmaxes or normalised
    used = list(_multipliers(events, sizes))
    normalised = [pair for pair in normalised if pair[1].numel() % sizes.keys == 0]
    both, count = [*normalised, *used], len(normalised)
    slopes = _slopes(context, [part for _, part in both], sizes)
    found: dict[bool, list[Weights]] = {True: [], False: []}
    unused: list[Tensor] = []
    for place, ((number, part), by_query) in enumerate(zip(both, slopes, strict=True)):
        is_made = place < count
        if not any(bool(slope.any()) for slope in by_query):
            unused += [part] if is_made else []
            continue
        query_axis = _query_axis(part, by_query, sizes, layer.is_self)
        axes = [axis for axis, size in enumerate(part.shape) if size == sizes.keys and axis != query_axis]
        key_axis = axes[0] if len(axes) == 1 else None
        scores = _scores(events, number) if is_made else None
        is_softmax = is_made and bool(softmaxes)
        found[is_made].append(Weights(part, is_softmax, scores, key_axis, query_axis, by_query))
    numbers = sum(weights.values.numel() for weights in found[True])
    return Inside(inputs, context, events, _some(found[True]), _some(found[False]), numbers, unused)


def _some(parts: list[Weights]) -> list[Weights]:
    """At most ``LIMIT`` of them, from the first to the last."""
    if len(parts) <= LIMIT:
        return parts
    return [parts[place * (len(parts) - 1) // (LIMIT - 1)] for place in range(LIMIT)]


def _multipliers(events: list[Event], sizes: Sizes) -> Iterator[tuple[int, Tensor]]:
    """The factors with an axis of queries and one of keys that are multiplied with another tensor of the input."""
    needed = sorted((sizes.queries, sizes.keys))
    for number, event in enumerate(events):
        parts = [part for part in event.factors if not is_weight(part)]
        if event.function not in PRODUCTS or len(parts) != 2 or normalised_axes(event.result.detach()):
            continue  # the product with the inverse of their sum makes weights, and does not use them
        for part in parts:
            if part.ndim >= 2 and sorted(size for size in part.shape if size in needed) == needed:
                yield number, part


def _slopes(context: Tensor, parts: list[Tensor], sizes: Sizes) -> list[list[Tensor]]:
    """For each tensor, the derivative of the output (B, T, D) at each query by it."""
    by_query = []
    for position in range(sizes.queries if parts else 0):
        output = context[:, position]
        total = (output * noise(output)).sum()
        found: tuple[Any, ...] = (None,) * len(parts)
        if total.requires_grad:
            found = torch.autograd.grad(total, parts, retain_graph=True, allow_unused=True)
        by_query.append([torch.zeros_like(p) if s is None else s for s, p in zip(found, parts, strict=True)])
    return [_without_rounding(each) for each in zip(*by_query, strict=True)]


def _without_rounding(slopes: tuple[Tensor, ...]) -> list[Tensor]:
    """The same with zeros in place of rounding, as by weights that their sum divides again when one key is shown."""
    largest = max(float(slope.abs().nan_to_num(0.0, 0.0).max()) for slope in slopes)
    smallest = largest * torch.finfo(slopes[0].dtype).eps ** 0.75
    return [slope.masked_fill(slope.abs() <= smallest, 0.0) for slope in slopes]


def _query_axis(part: Tensor, slopes: list[Tensor], sizes: Sizes, is_self: bool) -> int | None:
    """The axis of queries: in cross-attention by its size, else the one along which only index t acts on output t."""
    axes = [axis for axis, size in enumerate(part.shape) if size == sizes.queries]
    if not is_self:
        return axes[0] if len(axes) == 1 else None
    for axis in axes:
        acts = [indices_of(slope, axis) for slope in slopes]
        if any(acts) and all(seen <= {position} for position, seen in enumerate(acts)):
            return axis
    return None


def indices_of(values: Tensor, axis: int) -> set[int]:
    """The indices along an axis at which some entry is not zero."""
    others = [other for other in range(values.ndim) if other != axis]
    entries = values.abs().sum(dim=others) if others else values.abs()
    return {*entries.nonzero().flatten().tolist()}


def _scores(events: list[Event], number: int) -> Tensor | None:
    """The input of the softmax that made the weights of an event; that of ``exp`` for one written by hand."""
    event = events[number]
    if not event.is_softmax:
        earlier = [e for e in events[: number + 1] if e.function in EXPONENTIALS]
        same = [each for each in earlier if each.result.shape == event.result.shape]
        if not same:
            return None
        event = same[-1]
        event = next((e for e in events if e.function in LOG_SOFTMAXES and e.result is event.tensors[0]), event)
    return event.tensors[0] if event.tensors and event.tensors[0].requires_grad else None


def noise(like: Tensor) -> Tensor:
    """Numbers drawn from N(0, 1), the same at every call, in the shape of ``like``."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(3)).to(like.dtype)


def positions_of(value: Tensor, inputs: Tensor) -> set[int]:
    """The positions of ``inputs`` (B, T, D) that a scalar depends on."""
    gradient = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)[0]
    return set() if gradient is None else indices_of(gradient, 1)


def entries_of(weights: Weights, sizes: Sizes, is_self: bool) -> Iterator[tuple[int | None, int, Tensor]]:
    """A query (None if it is not known), a key and a finite score of both, for some of them, of two heads or rows.

    In self-attention the key is another position than the query, if the query is known.
    """
    scores = weights.scores
    if scores is None or scores.shape != weights.values.shape:
        return
    query_axis, key_axis = weights.query_axis, weights.key_axis
    if is_self and None in (query_axis, key_axis):
        axes = [axis for axis, size in enumerate(scores.shape) if size == sizes.keys]
        if len(axes) == 2:  # which of both is which makes no difference to what follows
            query_axis, key_axis = axes
    if key_axis is None:
        return
    last = sizes.queries - 1
    for query, key in ((0, sizes.keys - 1), (last, 0), (last, sizes.keys // 2), (last // 2, 1), (0, 2)):
        place = query if query_axis is not None else weights.only_query
        if key >= sizes.keys or (place == key and is_self):
            continue
        chosen = scores.select(key_axis, key)
        if query_axis is not None:
            chosen = chosen.select(query_axis - (query_axis > key_axis), query)
        chosen = chosen.flatten()
        for entry in (chosen[0], chosen[-1])[: len(chosen)]:
            if bool(entry.isfinite() & (entry > SHOWN)):
                yield place, key, entry


class Scale(NamedTuple):
    """The factor of the dot products, and the width of one head."""

    factor: float
    width: int


def measured_scale(inside: Inside, sizes: Sizes, is_self: bool) -> Scale | str:
    """The scale of dot-product scores, or the reason why it is not known.

    For a score ``f q · k + b`` the derivative by q is f k, and that by k is f q. So its norm is f times that of q and k
    together, also if both were rotated. A score of another form has a quotient that varies from entry to entry.
    """
    measured: list[Scale] = []
    for weights in inside.weights:
        for _, _, entry in entries_of(weights, sizes, is_self):
            norms, count = torch.zeros(2, dtype=torch.float64), 0
            for edge, values in _origins(entry, inside):
                slope = torch.autograd.grad(entry, edge, retain_graph=True, allow_unused=True)[0]
                if slope is None:
                    continue
                shown = slope != 0
                norms += torch.stack([slope[shown].square().sum(), values[shown].square().sum()]).detach()
                count += int(shown.sum())
            factor = float((norms[0] / norms[1]).sqrt())
            if count % 2 or not 0 < factor < math.inf:  # NaN, too
                return "the scores are not a dot product of a query and a key"
            measured.append(Scale(factor, count // 2))
    if not measured:
        return "no scores were recognised" if inside.normalised else "no softmax was recognised"
    first = measured[0]
    if any(abs(each.factor / first.factor - 1) > 1e-3 or each.width != first.width for each in measured):
        return "the scores are not dot products with one factor"
    return first


def _origins(score: Tensor, inside: Inside) -> list[tuple[GradientEdge | Tensor, Tensor]]:
    """What a score is computed from: the last products with weights, or the inputs, and their values."""
    made = {event.edge.node: event for event in inside.events if event.edge is not None and event.values is not None}
    inputs = {id(part): part for part in inside.inputs}
    found: list[tuple[GradientEdge | Tensor, Tensor]] = []
    waiting, seen = [score.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        event = made.get(node)
        variable = inputs.get(id(getattr(node, "variable", None)))
        if event is not None and event.edge is not None and event.values is not None:
            found.append((event.edge, event.values))
        elif variable is not None:
            found.append((variable, variable.detach()))
        else:
            waiting += [parent for parent, _ in node.next_functions]
    return found
