"""The functions of a decoder that works step by step: how each is called, and the logits of a whole target.

Dimensions: B batch, T target length, S source length, V vocabulary.
"""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..cache_names import CACHE, cache_argument
from .model import SOURCE, TARGET, Model, understand_model
from .subject import CannotCallError, Subject, first_line, parts_of

ADAPTER = """A decoder is checked by functions:
    start(source, source_mask) -> state       (B, S), (B, S): 1 where real; for a language model start() or start(rows)
    step(tokens, state) -> (logits, state)    (B,) -> (B, V)
    whole(source, source_mask, target)        -> logits (B, T, V); for a language model whole(target)
    reorder(state, rows) -> state             row i of the new state is row rows[i] of the old one
    attnzoo.check(kind='decoder_step', start=start, step=step, whole=whole, reorder=reorder, vocab_size=...)"""
ROWS = ("rows", "batch", "batch_size", "bsz", "n")


@dataclass
class DecoderFunctions:
    """The functions of a decoder.

    ``start`` and ``whole`` take arguments by the names in ``of_start`` and ``of_whole``: "source", "source_mask" or
    "lengths", and "target". If ``start`` takes no source, the decoder is a language model, and may take "rows".
    ``pad`` is the id of padding, if it was told.
    """

    subjects: list[Subject]
    vocabulary: int
    pad: int | None
    step: Callable[[Tensor, Any], Any]
    start: Callable[..., Any] = lambda: None
    of_start: tuple[str, ...] = ()
    whole: Callable[..., Any] | None = None
    of_whole: tuple[str, ...] = ()
    reorder: Callable[[Any, Tensor], Any] | None = None
    column: bool = field(default=False, init=False)  # tokens as (B, 1)

    @property
    def kind(self) -> str:
        """The kind of model that it is with whole targets."""
        return "encoder_decoder" if "source" in self.of_start else "language_model"

    def begin(self, rows: int, **given: Any) -> Any:
        """The state before the first token."""
        given["rows"] = rows
        return self.start(**{name: given[name] for name in self.of_start})

    def next(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, V) and the next state."""
        logits, new = parts_of(self.step(tokens[:, None] if self.column else tokens, state))[:2]
        if logits.ndim == 3:
            logits = logits[:, -1] if logits.shape[0] == len(tokens) else logits[-1]
        if logits.shape[0] != len(tokens):
            raise ValueError(f"the logits of a step have shape {tuple(logits.shape)}, for {len(tokens)} tokens")
        return logits, new

    def run(self, target: Tensor, state: Any) -> tuple[list[Tensor], Any]:
        """The logits of every step over a target, and the last state."""
        found = []
        for tokens in target.unbind(1):
            logits, state = self.next(tokens, state)
            found.append(logits)
        return found, state

    def ways(self, mask: str | None) -> dict[str, Model]:
        """The decoder as models that take whole targets: step by step, and by teacher forcing if there is ``whole``.

        Raises:
            CannotCallError: one of them cannot be called.
        """

        def stepped(**given: Tensor) -> Tensor:
            target = given.pop("target")
            return torch.stack(self.run(target, self.begin(len(target), **given))[0], dim=1)

        def forced(**given: Tensor) -> Any:
            assert self.whole is not None
            result = self.whole(**given)
            return result[0] if isinstance(result, tuple | list) else getattr(result, "logits", result)

        found = {}
        for self.column in (False, True):
            try:
                found["step by step"] = self._model(stepped, self.of_start, "a step", mask)
                break
            except CannotCallError:
                if self.column:
                    raise
        if self.whole is not None:
            form = found["step by step"].mask
            convention = mask if form is None else form.convention
            found["by teacher forcing"] = self._model(forced, self.of_whole, "whole", convention)
        return found

    def _model(self, function: Callable[..., Any], taken: tuple[str, ...], name: str, mask: str | None) -> Model:
        """A function of a whole target, with these arguments besides it, as a model."""
        is_pair = self.kind == "encoder_decoder"
        names = ("target", *(each for each in taken if each not in ("target", "rows"))) if is_pair else ("ids",)

        def called(**given: Any) -> Any:
            return function(**given if is_pair else {"target": given["ids"]})

        parameters = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in names]
        called.__signature__, called.__name__ = inspect.Signature(parameters), name  # type: ignore[attr-defined]
        subject = Subject(called)
        subject.modules = list({id(each): each for part in self.subjects for each in part.modules}.values())
        subject.dtype = self.subjects[0].dtype
        try:
            return understand_model(subject, self.kind, mask, self.pad, self.vocabulary, batch_first=True)
        except CannotCallError as error:
            what = first_line(error).partition(". Write")[0].replace(f" as kind={self.kind!r}", "")
            raise CannotCallError(f"{what}. {ADAPTER}") from error


def decoder_functions(
    target: Any,
    functions: dict[str, Callable[..., Any] | None],
    vocab_size: int | None,
    pad: int | None,
    dtype: torch.dtype,
) -> DecoderFunctions:
    """The functions of a decoder: those passed, or methods of ``target`` with the usual names.

    Raises:
        CannotCallError: no function for a step is given, or one has arguments whose meaning is not known.
    """
    usual = {
        "step": ("step", "forward_step", "decode_step"),
        "start": ("start", "init_state", "begin", "initial_state"),
        "whole": ("whole", "teacher_forcing", "forward"),
        "reorder": ("reorder", "reorder_state", "reorder_cache", "_reorder_cache"),
    }
    found: dict[str, Subject] = {}
    for role, names in usual.items():
        method = next((getattr(target, name) for name in names if hasattr(target, name)), None)
        if getattr(method, "__func__", None) is nn.Module.forward:  # a module without forward
            method = None
        function = functions.get(role) or (method if callable(method) else None)
        if function is not None:
            found[role] = Subject(function, dtype)
    if "step" not in found:
        raise CannotCallError(f"kind='decoder_step' needs a function step. {ADAPTER}")
    tables = [part.num_embeddings for each in found.values() for part in each.parts if isinstance(part, nn.Embedding)]
    decoder = DecoderFunctions(
        [*found.values()],
        vocab_size or min(tables, default=11),
        pad,
        _of_two(found["step"], ("state", "hidden", "cache", "past")),
    )
    if "start" in found:
        names_of_start = _roles(found["start"], ("source", "source_mask"))
        decoder.start, decoder.of_start = _by_role(found["start"], names_of_start), (*names_of_start,)
    if "whole" in found:
        wanted = ("source", "source_mask", "target") if decoder.kind == "encoder_decoder" else ("target",)
        names_of_whole = _roles(found["whole"], wanted)
        decoder.whole, decoder.of_whole = _by_role(found["whole"], names_of_whole), (*names_of_whole,)
    if "reorder" in found:
        decoder.reorder = _of_two(found["reorder"], ("order", "row", "idx", "index", "beam"))
    return decoder


def _of_two(subject: Subject, words: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    """A function of two arguments; they change places if the name of its first one has one of these words."""
    name = next(iter(subject.signature), "").lower()
    is_swapped = any(word in name for word in words)
    return lambda first, second: subject.target(*((second, first) if is_swapped else (first, second)))


def _roles(subject: Subject, wanted: tuple[str, ...]) -> dict[str, str]:
    """The name of each argument by its role: by names that tell it, the others in the order that is wanted.

    Raises:
        CannotCallError: there are more arguments without default than roles.
    """
    found: dict[str, str] = {}
    free = []
    for name, parameter in subject.signature.items():
        lower = name.lower()
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or "teacher" in lower:
            continue
        is_of_target = lower in TARGET or lower.startswith(("tgt", "trg", "decoder", "target", "dec_"))
        if "mask" in lower or lower.startswith("pad"):
            role = "" if is_of_target else "source_mask"
        elif "len" in lower:
            role = "" if is_of_target or "max" in lower else "lengths"
        elif lower in ROWS and "target" not in wanted:
            role = "rows"
        else:
            role = "target" if is_of_target else "source" if lower in SOURCE else ""
        if role == "source":
            role = "target" if wanted == ("target",) else role if name in subject.required else ""
        if role and role not in found and (role in wanted or role in ("lengths", "rows")):
            found[role] = name
        elif name in subject.required:
            free.append(name)
    missing = [role for role in wanted if role not in found]
    if "lengths" in found and "source_mask" not in found:
        missing = [role for role in missing if role != "source_mask"]
    if len(free) < len(missing):
        missing = [role for role in missing if role != "source_mask"]
    if len(free) > len(missing):
        raise CannotCallError(f"the argument {free[-1]!r} of {subject.name} is not known. {ADAPTER}")
    return found | dict(zip(missing, free, strict=False))


def _by_role(subject: Subject, names: dict[str, str]) -> Callable[..., Any]:
    """The function, called with its arguments by their roles."""
    fixed = {name: True if isinstance(part.default, bool) else 1.0 for name, part in subject.signature.items()}
    fixed = {name: value for name, value in fixed.items() if "teacher" in name.lower()}  # always force the target

    def called(**given: Any) -> Any:
        return subject.target(**fixed, **{names[role]: value for role, value in given.items()})

    return called


def functions_of_transformers(model: Any, vocabulary: int, pad: int) -> DecoderFunctions:
    """The steps of a Hugging Face model that has a cache."""
    is_pair = bool(model.config.is_encoder_decoder)
    name = "decoder_input_ids" if is_pair else "input_ids"
    past = cache_argument(model.forward) or CACHE

    def start(source: Tensor, source_mask: Tensor) -> Any:
        encoded = model.get_encoder()(input_ids=source, attention_mask=source_mask)
        return {"encoder_outputs": encoded, "attention_mask": source_mask}

    def step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs = model(**{name: tokens[:, None]}, **state, use_cache=True)
        return outputs.logits[:, -1], {**state, past: outputs.get(CACHE)}

    def whole(target: Tensor, **source: Tensor) -> Any:
        given = {"input_ids": source["source"], "attention_mask": source["source_mask"]} if is_pair else {}
        return model(**given, **{name: target})

    def reorder(state: Any, rows: Tensor) -> Any:
        cache = copy.deepcopy(state[past])
        cache.reorder_cache(rows)
        return {**state, past: cache}

    subject = Subject(step, model.dtype)
    subject.modules = [model]
    of_source = ("source", "source_mask") if is_pair else ()
    return DecoderFunctions(
        [subject],
        vocabulary,
        pad,
        step,
        start if is_pair else dict,
        of_source,
        whole,
        (*of_source, "target"),
        reorder,
    )
