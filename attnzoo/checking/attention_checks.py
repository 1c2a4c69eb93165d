"""The properties of one attention layer, from causes to symptoms.

Properties are tested in this order, since an early fault makes later tests meaningless. For example, after a softmax
over the wrong axis, sums, masks and causality are not judged.

Dimensions: B batch, T queries, S keys.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..attention import LocationScore
from .inside import Inside, foreign_positions, look_inside, measured_scale
from .layer import Layer, Sizes, hidden_keys
from .report import Finding, Report
from .subject import largest_difference
from .tracing import normalised_axes

Test = Callable[[Sizes], Finding | None]
SMALL = [(1, 1, 2), (1, 2, 2), (1, 2, 3), (2, 1, 2), (2, 2, 2), (2, 2, 3), (2, 3, 4), (3, 3, 4)]
AFTER = {
    "softmax_wrong_axis": ("heads", "batch", "sum of the weights", "keys", "padding", "future"),
    "heads_mixed": ("batch", "padding", "future"),
    "batch_mixed": ("padding", "future"),
    "not_finite": ("softmax axis", "heads", "batch", "scale", "sum of the weights", "keys", "padding", "future"),
}


def check_layer(report: Report, layer: Layer, sizes: Sizes, causal: bool | None, scale: str | float | None) -> None:
    """Check one attention layer and fill the report."""
    checker = _Checker(report, layer, sizes)
    if checker.stops("not_finite", checker.finite):
        return
    report.done("finite output")
    if report.add(checker.smallest(checker.dropout)):
        layer.subject.without_dropout = True
    report.done("dropout in eval mode")
    checker.inside = look_inside(layer, sizes)
    wrong_axis = checker.stops("softmax_wrong_axis", checker.axis)
    checker.scale(scale)
    if wrong_axis:
        return
    if checker.stops("heads_mixed", checker.heads) or checker.stops("batch_mixed", checker.batch):
        return
    report.done("batch")
    checker.keys()
    checker.padding()
    checker.future(causal)
    checker.sums()


class _Checker:
    def __init__(self, report: Report, layer: Layer, sizes: Sizes) -> None:
        self.report, self.layer, self.sizes = report, layer, sizes
        self.inside: Inside | str = "not run"

    def stops(self, name: str, test: Test) -> bool:
        """Run a test whose failure makes others meaningless."""
        if not self.report.add(self.smallest(test)):
            return False
        if name in self.report.names:
            for check in AFTER[name]:
                self.report.skip(check, f"cannot be judged until {name} is repaired")
        return name in self.report.names

    def smallest(self, test: Test) -> Finding | None:
        """The finding of the smallest sizes that show the fault; only what the full sizes show counts."""
        found = test(self.sizes)
        if found is None:
            return None
        for small in SMALL:
            rows, queries, keys = small
            if keys in self.layer.widths and not self.layer.is_self:
                continue  # its output could not be told from weights
            sizes = Sizes(rows, keys if self.layer.is_self else 1 if self.layer.is_step else queries, keys)
            try:
                smaller = test(sizes)
            except Exception:  # the layer cannot take this size
                continue
            if smaller is not None and smaller.name == found.name:
                return smaller
        return found

    def finding(self, name: str, where: str, *calls: tuple[Any, ...]) -> Finding:
        """A finding with the arguments of one or two calls."""
        made = [self.layer.arguments(*call) for call in calls]
        given = [{key: part for key, part in each.items() if isinstance(part, Tensor)} for each in made]
        return Finding(name, where, *given)

    def differs(self, first: Tensor, second: Tensor) -> bool:
        return largest_difference(first, second) > self.layer.tolerance

    def finite(self, sizes: Sizes) -> Finding | None:
        inputs = self.layer.inputs(sizes)
        if bool(torch.isfinite(self.layer(*inputs).context).all()):
            return None
        return self.finding("not_finite", "for random input without a mask", inputs)

    def dropout(self, sizes: Sizes) -> Finding | None:
        inputs = self.layer.inputs(sizes)
        first = self.layer(*inputs, seed=1).context
        for seed in range(2, 8):
            if self.differs(first, self.layer(*inputs, seed=seed).context):
                where = "two calls in eval mode with the same input give different outputs"
                return self.finding("dropout_in_eval", where, inputs)
        return None

    # The weights inside.

    def axis(self, sizes: Sizes) -> Finding | None:
        inside = look_inside(self.layer, sizes)
        inputs = self.layer.inputs(sizes)
        if isinstance(inside, str):
            return self._axis_of_returned(sizes, inputs, inside)
        self.report.done("softmax axis")
        event = inside.events[inside.first]
        weights, key_axis = event.result.detach(), inside.key_axis
        axes = normalised_axes(weights)
        if inside.first != inside.last:
            weights = inside.weights.detach()
            axes = sorted({*axes, *normalised_axes(weights)})
        shape = tuple(weights.shape)
        if key_axis is None and sizes.keys in shape:
            return None  # a wrong view; the heads are judged next
        if key_axis is not None and key_axis in axes:
            return None
        if key_axis is not None and not axes and not event.is_softmax:
            return None
        where = f"weights of shape {shape} sum to one over axis {axes[0] if axes else 'of size 1'}"
        where += f", but the keys are axis {key_axis}" if key_axis is not None else ", and no axis holds the keys"
        return self.finding("softmax_wrong_axis", where, inputs)

    def _axis_of_returned(self, sizes: Sizes, inputs: tuple[Tensor, Tensor, Tensor], reason: str) -> Finding | None:
        returned = self.layer(*inputs).weights
        if returned is None:
            self.report.skip("softmax axis", reason)
            return None
        self.report.done("softmax axis")
        axes, shape = normalised_axes(returned), tuple(returned.shape)
        keys = [axis for axis, size in enumerate(shape) if size == sizes.keys]
        key = (keys[-1] if self.layer.is_self else keys[0]) if keys else None
        if not axes or key in axes or key is None:
            return None
        where = f"the returned weights of shape {shape} sum to one over axis {axes[0]}, but the keys are axis {key}"
        return self.finding("softmax_wrong_axis", where, inputs)

    def scale(self, expected: str | float | None) -> None:
        layer, report, inside = self.layer, self.report, self.inside
        if expected is None:
            return report.skip("scale", "scale=None")
        if expected == "auto" and not (layer.is_self or layer.has_value):
            return report.skip("scale", "Luong's dot score has no scale; pass scale='sqrt' to expect 1 / sqrt(d_k)")
        if isinstance(inside, str):
            return report.skip("scale", inside)
        measured = measured_scale(inside)
        if isinstance(measured, str):
            return report.skip("scale", measured)
        report.done("scale")
        right = measured.width**-0.5 if isinstance(expected, str) else float(expected)
        report.assumed.append(f"scale {right:.4g}" + (f" = 1 / sqrt({measured.width})" * isinstance(expected, str)))
        if abs(measured.factor / right - 1) < 1e-2:
            return None
        where = f"scores are {measured.factor:.4g} times the dot product of width {measured.width}, not {right:.4g}"
        is_missing = abs(measured.factor - 1) < 1e-2
        if is_missing and self._weights_are_scaled(right):
            is_missing, where = False, f"the scale {right:.4g} is applied to the weights, after the softmax"
        inputs = layer.inputs(Sizes(1, 2 if layer.is_self else 1, 2))  # every input shows it
        report.add(self.finding("scale_missing" if is_missing else "scale_wrong", where, inputs))
        return None

    def _weights_are_scaled(self, factor: float) -> bool:
        returned = self.layer(*self.layer.inputs(self.sizes)).weights
        if returned is None and isinstance(self.inside, Inside):
            sums = [e.result.detach() for e in self.inside.events[self.inside.last :]]
            shape = self.inside.weights.shape
            return any(part.shape == shape and _sums_to(part, factor) for part in sums)
        return returned is not None and _sums_to(returned, factor)

    def heads(self, sizes: Sizes) -> Finding | None:
        inside = look_inside(self.layer, sizes)
        if isinstance(inside, str):
            self.report.skip("heads", inside)
            return None
        count = inside.weights.numel() // math.prod(sizes)
        if max(count, self.layer.heads) < 2:
            self.report.skip("heads", "there is only one head")
            return None
        self.report.done("heads")
        where = foreign_positions(inside, sizes)
        return None if where is None else self.finding("heads_mixed", where, self.layer.inputs(sizes))

    def batch(self, sizes: Sizes) -> Finding | None:
        if sizes.rows < 2:
            return None
        inputs, changed = self.layer.inputs(sizes), self.layer.inputs_with_other_rows(sizes)
        if not self.differs(self.layer(*inputs).context[0], self.layer(*changed).context[0]):
            return None
        several = isinstance(self.inside, Inside) and self.inside.weights.numel() > math.prod(sizes)
        name = "heads_mixed" if max(self.layer.heads, 2 * several) > 1 else "batch_mixed"
        where = "the output of row 0 changes when the other rows change"
        return self.finding(name, where, inputs, changed)

    # What the weights do.

    def sums(self) -> None:
        name = "sum of the weights"
        is_scaled_after = "scale_wrong" in self.report.names and "after the softmax" in str(self.report)
        for cause in ("mask_after_softmax", "scale_wrong"):
            if cause in self.report.names and (cause != "scale_wrong" or is_scaled_after):
                return self.report.skip(name, f"cannot be judged until {cause} is repaired")
        if self.layer.has_value:
            self.report.add(self.smallest(self.constant_values))
            return self.report.done(name)
        if not self._sees_a_set():
            if isinstance(self.inside, Inside):
                return self.report.done(name)
            return self.report.skip(name, "the layer depends on positions, and its weights cannot be recorded")
        self.report.add(self.smallest(self.equal_tokens))
        self.report.done(name)
        return None

    def constant_values(self, sizes: Sizes) -> Finding | None:
        """If all values are one vector, the output is that vector (projected), for any weights."""
        query, key, value = self.layer.inputs(sizes)
        constant = value[:1, :1].expand_as(value).contiguous()
        others = self.layer.inputs(sizes, seed=2)
        first = self.layer(query, key, constant).context
        second = self.layer(others[0], others[1], constant).context
        is_off = self.differs(first, second)
        if not is_off and not self.layer.subject.has_parameters and first.shape[-1] == constant.shape[-1]:
            is_off = self.differs(first, constant[:, :1].expand_as(first))
        if not is_off:
            return None
        where = "all values are the same vector, but the output still depends on the weights"
        return self.finding("weights_not_normalised", where, (query, key, constant), (*others[:2], constant))

    def equal_tokens(self, sizes: Sizes) -> Finding | None:
        """If all tokens are one vector, the output does not depend on how many there are."""
        query, key, _ = self.layer.inputs(sizes)
        more = next(n for n in range(sizes.keys + 2, sizes.keys + 20) if n not in (*sizes, *self.layer.widths))
        longer = sizes._replace(queries=more if self.layer.is_self else sizes.queries, keys=more)
        _, longer_key, _ = self.layer.inputs(longer)
        token = key[:1, :1]
        few, many = token.expand_as(key).contiguous(), token.expand_as(longer_key).contiguous()
        calls = [(part if self.layer.is_self else query, part, part) for part in (few, many)]
        first, second = (self.layer(*call).context for call in calls)
        if not self.differs(first[:, -1], second[:, -1]) and not self.differs(first[:, 0], second[:, 0]):
            return None
        where = f"{sizes.keys} equal keys give another output than {more} equal keys"
        return self.finding("weights_not_normalised", where, *calls)

    def _sees_a_set(self) -> bool:
        """Whether the order of the earlier tokens makes no difference."""
        query, key, value = self.layer.inputs(self.sizes)
        order = torch.arange(self.sizes.keys)
        order[:2] = torch.tensor([1, 0])
        queries = query[:, order] if self.layer.is_self else query
        first = self.layer(query, key, value).context
        second = self.layer(queries, key[:, order], value[:, order]).context
        return not self.differs(first[:, -1], second[:, -1])

    def keys(self) -> None:
        if self.layer.is_self:
            return self.report.skip("keys", "queries and keys are the same tokens")
        if any(isinstance(part, LocationScore) for part in self.layer.subject.parts):
            return self.report.skip("keys", "by definition, a location score does not depend on the keys")
        query, key, value = self.layer.inputs(self.sizes)
        other = self.layer.inputs(self.sizes, seed=1)[1]
        if self.layer.has_value:
            ignored = not self.differs(self.layer(query, key, value).context, self.layer(query, other, value).context)
        else:
            weights = [self.layer(query, part, part).weights for part in (key, other)]
            if weights[0] is not None and weights[1] is not None:
                ignored = not self.differs(weights[0], weights[1])
            elif isinstance(self.inside, Inside):
                slope = torch.autograd.grad(
                    self.inside.weights.square().sum(), self.inside.inputs[1], retain_graph=True, allow_unused=True
                )[0]
                ignored = slope is None or not bool(slope.any())
            else:
                return self.report.skip("keys", "the weights cannot be recorded")
        self.report.done("keys")
        if ignored:
            where = "other keys give the same weights"
            self.report.add(self.finding("keys_ignored", where, (query, key, value)))
        return None

    # Masks.

    def padding(self) -> None:
        layer, report = self.layer, self.report
        if layer.padding is None and not layer.has("lengths"):
            report.skip("padding", "it takes no mask of padding" if not layer.has("mask") else "no padding mask worked")
            return
        report.assumed.append(f"mask of padding: {layer.padding or 'lengths'}")
        if not report.add(self.smallest(self.padding_at())) and not self._mask_is_weak():
            report.add(self.smallest(self.real_keys))
        report.done("padding")

    def _mask_is_weak(self) -> bool:
        return any(self.report.add(self.smallest(self.padding_at(60.0, seed))) for seed in (0, 2, 4))

    def padding_at(self, size: float = 1.0, seed: int = 0) -> Test:
        """The test that padding has no influence, with inputs of this size: large scores show a weak mask."""

        def test(sizes: Sizes) -> Finding | None:
            query, key, value = self.layer.inputs(sizes, seed, size)
            _, other_key, other_value = self.layer.inputs(sizes, seed + 1, size)
            real = hidden_keys(sizes) if sizes.rows > 1 else torch.arange(sizes.keys)[None] < sizes.keys - 1
            changed_key = torch.where(real[..., None], key, other_key)
            changed_value = torch.where(real[..., None], value, other_value)
            changed_query = changed_key if self.layer.is_self else query
            call, changed = (query, key, value, real), (changed_query, changed_key, changed_value, real)
            first, second = self.layer(*call).context, self.layer(*changed).context
            shown = real if self.layer.is_self else torch.ones(first.shape[:2], dtype=torch.bool)
            first, second = first[shown], second[shown]
            is_broken = not bool(torch.isfinite(first).all()) or float(first.abs().max()) > 1e6 * max(1.0, size)
            if not is_broken and not self.differs(first, second):
                return None
            name = "padding_attended"
            if size == 1.0:
                name = self._fault_of_mask(sizes, real, is_broken, name)
            rows = [int(row) for row in (~real).any(dim=1).nonzero().flatten()]
            where = f"rows {rows} have padding, and their output changes with its content"
            if is_broken:
                where = "with a mask of padding the output is not finite, or above a million"
            elif size > 1:
                where += " (for scores in the thousands: the additive mask is too weak)"
            return self.finding(name, where, call, changed)

        return test

    def _fault_of_mask(self, sizes: Sizes, real: Tensor, is_broken: bool, otherwise: str, causal: bool = False) -> str:
        """Whether the softmax saw masked keys whose weights were removed after it."""
        query, key, value = self.layer.inputs(sizes)
        if not causal and self.layer.has_value and not is_broken:
            other = self.layer.inputs(sizes, seed=1)[2]
            changed = torch.where(real[..., None], value, other)
            first, second = (self.layer(query, key, part, real).context for part in (value, changed))
            if not self.differs(first, second):
                return "mask_after_softmax"
        every = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
        every[:, -1] = False
        inside = look_inside(self.layer, sizes, None if causal else every, causal)
        if isinstance(inside, Inside):
            weights = inside.events[inside.first].result
            sees_hidden = _at_hidden(inside, weights.detach(), causal)
            if sees_hidden is None or float(sees_hidden.abs().min()) < 1e-12:
                return "not_finite" if is_broken else otherwise
            if is_broken:
                return "mask_after_softmax"
            noisy = inside.context * torch.arange(1.0, inside.context.shape[-1] + 1)
            if not causal and self.layer.is_self:
                noisy = noisy[:, :-1]
            slope = torch.autograd.grad(noisy.sum(), weights, allow_unused=True)[0]
            at_hidden = None if slope is None else _at_hidden(inside, slope, causal, shown=not causal)
            if at_hidden is not None and float(at_hidden.abs().max()) < 1e-12:
                return "mask_after_softmax"
            return otherwise
        returned = self.layer(query, key, value, None if causal else every, causal).weights
        if returned is not None and sizes.keys == returned.shape[-1]:
            at_end = returned[..., 0, -1] if causal else returned[..., -1]
            if float(at_end.abs().max()) < 1e-12 and not _sums_to(returned, 1.0):
                return "mask_after_softmax"
        return "not_finite" if is_broken else otherwise

    def real_keys(self, sizes: Sizes) -> Finding | None:
        """A mask may hide padding alone."""
        if sizes.rows < 2:
            return None
        query, key, value = self.layer.inputs(sizes)
        _, other_key, other_value = self.layer.inputs(sizes, seed=1)
        real = hidden_keys(sizes)
        for position in real[1].nonzero().flatten().tolist():
            keys, values = key.clone(), value.clone()
            keys[1, position], values[1, position] = other_key[1, position], other_value[1, position]
            queries = keys if self.layer.is_self else query
            calls = (query, key, value), (queries, keys, values)
            masked = [self.layer(*call, real).context[1] for call in calls]
            plain = [self.layer(*call).context[1] for call in calls]
            apart = [*range(sizes.queries)]
            if self.layer.is_self:
                apart = [place for place in apart if place != position and bool(real[1, place])]
            if not self.differs(masked[0][apart], masked[1][apart]) and self.differs(plain[0][apart], plain[1][apart]):
                where = f"key {position} of row 1 is not padding, but has no influence with the mask of padding"
                return self.finding("real_positions_masked", where, (query, key, value, real))
        return None

    def future(self, causal: bool | None) -> None:
        layer, report = self.layer, self.report
        if not layer.is_self:
            return report.skip("future", "queries and keys are not the same sequence")
        upper = torch.ones(self.sizes.keys, self.sizes.keys, dtype=torch.bool).triu(diagonal=1)
        seen = self._influence(self.sizes, with_mask=False)
        built_in = not bool(seen[upper].any())
        by_mask = layer.pairs is not None and not built_in
        if causal is None and not by_mask:
            causal = not bool(seen[upper].all())
            other = "not causal: every position sees every other; pass causal=True if it should be causal"
            report.assumed.append("causal" if causal else other)
        if by_mask and causal is not False:
            report.assumed.append(f"causal by its mask of pairs: {layer.pairs}")
        if causal is False or (not causal and not by_mask):
            return report.skip("future", "it is not causal")
        with_mask = by_mask or (layer.has("causal") and not built_in)
        report.add(self.smallest(self.future_with(with_mask)))
        report.done("future")
        return None

    def _influence(self, sizes: Sizes, with_mask: bool) -> Tensor:
        """(T, S): whether the output of a position depends on a position of the input."""
        inputs = self.layer.inputs(sizes)[0]
        other = self.layer.inputs(sizes, seed=1)[0]
        before = self.layer(inputs, inputs, inputs, causal=with_mask).context
        seen = torch.zeros(sizes.keys, sizes.keys, dtype=torch.bool)
        for position in range(sizes.keys):
            changed = inputs.clone()
            changed[:, position] = other[:, position]
            after = self.layer(changed, changed, changed, causal=with_mask).context
            for place in range(sizes.keys):
                seen[place, position] = self.differs(before[:, place], after[:, place])
        return seen

    def future_with(self, with_mask: bool) -> Test:
        """The test that no position sees a later one."""

        def test(sizes: Sizes) -> Finding | None:
            seen = self._influence(sizes, with_mask)
            leaks = seen.triu(diagonal=1).nonzero()
            inputs = self.layer.inputs(sizes)[0]
            call = (inputs, inputs, inputs, None, with_mask)
            if not len(leaks):
                return self._own_position(sizes, call)
            place, position = leaks[0].tolist()
            changed = inputs.clone()
            changed[:, position] = self.layer.inputs(sizes, seed=1)[0][:, position]
            everything = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
            name = self._fault_of_mask(sizes, everything, False, "future_leaked", causal=True)
            where = f"the output of position {place} changes with the input of position {position}"
            return self.finding(name, where, call, (changed, changed, changed, None, with_mask))

        return test

    def _own_position(self, sizes: Sizes, call: tuple[Any, ...]) -> Finding | None:
        """A causal mask shows a position to itself."""
        inside = look_inside(self.layer, sizes, causal=call[4])
        if isinstance(inside, str) or inside.key_axis is None or inside.query_axis is None:
            return None
        diagonal = inside.weights.detach().diagonal(dim1=inside.query_axis, dim2=inside.key_axis)
        if diagonal.shape[-1] < 2 or bool(diagonal[..., 1:].any()):
            return None
        return self.finding("real_positions_masked", "no position attends to itself", call)


def _sums_to(weights: Tensor, total: float) -> bool:
    return bool(((weights.detach().sum(dim=-1) - total).abs() < 1e-5).all())


def _at_hidden(inside: Inside, values: Tensor, causal: bool, shown: bool = False) -> Tensor | None:
    """The entries of the last key; with ``causal`` only those of the first query, with ``shown`` of other queries."""
    key_axis, query_axis = inside.key_axis, inside.query_axis
    if key_axis is None:
        key_axis = values.ndim - 1
    if query_axis is None and values.ndim > 1 and inside.layer.is_self:
        query_axis = values.ndim - 2 if key_axis == values.ndim - 1 else values.ndim - 1
    if key_axis >= values.ndim or values.shape[key_axis] < 2:
        return None
    if causal and query_axis is not None:
        values = values.narrow(query_axis, 0, 1)
    elif shown and inside.layer.is_self and query_axis is not None:
        values = values.narrow(query_axis, 0, values.shape[query_axis] - 1)
    return values.select(key_axis, -1)
