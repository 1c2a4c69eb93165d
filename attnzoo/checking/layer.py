"""How to call an attention layer: the roles of its arguments, its layout, its widths, its mask convention.

Dimensions: B batch, H heads, T queries, S keys, D width of the query, E width of the key.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .subject import TOLERANCE, Subject, largest_difference, named_parts_of
from .tracing import normalised_axes

NAMES = {
    "query": ("query", "q", "queries", "hidden", "decoder_hidden", "decoder_state", "dec_hidden", "tgt", "target"),
    "key": ("key", "k", "keys", "encoder_outputs", "encoder_output", "enc_outputs", "enc_output", "enc_out", "memory"),
    "value": ("value", "v", "values"),
}
CONVENTIONS = {
    "attend": "True or 1 where a key may be attended to",
    "ignore": "True or 1 where a key is hidden",
    "additive": "0 where a key may be attended to, -inf or a large negative number where it is hidden",
}
WIDTHS = ("embed_dim", "d_model", "hidden_size", "embed_size", "embedding_dim", "n_embd", "dim", "d_in", "width")


SHORT = (8, 6, 5)  # the longest sequences to try for code that takes few positions
OF_SCORES = ("score", "logit", "energ", "bias")  # in the names of parts of a result that are not weights


class OneOutputError(ValueError):
    """A layer gives one output for each row, where each query needs one."""


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
    place: int = 0  # of the output, among the parts of a result that may be it

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
        named = [(name.lower(), part) for name, part in named_parts_of(result) if _is_numbers(part)]
        contexts = [context for _, part in named if (context := self._context(part, sizes)) is not None]
        weights = [
            part
            for name, part in named
            if _may_be_weights(part, sizes, self.is_self) and not any(word in name for word in OF_SCORES)
        ]
        if self.is_self:  # at small sizes the width may be the number of keys
            contexts = [each for each in contexts if each.shape[-1] != sizes.keys] or contexts
        shapes = [tuple(part.shape) for _, part in named]
        is_one = any(shape[:-1] == (sizes.rows, 1) and shape[-1] != sizes.keys for shape in shapes)
        if not contexts and is_one and self.layout == "batch_first":  # a step of hidden[-1] runs time first, too
            raise OneOutputError(f"one output for all of {sizes.queries} queries: it returned {shapes}")
        if weights and not self.is_self and (not contexts or weights[0] is named[0][1]):
            contexts.append(_weighted(weights[0], sizes, key))  # it returns weights alone, or weights and a state
        if not contexts:
            raise ValueError(f"no output with an axis of {sizes.queries} queries: it returned {shapes}")
        context = contexts[self.place]
        others = [part for part in weights if part.data_ptr() != context.data_ptr() or part.ndim > 3]
        return LayerOutput(context, next(filter(_is_normalised, others), others[0]) if others else None)

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


def _weighted(weights: Tensor, sizes: Sizes, key: Tensor) -> Tensor:
    """The sums of the keys with returned weights, (B, T, E)."""
    per_query = weights.reshape(sizes.rows, -1, sizes.keys)
    if weights.shape[0] == sizes.keys and weights.ndim == 2:
        per_query = weights.T.unsqueeze(1)
    return per_query.to(key.dtype) @ key


def _is_normalised(part: Tensor) -> bool:
    return bool(normalised_axes(part.detach()))


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
    return _sizes(layer, next(free), next(free), next(free))


def short_sizes(layer: Layer) -> Iterator[Sizes]:
    """The same for code that takes few positions, such as a triangle that is cut: the longest are first."""
    for longest in SHORT:
        free = [size for size in range(3, longest + 1) if size not in layer.taken]
        if len(free) > 1:
            rows = next(size for size in itertools.count(longest + 1) if size not in layer.taken)
            yield _sizes(layer, rows, *free[-2:])


def _sizes(layer: Layer, rows: int, queries: int, keys: int) -> Sizes:
    return Sizes(rows, keys if layer.is_self else 1 if layer.is_step else queries, keys)


def reads_keys(layer: Layer, sizes: Sizes, tolerance: float = TOLERANCE) -> bool:
    """Whether the output depends on the keys; in self-attention, at some position on another one."""
    query, key, value = layer.inputs(sizes)
    others = layer.inputs(sizes, seed=1)
    first = layer(query, key, value).context
    if not layer.is_self:
        return largest_difference(first, layer(query, *others[1:]).context) > tolerance
    for position in range(sizes.keys):
        at = torch.arange(sizes.keys) == position
        changed = torch.where(at[:, None], others[0], query)
        second = layer(changed, changed, changed).context
        if largest_difference(first[:, ~at], second[:, ~at]) > tolerance:
            return True
    return False


def too_short(name: str, error: str) -> str:
    """The text of the error for code that takes too few positions."""
    return (
        f"{name} takes too few positions to be checked ({error}). Make it for longer sequences: 16 positions are "
        "enough (block_size, max_len, or what it calls them)"
    )


def mask_forms(mask: str | None, shapes: tuple[str, ...]) -> Iterator[MaskForm]:
    """The forms of masks of these shapes, in one convention or in all."""
    kinds = {"attend": ("bool", "int", "float"), "ignore": ("bool", "float"), "additive": ("float", "int")}
    for convention in (mask,) if mask else CONVENTIONS:
        for kind in kinds[convention]:
            for shape in shapes:
                yield MaskForm(shape, convention, kind)


PADDING_SHAPES = ("BS", "B1S", "B11S", "BTS", "B1TS", "BHTS", "B*HTS", "SB")
PAIR_SHAPES = ("TS", "BTS", "B1TS", "BHTS", "B*HTS")


def hidden_keys(sizes: Sizes) -> Tensor:
    """A padding mask (B, S), True on real keys: the first row has no padding, the others have it on the right."""
    lengths = torch.tensor([sizes.keys, *(max(1, sizes.keys - 2 - row % 2) for row in range(sizes.rows - 1))])
    return torch.arange(sizes.keys) < lengths[:, None]
