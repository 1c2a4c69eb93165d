"""Every word has influence on the output of a model, and the output at every word depends on some word.

Dimensions: B batch, T target length, S source length.
"""

import torch
from torch import Tensor

from .model import LENGTH, TARGET_LENGTH, Model
from .report import Finding, Report
from .subject import first_line

NAME = "real positions"
TRIES = 8  # sentences: a maximum does not depend on every word of each sentence


def check_words(report: Report, model: Model) -> None:
    """Check the words of sentences without padding."""
    try:
        _check(report, model, torch.ones(3, LENGTH, dtype=torch.bool))
        if model.kind == "encoder_decoder" and "real_positions_masked" not in report.names:
            _check_target(report, model)
    except Exception as error:
        return report.skip(NAME, f"a batch raises {first_line(error)}")
    return report.done(NAME)


def check_padded_words(report: Report, model: Model) -> None:
    """Check the words of sentences with padding, if padding has no influence: its mask may hide words, too."""
    if "padding" in report.not_checked or report.findings:
        return
    _check(report, model, torch.arange(LENGTH) < torch.tensor([LENGTH, LENGTH - 2, LENGTH - 3])[:, None])


def _check(report: Report, model: Model, real: Tensor) -> None:
    silent, constant = real.clone(), real.clone()
    if model.kind == "language_model":  # it may move its input by one position, to predict each word from those before
        silent[torch.arange(len(real)), real.sum(dim=1) - 1] = False
        constant[:, 0] = False
    has_states, states_move = False, False
    for seed in range(TRIES):
        source, target = model.padded(model.draw(len(real), LENGTH, seed), real), _target(model, seed + 1)
        over_time, states = model.outputs(source, real, target)
        states = [state for state in states if LENGTH not in state.shape]  # not masks
        has_states |= bool(states)
        for place in range(LENGTH):
            other = source.clone()
            other[:, place] = model.another(source[:, place : place + 1])[:, 0]
            other = torch.where(real if model.vocabulary else real[..., None], other, source)
            changed, changed_states = model.outputs(other, real, target)
            changed_states = [state for state in changed_states if LENGTH not in state.shape]
            moves = [_moves(*pair) for pair in zip(over_time, changed, strict=True)]
            moves = [each & real for each in moves] if target is None else moves
            of_states = [
                (one != two).reshape(len(one), -1).any(dim=1) for one, two in zip(states, changed_states, strict=True)
            ]
            states_move |= any(map(bool, map(torch.any, of_states)))
            for each in (*(part.any(dim=1) for part in moves), *of_states):
                silent[:, place] &= ~each
            constant &= ~moves[0] if moves and target is None else False
        if not bool(silent.any()) and not bool(constant.any()):
            break
    given = {name: part for name, part in model.arguments(source, real, target).items() if isinstance(part, Tensor)}
    for places, what in (
        (constant, "the output at position {} of row {} is the same for all words"),
        (silent, "the word at position {} of row {} has no influence"),
    ):
        if bool(places.any()):
            row, place = places.nonzero()[0].tolist()
            report.add(Finding("real_positions_masked", what.format(place, row), given))
    same = "a state that is the same for all words is meant to be"
    if model.kind == "encoder" and has_states and not states_move and same not in report.assumed:
        report.assumed.append(same)


def _check_target(report: Report, model: Model) -> None:
    """Check that the target has influence; a decoder that reads the next word may leave out one of its words."""
    source, target = model.draw(3, LENGTH), model.draw(3, TARGET_LENGTH, seed=1)
    if torch.equal(model.main(source, None, target), model.main(source, None, model.another(target))):
        given = {"source": source, "target": target}
        report.add(Finding("real_positions_masked", "no word of the target has influence", given))


def _target(model: Model, seed: int) -> Tensor | None:
    return model.draw(3, TARGET_LENGTH, seed) if model.kind == "encoder_decoder" else None


def _moves(first: Tensor, second: Tensor) -> Tensor:
    """(B, T): where two results differ at all; rounding does not count since it is the same for the same numbers."""
    return (first != second).reshape(*first.shape[:2], -1).any(dim=-1)
