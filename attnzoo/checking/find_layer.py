"""Find out how to call an attention layer: the roles of its arguments, its layout, its widths."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import nn

from .layer import (
    NAMES,
    PADDING_SHAPES,
    PAIR_SHAPES,
    WIDTHS,
    Layer,
    OneOutputError,
    Sizes,
    all_sizes,
    mask_forms,
    reads_keys,
    short_sizes,
    too_short,
)
from .subject import TOLERANCE, CannotCallError, Subject, attempts, first_line, largest_difference

SEQUENCES = ("batch_first", "time_first")  # layouts in which query and keys have an axis of time
TWO, TWO_OF_ITSELF = Sizes(5, 2, 3), Sizes(5, 2, 2)  # what also code takes that takes few positions
OF_TARGET = ("tgt", "trg", "target", "dec", "self", "causal", "future", "ahead")  # in the names of masks
OF_ANOTHER = NAMES["key"][3:]  # keys that are not those of self-attention
OF_SOURCE = ("src", "source", "enc", "memory", "cross")
HEADS = ("num_heads", "n_heads", "nhead", "n_head", "heads", "num_attention_heads", "h")


def understand(
    subject: Subject,
    is_self: bool,
    mask: str | None = None,
    num_heads: int | None = None,
    width: int | tuple[int, ...] | None = None,
    batch_first: bool | None = None,
) -> tuple[Layer, Sizes]:
    """Find out how to call a layer.

    Raises:
        CannotCallError: no call worked; the message says which adapter to write.
    """
    roles, by_position = roles_of(subject, is_self)
    heads = num_heads or subject.attribute(*HEADS) or 0
    known = subject.attribute("batch_first") if batch_first is None else batch_first
    layouts = _layouts(is_self, known if isinstance(known, bool) else None, subject.has_parameters)
    errors: dict[str, str] = {}
    short: dict[str, str] = {}  # the errors of calls that gave one output for all queries
    working: list[tuple[Layer, Sizes]] = []
    failed: list[Layer] = []
    for layout in layouts:
        for widths in _widths(subject, is_self, width, "value" in roles.values(), int(heads)):
            count = int(heads) or (2 if layout == "heads" else 1)
            if layout == "heads" and any(part % count for part in widths):
                continue
            layer = Layer(subject, roles, layout, widths, count, is_self, by_position)
            sizes = all_sizes(layer)
            found = _first_that_runs(layer, sizes, mask, errors, short)
            if found is not None:
                working.append((found, sizes))
                break
            failed += [layer] if layout in SEQUENCES else []
    if short and working and working[0][0].layout not in SEQUENCES:  # another layout was broadcast by chance
        raise CannotCallError(how_to_adapt(subject, is_self, short))
    apart = _apart(working)
    if apart is not None:
        return apart
    limited = [layer for layer in failed if _apart(_that_run(layer, [TWO_OF_ITSELF if is_self else TWO], mask))]
    if limited:
        apart = _apart(pair for layer in limited for pair in _that_run(layer, short_sizes(layer), mask))
        if apart is None:
            raise CannotCallError(too_short(subject.name, next(iter(errors.values()))))
        return apart
    if not working:
        raise CannotCallError(how_to_adapt(subject, is_self, errors))
    layer, sizes = working[0]
    return _with_output(layer, sizes), sizes


def _layouts(is_self: bool, batch_first: bool | None, has_parameters: bool) -> list[str]:
    if batch_first is not None:
        first = "batch_first" if batch_first else "time_first"
        steps = ["step", "hidden"] if batch_first else ["step_time_first", "hidden_time_first"]
        return [first] if is_self else [first, *steps, "heads"]
    if is_self:
        return ["batch_first", "time_first"]
    steps = ["step", "hidden", "step_time_first", "hidden_time_first"]
    return ["batch_first", "time_first", *steps, "heads"] if has_parameters else ["batch_first", "heads", *steps]


def _widths(
    subject: Subject, is_self: bool, width: int | tuple[int, ...] | None, has_value: bool, heads: int
) -> Iterator[tuple[int, int, int]]:
    if width is not None:
        given = (width,) if isinstance(width, int) else width
        yield (given[0], given[min(1, len(given) - 1)], given[-1])
        return
    found = [int(value) for name in WIDTHS if (value := subject.attribute(name))]
    for module in subject.modules:
        found += [part.in_features for part in module.modules() if isinstance(part, nn.Linear)]
        found += [size for parameter in module.parameters() for size in parameter.shape]
    sizes = list(dict.fromkeys(size for size in found if 1 < size <= 4096)) or [12 * max(1, heads), 8]
    yield from ((size, size, size) for size in sizes)
    if not is_self:
        sums = [total - part for total in sizes for part in sizes if total > part]
        sizes = list(dict.fromkeys(sizes + sums))[:8]
        yield from ((query, key, key) for query, key in itertools.permutations(sizes, 2))
        if has_value:
            yield from ((q, k, v) for q, k, v in itertools.product(sizes[:5], repeat=3) if k != v)


def roles_of(subject: Subject, is_self: bool) -> tuple[dict[str, str], bool]:
    """The role of every parameter that is passed, and whether they are passed by position.

    Raises:
        CannotCallError: a parameter without default has no role.
    """
    signature = subject.signature
    if subject.original is torch.nn.functional.scaled_dot_product_attention:
        return {"query": "query", "key": "key", "value": "value", "attn_mask": "mask"}, False
    roles: dict[str, str] = {}
    free = []
    is_pair = not is_self and not any(_role(name) == "value" for name in signature)
    for name, parameter in signature.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        role = _role(name)
        if is_self and role == "key" and name.lower() in OF_ANOTHER and parameter.default is parameter.empty:
            raise CannotCallError(f"{subject.name} takes {name}, another sequence; pass kind='attention'")
        required = parameter.default is parameter.empty
        if is_pair and role in ("mask", "padding") and _is_of_target(name):
            role = "target_mask" if role == "mask" or required else None
        if role == "causal" or (role and role not in roles.values()):
            roles[name] = role
        elif required or (not roles and parameter.default is None):
            free.append(name)
    wanted = ["x"] if is_self and not {"query", "key"} & {*roles.values()} else ["query", "key", "value"]
    if is_self and "x" in wanted:
        roles = {name: role for name, role in roles.items() if role not in ("query", "key", "value")}
        free = [name for name in signature if name in free or _role(name) in ("query", "key", "value")]
    missing = [role for role in wanted if role not in roles.values()]
    for name in free:
        if missing:
            roles[name] = missing.pop(0)
        elif "mask" not in roles.values() and "padding" not in roles.values():
            roles[name] = "mask"
        else:
            raise CannotCallError(
                how_to_adapt(subject, is_self, {f"the argument {name!r}": "its meaning is not known"})
            )
    needed = {"x"} if wanted == ["x"] else {"query", "key"}
    if not needed <= {*roles.values()}:
        raise CannotCallError(how_to_adapt(subject, is_self, {"the arguments": f"no {' and '.join(sorted(needed))}"}))
    ordered = {name: roles[name] for name in signature if name in roles}
    positional = any(part.kind is part.POSITIONAL_ONLY for part in signature.values())
    return ordered, positional


def _is_of_target(name: str) -> bool:
    """Whether a mask of a decoder block is for its own positions, and not for those of the encoder."""
    lower = name.lower()
    return any(word in lower for word in OF_TARGET) and not any(word in lower for word in OF_SOURCE)


def _role(name: str) -> str | None:
    lower = name.lower()
    if "need_weights" in lower or "average" in lower or "return" in lower:
        return None
    if "mask" in lower or "bias" in lower or lower.startswith("pad"):
        return "padding" if "pad" in lower else "mask"
    if "len" in lower:
        return "lengths"
    if lower in ("is_causal", "causal"):
        return "causal"
    return next((role for role, names in NAMES.items() if lower in names), None)


def _first_that_runs(
    layer: Layer, sizes: Sizes, mask: str | None, errors: dict[str, str], short: dict[str, str]
) -> Layer | None:
    inputs = layer.inputs(sizes)
    candidates = [layer]
    if layer.has("target_mask"):  # a form that runs; which convention is right is found later
        for form in mask_forms(mask or "attend", PADDING_SHAPES if layer.takes_padding else ("BS",)):
            pairs = (form._replace(shape=shape) for shape in PAIR_SHAPES)
            candidates += [replace(layer, padding=form, pairs=each, needs_mask=True) for each in pairs]
    elif layer.takes_padding:
        candidates += [replace(layer, padding=form, needs_mask=True) for form in mask_forms(mask, PADDING_SHAPES)]
    first, last, alike = "", "", 0
    for candidate in candidates:
        try:
            candidate(*inputs)
            return candidate
        except Exception as error:
            text = first_line(error)[:200]
            errors.setdefault(f"{layer.layout}, width {layer.widths[0]}", text)
            if isinstance(error, OneOutputError):
                short.setdefault(f"{layer.layout}, width {layer.widths[0]}", text)
            # The same without a mask and with one, or for all shapes and two types of masks: something else is wrong.
            alike = alike + 1 if text == last else 0
            if text == first or alike > len(PADDING_SHAPES) * len(PAIR_SHAPES):
                return None
            first, last = first or text, text
    return None


def _rows_are_apart(layer: Layer, sizes: Sizes) -> bool:
    inputs = layer.inputs(sizes)
    turned = (part.flip(0) for part in inputs)
    first, other, last = (layer(*call).context for call in (inputs, layer.inputs_with_other_rows(sizes), turned))
    return max(largest_difference(first[0], other[0]), largest_difference(first.flip(0), last)) < TOLERANCE


def _with_output(layer: Layer, sizes: Sizes) -> Layer:
    """The layer, of whose result the first part that depends on the keys is taken for the output, if one does."""
    for place in itertools.count():
        candidate = replace(layer, place=place)
        try:
            if reads_keys(candidate, sizes):
                return candidate
        except IndexError:  # there are no more parts
            break
    return layer


def _that_run(layer: Layer, all_sizes: Iterable[Sizes], mask: str | None) -> Iterator[tuple[Layer, Sizes]]:
    """The layer as it can be called, with those of the sizes that it takes."""
    for sizes in all_sizes:
        found = _first_that_runs(layer, sizes, mask, {}, {})
        if found is not None:
            yield found, sizes


def _apart(working: Iterable[tuple[Layer, Sizes]]) -> tuple[Layer, Sizes] | None:
    """The first that keeps rows apart and reads the keys, or else the first that keeps rows apart.

    In a wrong layout, a part of the result that does not depend on the keys may look right.
    """
    found = ((_with_output(layer, sizes), sizes) for layer, sizes in working)
    apart = (pair for pair in found if _rows_are_apart(*pair))
    first = next(apart, None)
    if first is None:
        return None
    return next((pair for pair in itertools.chain([first], apart) if reads_keys(*pair)), first)


def how_to_adapt(subject: Subject, is_self: bool, errors: dict[str, str]) -> str:
    """The text of the error for a signature that is not understood."""
    kind = "self_attention" if is_self else "attention"
    arguments = "x, mask" if is_self else "query, key, value, mask"
    tried = attempts(errors, 4)
    return (
        f"cannot call {subject.name} as kind={kind!r} ({tried}). Write an adapter and check that:\n"
        f"    def adapter({arguments}):\n"
        f"        return layer({arguments})\n"
        f"    attnzoo.check(adapter, {kind!r})\n"
        "Tensors are (batch, time, width). The adapter returns the output, or the output and the weights. Pass "
        "width=... and num_heads=... if the module has no such attributes."
    )
