"""The properties of a whole model: padding, the future, the batch, dropout, its steps and its loss.

Dimensions: B batch, T target length, S source length, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .model import LENGTH, TARGET_LENGTH, Model
from .report import OTHER_MASK, OTHER_ORDER, OTHER_PLACE, PADDING_READ, Finding, Report
from .subject import DEEP_TOLERANCE, first_line, largest_difference
from .tracing import Trace, normalised_axes
from .word_checks import check_padded_words, check_words

ROWS = 5  # 5 rows, since a state is unlikely to have 5 layers or directions


def check_model(report: Report, model: Model, causal: bool) -> None:
    """Check an encoder, a language model (``causal``) or an encoder-decoder."""
    checker = _Checker(report, model)
    for check in ("scale", "sum of the weights"):
        report.skip(check, "it is judged in layers, and not in whole models; check the layers")
    if model.vocabulary:
        report.assumed.append(f"ids below {model.vocabulary}, padding is {model.pad}")
    if model.mask is not None:
        report.assumed.append(f"mask of padding: {model.mask}")
    if model.target_mask is not None:
        report.assumed.append(f"causal mask: {model.target_mask}")
    if not checker.finite():
        return
    checker.dropout()
    if checker.axis():
        return
    checker.batch()
    check_words(report, model)
    if causal:
        checker.future()
    else:
        reason = "an encoder may see every position"
        report.skip("future", reason if model.kind == "encoder" else "causal=False asks for no check of it")
    causes = ["batch_mixed", "real_positions_masked"]
    if model.kind == "language_model":  # its padding is in the future of its words
        causes.append("future_leaked")
    causes = [name for name in causes if name in report.names]
    if causes:
        report.skip("padding", f"cannot be judged until {causes[0]} is repaired")
    else:
        checker.padding()
        check_padded_words(report, model)


class _Checker:
    def __init__(self, report: Report, model: Model) -> None:
        self.report, self.model = report, model

    def target(self, rows: int, length: int = TARGET_LENGTH, seed: int = 1) -> Tensor | None:
        return self.model.draw(rows, length, seed) if self.model.kind == "encoder_decoder" else None

    def differs(self, first: Tensor, second: Tensor) -> bool:
        return largest_difference(first, second) > DEEP_TOLERANCE

    def given(self, *call: Any) -> dict[str, Tensor]:
        return {name: part for name, part in self.model.arguments(*call).items() if isinstance(part, Tensor)}

    def finite(self) -> bool:
        call = self.model.draw(3, LENGTH), None, self.target(3)
        self.report.done("finite output")
        if bool(torch.isfinite(self.model.main(*call)).all()):
            return True
        self.report.add(Finding("not_finite", "for random input without padding", self.given(*call)))
        for check in ("dropout in eval mode", "softmax axis", "batch", "padding", "real positions", "future"):
            self.report.skip(check, "cannot be judged until not_finite is repaired")
        return False

    def dropout(self) -> None:
        for rows, length in ((1, 2), (3, LENGTH)):
            call = self.model.draw(rows, length), None, self.target(rows)
            first = self.model.main(*call, seed=1)
            if any(self.differs(first, self.model.main(*call, seed=seed)) for seed in range(2, 6)):
                where = "two calls in eval mode with the same input give different outputs"
                self.report.add(Finding("dropout_in_eval", where, self.given(*call)))
                self.model.subject.without_dropout = True
                break
        self.report.done("dropout in eval mode")

    def axis(self) -> bool:
        """Whether some weights with an axis of source positions are normalised over another sequence or the batch."""
        rows = 3
        call = self.model.draw(rows, LENGTH), None, self.target(rows)
        trace = Trace(without_dropout=True)
        if not all(weight.requires_grad for module in self.model.subject.modules for weight in module.parameters()):
            self.report.skip("softmax axis", "its weights have no gradient")
            return False
        self.model.call(*call, trace=trace)
        for _, event in trace.weights():
            if not event.is_softmax or LENGTH not in event.result.shape:
                continue
            shape, axes = tuple(event.result.shape), normalised_axes(event.result.detach())
            is_single = not axes and bool((event.result == 1).all())
            if is_single or (axes and all(shape[axis] in (rows, TARGET_LENGTH) for axis in axes)):
                what = f"sum to one over axis {axes[0]}" if axes else "are all 1, since each is normalised alone"
                where = f"weights of shape {shape} {what}, but the source has length {LENGTH}"
                self.report.add(Finding("softmax_wrong_axis", where, self.given(*call)))
                for check in ("batch", "padding", "real positions", "future"):
                    self.report.skip(check, "cannot be judged until softmax_wrong_axis is repaired")
                return True
        self.report.done("softmax axis")
        return False

    def batch(self) -> None:
        for rows in (2, 3):
            target = self.target(rows)
            call = self.model.draw(rows, LENGTH), None, target
            other = torch.cat([call[0][:1], self.model.draw(rows, LENGTH, seed=2)[1:]])
            changed = (
                None if target is None else torch.cat([target[:1], self.model.draw(rows, TARGET_LENGTH, seed=3)[1:]])
            )
            first = self.model.main(*call)
            turned = call[0].flip(0), None, None if target is None else target.flip(0)
            if self.differs(first[0], self.model.main(other, None, changed)[0]):
                where = "the output of row 0 changes when the other rows change"
                self.report.add(Finding("batch_mixed", where, self.given(*call), self.given(other, None, changed)))
                break
            if self.differs(first.flip(0), self.model.main(*turned)):
                where = "the output of a row changes with its place in the batch"
                self.report.add(Finding("batch_mixed", where, self.given(*call), self.given(*turned), OTHER_PLACE))
                break
        else:
            self.batch_of_lengths()
        self.report.done("batch")

    def batch_of_lengths(self) -> None:
        """Rows of other lengths, which code may sort, do not influence each other, either."""
        model = self.model
        if not model.vocabulary and not model.knows_padding:
            return
        lengths = [LENGTH - 3, LENGTH, LENGTH - 2, LENGTH - 1, LENGTH]  # the first one is the shortest
        real, target = torch.arange(LENGTH) < torch.tensor(lengths)[:, None], self.target(ROWS)
        source = model.draw(ROWS, LENGTH)
        other = torch.cat([source[:1], model.draw(ROWS, LENGTH, seed=2)[1:]])
        calls = [(model.padded(part, real), real, target) for part in (source, other)]
        try:
            first, second = (model.outputs(*call) for call in calls)
        except Exception:  # code that takes rows in the order of their lengths alone; the check of padding tells it
            return
        shown = lengths[0] if target is None else TARGET_LENGTH
        pairs = [(part[0, :shown], again[0, :shown]) for part, again in zip(first[0], second[0], strict=True)]
        names = ["output"] * len(pairs) + ["state"] * len(first[1])
        pairs += [(part[0], again[0]) for part, again in zip(first[1], second[1], strict=True)]
        for name, (part, again) in zip(names, pairs, strict=True):
            is_finite = bool(torch.isfinite(part).all() and torch.isfinite(again).all())  # if not, padding is the cause
            if is_finite and self.differs(part, again):
                where = f"in a batch of the lengths {lengths} the {name} of row 0 changes when the other rows change"
                is_recurrent = any(isinstance(each, nn.RNNBase) for each in model.subject.parts)
                given, changed = (self.given(*call) for call in calls)
                self.report.add(Finding("batch_mixed", where, given, changed, OTHER_ORDER if is_recurrent else ""))
                return

    def padding(self) -> None:
        model = self.model
        if not model.vocabulary and not model.knows_padding:
            return self.report.skip("padding", "it takes vectors, but neither a mask nor lengths")
        for length, padding in ((1, 1), (2, 1), (LENGTH - 3, 3)):
            try:
                if self._padding(length, padding):
                    break
            except Exception as error:
                if length > 2:
                    self.report.skip("padding", f"a padded batch raises {first_line(error)}")
                    return None
        self.report.done("padding")
        return None

    def _padding(self, length: int, padding: int) -> bool:
        """Compare a sentence alone with the same sentence padded in a batch with a longer one."""
        model, full = self.model, length + padding
        source = model.draw(ROWS, full)
        real = torch.ones(ROWS, full, dtype=torch.bool)
        real[1, length:] = False
        target = self.target(ROWS)
        alone = source[1:2, :length], real[1:2, :length], None if target is None else target[1:2]
        call = model.padded(source, real), real, target
        over_time, states = model.outputs(*call)
        alone_time, alone_states = model.outputs(*alone)
        shown = length if target is None else TARGET_LENGTH
        time_differs = any(
            self.differs(part[1, :shown], other[0, :shown]) for part, other in zip(over_time, alone_time, strict=False)
        )
        state_differs = any(self.differs(part[1], other[0]) for part, other in zip(states, alone_states, strict=False))
        if not time_differs and not state_differs:
            return False
        if not all(bool(torch.isfinite(part[1, :shown]).all()) for part in over_time):
            where = f"row 1 has {length} tokens and {padding} of padding, and the output of its tokens is not finite"
            self.report.add(Finding("not_finite", where, self.given(*call)))
            return True
        names = self._cause(alone, call, state_differs)
        where = f"row 1 has {length} tokens and {padding} of padding; without the padding its "
        where += "state" if state_differs and not time_differs else "output"
        for name in names:
            advice = self._advice(source, call) if name == "padding_attended" else ""
            self.report.add(Finding(name, f"{where} differs", self.given(*call), self.given(*alone), advice))
        return True

    def _advice(self, source: Tensor, call: tuple[Any, ...]) -> str:
        """Advice on padding in row 1, where the usual one, on a softmax, does not fit."""
        _, real, target = call
        plain, _ = self.model.outputs(source, torch.ones_like(real), target)
        padded, _ = self.model.outputs(*call)
        if any(self.differs(part[2:], other[2:]) for part, other in zip(plain, padded, strict=True)):
            return OTHER_MASK
        trace = Trace(without_dropout=True)
        self.model.call(*call, trace=trace)
        return PADDING_READ if next(trace.weights(), None) is None else ""

    def _cause(self, alone: Any, call: Any, state_differs: bool) -> list[str]:
        """The fault that lets padding through, found by giving the recurrent encoder its results without padding."""
        model = self.model
        row: Any = tuple(None if part is None else part[1:2] for part in call)
        record: list[Any] = []
        with _recurrent(model, record=record):
            clean = model.outputs(*alone)
        shown = alone[0].shape[1] if alone[2] is None else TARGET_LENGTH

        def is_mended(with_tail: bool) -> tuple[bool, bool]:
            """Whether the output equals the one without padding, and whether it changed at all."""
            length = row[0].shape[1]
            with _recurrent(model, length=length, replay=list(record), with_tail=with_tail) as replaced:
                mended = model.outputs(*row)
            pairs = [(part[0, :shown], other[0, :shown]) for part, other in zip(mended[0], clean[0], strict=False)]
            pairs += [(part[0], other[0]) for part, other in zip(mended[1], clean[1], strict=False)]
            broken = model.outputs(*row)
            both = zip(mended[0] + mended[1], broken[0] + broken[1], strict=True)
            helped = bool(replaced) and any(self.differs(part, other) for part, other in both)
            return helped and not any(self.differs(part, other) for part, other in pairs), helped

        whole, helped = is_mended(with_tail=False)
        if not whole and is_mended(with_tail=True)[0]:  # it reads the last output in place of the state
            whole = helped = True
        names = ["final_state_from_padding"] if helped else []
        if not whole:
            names.append("mask_after_softmax" if self._mask_after(row) else "padding_attended")
            cells = any(isinstance(part, nn.RNNCellBase) for part in model.subject.parts)
            if names == ["padding_attended"] and state_differs and cells:
                names = ["final_state_from_padding"]
        return names

    def _mask_after(self, call: tuple[Any, ...]) -> bool:
        source, real, target = call
        trace = Trace(without_dropout=True)
        over_time, states = self.model.outputs(source, real, target, trace=trace)
        output = (over_time or states)[0]
        output = output[:, : int(real.sum())] if target is None and over_time else output
        for _, event in trace.weights():
            weights, keys = event.result, source.shape[1]
            for axis in (axis for axis in normalised_axes(weights.detach()) if weights.shape[axis] == keys):
                slope = torch.autograd.grad(
                    (output * torch.arange(1.0, output.shape[-1] + 1)).sum(),
                    weights,
                    retain_graph=True,
                    allow_unused=True,
                )[0]
                if slope is None or not bool(slope.any()):
                    continue
                hidden = float(weights.detach().select(axis, -1).abs().max()) > 1e-12
                if hidden and float(slope.select(axis, -1).abs().max()) < 1e-12:
                    return True
        return False

    def future(self) -> None:
        model = self.model
        if not model.outputs(model.draw(1, LENGTH), None, self.target(1))[0]:
            return self.report.skip("future", "it returns no output for each position")
        for length in (2, 3, TARGET_LENGTH):
            source = model.draw(1, LENGTH if model.kind == "encoder_decoder" else length)
            target = self.target(1, length)
            stream = source if target is None else target
            before = model.main(source, None, target)
            for position in range(1, length):
                other = stream.clone()
                other[:, position:] = model.another(stream[:, position:])
                changed = (other, None, None) if target is None else (source, None, other)
                after = model.main(*changed)
                leaks = [t for t in range(position) if self.differs(before[:, t], after[:, t])]
                if leaks:
                    where = f"the output of position {leaks[0]} changes with the input from position {position} on"
                    self.report.add(
                        Finding("future_leaked", where, self.given(source, None, target), self.given(*changed))
                    )
                    self.report.done("future")
                    return
        self.report.done("future")


@contextmanager
def _recurrent(
    model: Model,
    record: list[Any] | None = None,
    length: int = 0,
    replay: list[Any] | None = None,
    with_tail: bool = False,
) -> Iterator[list[Any]]:
    """Record what recurrent modules return, or put earlier results in place of those that ran over padding.

    The outputs on padding stay; ``with_tail`` puts the last real output there.
    """
    replaced: list[Any] = []

    def hook(module: nn.RNNBase, arguments: tuple[Any, ...], result: Any) -> Any:
        inputs = arguments[0]
        if isinstance(inputs, PackedSequence) or inputs.ndim != 3:
            return None
        if record is not None:
            record.append((module, result))
            return None
        axis = 1 if module.batch_first else 0
        if not replay or inputs.shape[axis] != length or replay[0][0] is not module:
            return None
        _, (outputs, state) = replay.pop(0)
        kept = result[0].clone()
        kept.narrow(axis, 0, outputs.shape[axis]).copy_(outputs)
        if with_tail:
            tail = kept.narrow(axis, outputs.shape[axis], length - outputs.shape[axis])
            tail.copy_(outputs.select(axis, -1).unsqueeze(axis).expand_as(tail))
        replaced.append(module)
        return kept, state

    with ExitStack() as stack:
        for module in model.subject.parts:
            if isinstance(module, nn.RNNBase):
                stack.enter_context(module.register_forward_hook(hook))
        yield replaced
