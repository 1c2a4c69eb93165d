"""The properties of one attention layer, from causes to symptoms.

Properties are tested in this order, since an early fault makes later tests meaningless. For example, after a softmax
over the wrong axis, sums, masks and causality are not judged.

Dimensions: B batch, T queries, S keys.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .find_masks import shows_keys, with_pairs
from .head_checks import heads_apart, rows_permuted
from .influence_checks import check_every_key, context_unused
from .inside import Inside, look_inside, measured_scale
from .layer import Layer, Sizes, hidden_keys
from .layer_checker import LayerChecker, Test
from .padding_checks import check_padding, fault_of_mask
from .report import OTHER_PLACE, Finding, Report
from .score_checks import check_keys, one_set_of_weights
from .subject import HALF_TOLERANCE
from .sum_checks import check_sums, sums_to
from .tracing import normalised_axes


def check_layer(report: Report, layer: Layer, sizes: Sizes, causal: bool | None, scale: str | float | None) -> None:
    """Check one attention layer and fill the report."""
    checker = LayerChecker(report, layer, sizes)
    if layer.place:
        report.assumed.append("the output is the first part of the result that depends on the keys")
    if checker.stops(_inverted) or checker.stops(_finite):
        return
    report.done("finite output")
    if report.add(checker.smallest(_dropout)):
        layer.subject.without_dropout = True
    report.done("dropout in eval mode")
    checker.inside = checker.look_inside(sizes)
    if isinstance(checker.inside, Inside) and checker.inside.is_half:
        checker.tolerance = HALF_TOLERANCE
        report.assumed.append("rounding to 16 bits: smaller faults than that are not seen")
    _check_scale(checker, scale)
    if checker.stops(_axis):
        return
    report.add(checker.smallest(one_set_of_weights))
    if checker.stops(heads_apart) or checker.stops(_batch):
        return
    report.done("batch")
    if checker.stops(context_unused):
        return
    check_keys(checker)
    if checker.stops(_own_position):
        return
    _check_future(checker, causal)
    check_every_key(checker)
    check_padding(checker)
    check_sums(checker)


def _inverted(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """A mask that the layer needs is read as its opposite: that which hides nothing hides everything."""
    layer, form = checker.layer, checker.layer.padding
    if form is None or form.convention == "additive" or not layer.needs_mask or shows_keys(layer, sizes):
        return None
    other = form._replace(convention="ignore" if form.convention == "attend" else "attend")
    if not shows_keys(replace(layer, padding=other), sizes):
        return None
    where = f"the mask hides what it should show; it is read as {other}"
    return checker.finding("padding_attended", where, (*layer.inputs(sizes), None))


def _finite(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    inputs = checker.layer.inputs(sizes)
    if bool(torch.isfinite(checker.layer(*inputs).context).all()):
        return None
    return checker.finding("not_finite", "for random input without a mask", inputs)


def _dropout(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    inputs = checker.layer.inputs(sizes)
    first = checker.layer(*inputs, seed=1).context
    for seed in range(2, 8):
        if checker.differs(first, checker.layer(*inputs, seed=seed).context):
            where = "two calls in eval mode with the same input give different outputs"
            return checker.finding("dropout_in_eval", where, inputs)
    return None


def _axis(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    inside = checker.look_inside(sizes)
    inputs = checker.layer.inputs(sizes)
    if isinstance(inside, str) or not inside.normalised:
        reason = inside if isinstance(inside, str) else "no softmax was recognised"
        return _axis_of_returned(checker, sizes, inputs, reason)
    checker.report.done("softmax axis")
    for weights in inside.normalised:
        axes, key_axis, shape = weights.axes, weights.key_axis, tuple(weights.values.shape)
        if key_axis is None and sizes.keys in shape:  # a wrong view, which is judged next, or some other softmax
            if weights.query_axis is None or weights.query_axis not in axes:
                continue
        elif key_axis in axes or not (axes or bool((weights.values == 1).all())):
            continue
        if shape.count(sizes.rows) == 2 and sizes.keys not in shape and sizes.rows > 1:
            where = f"the weights of shape {shape} are between the rows of the batch"
            return checker.finding("batch_mixed", where, inputs)
        what = f"sum to one over axis {axes[0]}" if axes else "are all 1, since each is normalised alone"
        where = f"weights of shape {shape} {what}"
        where += f", but the keys are axis {key_axis}" if key_axis is not None else ", and no axis holds the keys"
        return checker.finding("softmax_wrong_axis", where, inputs)
    return None


def _axis_of_returned(
    checker: LayerChecker, sizes: Sizes, inputs: tuple[Tensor, Tensor, Tensor], reason: str
) -> Finding | None:
    returned = checker.layer(*inputs).weights
    if returned is None:
        checker.report.skip("softmax axis", reason)
        return None
    axes, shape = normalised_axes(returned), tuple(returned.shape)
    keys = [axis for axis, size in enumerate(shape) if size == sizes.keys]
    key = (keys[-1] if checker.layer.is_self else keys[0]) if keys else None
    if not axes:
        checker.report.skip("softmax axis", reason)
    else:
        checker.report.done("softmax axis")
    if not axes or key in axes or key is None:
        return None
    where = f"the returned weights of shape {shape} sum to one over axis {axes[0]}, but the keys are axis {key}"
    return checker.finding("softmax_wrong_axis", where, inputs)


def _check_scale(checker: LayerChecker, expected: str | float | None) -> None:
    layer, report, inside = checker.layer, checker.report, checker.inside
    if expected is None:
        return report.skip("scale", "scale=None asks for no check of it")
    if expected == "auto" and not (layer.is_self or layer.has_value):
        reason = "none is expected where one argument is key and value; pass scale='sqrt' to expect 1 / sqrt(d_k)"
        return report.skip("scale", reason)
    if isinstance(inside, str):
        return report.skip("scale", inside)
    measured = measured_scale(inside, checker.sizes, layer.is_self)
    if isinstance(measured, str):
        return report.skip("scale", measured)
    report.done("scale")
    right = measured.width**-0.5 if isinstance(expected, str) else float(expected)
    report.assumed.append(f"scale {right:.4g}" + (f" = 1 / sqrt({measured.width})" * isinstance(expected, str)))
    if abs(measured.factor / right - 1) < 1e-2:
        return None
    where = f"scores are {measured.factor:.4g} times the dot product of width {measured.width}, not {right:.4g}"
    is_missing = abs(measured.factor - 1) < 1e-2
    if is_missing and _weights_are_scaled(checker, right):
        is_missing, where = False, f"the scale {right:.4g} is applied to the weights, after the softmax"
    inputs = layer.inputs(Sizes(1, 2 if layer.is_self else 1, 2))  # every input shows it
    report.add(checker.finding("scale_missing" if is_missing else "scale_wrong", where, inputs))
    return None


def _weights_are_scaled(checker: LayerChecker, factor: float) -> bool:
    assert isinstance(checker.inside, Inside)
    returned = checker.layer(*checker.layer.inputs(checker.sizes)).weights
    parts = [weights.values for weights in checker.inside.used] + ([] if returned is None else [returned])
    shape = checker.inside.weights[0].values.shape
    parts += [event.result for event in checker.inside.events if event.result.shape == shape]
    return any(sums_to(part, factor) for part in parts)


def _batch(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    if sizes.rows < 2:
        return None
    inputs, changed = checker.layer.inputs(sizes), checker.layer.inputs_with_other_rows(sizes)
    first = checker.layer(*inputs).context
    if not checker.differs(first[0], checker.layer(*changed).context[0]):
        turned = inputs[0].flip(0), inputs[1].flip(0), inputs[2].flip(0)
        if not checker.differs(first.flip(0), checker.layer(*turned).context):
            return None
        where = "the output of a row changes with its place in the batch"
        return checker.finding("batch_mixed", where, inputs, turned, advice=OTHER_PLACE)
    inside = checker.look_inside(checker.sizes)
    several = (
        isinstance(inside, Inside)
        and bool(inside.weights)
        and inside.weights[0].values.numel() > math.prod(checker.sizes)
    )
    is_view = several and isinstance(inside, Inside) and rows_permuted(inside, checker.sizes)
    where = "the output of row 0 changes when the other rows change"
    return checker.finding("heads_mixed" if is_view else "batch_mixed", where, inputs, changed)


def _of_one_sequence(checker: LayerChecker, causal: bool | None) -> LayerChecker | str:
    """The layer as a map from one sequence to one, or the reason why it is none.

    A decoder block (x, memory) is one in x, since its outputs depend on other positions of x. Attention of query, key
    and value that should be causal is called with one sequence for all three.
    """
    layer = checker.layer
    if layer.is_self:
        return checker
    if layer.is_step:
        return "it takes one query at a time"
    seen = checker.influence(checker.sizes, False, None)
    if bool((seen & ~torch.eye(checker.sizes.queries, dtype=torch.bool)).any()):
        return checker
    if not causal or not layer.has_value:
        return "queries and keys are not the same sequence, and an output does not depend on other queries"
    if len({*layer.widths}) > 1:
        return f"query, key and value have the widths {layer.widths}, so they are not the same sequence"
    layer = replace(layer, is_self=True)
    sizes = checker.sizes._replace(queries=checker.sizes.keys)
    same = LayerChecker(checker.report, with_pairs(layer, sizes), sizes)
    same.tolerance = checker.tolerance
    return same


def _check_future(checker: LayerChecker, causal: bool | None) -> None:
    report, sequence = checker.report, _of_one_sequence(checker, causal)
    if causal is None and "query_ignored" in report.names:
        return report.skip("future", "whether it should be causal cannot be judged until query_ignored is repaired")
    if isinstance(sequence, str):
        return report.skip("future", sequence)
    checker, layer = sequence, sequence.layer
    seen = checker.influence(checker.sizes, False, None)
    built_in = not bool(seen.triu(diagonal=1).any())
    by_mask = layer.pairs is not None and not built_in
    if causal is None and not built_in and layer.has("target_mask") and layer.pairs is None:
        return report.skip("future", "no form of its mask of pairs hides one position from one query alone")
    if causal is None and not by_mask:
        # A pattern that is not symmetric, such as one step into the future, was meant to be causal; a window is.
        causal = not bool((seen == seen.T).all())
        other = "not causal: position i sees j where j sees i; pass causal=True if it should be causal"
        report.assumed.append("causal" if causal else other)
    if by_mask and causal is not False:
        report.assumed.append(f"causal by its mask of pairs: {layer.pairs}")
    if causal is False or (not causal and not by_mask):
        return report.skip("future", "it is not causal")
    with_mask = by_mask or (layer.has("causal") and not built_in)
    masks: list[Callable[[Sizes], Tensor | None]] = [lambda sizes: None]
    if layer.padding is not None or layer.has("lengths"):  # a mask of padding must not open the future
        masks += [lambda sizes: torch.ones(sizes.rows, sizes.keys, dtype=torch.bool), hidden_keys]
    for mask in masks:
        if report.add(checker.smallest(_future_with(with_mask, mask))):
            break
    report.done("future")
    return None


def _future_with(with_mask: bool, mask: Callable[[Sizes], Tensor | None]) -> Test:
    """The test that no position sees a later one, with a mask of padding."""

    def test(checker: LayerChecker, sizes: Sizes) -> Finding | None:
        allowed = mask(sizes)
        seen = checker.influence(sizes, with_mask, allowed)
        leaks = seen.triu(diagonal=1).nonzero()
        if not len(leaks):
            return None
        place, position = leaks[0].tolist()
        name = "future_leaked"
        if checker.layer.is_self:
            everything = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
            name = fault_of_mask(checker, sizes, everything, False, name, True, allowed, with_mask)
        where = f"the output of position {place} changes with the input of position {position}"
        where += "" if allowed is None else ", with a mask of padding"
        calls = checker.layer.inputs(sizes), checker.with_query_at(sizes, position)
        return checker.finding(name, where, *((*call, allowed, with_mask) for call in calls))

    return test


def _own_position(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """A position attends to itself, also with a causal mask."""
    if not checker.layer.is_self:
        return None
    inputs = checker.layer.inputs(sizes)
    call = (*inputs, None, checker.layer.pairs is not None)
    inside = look_inside(checker.layer, sizes, causal=call[4])
    for weights in inside.normalised if isinstance(inside, Inside) else ():
        if weights.key_axis is None or weights.query_axis is None:
            continue
        diagonal = weights.values.detach().diagonal(dim1=weights.query_axis, dim2=weights.key_axis)
        if diagonal.shape[-1] >= 2 and not bool(diagonal[..., 1:].any()):
            return checker.finding("real_positions_masked", "no position attends to itself", call)
    return None
