"""The properties of a decoder that works step by step.

They are those of a whole model, step by step and by teacher forcing; the influence of the source; the same logits both
ways; the reordering of beams; a state that is not changed in place.

Dimensions: B batch, T target length, S source length, V vocabulary.
"""

import copy
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from .model import Model
from .model_checks import check_model
from .report import Finding, Report
from .step_functions import DecoderFunctions
from .subject import DEEP_TOLERANCE, largest_difference, tensors_of
from .tracing import Trace

ROWS, LENGTH, SOURCE_LENGTH = 3, 5, 4
OF_MODEL = ("dropout in eval mode", "softmax axis", "batch", "padding", "future", "real positions")
Inputs = tuple[Tensor, Tensor | None, Tensor | None]


def check_decoder(report: Report, decoder: DecoderFunctions, mask: str | None, causal: bool) -> None:
    """Check a decoder of functions.

    Raises:
        CannotCallError: it cannot be called.
    """
    ways = decoder.ways(mask)
    stepped = ways["step by step"]
    if not _check_finite(report, ways):
        return
    _check_ways(report, ways, decoder.pad is not None, causal)
    if decoder.kind == "language_model":
        report.skip("padding", "start takes no source")
    elif not stepped.knows_padding and decoder.pad is None:
        report.skip("padding", "start takes neither a mask nor lengths; if it finds padding by its id, pass pad=...")
    check_steps(report, decoder, ways)


def check_steps(report: Report, decoder: DecoderFunctions, ways: dict[str, Model]) -> None:
    """Check the state, its reordering, and that both ways give the same logits."""
    blind = _blinding(report)
    is_random = "dropout_in_eval" in report.names and _is_random(ways)
    reason = f"cannot be judged until {'dropout_in_eval' if is_random else blind} is repaired"
    if is_random:
        report.skip("state left as it was", reason)
    is_padded = _is_hidden(report, ways)
    mode = Trace(without_dropout=True) if "dropout_in_eval" in report.names else nullcontext()
    with torch.no_grad(), mode:
        in_place = not is_random and _check_in_place(report, decoder, ways["step by step"])
        if decoder.whole is None:
            report.skip("step equals teacher forcing", "pass the function whole to check it")
            report.skip("future", "pass the function whole to check it")
        elif is_random or blind:
            report.skip("step equals teacher forcing", reason)
        elif "future_leaked" in report.names:
            report.skip("step equals teacher forcing", "cannot be judged until future_leaked is repaired")
        elif in_place:
            report.skip("step equals teacher forcing", "cannot be judged until cache_changed_in_place is repaired")
        else:
            _check_whole(report, ways, is_padded)
        if decoder.reorder is None:
            report.skip("beams", "pass the function reorder to check it")
        elif is_random or blind:
            report.skip("beams", reason)
        else:
            _check_reorder(report, decoder, ways["step by step"], is_padded)


def _inputs(model: Model, rows: int, length: int, is_padded: bool = False, seed: int = 0, same: int = 1) -> Inputs:
    """A source, its real words, and a target, of which ``same`` rows each have the same source, as beams have it; of a
    language model, the target in place of a source.
    """
    if model.kind == "language_model":
        return model.draw(rows, length, seed), None, None
    number = -(-rows // same)
    source = model.draw(number, SOURCE_LENGTH, seed + 5)
    lengths = SOURCE_LENGTH - torch.arange(number) % 3 * is_padded
    real = torch.arange(SOURCE_LENGTH) < lengths[:, None]
    source, real = (part.repeat_interleave(same, dim=0)[:rows] for part in (model.padded(source, real), real))
    return source, real, model.draw(rows, length, seed)


def _given(model: Model, inputs: Inputs) -> dict[str, Tensor]:
    return {name: part for name, part in model.arguments(*inputs).items() if isinstance(part, Tensor)}


def _begin(decoder: DecoderFunctions, model: Model, inputs: Inputs) -> Any:
    """The state before the first token."""
    given = model.arguments(*inputs) if decoder.kind == "encoder_decoder" else {}
    return decoder.begin(len(inputs[0]), **given)


def _is_hidden(report: Report, ways: dict[str, Model]) -> bool:
    """Whether all ways know of padding, and hide it."""
    is_known = all(model.knows_padding for model in ways.values())
    return is_known and not any(finding.broken == "padding" for finding in report.findings)


def _blinding(report: Report) -> str:
    """The name of a finding that makes results differ in many ways, or ""."""
    return next((name for name in ("batch_mixed", "softmax_wrong_axis") if name in report.names), "")


def _is_random(ways: dict[str, Model]) -> bool:
    """Whether a result depends on random numbers although dropout is off."""
    found = ([model.main(*_inputs(model, ROWS, LENGTH), seed=seed) for seed in (1, 2)] for model in ways.values())
    return any(largest_difference(*pair) > DEEP_TOLERANCE for pair in found)


def _check_finite(report: Report, ways: dict[str, Model]) -> bool:
    report.done("finite output")
    for way, model in ways.items():
        inputs = _inputs(model, ROWS, LENGTH)
        if not bool(torch.isfinite(model.main(*inputs)).all()):
            report.add(Finding("not_finite", f"{way}, for random input without padding", _given(model, inputs)))
            for check in (*OF_MODEL, "state left as it was", "step equals teacher forcing", "beams"):
                report.skip(check, "cannot be judged until not_finite is repaired")
            return False
    return True


def _check_ways(report: Report, ways: dict[str, Model], knows_id: bool, causal: bool) -> None:
    """The properties of a whole model. One is checked if it could be judged in every way."""
    parts = {way: Report(report.subject, report.kind) for way in ways}
    for way, model in ways.items():
        check_model(parts[way], model, causal and way == "by teacher forcing")
        for finding in parts[way].findings:
            if finding.broken != "padding" or model.knows_padding or knows_id:
                report.add(replace(finding, where=f"{way}: {finding.where}"))
    report.assumed += parts["step by step"].assumed
    parts["step by step"].not_checked.pop("future")  # a step knows no later token
    for part in parts.values():
        for check, reason in part.not_checked.items():
            report.skip(check, reason)
    for way, part in parts.items():
        for check in part.checked:
            is_known = check != "padding" or ways[way].knows_padding or knows_id
            if is_known and check not in report.not_checked:
                report.done(check)


def _check_in_place(report: Report, decoder: DecoderFunctions, model: Model) -> bool:
    """A step must not change the state that it received: the tensors must stay, and a second step from it must give the
    same result. Return whether it changes a container, so that later steps from it differ.

    A cache of Transformers grows by design; of it only the tensors are compared.
    """
    report.done("state left as it was")
    for length in range(LENGTH - 1):
        inputs = _inputs(model, 2, length + 1)
        target = inputs[0] if inputs[2] is None else inputs[2]
        tokens = target[:, length]
        _, state = decoder.run(target[:, :length], _begin(decoder, model, inputs))
        if state is None:
            continue
        held = tensors_of(state)
        before = [part.clone() for part in held]
        grows = any(isinstance(part, Cache) for part in (state, *(state if isinstance(state, tuple | list) else ())))
        grows = grows or (isinstance(state, dict) and any(isinstance(part, Cache) for part in state.values()))
        first, _ = decoder.next(tokens, copy.deepcopy(state))
        once = copy.deepcopy(state) if grows else state
        held = tensors_of(once) if grows else held
        decoder.next(tokens, once)
        changed = [i for i, (old, new) in enumerate(zip(before, held, strict=True)) if not torch.equal(old, new)]
        where = ""
        if changed:
            where = f"tensor {changed[0]} of the state, at step {length}"
        elif not grows and largest_difference(first, decoder.next(tokens, state)[0]) > DEEP_TOLERANCE:
            where = f"the same step from the same state gives other logits the second time, at step {length}"
        if where:
            given = {"tokens": tokens, **{f"state {i}": part for i, part in enumerate(before)}}
            report.add(Finding("cache_changed_in_place", where, given))
            return isinstance(state, dict | list)
    return False


def _check_whole(report: Report, ways: dict[str, Model], is_padded: bool) -> None:
    """Both ways give the same logits, for sources with and without padding."""
    report.done("step equals teacher forcing")
    for rows, length in ((1, 1), (1, 2), (1, 3), (2, 2), (ROWS, LENGTH)):
        for with_padding in (False, True) if is_padded and rows > 1 else (False,):
            calls = {way: _inputs(model, rows, length, with_padding) for way, model in ways.items()}
            step, whole = (ways[way].main(*inputs) for way, inputs in calls.items())
            for position in range(length):
                if largest_difference(step[:, position], whole[:, position]) > DEEP_TOLERANCE:
                    where = f"the logits of position {position} of {length}" + ", with padding" * with_padding
                    given = _given(ways["step by step"], calls["step by step"])
                    report.add(Finding("step_differs", where, given))
                    return


def _check_reorder(report: Report, decoder: DecoderFunctions, model: Model, is_padded: bool) -> None:
    """After a reorder, every row continues its new prefix; the beams of a sentence have the same source."""
    assert decoder.reorder is not None
    report.done("beams")
    for beams, order in ((2, [1, 0]), (2, [1, 1]), (3, [2, 0, 0]), (2, [1, 0, 2, 3]), (2, [1, 1, 3, 2])):
        index = torch.tensor(order)
        for length in (1, 2, 3):
            inputs = _inputs(model, len(order), length + 2, is_padded, same=beams)
            target = inputs[0] if inputs[2] is None else inputs[2]
            prefix, after = target[:, :length], target[:, length:]
            _, state = decoder.run(prefix, _begin(decoder, model, inputs))
            made = decoder.reorder(state, index)
            continued, _ = decoder.run(after, state if made is None else made)
            expected, _ = decoder.run(torch.cat([prefix[index], after], dim=1), _begin(decoder, model, inputs))
            for position, logits in enumerate(continued, start=length):
                if largest_difference(logits, expected[position]) > DEEP_TOLERANCE:
                    where = f"after {length} tokens and the order {order}, the logits of step {position}"
                    given = {"prefix": prefix, "order": index, "after": after}
                    report.add(Finding("beam_not_reordered", where, given))
                    return
