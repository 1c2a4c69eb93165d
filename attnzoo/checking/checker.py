"""``attnzoo.check``: choose the checks for a kind of code, and run them."""

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from .attention_checks import check_layer
from .classic_decoder import as_attention
from .find_layer import understand
from .find_masks import with_masks
from .layer import hidden_keys
from .mask_checks import check_loss, check_mask
from .model import LENGTH, TARGET_LENGTH, understand_model
from .model_checks import check_model
from .options import KINDS, LISTED, OptionError, check_options
from .paper_check import check_beside
from .report import Finding, Report
from .step_checks import check_decoder, check_steps
from .step_functions import decoder_functions, functions_of_transformers
from .subject import CannotCallError, Subject


def check(
    module: Any = None,
    kind: str | None = None,
    *,
    causal: bool | None = None,
    mask: str | None = None,
    scale: str | float | None = "auto",
    num_heads: int | None = None,
    width: int | tuple[int, ...] | None = None,
    vocab_size: int | None = None,
    pad: int | None = None,
    batch_first: bool | None = None,
    start: Callable[..., Any] | None = None,
    step: Callable[..., Any] | None = None,
    whole: Callable[..., Any] | None = None,
    reorder: Callable[..., Any] | None = None,
    paper: str | None = None,
    call: str | None = None,
    parameters: dict[str, str] | None = None,
) -> Report:
    """Check attention code by its properties and name its faults.

    A copy of the code runs on small random inputs, in eval mode on the CPU. The check finds out what the arguments do
    not state; the report says what it assumed.

    Args:
        module: a module or a function. For ``kind="decoder_step"`` it may be left out
        kind: one of ``KINDS``; None for modules of torch and models of Transformers
        causal: whether a position must not see later ones. None: decided by the behaviour, the name of the class or the
            masks that it takes. If True cannot be judged, the report is false
        mask: the mask convention: "attend" (True or 1: may be attended to), "ignore" (True or 1: hidden) or "additive"
            (0 or -inf). None: the convention that hides padding
        scale: the expected factor of dot products: "sqrt" for ``1 / sqrt(d_k)``, or a number; if it cannot be judged,
            the report is false. "auto" expects it of self-attention and of layers that take query, key and value. None:
            not checked
        num_heads: the number of heads, if no attribute gives it
        width: the width of the input, or of query and key, or of query, key and value
        vocab_size: the number of ids
        pad: the id of padding; for a loss, the label of padding
        batch_first: whether tensors are (batch, time, width)
        start: for ``kind="decoder_step"``, a function (source, source_mask) -> state
        step: (tokens, state) -> (logits, state)
        whole: (source, source_mask, target) -> the logits of teacher forcing
        reorder: (state, rows) -> state
        paper: compare the values of a step or an attention with those of a paper: "bahdanau2014",
            "luong2015-global-general" or another name of ``from_paper``. Without ``kind``, nothing else is checked
        call: with ``paper``, how it is called and what it returns: "token, state, keys, mask -> logits, state, _".
            None: by the names of its arguments
        parameters: with ``paper``, what a parameter holds, in the paper's symbols: {"attention.weight": "W_a U_a"}.
            None: found by shapes

    Returns:
        a report, true if nothing was found; ``print`` shows it

    Raises:
        OptionError: an argument has a value that cannot be used
        ValueError: code that the check cannot call; the message shows an adapter
        TypeError: ``module`` cannot be called
    """
    functions = {"start": start, "step": step, "whole": whole, "reorder": reorder}
    options = {
        "causal": causal,
        "mask": mask,
        "scale": scale,
        "num_heads": num_heads,
        "width": tuple(width) if isinstance(width, list) else width,  # YAML has lists
        "vocab_size": vocab_size,
        "pad": pad,
        "batch_first": batch_first,
        "paper": paper,
        "call": call,
        "parameters": parameters,
    }
    check_options(kind, options, functions)
    if kind is None and paper is None:
        kind = "decoder_step" if step is not None else kind_of(module)
    if module is None and step is None:
        raise TypeError("check needs a module or a function; for kind='decoder_step' pass at least step=...")
    error: Exception | None = None
    for dtype in (torch.float64, torch.float32):  # code with constants in float32 cannot run in float64
        try:
            report = _check(module, kind, dtype, functions, options)
        except (CannotCallError, RuntimeError) as caught:
            error = error or caught
            continue
        for name, is_asserted in (("future", causal), ("scale", scale not in (None, "auto"))):
            if is_asserted:
                report.expect(name)
        return report
    assert error is not None
    raise error


def kind_of(module: Any) -> str:
    """The kind of a module of torch or a model of Transformers.

    Raises:
        OptionError: it is neither.
    """
    if isinstance(module, nn.MultiheadAttention) or module is nn.functional.scaled_dot_product_attention:
        return "attention"
    if isinstance(module, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        return "self_attention"
    if isinstance(module, nn.Transformer | nn.TransformerDecoder | nn.TransformerDecoderLayer):
        return "encoder_decoder"
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "is_encoder_decoder"):
        if config.is_encoder_decoder:
            return "encoder_decoder"
        name = type(module).__name__
        pattern = getattr(config, "attention_pattern", None)
        is_causal = "CausalLM" in name or "LMHead" in name or pattern == "causal"
        return "language_model" if is_causal or getattr(config, "is_decoder", False) else "encoder"
    raise OptionError(f"state the kind of {type(module).__name__}, one of {', '.join(KINDS)}\n{LISTED}")


def _check(
    module: Any,
    kind: str | None,
    dtype: torch.dtype,
    functions: dict[str, Callable[..., Any] | None],
    options: dict[str, Any],
) -> Report:
    if options["paper"] is None:
        assert kind is not None
        return _check_properties(module, kind, dtype, functions, options)
    subject = Subject(module, dtype)
    report = Report(subject.name, options["paper"])
    if kind is not None:
        report = _check_properties(module, kind, dtype, functions, options)
    with subject.ready():
        check_beside(report, subject, options["paper"], options)
    return report


def _check_properties(
    module: Any, kind: str, dtype: torch.dtype, functions: dict[str, Callable[..., Any] | None], options: dict[str, Any]
) -> Report:
    if kind == "decoder_step":
        return _check_decoder_step(module, dtype, functions, options)
    subject = Subject(module, dtype)
    report = Report(subject.name, kind)
    with subject.ready():
        if kind in ("attention", "self_attention"):
            _check_attention(report, subject, kind == "self_attention", options)
        elif kind == "mask":
            check_mask(report, subject, options["mask"], options["causal"], options["pad"])
        elif kind == "loss":
            check_loss(report, subject, options["pad"], options["mask"])
        else:
            _check_model(report, subject, kind, options)
    return report


def _check_attention(report: Report, subject: Subject, is_self: bool, options: dict[str, Any]) -> None:
    names = ("mask", "num_heads", "width", "batch_first")
    layer, sizes = understand(subject, is_self, **{name: options[name] for name in names})
    layer = with_masks(layer, sizes, options["mask"])
    if layer.layout != "batch_first":
        report.assumed.append(f"layout: {layer.layout}")
    causal = options["causal"]
    if causal is None and is_self and is_called_causal(subject):
        causal = True
        report.assumed.append("causal, by its name or an attribute")
    inputs, real = layer.inputs(sizes), hidden_keys(sizes)
    calls = [layer.arguments(*inputs), layer.arguments(*inputs, real)]
    calls += [layer.arguments(*inputs, real, causal=True)] if layer.pairs is not None else []
    _check_inputs_kept(report, layer.call, calls)
    check_layer(report, layer, sizes, causal, options["scale"])


def is_called_causal(subject: Subject) -> bool:
    """Whether its name, an attribute or a triangular buffer says that it is causal."""
    name = subject.name.lower()
    if "causal" in name or "gpt" in name or subject.attribute("causal", "is_causal") is True:
        return True
    for square in (buffer.squeeze() for module in subject.modules for buffer in module.buffers()):
        if square.ndim == 2 and square.shape[0] == square.shape[1] > 1:
            lower = square.isfinite() & (square != 0)
            if bool(lower.any()) and not bool(lower.triu(1).any()):
                return True
    return False


def _check_inputs_kept(report: Report, call: Callable[[dict[str, Any]], Any], calls: list[dict[str, Any]]) -> None:
    for named in calls:
        given = {name: part.clone() for name, part in named.items() if isinstance(part, Tensor)}
        before = {name: part.clone() for name, part in given.items()}
        call({**named, **given})
        changed = [name for name, part in given.items() if not torch.equal(part, before[name])]
        if changed:
            report.add(Finding("input_changed_in_place", f"the argument {changed[0]!r}", before))
    report.done("inputs not changed")


def _check_model(report: Report, subject: Subject, kind: str, options: dict[str, Any]) -> None:
    names = ("mask", "pad", "vocab_size", "width", "batch_first")
    model = understand_model(subject, kind, **{name: options[name] for name in names})
    if model.time_first:
        report.assumed.append("time first")
    causal = kind != "encoder" if options["causal"] is None else options["causal"]
    source, target = model.draw(3, LENGTH), model.draw(3, TARGET_LENGTH, seed=1) if kind == "encoder_decoder" else None
    real = torch.arange(LENGTH) < torch.tensor([LENGTH, LENGTH - 2, LENGTH - 3])[:, None]
    calls = [model.arguments(source, None, target), model.arguments(model.padded(source, real), real, target)]
    _check_inputs_kept(report, lambda named: subject(**named), calls)
    check_model(report, model, causal)
    target = subject.target
    is_generating = hasattr(target, "generate") and hasattr(target, "config") and hasattr(target, "get_encoder")
    if kind in ("language_model", "encoder_decoder"):
        if not is_generating:
            report.skip("steps", "to check them, pass start, step, whole and reorder with kind='decoder_step'")
        elif causes := [name for name in report.names if name in ("dropout_in_eval", "future_leaked")]:
            report.skip("steps", f"cannot be judged until {causes[0]} is repaired")
        else:
            decoder = functions_of_transformers(target, model.vocabulary, model.pad)
            check_steps(report, decoder, decoder.ways("attend"))


def _check_decoder_step(
    module: Any, dtype: torch.dtype, functions: dict[str, Callable[..., Any] | None], options: dict[str, Any]
) -> Report:
    if module is not None and functions["step"] is None and not hasattr(module, "step"):
        names = set(inspect.signature(getattr(module, "forward", module)).parameters)
        if names & {"encoder_outputs", "encoder_output", "enc_outputs", "memory", "enc_out"}:
            return _check_classic(module, dtype, options)
    own = Subject(module, dtype).target if isinstance(module, nn.Module) else module
    decoder = decoder_functions(own, functions, options["vocab_size"], options["pad"], dtype)
    report = Report(type(module).__name__ if module is not None else decoder.subjects[0].name, "decoder_step")
    with ExitStack() as stack:
        for subject in decoder.subjects:
            stack.enter_context(subject.ready())
        check_decoder(report, decoder, options["mask"], options["causal"] is not False)
    return report


def _check_classic(module: Any, dtype: torch.dtype, options: dict[str, Any]) -> Report:
    """A decoder's step (token, hidden, encoder_outputs, mask), as attention whose query is the hidden state."""
    subject = Subject(module, dtype)
    report = Report(subject.name, "decoder_step")
    with subject.ready():
        attention, widths = as_attention(subject, options["vocab_size"])
        layer, sizes = understand(attention, False, options["mask"], None, widths, True)
        layer = with_masks(layer, sizes, options["mask"])
        check_layer(report, layer, sizes, options["causal"], options["scale"])
        report.skip("step equals teacher forcing", "to check it, pass start, step and whole")
        report.skip("beams", "to check them, pass start, step and reorder")
    return report
