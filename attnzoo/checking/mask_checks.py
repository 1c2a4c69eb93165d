"""Functions that make masks, and loss functions.

Dimensions: B batch, T queries, S keys, V vocabulary.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .report import Finding, Report
from .subject import DEEP_TOLERANCE, CannotCallError, Subject, first_line, largest_difference

PAD_NAMES = ("pad", "pad_id", "pad_idx", "pad_index", "pad_token", "pad_token_id", "padding_idx", "ignore_index")
LENGTHS = (5, 3, 2)
SMALLEST_HIDING = -1e3  # larger additive numbers do not hide a key


def padding_number(subject: Subject, pad: int | None) -> int | None:
    """The id of padding: an argument, a default of the function, an attribute, or a global name that it reads."""
    if pad is not None:
        return pad
    for name, parameter in subject.signature.items():
        if name.lower() in PAD_NAMES and isinstance(parameter.default, int):
            return parameter.default
    found = subject.attribute(*PAD_NAMES, "src_pad_idx", "trg_pad_idx", "tgt_pad_idx")
    if found is not None:
        return int(found)
    for owner in (subject.original, getattr(subject.original, "__self__", None)):
        for name in PAD_NAMES:
            value = getattr(owner, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    if inspect.isfunction(subject.original):
        variables = inspect.getclosurevars(subject.original)
        for name, value in {**variables.globals, **variables.nonlocals}.items():
            if name.lower() in PAD_NAMES and isinstance(value, int):
                return value
    return None


# Masks.


def check_mask(report: Report, subject: Subject, mask: str | None, causal: bool | None, pad: int | None) -> None:
    """Compare a mask, in the convention that fits best, with the padding and the triangle that it should hide.

    Raises:
        CannotCallError: no call gave a mask.
    """
    padding = padding_number(subject, pad)
    arguments, made, takes = _call_mask(subject, 0 if padding is None else padding)
    report.assumed.append(f"its argument is {takes}")
    if not bool(torch.isfinite(made.where(made != float("-inf"), torch.zeros((), dtype=made.dtype))).all()):
        report.add(Finding("not_finite", "the mask has NaN or +inf", arguments))
        return
    rows, length = (1, max(LENGTHS)) if takes == "a size" else (len(LENGTHS), max(LENGTHS))
    seen, is_pair = _by_pairs(made, rows, length, takes)
    real = torch.ones(rows, length, dtype=torch.bool)
    if takes != "a size":
        real = torch.arange(length) < torch.tensor(LENGTHS)[:, None]
    triangle = torch.ones(length, length, dtype=torch.bool).tril().expand(rows, -1, -1)
    keys = real[:, None].expand(-1, length, -1)
    expected = {"padding": keys, "padding and the future": keys & triangle, "the future": triangle}
    if takes == "a size":
        expected = {"the future": triangle}
    elif not is_pair and not causal:  # one for all queries shows the future
        expected = {"padding": keys}
    elif causal is not None:
        expected = {name: part for name, part in expected.items() if ("future" in name) == causal}
    fits: list[tuple[Any, ...]] = []
    for convention, allowed in _readings(seen, mask):
        for hides, wanted in expected.items():
            wrong = (allowed != wanted) & real[..., None]  # queries that are padding may see anything
            fits.append((int(wrong.sum()), len(fits), convention, hides, allowed, wanted, wrong))
    _, _, convention, hides, allowed, wanted, wrong = min(fits, key=lambda fit: fit[:2])
    report.assumed += [f"convention of the mask: {convention!r}", f"it hides {hides}"]
    where = "row {}, query {}, key {}"
    shown = wrong & allowed & ~wanted
    if made.is_floating_point() and convention == "additive":
        weak = ~wanted & (seen > SMALLEST_HIDING) & real[..., None]
        shown = shown | weak
    at_padding = (shown & ~keys).nonzero()
    at_future = (shown & keys).nonzero()
    hidden = (wrong & ~allowed & wanted).nonzero()
    for name, places in (
        ("padding_attended", at_padding),
        ("future_leaked", at_future),
        ("real_positions_masked", hidden),
    ):
        if len(places):
            report.add(Finding(name, where.format(*places[0].tolist()) + f" of a mask {tuple(made.shape)}", arguments))
    report.done("padding" if "padding" in hides else "future")
    if "future" in hides:
        report.done("future")
    else:
        report.skip("future", "the mask hides padding only")
    report.done("real positions")


def _call_mask(subject: Subject, pad: int) -> tuple[dict[str, Tensor], Tensor, str]:
    lengths = torch.tensor(LENGTHS)
    size = max(LENGTHS)
    ids = torch.arange(1, 1 + len(LENGTHS) * size).reshape(len(LENGTHS), size) + (pad if pad > 0 else 0)
    real = torch.arange(size) < lengths[:, None]
    ids = ids.masked_fill(~real, pad)
    parameters = subject.signature
    names = " ".join(parameters).lower()
    first = next(iter(parameters), "").lower()
    order = ["tokens", "lengths", "a size"]
    if "len" in first and ("lens" in first or "lengths" in first or first.endswith("_len")):
        order = ["lengths", "a size", "tokens"]
    elif first in (
        "size",
        "sz",
        "n",
        "t",
        "length",
        "seq_len",
        "seq_length",
        "max_len",
        "block_size",
        "dim",
        "tgt_len",
    ):
        order = ["a size", "lengths", "tokens"]
    calls: dict[str, list[tuple[Any, ...]]] = {
        "tokens": [(ids,), (ids, pad)],
        "lengths": [(lengths,), (lengths, size)],
        "a size": [(size,)],
    }
    if "pad" in names or len(subject.required) > 1:
        calls["tokens"].reverse()
    errors = []
    for takes in order:
        for arguments in calls[takes]:
            try:
                made = subject(*arguments)
                if not isinstance(made, Tensor):
                    raise TypeError(f"it returned {type(made).__name__}")
                _by_pairs(made, 1 if takes == "a size" else len(LENGTHS), size, takes)
            except Exception as error:
                errors.append(f"{takes}: {first_line(error)}")
                continue
            names_given = list(parameters) or ["input", "pad"]
            given = {
                names_given[min(place, len(names_given) - 1)]: torch.as_tensor(part)
                for place, part in enumerate(arguments)
            }
            return given, made, takes
    raise CannotCallError(
        f"cannot call {subject.name} as kind='mask' ({'; '.join(errors)}). Write an adapter that takes ids (B, S) with "
        "padding, lengths (B,), or a size, and that returns one mask:\n"
        "    attnzoo.check(lambda ids: make_mask(ids, pad)[0], 'mask', pad=0)"
    )


def _by_pairs(made: Tensor, rows: int, length: int, takes: str) -> tuple[Tensor, bool]:
    """The mask as (B, T, S), and whether it has an axis of queries."""
    shape = tuple(made.shape)
    if takes == "a size" or shape == (length, length):
        if len(shape) < 2 or shape[-2:] != (length, length):
            raise ValueError(f"its shape is {shape}")
        return made.reshape(-1, length, length)[:1].expand(rows, -1, -1), True
    if shape == (length, rows):
        made, shape = made.T, (rows, length)
    if shape[-1] != length or shape[0] not in (1, rows):
        raise ValueError(f"its shape is {shape}")
    kept = made.reshape(shape[0], -1, length)
    if kept.shape[1] not in (1, length):
        kept = made.reshape(shape[0], -1, shape[-2], length)[:, 0]
    return kept.expand(rows, length, -1), kept.shape[1] == length


def _readings(seen: Tensor, mask: str | None) -> Iterator[tuple[str, Tensor]]:
    """The pairs that the mask allows, in each convention that fits its numbers."""
    is_flag = not seen.is_floating_point() or set(seen.unique().tolist()) <= {0.0, 1.0}
    readings = {"attend": seen != 0, "ignore": seen == 0, "additive": seen == 0}
    for convention, allowed in readings.items():
        fits = is_flag if convention != "additive" else not is_flag
        if convention == mask or (mask is None and fits):
            yield convention, allowed


# Losses.


def check_loss(report: Report, subject: Subject, pad: int | None, mask: str | None) -> None:
    """Check that padding does not count in a loss, neither in the sum nor in its divisor.

    Raises:
        CannotCallError: no call gave a number.
    """
    number = padding_number(subject, pad)
    errors: list[str] = []
    for padding in (number,) if number is not None else (-100, 0):
        for call, how in _loss_calls(subject, padding, mask):
            logits, labels, real = _batch(padding)
            try:
                first = call(logits, labels, real)
                other = call(_changed(logits, ~real), labels, real)
            except Exception as error:
                errors.append(f"{how}: {first_line(error)}")
                continue
            if not bool(torch.isfinite(first)):
                errors.append(f"{how}: it returned {float(first)}")
                continue
            if number is None and not _same(first, other) and padding == -100:
                continue  # this loss counts -100
            report.assumed += [f"labels of padding are {padding}", how]
            return _check_loss(report, call, padding)
    raise CannotCallError(
        f"cannot call {subject.name} as kind='loss' ({'; '.join(errors[:4])}). Write an adapter and pass the id of "
        "padding:\n    attnzoo.check(lambda logits, labels: my_loss(logits, labels), 'loss', pad=0)\n"
        "logits are (B, T, V), labels (B, T); the adapter returns one number."
    )


LossCall = Callable[[Tensor, Tensor, Tensor], Tensor]


def _check_loss(report: Report, call: LossCall, pad: int) -> None:
    logits, labels, real = _batch(pad)
    silent = _silent(call, logits, labels, real)
    if silent:
        where = f"the logits of row {silent[0][0]}, position {silent[0][1]} do not change the loss"
        report.add(Finding("real_positions_masked", where, {"logits": logits, "labels": labels}))
    report.done("real positions")

    def test(rows: int, length: int) -> Finding | None:
        logits, labels, real = _batch(pad, rows, length)
        given = {"logits": logits, "labels": labels}
        first = call(logits, labels, real)
        changed = _changed(logits, ~real)
        if not _same(first, call(changed, labels, real)):
            where = "the loss changes with the logits at padding"
            return Finding("loss_counts_padding", where, given, given | {"logits": changed})
        if silent:  # a loss that leaves out a column leaves out another one then
            return None
        wider = (
            functional.pad(logits, (0, 0, 0, 2), value=0.3).log_softmax(dim=-1),
            functional.pad(labels, (0, 2), value=pad),
            functional.pad(real, (0, 2), value=False),
        )
        if not _same(first, call(*wider)):
            where = "the loss changes with two more columns of padding: it divides by all positions"
            return Finding("loss_counts_padding", where, given, {"logits": wider[0], "labels": wider[1]})
        return None

    found = test(3, 5)
    if found is not None:
        found = test(1, 2) or test(2, 2) or found
        report.add(found)
    report.done("padding of the loss")
    _name_reduction(report, call(logits, labels, real), logits, labels, real)


def _silent(call: LossCall, logits: Tensor, labels: Tensor, real: Tensor) -> list[list[int]]:
    """The real positions whose logits have no influence.

    A loss may compare each position with the next label, or leave out the first one, but in all rows.
    """
    first, silent = call(logits, labels, real), []
    for row, place in real.nonzero().tolist():
        only = torch.zeros_like(real)
        only[row, place] = True
        if _same(first, call(_changed(logits, only), labels, real)):
            silent.append([row, place])
    ends = [[[row, 0] for row in range(len(real))], [[row, int(each.sum()) - 1] for row, each in enumerate(real)]]
    for end in ends:
        if all(each in silent for each in end):
            silent = [each for each in silent if each not in end]
    return silent


def _name_reduction(report: Report, loss: Tensor, logits: Tensor, labels: Tensor, real: Tensor) -> None:
    each = -logits.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1) * real
    forms = {
        "the mean over real tokens": each.sum() / real.sum(),
        "the sum over real tokens": each.sum(),
        "the mean over sentences of each one's mean": (each.sum(dim=1) / real.sum(dim=1)).mean(),
        "the mean over sentences of each one's sum": each.sum(dim=1).mean(),
    }
    for name, value in forms.items():
        if abs(float(value - loss)) < 1e-4 * max(1.0, abs(float(loss))):
            report.assumed.append(f"it is {name}")


def _same(first: Tensor, second: Tensor) -> bool:
    return largest_difference(first.detach(), second.detach()) < DEEP_TOLERANCE


def _batch(pad: int, rows: int = 3, length: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities, which a softmax does not change; labels; and a mask, True on real labels."""
    generator = torch.Generator().manual_seed(0)
    vocabulary = 12 + max(0, pad)
    logits = torch.randn(rows, length, vocabulary, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    labels = torch.randint(1, 11, (rows, length), generator=generator)
    labels = labels + (labels >= pad) if pad >= 0 else labels
    lengths = torch.tensor(LENGTHS[:rows] if rows > 1 else (length - 1,)).clamp(max=length)
    lengths = torch.where(torch.arange(rows) == rows - 1, lengths.clamp(max=length - 1), lengths)
    real = torch.arange(length) < lengths[:, None]
    return logits, labels.masked_fill(~real, pad), real


def _changed(logits: Tensor, where: Tensor) -> Tensor:
    other = torch.randn(logits.shape, generator=torch.Generator().manual_seed(7), dtype=logits.dtype)
    return torch.where(where[..., None], other.log_softmax(dim=-1), logits)


def _loss_calls(subject: Subject, pad: int, mask: str | None) -> Iterator[tuple[LossCall, str]]:
    """Ways to call a loss: with a mask or lengths if it takes them, batch first, flat, classes second, time first."""
    parameters = subject.signature
    names = list(parameters)
    third = next((name for name in names[2:] if "mask" in name.lower() or "len" in name.lower()), None)
    if third is None and len(subject.required) > 2:
        third = names[2]
    is_swapped = bool(names) and names[0].lower() in ("labels", "target", "targets", "y", "gold", "tgt")
    extra: dict[str, Any] = {
        n: pad for n in names[2:] if n.lower() in PAD_NAMES and parameters[n].default is inspect.Parameter.empty
    }
    forms: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
        "logits (B, T, V), labels (B, T)": lambda logits, labels: (logits, labels),
        "logits (B * T, V), labels (B * T,)": lambda logits, labels: (logits.flatten(0, 1), labels.flatten()),
        "logits (B, V, T), labels (B, T)": lambda logits, labels: (logits.mT, labels),
        "logits (T, B, V), labels (T, B)": lambda logits, labels: (logits.transpose(0, 1), labels.T),
    }
    masks: dict[str, Callable[[Tensor], Any]] = {"": lambda real: None}
    if third is not None and third not in extra:
        masks = {
            " and a mask, True where real": lambda real: real,
            " and a mask, 1.0 where real": lambda real: real.double(),
            " and a mask, True at padding": lambda real: ~real,
            " and lengths": lambda real: real.sum(dim=1),
        }
        if mask is not None:
            masks = {how: make for how, make in masks.items() if ("padding" in how) == (mask == "ignore")}
        if "len" in third.lower() and " and lengths" in masks:
            masks = {" and lengths": masks[" and lengths"]}
    elif len(names) > 1 and isinstance(subject.original, torch.nn.Module):
        forms = dict(sorted(forms.items(), key=lambda form: "B * T" not in form[0]))

    def bind(form: Callable[..., Any], make: Callable[[Tensor], Any]) -> LossCall:
        def call(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
            first, second = form(logits.to(subject.dtype), labels)
            made = make(real)
            if made is not None and made.ndim == 2:
                made = made.T if second.shape == labels.T.shape != labels.shape else made
                made = made.flatten() if second.ndim == 1 else made
                made = made.to(subject.dtype) if made.is_floating_point() else made
            arguments = (second, first) if is_swapped else (first, second)
            named: dict[str, Any] = {third: made} if third and made is not None else {}
            result = subject(*arguments, **named, **extra)
            result = result[0] if isinstance(result, tuple | list) else result
            return result.sum()

        return call

    ranked = [(bind(form, make), name + how) for how, make in masks.items() for name, form in forms.items()]
    if len(masks) > 1:  # the reading of the mask that hides padding best
        ranked.sort(key=lambda each: _leak(each[0], pad))
    yield from ranked


def _leak(call: LossCall, pad: int) -> float:
    logits, labels, real = _batch(pad)
    try:
        first = call(logits, labels, real)
        at_padding = call(_changed(logits, ~real), labels, real)
        at_real = call(_changed(logits, real), labels, real)
    except Exception:
        return float("inf")
    leak, effect = float((first - at_padding).abs()), float((first - at_real).abs())
    return round(leak / max(effect, 1e-12), 3)
