"""The weights depend on the query and on the keys.

Dimensions: B batch, T queries, S keys.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..attention import LocationScore
from .inside import SHOWN, Inside, Weights, entries_of, indices_of, noise, positions_of
from .layer import Sizes
from .layer_checker import LayerChecker
from .report import Finding
from .subject import TOLERANCE

Call = tuple[Tensor, Tensor, Tensor]


def check_keys(checker: LayerChecker) -> None:
    """The weights depend on the query and on the keys."""
    same = {"keys": "other keys give the same weights", "query": "another query gives the same weights"}
    for name, test in (("keys", _other_keys), ("query", _other_queries)):
        if name == "query" and "query_ignored" in checker.report.names:
            checker.report.done(name)
            continue
        ignored = test(checker)
        if isinstance(ignored, str):
            checker.report.skip(name, ignored)
            continue
        checker.report.done(name)
        if ignored:
            checker.report.add(checker.finding(f"{name}_ignored", same[name], checker.layer.inputs(checker.sizes)))


def one_set_of_weights(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """All queries have the same weights, or the weights of one of them."""
    inside = checker.look_inside(sizes)
    if isinstance(inside, str) or sizes.queries < 2:
        return None
    axes = [(weights, weights.axis_of_queries(sizes), weights.axis_of_keys()) for weights in inside.normalised]
    inputs = checker.layer.inputs(sizes)
    for weights, query_axis, key_axis in axes:
        if query_axis is None or key_axis is None or query_axis == key_axis:
            continue
        used = [indices_of(slope, query_axis) for slope in weights.slopes]
        if len(used[0]) == 1 and all(each == used[0] for each in used):
            where = f"every output is computed from the weights of query {used[0].pop()}"
            return checker.finding("query_ignored", where, inputs)
        if _differ_by_a_constant(weights, query_axis, key_axis):
            return checker.finding("query_ignored", "all queries have the same weights", inputs)
    has_key_axes = all(key is not None and part.values.shape[key] == sizes.keys for part, _, key in axes)
    is_for_all = bool(axes) and has_key_axes and all(query is None for _, query, _ in axes)
    if is_for_all and inside.numbers < sizes.rows * sizes.queries * sizes.keys:
        return checker.finding("query_ignored", "there is one set of weights for all queries", inputs)
    return None


def _differ_by_a_constant(weights: Weights, query_axis: int, key_axis: int) -> bool:
    """Whether the scores of two queries differ by one number, at the keys that both see; a softmax cancels it."""
    if weights.scores is None or weights.scores.shape != weights.values.shape:
        return False
    scores = weights.scores.detach().movedim((query_axis, key_axis), (-2, -1))
    shown = scores > SHOWN
    both = shown[..., 1:, :] & shown[..., :-1, :]
    change = (scores[..., 1:, :] - scores[..., :-1, :]).masked_fill(~both, 0.0)
    several = both.sum(dim=-1) > 1
    mean = change.sum(dim=-1, keepdim=True) / both.sum(dim=-1, keepdim=True).clamp(min=1)
    spread = ((change - mean).abs() * both).amax(dim=-1)[several]
    return bool(several.any()) and float(spread.max()) <= 1e-6 * float(scores[shown].abs().max())


def _other_keys(checker: LayerChecker) -> bool | str:
    """Whether other keys give the same weights; a text if that cannot be judged."""
    if any(isinstance(part, LocationScore) for part in checker.layer.subject.parts):
        return "by definition, a location score does not depend on the keys"
    if checker.layer.is_self:
        return _ignored_in_scores(checker, is_query=False)
    return _weights_stay(checker, lambda call, other: (call[0], other[1], call[2]))


def _other_queries(checker: LayerChecker) -> bool | str:
    """Whether another query at the last position gives the same weights; a text if that cannot be judged."""
    if checker.layer.is_self:
        return _ignored_in_scores(checker, is_query=True)
    return _weights_stay(checker, lambda call, other: (torch.cat([call[0][:, :-1], other[0][:, -1:]], 1), *call[1:]))


def _weights_stay(checker: LayerChecker, change: Callable[[Call, Call], Call]) -> bool | str:
    call, other = checker.layer.inputs(checker.sizes), checker.layer.inputs(checker.sizes, seed=1)
    changed = change(call, other)
    returned = [checker.layer(*each).weights for each in (call, changed)]
    if returned[0] is not None and returned[1] is not None:
        return not checker.differs(returned[0], returned[1])
    if isinstance(checker.inside, Inside) and checker.inside.normalised:
        is_query = changed[0] is not call[0]
        leaf = checker.inside.inputs[0 if is_query else 1]
        slopes = [
            torch.autograd.grad((part.values * noise(part.values)).sum(), leaf, retain_graph=True, allow_unused=True)[0]
            for part in checker.inside.normalised
        ]
        moved = [slope[:, -1] if is_query else slope for slope in slopes if slope is not None]
        return all(float(slope.abs().max()) < TOLERANCE for slope in moved)
    if checker.layer.has_value:
        return not checker.differs(*(checker.layer(*each).context for each in (call, changed)))
    return "the weights cannot be recorded"


def _ignored_in_scores(checker: LayerChecker, is_query: bool) -> bool | str:
    if isinstance(checker.inside, str):
        return checker.inside
    leaf = checker.inside.inputs[0]
    parts = [part for weights in checker.inside.normalised for part in entries_of(weights, checker.sizes, True)]
    entries = [(query, key, positions_of(entry, leaf)) for query, key, entry in parts]
    if not entries:
        return "the scores of single keys were not recognised"
    # Some may be constants, as those that are multiplied by a mask of zeros; that all are is a fault.
    entries = [entry for entry in entries if entry[2]] or entries
    if is_query:
        return not all(bool(seen - {key}) if query is None else query in seen for query, key, seen in entries)
    return not any(key in seen for _, key, seen in entries)
