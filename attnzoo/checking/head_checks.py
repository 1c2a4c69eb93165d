"""Heads are apart, and each of them reaches the output at its own positions.

Dimensions: B batch, H heads, T queries, S keys.
"""

import math

import torch
from torch import Tensor

from .inside import Inside, Weights, entries_of, indices_of, noise, positions_of
from .layer import Sizes
from .layer_checker import LayerChecker
from .report import Finding


def heads_apart(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """Heads, positions and rows are apart, and every head reaches the output."""
    if "query_ignored" in checker.report.names:
        checker.report.skip("heads", "cannot be judged until query_ignored is repaired")
        return None
    inside = checker.look_inside(sizes)
    if isinstance(inside, str) or not inside.weights:
        reason = inside if isinstance(inside, str) else "no attention weights were recognised"
        checker.report.skip("heads", reason)
        return None
    count, inputs = inside.numbers // math.prod(sizes), checker.layer.inputs(sizes)
    lost = _other_softmaxes(checker, inside, inputs)
    if max(count, checker.layer.heads) < 2:
        if lost:
            checker.report.skip("heads", "a softmax does not reach the output; is it a head? Pass num_heads")
            return None
        checker.report.skip("heads", "there is only one head")
        return None
    if checker.layer.is_self and sizes.keys > 1 and _sees_itself_alone(checker, sizes):
        where = "the output of a position does not depend on the others: it attends over its own heads"
        return checker.finding("heads_mixed", where, inputs)
    if lost and 0 < count < checker.layer.heads:
        where = f"{count} of {checker.layer.heads} heads {'reaches' if count == 1 else 'reach'} the output"
        return checker.finding("heads_unused", where, inputs)
    if not any(_can_be_judged(weights, sizes, checker.layer.is_self) for weights in inside.weights):
        checker.report.skip("heads", "the axes of the weights were not recognised, or a mask hides all keys")
        return None
    checker.report.done("heads")
    place = _mixed_positions(inside, sizes, checker.layer.is_self)
    if place is not None:
        return checker.finding("heads_mixed", place, inputs)
    for weights in inside.normalised:
        found = _lost_head(weights, sizes)
        if found is not None:
            return checker.finding(*found, inputs)
    return None


def _can_be_judged(weights: Weights, sizes: Sizes, is_self: bool) -> bool:
    if any(entries_of(weights, sizes, is_self)):
        return True
    has_scores = weights.scores is not None and weights.scores.shape == weights.values.shape
    return weights.query_axis is not None and not has_scores


def _other_softmaxes(checker: LayerChecker, inside: Inside, inputs: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
    """Weights in the shape of those that are used that neither reach the output nor are returned."""
    shapes = {weights.values.shape for weights in inside.normalised}
    unused = [part.detach() for part in inside.unused if part.shape in shapes]
    returned = checker.layer(*inputs).weights if unused else None
    return [part for part in unused if returned is None or checker.differs(part, returned)]


def _lost_head(weights: Weights, sizes: Sizes) -> tuple[str, str] | None:
    """A head that the output does not depend on, or not at the position of its query: the fault and where."""
    query_axis, key_axis = weights.axis_of_queries(sizes), weights.axis_of_keys()
    if query_axis is None or key_axis is None or query_axis == key_axis:
        return None
    shape = tuple(weights.values.shape)
    others = [axis for axis in range(len(shape)) if axis not in (query_axis, key_axis)]
    order = (*others, query_axis, key_axis)
    by_query = [slope.abs().permute(order).sum(dim=-1) for slope in weights.slopes]
    acts = torch.stack([each.sum(-1) for each in by_query]).sum(0) > 0
    if not bool(acts.all()):
        index = (~acts).nonzero()[0].tolist()
        return "heads_unused", f"of the weights of shape {shape}, index {index} of the axes {others} has no influence"
    for position, each in enumerate(by_query):
        sees_none = not bool(each.any())  # a mask hides all keys
        if not sees_none and not bool((each[..., position] > 0).all()):
            return "heads_mixed", f"the output of position {position} does not depend on all heads of query {position}"
    return None


def _sees_itself_alone(checker: LayerChecker, sizes: Sizes) -> bool:
    seen = checker.influence(sizes, False, None)
    return not bool((seen & ~torch.eye(sizes.keys, dtype=torch.bool)).any())


def _mixed_positions(inside: Inside, sizes: Sizes, is_self: bool) -> str | None:
    """The place where a wrong view put another position in the place of a score or an output, or None.

    A score that depends on more positions than its query and its key is no fault: convolutions and statistics do that.
    A wrong view makes a score that does not depend on its own query or key, but on others.
    """
    for weights in inside.weights:
        for query, key, entry in entries_of(weights, sizes, is_self):
            of_queries, of_keys = (positions_of(entry, part) for part in inside.inputs[:2])
            if is_self:
                own = {key} if query is None else {query, key}
                is_mixed = not own <= of_keys and len(of_keys - own) >= len(own - {query})
                is_mixed = is_mixed and (query is not None or len(of_keys) > 1)
            else:
                is_mixed = bool(of_keys) and key not in of_keys
                is_mixed |= query is not None and bool(of_queries) and query not in of_queries
            if is_mixed:
                places = sorted(of_keys | (set() if is_self else of_queries))
                at = "" if query is None else f"query {query} and "
                return f"the score of {at}key {key} is computed from positions {places}"
        query_axis = weights.axis_of_queries(sizes)
        if query_axis is not None:
            for position, slope in enumerate(weights.slopes):
                indices = indices_of(slope, query_axis)
                if indices and position not in indices:
                    return f"the output of position {position} is computed from the weights of queries {indices}"
    return None


def rows_permuted(inside: Inside, sizes: Sizes) -> bool:
    """Whether the output of row 0 is computed from weights of another row in place of its own."""
    for weights in inside.weights:
        if weights.scores is None or weights.scores.shape != weights.values.shape or not weights.values.ndim:
            continue
        slope = torch.stack(weights.slopes)  # of all rows: the caller found that rows are mixed
        output = inside.context[:1]
        row = torch.autograd.grad((output * noise(output)).sum(), weights.values, retain_graph=True, allow_unused=True)
        if row[0] is None or float((row[0] != 0).sum()) > float((slope != 0).any(0).sum()) / sizes.rows * 1.01:
            continue
        for index in indices_of(row[0], 0):
            gradient = torch.autograd.grad(_finite_sum(weights.scores[index]), inside.inputs[1], retain_graph=True)[0]
            seen = indices_of(gradient, 0)
            if seen != {0} and len(seen) < sizes.rows:
                return True
    return False


def _finite_sum(values: Tensor) -> Tensor:
    return values[torch.isfinite(values)].sum()
