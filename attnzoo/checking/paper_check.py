"""Compare a decoder's step, or an attention alone, with the paper's by their values.

The module's parameters get random values, and zero for the biases, which the papers leave out. They are read as the
paper's weights, by their shapes or as the teacher tells. The step of this package runs with the same weights and
inputs. A quantity agrees if all its numbers were computed in the module, in a tensor of any shape. What the module
returns is compared, too.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .paper_blocks import Parameter
from .paper_calls import Call, Run, call_of, runs
from .paper_comparison import Comparison
from .report import Finding, Report
from .subject import CannotCallError, Subject

CELLS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.GRU: ("r", "z", "h"),
    nn.GRUCell: ("r", "z", "h"),
    nn.LSTM: ("i", "f", "g", "o"),
    nn.LSTMCell: ("i", "f", "g", "o"),
    nn.RNN: ("h",),
    nn.RNNCell: ("h",),
}


def check_beside(report: Report, subject: Subject, paper: str, options: dict[str, Any]) -> None:
    """Compare the values with those of a paper, quantity by quantity, and report the first that differs.

    Raises:
        CannotCallError: it cannot be called.
        OptionError: ``call`` cannot be read.
        ValueError: ``parameters`` names one that the module does not have.
    """
    call = call_of(subject, options["call"])
    told: dict[str, str] = options["parameters"] or {}
    best: Comparison | None = None
    with _drawn(subject, told) as (parameters, zeroed, kept):
        sizes = options["mask"], options["width"], options["vocab_size"]
        _check_dropout(report, subject, call, next(runs(subject, call, *sizes)))
        seen: list[list[Tensor]] = []  # what was returned before; another layout or mask may make no difference
        judged: list[tuple[str, ...]] = []  # layouts whose fault is not in the attention: masks make no difference
        for run in runs(subject, call, *sizes):
            if run.layout in judged or any(_same(run.outputs, outputs) for outputs in seen):
                continue
            seen.append(run.outputs)
            found = Comparison(run, call, paper, parameters, told)
            with torch.no_grad():
                found.compare(_embedded(subject, run, told))
            if best is None or found.rank > best.rank:
                best = found
            if found.is_complete:
                break
            if not {"scores", "alignment", "context"} & found.open:
                judged.append(run.layout)
    assert best is not None
    _write(report, best)
    if zeroed:
        report.assumed.append(f"biases, which the paper leaves out, are 0: {', '.join(zeroed)}")
    kept = [name for name in kept if name not in best.notes]
    if kept:
        report.assumed.append(f"numbers, which the paper leaves out, keep their values: {', '.join(kept)}")
    tables = {id(part.weight) for part in subject.parts if isinstance(part, nn.Embedding)}
    known = {name for module in subject.modules for name, part in module.named_parameters() if id(part) in tables}
    read = {*best.notes, *known, *kept}
    unread = [each.name for each in parameters if each.name not in read and each.values.ndim > 1]
    if unread and best.wrong is None:
        report.assumed.append(f"not a part of what was compared: {', '.join(unread)}")


def _same(first: list[Tensor], second: list[Tensor]) -> bool:
    """Whether the tensors are equal; NaN equals NaN."""
    return len(first) == len(second) and all(
        torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(first, second, strict=True)
    )


def _check_dropout(report: Report, subject: Subject, call: Call, run: Run) -> None:
    for seed in range(1, 5):
        subject.seed = seed
        other = run.again()
        if not _same(run.outputs, other.outputs):
            where = "two calls in eval mode with the same input give different outputs"
            inputs = {name: part for name, part in run.inputs.items() if name in call.roles}
            report.add(Finding("dropout_in_eval", where, inputs))
            subject.without_dropout = True
            break
    subject.seed = 0
    report.done("dropout in eval mode")


@contextmanager
def _drawn(subject: Subject, told: Mapping[str, str]) -> Iterator[tuple[list[Parameter], list[str], list[str]]]:
    """Give random values to all parameters and zero to biases; restore them afterwards.

    A parameter of one number keeps its value: at the start, a temperature is 1, and the step is the paper's. Yields the
    parameters that may be the paper's weights, and the names of the biases and of those of one number.

    Raises:
        ValueError: ``told`` names a parameter that the module does not have.
        CannotCallError: a recurrent layer is not one layer in one direction.
    """
    gates: dict[int, tuple[str, ...]] = {}
    for part in subject.parts:
        if isinstance(part, nn.RNNBase) and (part.num_layers > 1 or part.bidirectional):
            raise CannotCallError("a step is compared with one recurrent layer in one direction; make the module so")
        for name, parameter in part.named_parameters(recurse=False):
            if type(part) in CELLS and name.startswith("weight"):
                gates[id(parameter)] = CELLS[type(part)]
    several = len(subject.modules) > 1
    named = {
        f"{number}.{name}" if several else name: parameter
        for number, module in enumerate(subject.modules)
        for name, parameter in module.named_parameters()
    }
    unknown = sorted(told.keys() - named.keys())
    if unknown:
        raise ValueError(f"parameters names {unknown[0]!r}, but the module has {', '.join(named)}")
    before = {name: parameter.detach().clone() for name, parameter in named.items()}
    generator = torch.Generator().manual_seed(1)
    zeroed: list[str] = []
    kept: list[str] = []
    try:
        for name, parameter in named.items():
            if _is_bias(name, parameter) and name not in told:
                zeroed.append(name)
                parameter.data.zero_()
            elif parameter.numel() == 1:
                kept.append(name)
            else:
                parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
        found = [
            Parameter(name, parameter.detach(), gates.get(id(parameter), ()))
            for name, parameter in named.items()
            if name not in zeroed and parameter.ndim in (1, 2)
        ]
        yield found, zeroed, kept
    finally:
        for name, parameter in named.items():
            parameter.data.copy_(before[name])


def _is_bias(name: str, parameter: Tensor) -> bool:
    """Whether it is a vector called ``bias``, ``b``, ``b_z`` or the like."""
    return name.rpartition(".")[2].lower().startswith("b") and parameter.numel() == max(parameter.shape, default=0)


def _embedded(subject: Subject, run: Run, told: Mapping[str, str]) -> Tensor | None:
    """The embedding of the token, if the step takes a token."""
    if "token" not in run.inputs:
        return run.inputs.get("embedding")
    names = {id(part.weight): part for part in subject.parts if isinstance(part, nn.Embedding)}
    chosen = [name for name, note in told.items() if note == "E"]
    for module in subject.modules:
        for name, parameter in module.named_parameters():
            if name in chosen or (not chosen and id(parameter) in names):
                return parameter.detach()[run.inputs["token"]]
    raise CannotCallError("the step takes a token, but has no nn.Embedding; tell its table: parameters={'name': 'E'}")


def _write(report: Report, found: Comparison) -> None:
    """Write the result into a report. What the paper asserts must be judged, or the report is false."""
    report.assumed.append(f"called with {found.run.form}")
    report.assumed += [f"{name} = {note}" for name, note in found.notes.items()]
    report.assumed += [f"differs from {found.paper}: {text}" for text in found.differences]
    quantities = [name for name in found.ours if name != "cell"]
    if found.wrong is not None:
        inputs = {name: part for name, part in found.run.inputs.items() if name in found.call.roles}
        name = found.wrong.quantity
        report.add(Finding(f"{name}_differ" + "s" * (not name.endswith("s")), found.wrong.where, inputs))
        quantities.append(name)
    for name in quantities:
        report.done(name)
    reasons = {**dict.fromkeys(found.asked, "an earlier quantity could not be judged"), **found.reasons}
    for name, reason in reasons.items():
        if found.wrong is not None:
            reason = f"cannot be judged until {report.findings[-1].name} is repaired"
        if name != "cell":
            report.skip(name, reason)
    for name in found.asked:
        report.expect(name)
