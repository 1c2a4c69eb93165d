"""How to call an attention layer: the roles of its arguments, its layout, its widths, its mask convention.

Dimensions: B batch, H heads, T queries, S keys, D width of the query, E width of the key.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .subject import TOLERANCE, CannotCallError, Subject, first_line, gap, largest_difference, leaked_share, parts_of

NAMES = {
    "query": ("query", "q", "queries", "hidden", "decoder_hidden", "decoder_state", "dec_hidden", "tgt", "target"),
    "key": ("key", "k", "keys", "encoder_outputs", "encoder_output", "enc_outputs", "enc_output", "enc_out", "memory"),
    "value": ("value", "v", "values"),
}
OF_TARGET = ("tgt", "trg", "target", "dec", "self", "causal", "future", "ahead")  # in the names of masks
OF_SOURCE = ("src", "source", "enc", "memory", "cross")
CONVENTIONS = {
    "attend": "True or 1 where a key may be attended to",
    "ignore": "True or 1 where a key is hidden",
    "additive": "0 where a key may be attended to, -inf or a large negative number where it is hidden",
}
WIDTHS = ("embed_dim", "d_model", "hidden_size", "embed_size", "embedding_dim", "n_embd", "dim", "d_in", "width")
HEADS = ("num_heads", "n_heads", "nhead", "n_head", "heads", "num_attention_heads", "h")


class Sizes(NamedTuple):
    """The sizes of one call."""

    rows: int
    queries: int
    keys: int


class LayerOutput(NamedTuple):
    """The result of a call: context (B, T, ...), batch first; attention weights as returned, or None."""

    context: Tensor
    weights: Tensor | None


class MaskForm(NamedTuple):
    """A shape and a convention of masks. ``fill`` is the number of hidden keys of an additive mask."""

    shape: str
    convention: str
    kind: str  # of numbers: "bool", "int", "float"

    def make(self, allowed: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
        """``allowed`` (B, T, S) bool, True = attend, in this form."""
        shapes = {
            "BS": allowed[:, 0],
            "B1S": allowed[:, :1],
            "B11S": allowed[:, None, :1],
            "BTS": allowed,
            "B1TS": allowed[:, None],
            "BHTS": allowed[:, None].expand(-1, heads, -1, -1),
            "B*HTS": allowed.repeat_interleave(heads, dim=0),
            "TS": allowed[0],
            "SB": allowed[:, 0].T,
        }
        mask = shapes[self.shape]
        if self.convention == "additive":
            hidden = torch.finfo(dtype).min / 4 if self.kind == "int" else float("-inf")
            return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, hidden)
        mask = ~mask if self.convention == "ignore" else mask
        return mask if self.kind == "bool" else mask.to(torch.int64 if self.kind == "int" else dtype)

    def __str__(self) -> str:
        kind = self.kind if self.convention != "additive" else "float"
        letters = ", ".join(self.shape).replace("B, *, H", "B * H")
        return f"{kind} of shape ({letters}), {CONVENTIONS[self.convention]} ({self.convention!r})"


@dataclass(frozen=True)
class Layer:
    """An attention layer, and how to call it."""

    subject: Subject
    roles: dict[str, str]  # of parameters by name
    layout: str  # "batch_first", "time_first", "heads", "step", "step_time_first", "hidden_time_first", "hidden"
    widths: tuple[int, int, int]  # of query, key and value
    heads: int
    is_self: bool
    by_position: bool = False
    padding: MaskForm | None = None  # of a mask of keys
    pairs: MaskForm | None = None  # of a mask of pairs of positions of one sequence
    needs_mask: bool = False

    @property
    def has_value(self) -> bool:
        """Whether key and value are separate arguments."""
        return not self.is_self and "value" in self.roles.values()

    @property
    def taken(self) -> set[int]:
        """The sizes that a number of rows or positions must not equal, or their axes could be confused."""
        parts = (parameter for module in self.subject.modules for parameter in module.parameters())
        heads = max(1, self.heads)
        return {1, 2, heads, *self.widths, *(w // heads for w in self.widths), *(n for p in parts for n in p.shape)}

    @property
    def is_step(self) -> bool:
        """Whether it takes one query for each row, without an axis of time."""
        return self.layout.startswith(("step", "hidden"))

    @property
    def takes_padding(self) -> bool:
        """Whether a parameter takes a mask of padding."""
        return self.has("mask") or self.has("padding")

    @property
    def takes_pairs(self) -> bool:
        """Whether a parameter takes a mask of pairs of positions of one sequence."""
        return self.has("target_mask") or (self.is_self and self.has("mask"))

    def has(self, role: str) -> bool:
        """Whether some parameter has this role."""
        return role in self.roles.values()

    def inputs(self, sizes: Sizes, seed: int = 0, size: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value; for self-attention the same tensor three times."""
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            tenths = (torch.randn(*shape, generator=generator) * 10).round()
            tenths = tenths.masked_fill(tenths == 0, 1.0)  # a zero would hide what it is multiplied with
            return tenths.div(10).mul(size).to(self.subject.dtype)

        query = draw(sizes.rows, sizes.queries, self.widths[0])
        if self.is_self:
            return query, query, query
        key = draw(sizes.rows, sizes.keys, self.widths[1])
        return query, key, draw(sizes.rows, sizes.keys, self.widths[2]) if self.has_value else key

    def inputs_with_other_rows(self, sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs, with other rows than the first one."""
        pairs = zip(self.inputs(sizes), self.inputs(sizes, seed=1), strict=True)
        query, key, value = (torch.cat([part[:1], other[1:]]) for part, other in pairs)
        return query, key, value

    def arguments(
        self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None = None, causal: bool = False
    ) -> dict[str, Any]:
        """The arguments by name.

        ``allowed`` is True on the keys that are not padding (B, S), or on the pairs of positions that are not hidden
        (B, T, T).
        """
        rows, queries, keys = len(query), query.shape[1], key.shape[1]
        pairs = allowed if allowed is not None and allowed.ndim == 3 else None
        real = torch.ones(rows, keys, dtype=torch.bool) if allowed is None or pairs is not None else allowed
        of_keys = real[:, None].expand(-1, queries, -1)
        of_positions = of_keys if self.is_self else torch.ones(rows, queries, queries, dtype=torch.bool)
        of_positions = of_positions if pairs is None else pairs
        role_of_pairs = "target_mask" if self.has("target_mask") else "mask"
        gives_pairs = causal or pairs is not None or (self.has("target_mask") and self.needs_mask)
        named: dict[str, Any] = {}
        for name, role in self.roles.items():
            if role in ("query", "x"):
                named[name] = self.lay_out(query, is_query=not self.is_self)
            elif role in ("key", "value"):
                named[name] = self.lay_out(key if role == "key" else value, is_query=False)
            elif role == "lengths":
                named[name] = real.sum(dim=1)
            elif role in ("mask", "padding", "target_mask"):
                form, shown = None, of_keys
                if role == role_of_pairs and gives_pairs and self.pairs is not None:
                    form, shown = self.pairs, of_positions.tril() if causal else of_positions
                elif role == self.mask_role and (allowed is not None or self.needs_mask):
                    form = self.padding
                named[name] = form.make(shown, self.heads, self.subject.dtype) if form else None
            elif role == "causal" and causal and self.pairs is None:
                named[name] = True
        return named

    @property
    def mask_role(self) -> str:
        """The role of the parameter that takes a mask of padding."""
        return "padding" if self.has("padding") else "mask"

    def lay_out(self, values: Tensor, is_query: bool) -> Tensor:
        """A tensor (B, T, D) in the layer's layout."""
        if self.layout == "heads":
            return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, D / H)
        if is_query and self.layout.startswith("step"):
            return values[:, 0]
        if is_query and self.layout.startswith("hidden"):
            return values[:, :1].transpose(0, 1)
        return values.transpose(0, 1) if self.layout.endswith("time_first") else values

    def call(self, named: dict[str, Any], seed: int = 0, trace: Any = None) -> Any:
        """Call it with arguments that :meth:`arguments` made."""
        positional: list[Any] = []
        if self.by_position:
            positional, named = list(named.values()), {}
        return self.subject(*positional, seed=seed, trace=trace, **named)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        allowed: Tensor | None = None,
        causal: bool = False,
        seed: int = 0,
        trace: Any = None,
    ) -> LayerOutput:
        named = self.arguments(query, key, value, allowed, causal)
        # Clones, since code that changes its input would change what is compared next.
        named = {name: part.clone() if isinstance(part, Tensor) else part for name, part in named.items()}
        result = self.call(named, seed, trace)
        return self.read(result, Sizes(len(query), query.shape[1], key.shape[1]), key)

    def read(self, result: Any, sizes: Sizes, key: Tensor) -> LayerOutput:
        """Context and weights of a result."""
        parts = [part for part in parts_of(result) if _is_numbers(part)]
        contexts = [context for part in parts if (context := self._context(part, sizes)) is not None]
        weights = [part for part in parts if _may_be_weights(part, sizes, self.is_self)]
        if not contexts and weights and not self.is_self:  # a layer that returns its weights alone
            weighted = weights[0]
            per_query = weighted.reshape(sizes.rows, -1, sizes.keys)
            if weighted.shape[0] == sizes.keys and weighted.ndim == 2:
                per_query = weighted.T.unsqueeze(1)
            return LayerOutput(per_query.to(key.dtype) @ key, weighted)
        if not contexts:
            raise ValueError("no output with an axis of queries")
        others = [part for part in weights if part.data_ptr() != contexts[0].data_ptr() or part.ndim > 3]
        return LayerOutput(contexts[0], others[0] if others else None)

    def _context(self, part: Tensor, sizes: Sizes) -> Tensor | None:
        rows, queries = sizes.rows, sizes.queries
        if self.layout == "heads":
            return part.transpose(1, 2).flatten(2) if part.shape[:3] == (rows, self.heads, queries) else None
        if not self.is_self and part.shape[-1] == sizes.keys:
            return None
        if self.is_step:
            is_context = tuple(part.shape[:-1]) in ((rows,), (1, rows), (rows, 1))
            return part.reshape(rows, 1, -1) if is_context else None
        if part.ndim != 3:
            return None
        if self.layout == "time_first":
            return part.transpose(0, 1) if tuple(part.shape[:2]) == (queries, rows) else None
        return part if tuple(part.shape[:2]) == (rows, queries) else None


def _is_numbers(part: Any) -> bool:
    return isinstance(part, Tensor) and part.is_floating_point() and part.ndim >= 2


def _may_be_weights(part: Tensor, sizes: Sizes, is_self: bool) -> bool:
    pair = sorted((sizes.queries, sizes.keys))
    if is_self:
        return part.ndim >= 3 and list(part.shape[-2:]) == pair
    if sizes.keys not in part.shape:
        return False
    others = part.numel() // sizes.keys
    return others % (sizes.rows * sizes.queries) == 0 and part.ndim <= 4


def all_sizes(layer: Layer) -> Sizes:
    """Numbers of rows, queries and keys that no other size of the layer equals."""
    free = (size for size in itertools.count(3, 2) if size not in layer.taken)
    rows, queries, keys = next(free), next(free), next(free)
    return Sizes(rows, keys if layer.is_self else 1 if layer.is_step else queries, keys)


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
    working: list[tuple[Layer, Sizes]] = []
    for layout in layouts:
        for widths in _widths(subject, is_self, width, "value" in roles.values(), int(heads)):
            count = int(heads) or (2 if layout == "heads" else 1)
            if layout == "heads" and any(part % count for part in widths):
                continue
            layer = Layer(subject, roles, layout, widths, count, is_self, by_position)
            sizes = all_sizes(layer)
            found = _first_that_runs(layer, sizes, mask, errors)
            if found is not None:
                working.append((found, sizes))
                break
    if not working:
        raise CannotCallError(how_to_adapt(subject, is_self, errors))
    for layer, sizes in working:
        if _rows_are_apart(layer, sizes):
            return layer, sizes
    return working[0]


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


def mask_forms(mask: str | None, shapes: tuple[str, ...]) -> Iterator[MaskForm]:
    """The forms of masks of these shapes, in one convention or in all."""
    kinds = {"attend": ("bool", "int", "float"), "ignore": ("bool", "float"), "additive": ("float", "int")}
    for convention in (mask,) if mask else CONVENTIONS:
        for kind in kinds[convention]:
            for shape in shapes:
                yield MaskForm(shape, convention, kind)


PADDING_SHAPES = ("BS", "B1S", "B11S", "BTS", "B1TS", "BHTS", "B*HTS", "SB")
PAIR_SHAPES = ("TS", "BTS", "B1TS", "BHTS", "B*HTS")


def _first_that_runs(layer: Layer, sizes: Sizes, mask: str | None, errors: dict[str, str]) -> Layer | None:
    inputs = layer.inputs(sizes)
    candidates = [layer]
    if layer.has("target_mask"):  # a form that runs; which convention is right is found later
        for form in mask_forms(mask or "attend", PADDING_SHAPES if layer.takes_padding else ("BS",)):
            pairs = (form._replace(shape=shape) for shape in PAIR_SHAPES)
            candidates += [replace(layer, padding=form, pairs=each, needs_mask=True) for each in pairs]
    elif layer.takes_padding:
        candidates += [replace(layer, padding=form, needs_mask=True) for form in mask_forms(mask, PADDING_SHAPES)]
    first = ""
    for candidate in candidates:
        try:
            candidate(*inputs)
            return candidate
        except Exception as error:
            text = first_line(error)[:200]
            errors.setdefault(f"{layer.layout}, width {layer.widths[0]}", text)
            if text == first:  # the same without a mask and with one: something else is wrong
                return None
            first = first or text
    return None


def _rows_are_apart(layer: Layer, sizes: Sizes) -> bool:
    inputs = layer.inputs(sizes)
    turned = (part.flip(0) for part in inputs)
    first, other, last = (layer(*call).context for call in (inputs, layer.inputs_with_other_rows(sizes), turned))
    return max(largest_difference(first[0], other[0]), largest_difference(first.flip(0), last)) < TOLERANCE


def with_masks(layer: Layer, sizes: Sizes, mask: str | None) -> Layer:
    """The layer with the mask forms that hide padding best."""
    padding = _best(layer, sizes, mask, PADDING_SHAPES, is_padding=True) if layer.takes_padding else None
    return with_pairs(replace(layer, padding=padding), sizes, mask)


def with_pairs(layer: Layer, sizes: Sizes, mask: str | None = None) -> Layer:
    """The layer with the form of a mask of pairs that hides later positions best."""
    if not layer.takes_pairs:
        return layer
    is_same = layer.has("mask") and not layer.has("padding") and not layer.has("target_mask")  # one argument for both
    convention = mask or (layer.padding.convention if layer.padding and is_same else None)
    return replace(layer, pairs=_best(layer, sizes, convention, PAIR_SHAPES, is_padding=False) or layer.pairs)


def hidden_keys(sizes: Sizes) -> Tensor:
    """A padding mask (B, S), True on real keys: the first row has no padding, the others have it on the right."""
    lengths = torch.tensor([sizes.keys, *(max(1, sizes.keys - 2 - row % 2) for row in range(sizes.rows - 1))])
    return torch.arange(sizes.keys) < lengths[:, None]


def _best(layer: Layer, sizes: Sizes, mask: str | None, shapes: tuple[str, ...], is_padding: bool) -> MaskForm | None:
    call, others = layer.inputs(sizes), layer.inputs(sizes, seed=1)
    of_queries = layer.is_self or not is_padding  # whether positions of the query are hidden
    real = torch.ones(sizes.rows, sizes.queries if of_queries else sizes.keys, dtype=torch.bool)
    if is_padding:
        real = hidden_keys(sizes)
    else:
        real[:, -2:] = False
    shown = real if of_queries else torch.ones(sizes.rows, sizes.queries, dtype=torch.bool)

    def changed(places: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value with others at these places."""
        of_keys = is_padding or layer.is_self
        parts = zip(call, others, (of_queries, of_keys, of_keys), strict=True)
        return tuple(torch.where(places[..., None], other, part) if moves else part for part, other, moves in parts)

    calls = call, changed(~real), changed(real)
    ranked: list[tuple[float, int, MaskForm]] = []
    for number, form in enumerate(mask_forms(mask, shapes)):
        candidate = replace(layer, padding=form) if is_padding else replace(layer, pairs=form)
        try:
            leaks = []
            for query, key, value in calls:
                result = candidate(query, key, value, real if is_padding else None, causal=not is_padding)
                leaks.append(torch.where(shown[..., None], result.context, 0.0))
        except Exception:
            continue
        leak = gap(leaks[0], leaks[1])
        effect = min(gap(first, second) for first, second in zip(leaks[0], leaks[2], strict=True))
        if not is_padding and not _acts_on_one_query(candidate, sizes):
            continue
        is_usable = bool(torch.isfinite(leaks[0]).all()) and effect > TOLERANCE  # else it hides all keys of a row
        ranked.append((leaked_share(leak, effect) if is_usable else 1e6, number, form))
    return min(ranked)[2] if ranked else None


def _acts_on_one_query(layer: Layer, sizes: Sizes) -> bool:
    """Whether hiding keys from one query changes the output of that query alone."""
    inputs = layer.inputs(sizes)
    every = torch.ones(sizes.rows, sizes.queries, sizes.queries, dtype=torch.bool)
    one = every.clone()
    one[:, 1, 2:] = False
    first, second = (layer(*inputs, allowed).context for allowed in (every, one))
    changed = [largest_difference(first[:, place], second[:, place]) > TOLERANCE for place in range(sizes.queries)]
    return changed == [place == 1 for place in range(sizes.queries)]


def how_to_adapt(subject: Subject, is_self: bool, errors: dict[str, str]) -> str:
    """The text of the error for a signature that is not understood."""
    kind = "self_attention" if is_self else "attention"
    arguments = "x, mask" if is_self else "query, key, value, mask"
    tried = "; ".join(f"{what}: {error}" for what, error in list(errors.items())[:4])
    return (
        f"cannot call {subject.name} as kind={kind!r} ({tried}). Write an adapter and check that:\n"
        f"    def adapter({arguments}):\n"
        f"        return layer({arguments})\n"
        f"    attnzoo.check(adapter, {kind!r})\n"
        "Tensors are (batch, time, width). The adapter returns the output, or the output and the weights. Pass "
        "width=... and num_heads=... if the module has no such attributes."
    )
