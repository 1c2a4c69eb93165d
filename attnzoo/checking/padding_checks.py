"""Padding has no influence, in any row, and a mask hides padding alone."""

import torch
from torch import Tensor
from torch.nn import functional

from .inside import Inside, Weights, look_inside
from .layer import Sizes, hidden_keys
from .layer_checker import LayerChecker, Test
from .report import OTHER_MASK, Finding
from .sum_checks import sums_to, tests_of_sums
from .tracing import normalised_axes


def check_padding(checker: LayerChecker) -> None:
    """Check that the mask hides padding, and nothing else."""
    layer, report = checker.layer, checker.report
    if layer.padding is None and not layer.has("lengths"):
        report.skip("padding", "it takes no mask of padding" if not layer.has("mask") else "no padding mask worked")
        return
    report.assumed.append(f"mask of padding: {layer.padding or 'lengths'}")
    if layer.is_self and "query_ignored" in report.names:  # padding may be the query whose weights all positions have
        for name in ("padding", "real positions"):
            report.skip(name, "cannot be judged until query_ignored is repaired")
        return
    tests = [_padding_at(), *(_padding_at(12.0, seed) for seed in (0, 2, 4))]  # large: is a mask too weak?
    if layer.padding is not None and layer.is_self and not _sees_later(checker):
        tests.append(_padding_at(left=True))  # padding on the right is in the future
    for test in (_mask_of_another_row, *tests, _more_padding, _returned_weights, _real_keys):
        if report.add(checker.smallest(test)):
            break
    report.done("padding")
    if layer.is_self:
        report.done("real positions")
    _note_hidden_row(checker)


def _note_hidden_row(checker: LayerChecker) -> None:
    """No value is asked of a row whose keys are all hidden; the report says if it is not finite."""
    real = torch.ones(checker.sizes.rows, checker.sizes.keys, dtype=torch.bool)
    real[0] = False
    try:
        hidden = checker.layer(*checker.layer.inputs(checker.sizes), real).context[0]
    except Exception:  # lengths of 0
        return
    if not bool(torch.isfinite(hidden).all()):
        what = "NaN" if bool(hidden.isnan().any()) else "infinite"
        reason = f"the output of a row whose keys are all hidden is {what}; no value is asked of it"
        checker.report.skip("rows without keys", reason)


def _mask_of_another_row(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """The mask of one row does not act on another."""
    if sizes.rows < 2 or sizes.keys < 2:
        return None
    inputs = checker.layer.inputs(sizes)
    every = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
    for row in (0, sizes.rows - 1):
        real = every.clone()
        real[row, -1] = False
        others = [other for other in range(sizes.rows) if other != row]
        first, second = (checker.layer(*inputs, allowed).context[others] for allowed in (every, real))
        if checker.differs(first, second):
            where = f"the mask of row {row} changes the output of another row"
            return checker.finding("padding_attended", where, (*inputs, every), (*inputs, real), advice=OTHER_MASK)
    return None


def _more_padding(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """More padding changes nothing: padding whose content is removed may still have weight."""
    if any(test(checker, checker.sizes) for test in tests_of_sums(checker)):
        return None  # more keys then change the output also if none of them is padding
    query, key, value = checker.layer.inputs(sizes)
    few = checker.fewer_keys(sizes)
    if "future_leaked" in checker.report.names and _pattern_moves(checker, sizes, few):
        return None  # positions at the end are seen from the start, whether they are padding or not
    few_key, few_value = key[:, :few].contiguous(), value[:, :few].contiguous()
    real = torch.ones(sizes.rows, few, dtype=torch.bool)
    padded = functional.pad(real, (0, sizes.keys - few))
    call = (few_key if checker.layer.is_self else query, few_key, few_value, real), (query, key, value, padded)
    try:
        first = checker.layer(*call[0]).context
    except Exception:  # it cannot take fewer keys
        return None
    second = checker.layer(*call[1]).context[:, : first.shape[1]]
    if not checker.differs(first, second):
        return None
    return checker.finding("padding_attended", "the output changes when more padding follows", *call)


def _pattern_moves(checker: LayerChecker, sizes: Sizes, few: int) -> bool:
    """Whether the positions that a position sees depend on the length, as in a window that wraps around."""
    if not checker.layer.is_self:
        return False
    first, second = (checker.influence(each, False, None) for each in (Sizes(sizes.rows, few, few), sizes))
    return not torch.equal(first, second[:few, :few])


def _returned_weights(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """The returned weights of hidden keys are zero."""
    if sizes.keys < 2:
        return None
    inputs = checker.layer.inputs(sizes)
    real = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
    real[:, -1] = False
    returned, plain = (checker.layer(*inputs, allowed).weights for allowed in (real, None))
    if returned is None or plain is None or not normalised_axes(plain):
        return None  # it returns something else, such as the scores
    axes = [axis for axis, size in enumerate(returned.shape) if size == sizes.keys]
    hidden = returned.select(axes[-1], -1)
    if checker.layer.is_self and len(axes) > 1:
        hidden = hidden.narrow(axes[-2], 0, sizes.queries - 1)
    if float(hidden.abs().max()) <= checker.tolerance:
        return None
    where = "the returned weights of hidden keys are not zero; are they taken before the mask?"
    return checker.finding("padding_attended", where, (*inputs, real))


def _sees_later(checker: LayerChecker) -> bool:
    return bool(checker.influence(checker.sizes, False, None).triu(diagonal=1).any())


def _padding_at(size: float = 1.0, seed: int = 0, left: bool = False) -> Test:
    """The test that padding has no influence, with inputs of this size: large scores show a weak mask."""

    def test(checker: LayerChecker, sizes: Sizes) -> Finding | None:
        query, key, value = checker.layer.inputs(sizes, seed, size)
        _, other_key, other_value = checker.layer.inputs(sizes, seed + 1, size)
        real = hidden_keys(sizes) if sizes.rows > 1 else torch.arange(sizes.keys)[None] < sizes.keys - 1
        real = real.flip(1) if left else real
        changed_key = torch.where(real[..., None], key, other_key)
        changed_value = torch.where(real[..., None], value, other_value)
        changed_query = changed_key if checker.layer.is_self else query
        call, changed = (query, key, value, real), (changed_query, changed_key, changed_value, real)
        first, second = checker.layer(*call).context, checker.layer(*changed).context
        shown = real if checker.layer.is_self else torch.ones(first.shape[:2], dtype=torch.bool)
        first, second = first[shown], second[shown]
        is_broken = not bool(torch.isfinite(first).all()) or float(first.abs().max()) > 1e6 * max(1.0, size)
        if (is_broken and size > 1) or (not is_broken and not checker.differs(first, second)):
            return None
        name = "padding_attended"
        if size == 1.0:
            name = fault_of_mask(checker, sizes, real, is_broken, name)
        rows = [int(row) for row in (~real).any(dim=1).nonzero().flatten()]
        where = f"rows {rows} have padding, and their output changes with its content"
        if is_broken:
            where = "with a mask of padding the output is not finite, or above a million"
        elif size > 1:
            where += " (for large scores: the additive mask is too weak)"
        return checker.finding(name, where, call, changed)

    return test


def fault_of_mask(
    checker: LayerChecker,
    sizes: Sizes,
    real: Tensor,
    is_broken: bool,
    otherwise: str,
    causal: bool = False,
    allowed: Tensor | None = None,
    with_mask: bool = True,
) -> str:
    """Whether the softmax saw masked keys whose weights were removed after it."""
    query, key, value = checker.layer.inputs(sizes)
    if not causal and checker.layer.has_value and not is_broken:
        other = checker.layer.inputs(sizes, seed=1)[2]
        changed = torch.where(real[..., None], value, other)
        first, second = (checker.layer(query, key, part, real).context for part in (value, changed))
        if not checker.differs(first, second):
            return "mask_after_softmax"
    if not causal:
        allowed = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
        allowed[:, -1] = False
    inside = look_inside(checker.layer, sizes, allowed, causal and with_mask)
    if isinstance(inside, Inside) and inside.normalised:
        weights = inside.normalised[0]
        sees_hidden = _at_hidden(weights, weights.values.detach(), checker.layer.is_self, causal)
        if sees_hidden is None or float(sees_hidden.abs().min()) < 1e-12:
            return "not_finite" if is_broken else otherwise
        if is_broken:
            return "mask_after_softmax"
        slopes = weights.slopes[:-1] if checker.layer.is_self and not causal else weights.slopes
        slope = torch.stack(slopes).abs().sum(dim=0)
        at_hidden = _at_hidden(weights, slope, checker.layer.is_self, causal, not causal)
        if at_hidden is not None and float(at_hidden.abs().max()) < 1e-12:
            return "mask_after_softmax"
        return otherwise
    returned = checker.layer(query, key, value, allowed, causal and with_mask).weights
    if returned is not None and sizes.keys == returned.shape[-1]:
        at_end = returned[..., 0, -1] if causal else returned[..., -1]
        if float(at_end.abs().max()) < 1e-12 and not sums_to(returned, 1.0):
            return "mask_after_softmax"
    return "not_finite" if is_broken else otherwise


def _real_keys(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """A mask may hide padding alone."""
    if sizes.rows < 2:
        return None
    query, key, value = checker.layer.inputs(sizes)
    _, other_key, other_value = checker.layer.inputs(sizes, seed=1)
    real = hidden_keys(sizes)
    for position in real[1].nonzero().flatten().tolist():
        keys, values = key.clone(), value.clone()
        keys[1, position], values[1, position] = other_key[1, position], other_value[1, position]
        queries = keys if checker.layer.is_self else query
        calls = (query, key, value), (queries, keys, values)
        masked = [checker.layer(*call, real).context[1] for call in calls]
        plain = [checker.layer(*call).context[1] for call in calls]
        apart = [*range(sizes.queries)]
        if checker.layer.is_self:
            apart = [place for place in apart if place != position and bool(real[1, place])]
        if not checker.differs(masked[0][apart], masked[1][apart]) and checker.differs(
            plain[0][apart], plain[1][apart]
        ):
            where = f"key {position} of row 1 is not padding, but has no influence with the mask of padding"
            return checker.finding("real_positions_masked", where, (query, key, value, real))
    return None


def _at_hidden(weights: Weights, values: Tensor, is_self: bool, causal: bool, shown: bool = False) -> Tensor | None:
    """The entries of the last key; with ``causal`` only those of the first query, with ``shown`` of other queries."""
    key_axis, query_axis = weights.key_axis, weights.query_axis
    if key_axis is None:
        key_axis = values.ndim - 1
    if query_axis is None and values.ndim > 1 and is_self:
        query_axis = values.ndim - 2 if key_axis == values.ndim - 1 else values.ndim - 1
    if key_axis >= values.ndim or values.shape[key_axis] < 2:
        return None
    if causal and query_axis is not None:
        values = values.narrow(query_axis, 0, 1)
    elif shown and is_self and query_axis is not None:
        values = values.narrow(query_axis, 0, values.shape[query_axis] - 1)
    return values.select(key_axis, -1)
