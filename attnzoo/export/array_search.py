"""Search over arrays: the best sequences or samples of a decoder that reads one token after the other, in numpy.

It is in every exported folder, next to ``run.py``, and needs only numpy.

Dimensions: B sources, K beams of each, R = B * K rows, C candidates, S source length, T tokens,
V vocabulary size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

NEVER = np.float32(-1e9)  # added to the score of a sequence that must not be chosen


class Generated(NamedTuple):
    """The N outputs of each source, the best first.

    Shape:
        - tokens: (B * N, T), padded after the end
        - scores: (B * N,), log p of the tokens, the end included
        - attention: (B * N, T, S), in the step that predicts each token; None without attention
    """

    tokens: np.ndarray
    scores: np.ndarray
    attention: np.ndarray | None


class OnnxDecoder:
    """A decoder, one token after the other; its rows are the beams or samples of each source, which share it.

    Args:
        model: an :class:`OnnxModel`
        ids: of the sources, (B, S)
        mask: 1 on their real tokens and 0 on padding, (B, S)
        repeats: rows of each source
    """

    def __init__(self, model: Any, ids: np.ndarray, mask: np.ndarray, repeats: int) -> None:
        read = model.outputs("encoder", input_ids=ids, attention_mask=mask)
        _, _, names = model.session("step")
        self.model = model
        self.state = {name: part.repeat(repeats, axis=0) for name, part in read.items() if f"next_{name}" in names}
        self.shared = {name: part for name, part in read.items() if name not in self.state} | {"attention_mask": mask}
        self.tokens = self.shared.pop("tokens").repeat(repeats)
        self.every_attention: list[np.ndarray] = []

    def read(self) -> np.ndarray:
        """Read the last tokens; returns the logits (R, V) of the next."""
        found = self.model.outputs("step", **self.shared, **self.state, tokens=self.tokens)
        self.state = {name: found[f"next_{name}"] for name in self.state}
        if "attention" in found:
            self.every_attention.append(found["attention"])
        return found["logits"]

    def go_on(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Continue from the states of ``rows`` with new tokens."""
        self.tokens = tokens
        if not np.array_equal(rows, np.arange(len(rows))):
            self.state = {name: value[rows] for name, value in self.state.items()}

    def attention(self, rows: np.ndarray | None = None) -> np.ndarray | None:
        """(N, T, S) of sequences that were row ``rows[:, t]`` at step t, by default the same row at every step."""
        if not self.every_attention:
            return None
        every = np.stack(self.every_attention, axis=1)  # (R, steps, S)
        return every if rows is None else every[rows, np.arange(rows.shape[1])]


def sample(
    decoder: OnnxDecoder,
    limits: np.ndarray,
    ends: Sequence[int],
    padding: int,
    seed: int | np.random.Generator | None = None,
    temperature: float = 1.0,
    top_k: int = 50,
    top_p: float = 1.0,
) -> Generated:
    """One sample for each row of the decoder.

    Raises:
        ValueError: an option out of range.
    """
    options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    if not temperature > 0 or top_k < 0 or not 0 <= top_p <= 1:
        raise ValueError(f"temperature must be above 0, top_k at least 0 and top_p between 0 and 1, got {options}")
    random, rows = np.random.default_rng(seed), np.arange(len(limits))
    is_open = np.ones(len(rows), dtype=bool)
    tokens, scores = np.zeros((len(rows), 0), np.int64), np.zeros(len(rows), np.float32)
    while is_open.any():
        logits = decoder.read()
        totals = np.exp(log_softmax(_warped(logits, **options))).cumsum(axis=1, dtype=np.float64)
        draws = random.random((len(rows), 1)) * totals[:, -1:]
        chosen = np.where(is_open, (totals <= draws).sum(axis=1).clip(max=logits.shape[1] - 1), padding)
        scores = scores + np.where(is_open, log_softmax(logits)[rows, chosen], 0)
        tokens = np.concatenate([tokens, chosen[:, None]], axis=1)
        is_open &= ~(np.isin(chosen, ends) | (tokens.shape[1] >= limits))
        decoder.go_on(rows, chosen)
    return Generated(tokens, scores, decoder.attention())


def beam_search(
    decoder: OnnxDecoder,
    beams: int,
    wanted: int,
    limits: np.ndarray,
    ends: Sequence[int],
    fill: int,
    vocab_size: int,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
) -> Generated:
    """The beam search of Transformers, rule by rule.

    Every source has K running beams and K places for sequences that have ended. The score of an ended sequence is
    divided by its length to the power of ``length_penalty``.

    Raises:
        ValueError: the vocabulary is too small for the beams.
    """
    batch, longest = len(limits), int(limits.max())
    count = max(2, 1 + len(ends)) * beams
    if count > beams * vocab_size:
        raise ValueError(f"num_beams={beams} needs a larger vocabulary than {vocab_size} tokens")
    running = np.zeros((batch, beams, 0, 2), np.int64)  # tokens, and the rows of the steps that predicted them
    running_scores = np.zeros((batch, beams), np.float32)
    running_scores[:, 1:] = NEVER  # all beams of a source start with the same tokens
    ended = np.broadcast_to([fill, 0], (batch, beams, 0, 2))  # (B, K, T, 2), as wide as the running ones
    ended_scores = np.full((batch, beams), NEVER)
    ended_lengths = np.zeros((batch, beams), np.int64)
    has_ended = np.zeros((batch, beams), bool)
    can_improve = np.ones((batch, 1), bool)
    first_row = np.arange(batch)[:, None] * beams
    for length in range(1, longest + 1):
        log_probs = log_softmax(decoder.read()).reshape(batch, beams, -1) + running_scores[:, :, None]
        candidate_scores, place = _best(log_probs.reshape(batch, -1), count)
        beam, token = np.divmod(place, log_probs.shape[2])
        new = np.stack([token, beam + first_row], axis=2)[:, :, None]
        candidates = np.concatenate([_take(running, beam), new], axis=2)  # (B, C, T, 2)
        is_end = np.isin(token, ends) | (length >= limits)[:, None]
        # A candidate that ends takes a place if it is among the best K, and good enough.
        is_new = is_end & (np.arange(count) < beams)
        final = candidate_scores / np.float32(length**length_penalty)
        if early_stopping is True:
            final = final + has_ended.all(axis=1, keepdims=True) * NEVER
        final = final + ~can_improve * NEVER + ~is_new * NEVER
        ended = np.concatenate([ended, np.broadcast_to([fill, 0], (batch, beams, 1, 2))], axis=2)
        ended_scores, place = _best(np.concatenate([ended_scores, final], axis=1), beams)
        ended = _take(np.concatenate([ended, candidates], axis=1), place)
        ended_lengths = _take(np.concatenate([ended_lengths, np.full_like(beam, length)], axis=1), place)
        has_ended = _take(np.concatenate([has_ended, is_new], axis=1), place)
        # The best of the others run on.
        running_scores, place = _best(candidate_scores + is_end * NEVER, beams)
        running = _take(candidates, place)
        best_length = longest if early_stopping == "never" and length_penalty > 0 else length
        worst = np.where(has_ended, ended_scores.min(axis=1, keepdims=True), NEVER)
        reachable = running_scores[:, :1] / np.float32(best_length**length_penalty)
        can_improve &= (reachable > worst).any(axis=1, keepdims=True)
        if (early_stopping is True and has_ended.all()) or is_end.all() or not can_improve.any():
            break
        tokens, rows = running[:, :, -1].reshape(-1, 2).T
        decoder.go_on(rows, tokens)
    lengths = ended_lengths[:, :wanted].ravel()
    tokens, rows = ended[:, :wanted, : lengths.max()].reshape(len(lengths), -1, 2).transpose(2, 0, 1)
    scores = ended_scores[:, :wanted].ravel() * lengths ** float(length_penalty)
    return Generated(tokens, scores, decoder.attention(rows))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """The logarithm of the softmax over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _warped(logits: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """The logits (R, V) over the temperature, -inf for tokens that are not among the top ones."""
    logits = logits / np.float32(temperature)
    if 0 < top_k < logits.shape[1]:
        least = np.partition(logits, -top_k, axis=1)[:, -top_k, None]
        logits = np.where(logits < least, -np.inf, logits)
    if top_p < 1:
        order = logits.argsort(axis=1)
        shares = np.exp(log_softmax(np.take_along_axis(logits, order, axis=1))).cumsum(axis=1)
        is_left_out = shares <= 1 - top_p
        is_left_out[:, -1] = False
        np.put_along_axis(logits, order, np.where(is_left_out, -np.inf, np.take_along_axis(logits, order, 1)), axis=1)
    return logits


def _best(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``count`` largest values of every row and their places, the largest first."""
    place = np.argpartition(-values, count - 1, axis=1)[:, :count] if count < values.shape[1] else None
    chosen = values if place is None else np.take_along_axis(values, place, axis=1)
    order = np.argsort(-chosen, axis=1, kind="stable")
    best = order if place is None else np.take_along_axis(place, order, axis=1)
    return np.take_along_axis(values, best, axis=1), best


def _take(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """``values`` (B, N, ...) in the order of ``index`` (B, C)."""
    return values[np.arange(len(values))[:, None], index]
