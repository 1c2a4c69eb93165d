"""The properties of one attention layer, from causes to symptoms.

Properties are tested in this order, since an early fault makes later tests meaningless. For example, after a softmax
over the wrong axis, sums, masks and causality are not judged.

Dimensions: B batch, T queries, S keys.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..attention import LocationScore
from .inside import (
    Inside,
    Weights,
    entries_of,
    look_inside,
    measured_scale,
    mixed_positions,
    noise,
    positions_of,
    rows_permuted,
)
from .layer import Layer, Sizes, hidden_keys
from .report import Finding, Report
from .subject import HALF_TOLERANCE, TOLERANCE, largest_difference
from .tracing import normalised_axes

Test = Callable[[Sizes], Finding | None]
Call = tuple[Tensor, Tensor, Tensor]
SMALL = [(1, 1, 2), (1, 2, 2), (1, 2, 3), (2, 1, 2), (2, 2, 2), (2, 2, 3), (2, 3, 4), (3, 3, 4)]
LATER = ["softmax axis", "heads", "batch", "scale", "keys", "query", "real positions", "padding", "future"]
LATER += ["sum of the weights"]


def check_layer(report: Report, layer: Layer, sizes: Sizes, causal: bool | None, scale: str | float | None) -> None:
    """Check one attention layer and fill the report."""
    checker = _Checker(report, layer, sizes)
    if checker.stops(checker.finite):
        return
    report.done("finite output")
    if report.add(checker.smallest(checker.dropout)):
        layer.subject.without_dropout = True
    report.done("dropout in eval mode")
    checker.inside = look_inside(layer, sizes)
    if isinstance(checker.inside, Inside) and checker.inside.is_half:
        checker.tolerance = HALF_TOLERANCE
        report.assumed.append("rounding to 16 bits: smaller faults than that are not seen")
    checker.scale(scale)
    if checker.stops(checker.axis) or checker.stops(checker.heads) or checker.stops(checker.batch):
        return
    report.done("batch")
    checker.keys()
    if checker.stops(checker.own_position):
        return
    checker.padding()
    checker.future(causal)
    checker.sums()


class _Checker:
    def __init__(self, report: Report, layer: Layer, sizes: Sizes) -> None:
        self.report, self.layer, self.sizes = report, layer, sizes
        self.tolerance = TOLERANCE
        self.inside: Inside | str = "not run"

    def stops(self, test: Test) -> bool:
        """Run a test whose failure makes later ones meaningless."""
        found = self.smallest(test)
        if not self.report.add(found) or found is None:
            return False
        for check in LATER:
            self.report.skip(check, f"cannot be judged until {found.name} is repaired")
        return True

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
        return largest_difference(first, second) > self.tolerance

    def finite(self, sizes: Sizes) -> Finding | None:
        inputs = self.layer.inputs(sizes)
        if bool(torch.isfinite(self.layer(*inputs).context).all()):
            return None
        form = self.layer.padding
        if form is not None and form.convention != "additive" and self.layer.needs_mask:
            other = form._replace(convention="ignore" if form.convention == "attend" else "attend")
            if bool(torch.isfinite(replace(self.layer, padding=other)(*inputs).context).all()):
                where = f"the mask hides what it should show; it is read as {other}"
                return self.finding("padding_attended", where, (*inputs, None))
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
        if isinstance(inside, str) or not inside.normalised:
            reason = inside if isinstance(inside, str) else "no softmax was recognised"
            return self._axis_of_returned(sizes, inputs, reason)
        self.report.done("softmax axis")
        for weights in inside.normalised:
            axes, key_axis, shape = weights.axes, weights.key_axis, tuple(weights.values.shape)
            if key_axis is None and sizes.keys in shape:  # a wrong view, which is judged next, or some other softmax
                if weights.query_axis is None or weights.query_axis not in axes:
                    continue
            elif key_axis in axes or not (axes or bool((weights.values == 1).all())):
                continue
            if shape.count(sizes.rows) == 2 and sizes.keys not in shape and sizes.rows > 1:
                where = f"the weights of shape {shape} are between the rows of the batch"
                return self.finding("batch_mixed", where, inputs)
            where = f"weights of shape {shape} sum to one over axis {axes[0] if axes else 'of size 1'}"
            where += f", but the keys are axis {key_axis}" if key_axis is not None else ", and no axis holds the keys"
            return self.finding("softmax_wrong_axis", where, inputs)
        return None

    def _axis_of_returned(self, sizes: Sizes, inputs: tuple[Tensor, Tensor, Tensor], reason: str) -> Finding | None:
        returned = self.layer(*inputs).weights
        if returned is None:
            self.report.skip("softmax axis", reason)
            return None
        axes, shape = normalised_axes(returned), tuple(returned.shape)
        keys = [axis for axis, size in enumerate(shape) if size == sizes.keys]
        key = (keys[-1] if self.layer.is_self else keys[0]) if keys else None
        if not axes:
            self.report.skip("softmax axis", reason)
        else:
            self.report.done("softmax axis")
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
        measured = measured_scale(inside, self.sizes, layer.is_self)
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
        assert isinstance(self.inside, Inside)
        returned = self.layer(*self.layer.inputs(self.sizes)).weights
        parts = [weights.values for weights in self.inside.used] + ([] if returned is None else [returned])
        shape = self.inside.weights[0].values.shape
        parts += [event.result for event in self.inside.events if event.result.shape == shape]
        return any(_sums_to(part, factor) for part in parts)

    def heads(self, sizes: Sizes) -> Finding | None:
        inside = look_inside(self.layer, sizes)
        if isinstance(inside, str) or not inside.weights:
            reason = inside if isinstance(inside, str) else "no attention weights were recognised"
            self.report.skip("heads", reason)
            return None
        count = sum(weights.values.numel() for weights in inside.normalised) // math.prod(sizes)
        if max(count, self.layer.heads) < 2:
            self.report.skip("heads", "there is only one head")
            return None
        if self.layer.is_self and sizes.keys > 1 and self._sees_itself_alone(sizes):
            where = "the output of a position does not depend on the others: it attends over its own heads"
            return self.finding("heads_mixed", where, self.layer.inputs(sizes))
        known = (
            weights.query_axis is not None or any(entries_of(weights, sizes, self.layer.is_self))
            for weights in inside.weights
        )
        if not any(known):
            self.report.skip("heads", "the axes of the weights were not recognised")
            return None
        self.report.done("heads")
        place = mixed_positions(inside, sizes, self.layer.is_self)
        return None if place is None else self.finding("heads_mixed", place, self.layer.inputs(sizes))

    def _sees_itself_alone(self, sizes: Sizes) -> bool:
        seen = self._influence(sizes, False, None)
        return not bool((seen & ~torch.eye(sizes.keys, dtype=torch.bool)).any())

    def batch(self, sizes: Sizes) -> Finding | None:
        if sizes.rows < 2:
            return None
        inputs, changed = self.layer.inputs(sizes), self.layer.inputs_with_other_rows(sizes)
        first = self.layer(*inputs).context
        if not self.differs(first[0], self.layer(*changed).context[0]):
            turned = inputs[0].flip(0), inputs[1].flip(0), inputs[2].flip(0)
            if not self.differs(first.flip(0), self.layer(*turned).context):
                return None
            where = "the output of a row changes with its place in the batch"
            return self.finding("batch_mixed", where, inputs, turned)
        inside = look_inside(self.layer, self.sizes)
        several = (
            isinstance(inside, Inside)
            and bool(inside.weights)
            and inside.weights[0].values.numel() > math.prod(self.sizes)
        )
        is_view = several and isinstance(inside, Inside) and rows_permuted(inside, self.sizes)
        where = "the output of row 0 changes when the other rows change"
        return self.finding("heads_mixed" if is_view else "batch_mixed", where, inputs, changed)

    # What the weights do.

    def sums(self) -> None:
        name = "sum of the weights"
        is_scaled_after = "scale_wrong" in self.report.names and "after the softmax" in str(self.report)
        for cause in ("mask_after_softmax", "scale_wrong"):
            if cause in self.report.names and (cause != "scale_wrong" or is_scaled_after):
                return self.report.skip(name, f"cannot be judged until {cause} is repaired")
        if isinstance(self.inside, Inside) and self.inside.adds_keys(self.sizes):
            return self.report.skip(name, "the code adds keys of its own, which have weight, too")
        found = any(self.report.add(self.smallest(test)) for test in self._tests_of_sums())
        if not found and not self._sums_are_known():
            return self.report.skip(name, "the weights by which values are multiplied were not recognised")
        return self.report.done(name)

    def _tests_of_sums(self) -> list[Test]:
        if self.layer.has_value:
            return [self.constant_values, self.used_weights]
        tests: list[Test] = [self.nothing_normalises, self.used_weights]
        return [*tests, self.equal_tokens] if self._sees_a_set() else tests

    def _sums_are_known(self) -> bool:
        """Whether the tests of the sum of the weights would have shown weights that do not sum to one."""
        if self.layer.has_value or (isinstance(self.inside, Inside) and self.inside.used):
            return True
        return self._sees_a_set() and self._is_affine()

    def _is_affine(self) -> bool:
        """Whether the output for equal tokens is affine in the token; it is if weights sum to a constant.

        After other layers, such as those of a block, it is not.
        """
        query, key, _ = self.layer.inputs(self.sizes)
        tokens = key[:1, :1], key[:1, 1:2], (key[:1, :1] + key[:1, 1:2]) / 2
        calls = [token.expand_as(key).contiguous() for token in tokens]
        first, second, middle = (
            self.layer(each if self.layer.is_self else query, each, each).context for each in calls
        )
        return not self.differs((first + second) / 2, middle)

    def nothing_normalises(self, sizes: Sizes) -> Finding | None:
        """Without a softmax or a quotient, weights that depend on the input do not sum to one."""
        inside = look_inside(self.layer, sizes)
        if isinstance(inside, str) or inside.normalises or self._is_affine():
            return None
        where = "the code has neither a softmax nor a division by a sum"
        return self.finding("weights_not_normalised", where, self.layer.inputs(sizes))

    def used_weights(self, sizes: Sizes) -> Finding | None:
        """The tensors by which values are multiplied sum to one over the keys."""
        inside = look_inside(self.layer, sizes)
        for weights in inside.used if isinstance(inside, Inside) else ():
            values, axis = weights.values.detach(), weights.key_axis
            if axis is None:
                continue
            sums = values.sum(dim=axis)
            sums = sums[sums != 0]  # a query from which all keys are hidden
            if len(sums) and float((sums - 1).abs().max()) > max(1e-4, self.tolerance):
                where = f"the weights of shape {tuple(values.shape)} sum to {float(sums[0]):.4g} over the keys"
                return self.finding("weights_not_normalised", where, self.layer.inputs(sizes))
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
        more = self._more_keys(sizes)
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

    def _more_keys(self, sizes: Sizes) -> int:
        """A larger number of keys that no other size equals."""
        return next(n for n in itertools.count(sizes.keys + 2) if n not in {*sizes, *self.layer.taken})

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
        """The weights depend on the query and on the keys."""
        for name, test in (("keys", self.other_keys), ("query", self.other_queries)):
            ignored = test()
            if isinstance(ignored, str):
                self.report.skip(name, ignored)
                continue
            self.report.done(name)
            if ignored:
                where = f"another {name} gives the same weights"
                fault = "keys_ignored" if name == "keys" else "query_ignored"
                self.report.add(self.finding(fault, where, self.layer.inputs(self.sizes)))

    def other_keys(self) -> bool | str:
        """Whether other keys give the same weights; a text if that cannot be judged."""
        if any(isinstance(part, LocationScore) for part in self.layer.subject.parts):
            return "by definition, a location score does not depend on the keys"
        if self.layer.is_self:
            return self._ignored_in_scores(is_query=False)
        return self._weights_stay(lambda call, other: (call[0], other[1], call[2]))

    def other_queries(self) -> bool | str:
        """Whether other queries give the same weights; a text if that cannot be judged."""
        if self.layer.is_self:
            return self._ignored_in_scores(is_query=True)
        return self._weights_stay(lambda call, other: (other[0], call[1], call[2]))

    def _weights_stay(self, change: Callable[[Call, Call], Call]) -> bool | str:
        call, other = self.layer.inputs(self.sizes), self.layer.inputs(self.sizes, seed=1)
        changed = change(call, other)
        returned = [self.layer(*each).weights for each in (call, changed)]
        if returned[0] is not None and returned[1] is not None:
            return not self.differs(returned[0], returned[1])
        if isinstance(self.inside, Inside) and self.inside.normalised:
            leaf = self.inside.inputs[1 if changed[0] is call[0] else 0]
            slopes = [
                torch.autograd.grad(
                    (part.values * noise(part.values)).sum(), leaf, retain_graph=True, allow_unused=True
                )
                for part in self.inside.normalised
            ]
            return all(slope[0] is None or float(slope[0].abs().max()) < TOLERANCE for slope in slopes)
        if self.layer.has_value:
            return not self.differs(*(self.layer(*each).context for each in (call, changed)))
        return "the weights cannot be recorded"

    def _ignored_in_scores(self, is_query: bool) -> bool | str:
        if isinstance(self.inside, str):
            return self.inside
        seen = []
        for weights in self.inside.normalised:
            for _, key, entry in entries_of(weights, self.sizes, True):
                positions = positions_of(entry, self.inside.inputs[0])
                seen.append(bool(positions - {key}) if is_query else key in positions)
        return not any(seen) if seen else "the scores of single keys were not recognised"

    # Masks.

    def padding(self) -> None:
        layer, report = self.layer, self.report
        if layer.padding is None and not layer.has("lengths"):
            report.skip("padding", "it takes no mask of padding" if not layer.has("mask") else "no padding mask worked")
            return
        report.assumed.append(f"mask of padding: {layer.padding or 'lengths'}")
        tests = [self.padding_at(), *(self.padding_at(12.0, seed) for seed in (0, 2, 4))]  # large: is a mask too weak?
        if layer.padding is not None and layer.is_self and not self._sees_later():
            tests.append(self.padding_at(left=True))  # padding on the right is in the future
        for test in (self.mask_of_another_row, *tests, self.more_padding, self.returned_weights, self.real_keys):
            if report.add(self.smallest(test)):
                break
        report.done("padding")
        report.done("real positions")

    def mask_of_another_row(self, sizes: Sizes) -> Finding | None:
        """The mask of one row does not act on another."""
        if sizes.rows < 2 or sizes.keys < 2:
            return None
        inputs = self.layer.inputs(sizes)
        every = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
        for row in (0, sizes.rows - 1):
            real = every.clone()
            real[row, -1] = False
            others = [other for other in range(sizes.rows) if other != row]
            first, second = (self.layer(*inputs, allowed).context[others] for allowed in (every, real))
            if self.differs(first, second):
                where = f"the mask of row {row} changes the output of another row"
                return self.finding("padding_attended", where, (*inputs, every), (*inputs, real))
        return None

    def more_padding(self, sizes: Sizes) -> Finding | None:
        """More padding changes nothing: padding whose content is removed may still have weight."""
        if any(test(self.sizes) for test in self._tests_of_sums()):
            return None  # more keys then change the output also if none of them is padding
        query, key, value = self.layer.inputs(sizes)
        total = self._more_keys(sizes)
        _, more_key, more_value = self.layer.inputs(sizes._replace(queries=total, keys=total), seed=1)
        longer_key = torch.cat([key, more_key[:, sizes.keys :]], dim=1)
        longer_value = torch.cat([value, more_value[:, sizes.keys :]], dim=1)
        real = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
        more = functional.pad(real, (0, total - sizes.keys))
        call = (query, key, value, real), (longer_key if self.layer.is_self else query, longer_key, longer_value, more)
        first = self.layer(*call[0]).context
        try:
            second = self.layer(*call[1]).context[:, : first.shape[1]]
        except Exception:  # it cannot take more keys
            return None
        if not self.differs(first, second):
            return None
        return self.finding("padding_attended", "the output changes when more padding follows", *call)

    def returned_weights(self, sizes: Sizes) -> Finding | None:
        """The returned weights of hidden keys are zero."""
        if sizes.keys < 2:
            return None
        inputs = self.layer.inputs(sizes)
        real = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
        real[:, -1] = False
        returned, plain = (self.layer(*inputs, allowed).weights for allowed in (real, None))
        if returned is None or plain is None or not normalised_axes(plain):
            return None  # it returns something else, such as the scores
        axes = [axis for axis, size in enumerate(returned.shape) if size == sizes.keys]
        hidden = returned.select(axes[-1], -1)
        if self.layer.is_self and len(axes) > 1:
            hidden = hidden.narrow(axes[-2], 0, sizes.queries - 1)
        if float(hidden.abs().max()) <= self.tolerance:
            return None
        where = "the returned weights of hidden keys are not zero; are they taken before the mask?"
        return self.finding("padding_attended", where, (*inputs, real))

    def _sees_later(self) -> bool:
        return bool(self._influence(self.sizes, False, None).triu(diagonal=1).any())

    def padding_at(self, size: float = 1.0, seed: int = 0, left: bool = False) -> Test:
        """The test that padding has no influence, with inputs of this size: large scores show a weak mask."""

        def test(sizes: Sizes) -> Finding | None:
            query, key, value = self.layer.inputs(sizes, seed, size)
            _, other_key, other_value = self.layer.inputs(sizes, seed + 1, size)
            real = hidden_keys(sizes) if sizes.rows > 1 else torch.arange(sizes.keys)[None] < sizes.keys - 1
            real = real.flip(1) if left else real
            changed_key = torch.where(real[..., None], key, other_key)
            changed_value = torch.where(real[..., None], value, other_value)
            changed_query = changed_key if self.layer.is_self else query
            call, changed = (query, key, value, real), (changed_query, changed_key, changed_value, real)
            first, second = self.layer(*call).context, self.layer(*changed).context
            shown = real if self.layer.is_self else torch.ones(first.shape[:2], dtype=torch.bool)
            first, second = first[shown], second[shown]
            is_broken = not bool(torch.isfinite(first).all()) or float(first.abs().max()) > 1e6 * max(1.0, size)
            if (is_broken and size > 1) or (not is_broken and not self.differs(first, second)):
                return None
            name = "padding_attended"
            if size == 1.0:
                name = self._fault_of_mask(sizes, real, is_broken, name)
            rows = [int(row) for row in (~real).any(dim=1).nonzero().flatten()]
            where = f"rows {rows} have padding, and their output changes with its content"
            if is_broken:
                where = "with a mask of padding the output is not finite, or above a million"
            elif size > 1:
                where += " (for large scores: the additive mask is too weak)"
            return self.finding(name, where, call, changed)

        return test

    def _fault_of_mask(
        self,
        sizes: Sizes,
        real: Tensor,
        is_broken: bool,
        otherwise: str,
        causal: bool = False,
        allowed: Tensor | None = None,
        with_mask: bool = True,
    ) -> str:
        """Whether the softmax saw masked keys whose weights were removed after it."""
        query, key, value = self.layer.inputs(sizes)
        if not causal and self.layer.has_value and not is_broken:
            other = self.layer.inputs(sizes, seed=1)[2]
            changed = torch.where(real[..., None], value, other)
            first, second = (self.layer(query, key, part, real).context for part in (value, changed))
            if not self.differs(first, second):
                return "mask_after_softmax"
        if not causal:
            allowed = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
            allowed[:, -1] = False
        inside = look_inside(self.layer, sizes, allowed, causal and with_mask)
        if isinstance(inside, Inside) and inside.normalised:
            weights = inside.normalised[0]
            sees_hidden = _at_hidden(weights, weights.values.detach(), self.layer.is_self, causal)
            if sees_hidden is None or float(sees_hidden.abs().min()) < 1e-12:
                return "not_finite" if is_broken else otherwise
            if is_broken:
                return "mask_after_softmax"
            slopes = weights.slopes[:-1] if self.layer.is_self and not causal else weights.slopes
            slope = torch.stack(slopes).abs().sum(dim=0)
            at_hidden = _at_hidden(weights, slope, self.layer.is_self, causal, not causal)
            if at_hidden is not None and float(at_hidden.abs().max()) < 1e-12:
                return "mask_after_softmax"
            return otherwise
        returned = self.layer(query, key, value, allowed, causal and with_mask).weights
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
        seen = self._influence(self.sizes, False, None)
        built_in = not bool(seen.triu(diagonal=1).any())
        by_mask = layer.pairs is not None and not built_in
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
            if report.add(self.smallest(self.future_with(with_mask, mask))):
                break
        report.done("future")
        return None

    def _influence(self, sizes: Sizes, with_mask: bool, allowed: Tensor | None) -> Tensor:
        """(T, S): whether the output of a position depends on a position of the input, in rows without padding."""
        inputs = self.layer.inputs(sizes)[0]
        other = self.layer.inputs(sizes, seed=1)[0]
        before = self.layer(inputs, inputs, inputs, allowed, with_mask).context
        seen = torch.zeros(sizes.keys, sizes.keys, dtype=torch.bool)
        real = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool) if allowed is None else allowed
        for position in range(sizes.keys):
            changed = inputs.clone()
            changed[:, position] = other[:, position]
            after = self.layer(changed, changed, changed, allowed, with_mask).context
            for place in range(sizes.keys):
                shown = real[:, place]
                seen[place, position] = self.differs(before[shown, place], after[shown, place])
        return seen

    def future_with(self, with_mask: bool, mask: Callable[[Sizes], Tensor | None]) -> Test:
        """The test that no position sees a later one, with a mask of padding."""

        def test(sizes: Sizes) -> Finding | None:
            allowed = mask(sizes)
            seen = self._influence(sizes, with_mask, allowed)
            leaks = seen.triu(diagonal=1).nonzero()
            inputs = self.layer.inputs(sizes)[0]
            call = (inputs, inputs, inputs, allowed, with_mask)
            if not len(leaks):
                return None
            place, position = leaks[0].tolist()
            changed = inputs.clone()
            changed[:, position] = self.layer.inputs(sizes, seed=1)[0][:, position]
            everything = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
            name = self._fault_of_mask(sizes, everything, False, "future_leaked", True, allowed, with_mask)
            where = f"the output of position {place} changes with the input of position {position}"
            where += "" if allowed is None else ", with a mask of padding"
            return self.finding(name, where, call, (changed, changed, changed, allowed, with_mask))

        return test

    def own_position(self, sizes: Sizes) -> Finding | None:
        """A position attends to itself, also with a causal mask."""
        if not self.layer.is_self:
            return None
        inputs = self.layer.inputs(sizes)
        call = (*inputs, None, self.layer.pairs is not None)
        inside = look_inside(self.layer, sizes, causal=call[4])
        for weights in inside.normalised if isinstance(inside, Inside) else ():
            if weights.key_axis is None or weights.query_axis is None:
                continue
            diagonal = weights.values.detach().diagonal(dim1=weights.query_axis, dim2=weights.key_axis)
            if diagonal.shape[-1] >= 2 and not bool(diagonal[..., 1:].any()):
                return self.finding("real_positions_masked", "no position attends to itself", call)
        return None


def _sums_to(weights: Tensor, total: float) -> bool:
    return bool(((weights.detach().sum(dim=-1) - total).abs() < 1e-5).all())


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
