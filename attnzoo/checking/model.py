"""How to call a whole model: encoder, language model, encoder-decoder; on ids or on vectors.

Dimensions: B batch, T target length, S source length, D width, V vocabulary.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from .layer import WIDTHS, MaskForm, mask_forms, too_short
from .mask_checks import padding_number
from .subject import (
    DEEP_TOLERANCE,
    CannotCallError,
    Subject,
    attempts,
    first_line,
    gap,
    largest_difference,
    leaked_share,
    tensors_of,
)

LENGTH, TARGET_LENGTH = 7, 5  # of the sequences of a call
SOURCE = ("input_ids", "src", "source", "x", "inputs", "input", "src_ids", "source_ids", "tokens", "ids", "text", "idx")
TARGET = ("decoder_input_ids", "tgt", "trg", "target", "targets", "y", "decoder_input", "dec_input", "target_ids")
ADAPTERS = {
    "encoder": "def adapter(ids, mask):          # (B, S), (B, S): 1 where real\n"
    "        return encoder(ids, mask)     # outputs, or (outputs, state)\n"
    "    attnzoo.check(adapter, 'encoder')",
    "language_model": "def adapter(ids, mask):          # (B, S), (B, S): 1 where real\n"
    "        return model(ids, mask)       # logits (B, S, V)\n"
    "    attnzoo.check(adapter, 'language_model')",
    "encoder_decoder": "def adapter(src, src_mask, tgt):  # (B, S), (B, S): 1 where real, (B, T)\n"
    "        return model(src, src_mask, tgt)  # logits (B, T, V)\n"
    "    attnzoo.check(adapter, 'encoder_decoder')",
}


@dataclass(frozen=True)
class Model:
    """A model, and how to call it. ``vocabulary`` is 0 for a model on vectors of ``width``."""

    subject: Subject
    kind: str
    roles: dict[str, str]
    vocabulary: int
    width: int
    pad: int
    time_first: bool = False
    mask: MaskForm | None = None  # of the padding of the source
    target_mask: MaskForm | None = None  # causal
    fixed: dict[str, Any] = field(default_factory=dict)

    def has(self, role: str) -> bool:
        """Whether some parameter has this role."""
        return role in self.roles.values()

    @property
    def knows_padding(self) -> bool:
        """Whether an argument says where padding is."""
        return self.has("mask") or self.has("memory_mask") or self.has("lengths")

    @property
    def words(self) -> list[int]:
        """The ids that are neither that of padding nor among the first, which are often special."""
        return [number for number in range(min(3, self.vocabulary // 4), self.vocabulary) if number != self.pad]

    def draw(self, rows: int, length: int, seed: int = 0) -> Tensor:
        """Ids (B, S) without padding, or vectors (B, S, D)."""
        generator = torch.Generator().manual_seed(seed)
        if not self.vocabulary:
            return torch.randn(rows, length, self.width, generator=generator).to(self.subject.dtype)
        ids = torch.tensor(self.words)
        return ids[torch.randint(len(ids), (rows, length), generator=generator)]

    def another(self, values: Tensor) -> Tensor:
        """Ids or vectors that differ from these at every position."""
        if not self.vocabulary:
            return -values
        words = self.words
        following = dict(zip(words, [*words[1:], words[0]], strict=True))
        return torch.tensor([[following.get(int(number), words[0]) for number in row] for row in values])

    def padded(self, source: Tensor, real: Tensor, seed: int | None = None) -> Tensor:
        """The source with padding where it is not real: the id of padding, or other content drawn by a seed."""
        if self.vocabulary and seed is None:
            return source.masked_fill(~real, self.pad)
        other = self.draw(source.shape[0], source.shape[1], 9 if seed is None else seed)
        return torch.where(real if self.vocabulary else real[..., None], source, other)

    def arguments(self, source: Tensor, real: Tensor | None = None, target: Tensor | None = None) -> dict[str, Any]:
        """The arguments by name; ``real`` (B, S) is True on tokens."""
        known = torch.ones(source.shape[:2], dtype=torch.bool) if real is None else real
        named: dict[str, Any] = dict(self.fixed)
        for name, role in self.roles.items():
            if role in ("source", "target"):
                value = source if role == "source" else target
                named[name] = value.transpose(0, 1) if self.time_first and value is not None else value
            elif role in ("mask", "memory_mask") and self.mask is not None:
                pairs = known[:, None].expand(-1, source.shape[1], -1)
                named[name] = self.mask.make(pairs, 1, self.subject.dtype)
            elif role == "lengths":
                named[name] = known.sum(dim=1)
            elif role == "target_mask" and self.target_mask is not None and target is not None:
                rows, length = target.shape[:2]
                triangle = torch.ones(length, length, dtype=torch.bool).tril().expand(rows, -1, -1)
                named[name] = self.target_mask.make(triangle, 1, self.subject.dtype)
            elif role in ("none", "mask", "memory_mask", "target_mask"):
                named[name] = None
        return named

    def call(self, source: Tensor, real: Tensor | None = None, target: Tensor | None = None, **options: Any) -> Any:
        """Call it."""
        return self.subject(**options, **self.arguments(source, real, target))

    def outputs(self, source: Tensor, real: Tensor | None = None, target: Tensor | None = None, **options: Any) -> Any:
        """The floating tensors of a call: with an axis of time, batch first, and without."""
        length = (source if target is None else target).shape[1]
        return self.sort(self.call(source, real, target, **options), source.shape[0], length)

    def sort(self, result: Any, rows: int, length: int) -> tuple[list[Tensor], list[Tensor]]:
        """The tensors of a result with an axis of time, (B, T, ...), and those without, (B, ...)."""
        if hasattr(result, "to_tuple"):
            names = ("logits", "last_hidden_state", "pooler_output")
            result = [result[name] for name in names if name in result]
        over_time, states = [], []
        for part in (part for part in tensors_of(result) if part.is_floating_point()):
            if part.ndim >= 2 and part.shape[:2] == (rows, length) and not self.time_first:
                over_time.append(part)
            elif part.ndim >= 2 and part.shape[:2] == (length, rows) and (self.time_first or length != rows):
                over_time.append(part.transpose(0, 1))
            elif part.shape[:1] == (rows,):
                states.append(part)
            elif part.ndim >= 2 and part.shape[1] == rows:
                states.append(part.transpose(0, 1))
        return over_time, states

    def main(self, source: Tensor, real: Tensor | None = None, target: Tensor | None = None, **options: Any) -> Tensor:
        """The output with an axis of time, or without one the first state."""
        over_time, states = self.outputs(source, real, target, **options)
        found: Tensor = (over_time or states)[0]
        return found


def understand_model(
    subject: Subject,
    kind: str,
    mask: str | None = None,
    pad: int | None = None,
    vocab_size: int | None = None,
    width: int | None = None,
    batch_first: bool | None = None,
) -> Model:
    """Find out how to call a model.

    Raises:
        CannotCallError: no call worked; the message says which adapter to write.
    """
    needs_target = kind == "encoder_decoder"
    roles, fixed = _roles(subject, needs_target)
    number = padding_number(subject, pad)
    if number is None:
        number = getattr(getattr(subject.target, "config", None), "pad_token_id", None)
    sizes = _inputs(subject, vocab_size, width)
    known = subject.attribute("batch_first") if batch_first is None else batch_first
    has_torch_layers = isinstance(known, bool) and type(subject.original).__module__.startswith("torch.nn")
    is_stated = batch_first is not None or has_torch_layers
    orders = [not known] if is_stated else [False, True]
    errors: dict[str, str] = {}
    working, failed = [], []
    for time_first in orders:
        for vocabulary, vector in sizes:
            model = Model(subject, kind, roles, vocabulary, vector, number or 0, time_first, fixed=fixed)
            found = _that_runs(model, mask, needs_target, errors)
            if found is not None:
                working.append(found)
                break
            failed.append(model)
    for model in working:
        if _rows_apart(model, needs_target):
            return model
    if any(_rows_apart(model, needs_target, 2, 2) for model in failed):
        raise CannotCallError(too_short(subject.name, next(iter(errors.values()))))
    if not working:
        tried = attempts(errors, 3)
        raise CannotCallError(
            f"cannot call {subject.name} as kind={kind!r} ({tried}). Write an adapter and check that:\n"
            f"    {ADAPTERS[kind]}\nPass vocab_size=... or width=..., and pad=..., if the code has no such attributes."
        )
    return working[0]


def _roles(subject: Subject, needs_target: bool) -> tuple[dict[str, str], dict[str, Any]]:
    parameters = subject.signature
    required = subject.required
    roles: dict[str, str] = {}
    fixed: dict[str, Any] = {}
    for name, parameter in parameters.items():
        lower = name.lower()
        is_target = lower.startswith(("tgt", "trg", "decoder", "target", "dec_"))
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if "teacher" in lower:
            fixed[name] = 1.0 if not isinstance(parameter.default, bool) else True
        elif "is_causal" in lower or "labels" in lower or "position" in lower or "type" in lower:
            continue
        elif "mask" in lower or lower.startswith("pad"):
            if is_target:
                roles[name] = "none" if "pad" in lower or lower.endswith("attention_mask") else "target_mask"
            elif "memory" in lower:
                roles[name] = "memory_mask" if "pad" in lower else "none"
            else:
                roles[name] = "mask"
        elif "len" in lower and "max" not in lower:
            roles[name] = "none" if is_target else "lengths"
        elif lower in TARGET and needs_target:
            roles[name] = "target"
        elif (lower in SOURCE or (name in required and not is_target)) and "source" not in roles.values():
            roles[name] = "source"
        elif name in required and needs_target and "target" not in roles.values():
            roles[name] = "target"
        elif name in required and "mask" not in roles.values() and "lengths" not in roles.values():
            roles[name] = "mask"
    masks = [name for name, role in roles.items() if role == "mask"]
    if len(masks) > 1:  # the mask of pairs hides nothing; the mask of padding is the other
        padding = next((name for name in masks if "pad" in name.lower()), masks[0])
        roles |= {name: "mask" if name == padding else "none" for name in masks}
    if "target" in roles.values() and "memory" in parameters:
        roles["memory"] = "source"
        roles = {name: role for name, role in roles.items() if role != "source" or name == "memory"}
    return {name: role for name, role in roles.items() if role != "none" or name in required}, fixed


def _inputs(subject: Subject, vocab_size: int | None, width: int | None) -> list[tuple[int, int]]:
    if vocab_size is not None or width is not None:
        return [(vocab_size or 0, width or 0)]
    tables = [part for part in subject.parts if isinstance(part, nn.Embedding)]
    found: list[tuple[int, int]] = []
    if tables:
        config = getattr(subject.target, "config", None)
        sizes = [size for size in (getattr(config, "vocab_size", None),) if isinstance(size, int)]
        found = [(size, 0) for size in [*sizes, min(table.num_embeddings for table in tables)]]
        found += [(table.num_embeddings, 0) for table in tables]
    widths = [int(value) for name in (*WIDTHS, "input_size") if (value := subject.attribute(name))]
    of_parts = (getattr(part, "in_features", getattr(part, "input_size", None)) for part in subject.parts)
    widths += [size for size in of_parts if isinstance(size, int)]
    found += [(0, size) for size in dict.fromkeys(widths) if size > 0]
    return list(dict.fromkeys(found)) or [(13, 0), (0, 8)]


def _that_runs(model: Model, mask: str | None, needs_target: bool, errors: dict[str, str]) -> Model | None:
    """The model with the mask forms that run, and that hide padding and the future best."""
    source, target = model.draw(3, 7), model.draw(3, 5, seed=1) if needs_target else None
    real = torch.arange(7) < torch.tensor([7, 5, 4])[:, None]
    forms: list[MaskForm | None] = [None]
    if model.has("mask") or model.has("memory_mask"):
        stated = "attend" if mask is None and "attention_mask" in model.roles else mask
        forms = [*mask_forms(stated, ("BS", "B1S", "B11S", "SB", "BTS")), None]
    targets: list[MaskForm | None] = [None]
    if model.has("target_mask"):
        targets = [*mask_forms(mask, ("TS", "BTS", "B1TS")), None]
    ranked: list[tuple[bool, float, int, Model]] = []
    for target_mask in targets:
        for form in forms:
            candidate = replace(model, mask=form, target_mask=target_mask)
            try:
                first = candidate.main(candidate.padded(source, real), real, target)
                leak, effect = 0.0, 1.0
                if form is not None:
                    hidden = candidate.main(candidate.padded(source, real, seed=4), real, target)
                    shown = candidate.main(candidate.draw(3, 7, seed=4), real, target)
                    places = real if not needs_target and first.shape[:2] == (3, 7) else slice(None)
                    leak, effect = (gap(first[places], part[places]) for part in (hidden, shown))
                if target_mask is not None and target is not None:
                    later = torch.cat([target[:, :2], candidate.draw(3, 5, seed=4)[:, 2:]], dim=1)
                    leak += gap(first[:, :2], candidate.main(candidate.padded(source, real), real, later)[:, :2])
            except Exception as error:
                what = f"{'vectors' if not model.vocabulary else 'ids'}{', time first' if model.time_first else ''}"
                errors.setdefault(what, first_line(error)[:200])
                continue
            share = leaked_share(leak, effect) if bool(torch.isfinite(first).all()) else 1e6
            # A form that lets rows influence each other was broadcast by chance.
            is_apart = _rows_apart(candidate, needs_target)
            ranked.append((not is_apart, share, len(ranked), candidate))
            if is_apart and share == 0.0:
                return candidate
    return min(ranked, key=lambda each: each[:3])[3] if ranked else None


def _rows_apart(model: Model, needs_target: bool, length: int = LENGTH, target_length: int = TARGET_LENGTH) -> bool:
    """Whether it can be called with these lengths, and a row depends neither on others nor on its place."""
    source, target = model.draw(3, length), model.draw(3, target_length, seed=1) if needs_target else None
    changed = torch.cat([source[:1], model.draw(3, length, seed=2)[1:]])
    try:
        first, other = model.main(source, None, target), model.main(changed, None, target)
        turned = model.main(source.flip(0), None, None if target is None else target.flip(0))
    except Exception:
        return False
    return max(largest_difference(first[0], other[0]), largest_difference(first.flip(0), turned)) < DEEP_TOLERANCE
