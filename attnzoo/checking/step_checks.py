"""The properties of a decoder that works step by step: teacher forcing, reordered beams, no state changed in place.

Dimensions: B batch, T target length, S source length, V vocabulary.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from ..cache_names import CACHE, cache_argument
from .report import Finding, Report
from .subject import DEEP_TOLERANCE, CannotCallError, Subject, first_line, largest_difference, parts_of, tensors_of

ROWS, LENGTH, SOURCE_LENGTH = 3, 5, 4
ADAPTER = """A decoder is checked by functions:
    start(source, source_mask) -> state       (B, S), (B, S); for a language model start() or start(rows)
    step(tokens, state) -> (logits, state)    (B,) -> (B, V)
    whole(source, source_mask, target)        -> logits (B, T, V); for a language model whole(target)
    reorder(state, rows) -> state             row i of the new state is row rows[i] of the old one
    attnzoo.check(kind='decoder_step', start=start, step=step, whole=whole, reorder=reorder, vocab_size=...)"""


@dataclass
class DecoderFunctions:
    """The functions of a decoder. Each is called with the arguments that it takes."""

    step: Subject
    vocabulary: int
    start: Subject | None = None
    whole: Subject | None = None
    reorder: Subject | None = None
    column: bool = False  # tokens as (B, 1)

    def ids(self, rows: int, length: int, seed: int = 0) -> Tensor:
        """Ids without special tokens."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(min(3, self.vocabulary - 2), self.vocabulary, (rows, length), generator=generator)

    def source(self, rows: int) -> tuple[Tensor, Tensor]:
        """Ids, the same in every row as the beams of a search have them, and their mask."""
        ids = self.ids(1, SOURCE_LENGTH, seed=5).expand(rows, -1).contiguous()
        return ids, torch.ones(rows, SOURCE_LENGTH, dtype=torch.long)

    def begin(self, rows: int = ROWS) -> Any:
        """The state before the first token."""
        if self.start is None:
            return None
        needed = self.start.required
        if len(needed) == 1 and needed[0].lower() in ("rows", "batch", "batch_size", "bsz", "n"):
            return self.start(rows)
        return self.start(*self.source(rows)[: len(needed)])

    def next(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, V) and the next state."""
        tokens = tokens[:, None] if self.column else tokens
        result = _call(self.step, tokens, state, ("state", "hidden", "cache", "past"))
        logits, new = parts_of(result)[:2]
        if logits.ndim == 3:
            logits = logits[:, -1] if logits.shape[0] == len(tokens) else logits[-1]
        return logits, new

    def forced(self, target: Tensor) -> Tensor:
        """Logits (B, T, V) of the whole target."""
        assert self.whole is not None
        result = self.whole(*self.source(len(target))[: len(self.whole.required) - 1], target)
        logits: Tensor = result[0] if isinstance(result, tuple | list) else getattr(result, "logits", result)
        return logits

    def run(self, target: Tensor, state: Any) -> tuple[list[Tensor], Any]:
        """The logits of every step over a target, and the last state."""
        found = []
        for position in range(target.shape[1]):
            logits, state = self.next(target[:, position], state)
            found.append(logits)
        return found, state


def _call(function: Subject, first: Any, second: Any, names_of_second: tuple[str, ...]) -> Any:
    """Call a function of two arguments; the second comes first if the name of its first has one of these words."""
    name = next(iter(function.signature), "").lower()
    is_swapped = any(word in name for word in names_of_second)
    return function(*((second, first) if is_swapped else (first, second)))


def decoder_functions(
    target: Any, functions: dict[str, Callable[..., Any] | None], vocab_size: int | None, dtype: torch.dtype
) -> DecoderFunctions:
    """The functions of a decoder: those passed, or methods of ``target`` with the usual names.

    Raises:
        CannotCallError: no function for a step is given.
    """
    usual = {
        "start": ("start", "init_state", "begin", "initial_state"),
        "step": ("step", "forward_step", "decode_step"),
        "whole": ("whole", "teacher_forcing", "forward"),
        "reorder": ("reorder", "reorder_state", "reorder_cache", "_reorder_cache"),
    }
    found: dict[str, Any] = {}
    for role, names in usual.items():
        method = next((getattr(target, name) for name in names if hasattr(target, name)), None)
        if getattr(method, "__func__", None) is nn.Module.forward:  # a module without forward
            method = None
        found[role] = functions.get(role) or (method if callable(method) else None)
    if found["step"] is None:
        raise CannotCallError(f"kind='decoder_step' needs a function step. {ADAPTER}")
    subjects = {role: Subject(function, dtype) for role, function in found.items() if function is not None}
    size = vocab_size
    for subject in subjects.values():
        tables = [part.num_embeddings for part in subject.parts if isinstance(part, nn.Embedding)]
        size = size or min(tables, default=None)
    return DecoderFunctions(**subjects, vocabulary=size or 11)  # type: ignore[arg-type]


def check_steps(report: Report, decoder: DecoderFunctions) -> None:
    """Check a decoder that works step by step.

    Raises:
        CannotCallError: a step cannot be called.
    """
    target = decoder.ids(ROWS, LENGTH)
    try:
        _first_step(decoder, target)
    except Exception as error:
        raise CannotCallError(f"a step raises {first_line(error)}. {ADAPTER}") from error
    _check_dropout(report, decoder, target)
    in_place = _check_in_place(report, decoder)
    if decoder.whole is None:
        for check in ("step equals teacher forcing", "future"):
            report.skip(check, "pass the function whole to check it")
    elif in_place and isinstance(decoder.begin(), dict | list):
        for check in ("step equals teacher forcing", "future"):
            report.skip(check, "cannot be judged until cache_changed_in_place is repaired")
    else:
        _check_whole(report, decoder)
    if decoder.reorder is None:
        report.skip("beams", "pass the function reorder to check it")
    else:
        _check_reorder(report, decoder)


def _first_step(decoder: DecoderFunctions, target: Tensor) -> None:
    try:
        logits, _ = decoder.next(target[:, 0], decoder.begin())
    except Exception:
        decoder.column = True
        logits, _ = decoder.next(target[:, 0], decoder.begin())
    if logits.shape[0] != ROWS:
        raise ValueError(f"the logits of a step have shape {tuple(logits.shape)}")


def _check_dropout(report: Report, decoder: DecoderFunctions, target: Tensor) -> None:
    def step(seed: int) -> Tensor:
        decoder.step.seed = seed
        _, state = decoder.next(target[:, 0], decoder.begin())
        return decoder.next(target[:, 1], state)[0]

    first = step(1)
    differs = any(largest_difference(first, step(seed)) > DEEP_TOLERANCE for seed in range(2, 6))
    decoder.step.seed = 0
    if differs:
        where = "the same step with other random numbers gives other logits in eval mode"
        report.add(Finding("dropout_in_eval", where, {"tokens": target[:, 0]}))
        for subject in (decoder.step, decoder.start, decoder.whole):
            if subject is not None:
                subject.without_dropout = True
    report.done("dropout in eval mode")


def _check_in_place(report: Report, decoder: DecoderFunctions) -> bool:
    """A step must not change the state that it received: the tensors must stay, and a second step from it must give the
    same result.

    A cache of Transformers grows by design; of it only the tensors are compared.
    """
    found = None
    for length in range(LENGTH - 1):
        target = decoder.ids(2, length + 1)
        _, state = decoder.run(target[:, :length], decoder.begin(2))
        if state is None:
            continue
        held = tensors_of(state)
        before = [part.clone() for part in held]
        grows = any(isinstance(part, Cache) for part in (state, *(state if isinstance(state, tuple | list) else ())))
        grows = grows or (isinstance(state, dict) and any(isinstance(part, Cache) for part in state.values()))
        first, _ = decoder.next(target[:, length], copy.deepcopy(state))
        given = {"tokens": target[:, length], **{f"state {i}": part for i, part in enumerate(before)}}
        once = copy.deepcopy(state) if grows else state
        held = tensors_of(once) if grows else held
        decoder.next(target[:, length], once)
        changed = [i for i, (old, new) in enumerate(zip(before, held, strict=True)) if not torch.equal(old, new)]
        if changed:
            found = Finding("cache_changed_in_place", f"tensor {changed[0]} of the state, at step {length}", given)
        elif not grows:
            second, _ = decoder.next(target[:, length], state)
            if largest_difference(first, second) > DEEP_TOLERANCE:
                where = f"the same step from the same state gives other logits the second time, at step {length}"
                found = Finding("cache_changed_in_place", where, given)
        if found is not None:
            report.add(found)
            break
    report.done("state left as it was")
    return found is not None


def _check_whole(report: Report, decoder: DecoderFunctions) -> None:
    for rows, length in ((1, 1), (1, 2), (1, 3), (2, 2), (ROWS, LENGTH)):
        target = decoder.ids(rows, length)
        whole = decoder.forced(target)
        for position in range(1, length):
            other = target.clone()
            other[:, position:] = decoder.ids(rows, length, seed=3)[:, position:]
            after = decoder.forced(other)
            if largest_difference(whole[:, :position], after[:, :position]) > DEEP_TOLERANCE:
                where = f"by teacher forcing the logits before position {position} change with the target from there"
                report.add(Finding("future_leaked", where, {"target": target}, {"target": other}))
                report.done("future")
                report.skip("step equals teacher forcing", "cannot be judged until future_leaked is repaired")
                return
        single, _ = decoder.run(target, decoder.begin(rows))
        for position, logits in enumerate(single):
            if largest_difference(logits, whole[:, position]) > DEEP_TOLERANCE:
                where = f"the logits of position {position} of {length}"
                report.add(Finding("step_differs", where, {"target": target}))
                report.done("step equals teacher forcing")
                report.done("future")
                return
    report.done("future")
    report.done("step equals teacher forcing")


def _check_reorder(report: Report, decoder: DecoderFunctions) -> None:
    assert decoder.reorder is not None
    for rows, order in ((2, [1, 0]), (2, [1, 1]), (3, [2, 0, 0])):
        index = torch.tensor(order)
        for length in (1, 2, 3):
            prefix, after = decoder.ids(rows, length), decoder.ids(rows, 2, seed=2)
            _, state = decoder.run(prefix, decoder.begin(rows))
            made = _call(decoder.reorder, state, index, ("order", "row", "idx", "index", "beam"))
            state = state if made is None else made
            continued, _ = decoder.run(after, state)
            expected, _ = decoder.run(torch.cat([prefix[index], after], dim=1), decoder.begin(rows))
            for position, logits in enumerate(continued):
                if largest_difference(logits, expected[length + position]) > DEEP_TOLERANCE:
                    where = f"after {length} tokens and the order {order}, the logits of step {length + position}"
                    report.add(Finding("beam_not_reordered", where, {"prefix": prefix, "order": index, "after": after}))
                    report.done("beams")
                    return
    report.done("beams")


def functions_of_transformers(model: Any, vocabulary: int) -> DecoderFunctions:
    """The steps of a Hugging Face model that has a cache."""
    is_pair = bool(model.config.is_encoder_decoder)
    name = "decoder_input_ids" if is_pair else "input_ids"
    past = cache_argument(model.forward) or CACHE

    def start(source: Tensor, mask: Tensor) -> Any:
        if not is_pair:
            return {}
        return {"encoder_outputs": model.get_encoder()(input_ids=source, attention_mask=mask), "attention_mask": mask}

    def step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs = model(**{name: tokens[:, None]}, **state, use_cache=True)
        return outputs.logits[:, -1], {**state, past: outputs.get(CACHE)}

    def forced(source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        inputs = {"input_ids": source, "attention_mask": mask, name: target} if is_pair else {name: target}
        logits: Tensor = model(**inputs).logits
        return logits

    def reorder(state: Any, rows: Tensor) -> Any:
        cache = copy.deepcopy(state[past])
        cache.reorder_cache(rows)
        return {**state, past: cache}

    parts = [Subject(function, model.dtype) for function in (step, start, forced, reorder)]
    for part in parts:
        part.modules = [model]
    of_step, *of_others = parts
    return DecoderFunctions(of_step, vocabulary, *of_others)  # type: ignore[arg-type]
