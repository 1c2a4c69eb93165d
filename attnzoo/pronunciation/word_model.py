"""A model that reads words letter by letter: batches of words to their best pronunciations."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.generation import StoppingCriteria

from ..alignment import AlignedPair, align
from ..decoding.token_search import search
from ..phonemes import CLOSE, OPEN, known_phonemes
from .text import plain

# The most phones of a word of English, by its letters. In CMUdict and in misaki's gold entries only initialisms and a
# few entries of several words have more.
PHONES_PER_LETTER, MORE_PHONES = 1.25, 8
MAX_LETTERS = 64  # of a word; the longest in a dictionary has 45
NO_HYPOTHESIS = -1e8  # the search gives a lower score to a place that no hypothesis has taken


class Hypothesis(NamedTuple):
    """A pronunciation as the model's phones, and its confidence (:func:`confidences`); None after a greedy search."""

    phones: tuple[str, ...]
    confidence: float | None


def confidences(log_probabilities: Sequence[float], temperature: float = 1.0) -> list[float]:
    r"""The probabilities of a beam search's hypotheses, as if there were no others.

    .. math:: c_i = \frac{p(y_i | x)^{1/\tau}}{\sum_j p(y_j | x)^{1/\tau}}

    Symbols: :math:`\tau` is ``temperature``, the field ``confidence_temperature`` of a model's config, which is fitted
    on held-out words; :math:`\log p(y_i | x)` are ``log_probabilities``, their ends included.
    """
    best = max(log_probabilities)
    weights = [math.exp((value - best) / temperature) for value in log_probabilities]
    return [weight / sum(weights) for weight in weights]


class WordModel:
    """A model of pronunciation with its tokenizer.

    Args:
        folder: of the model, or its Hub id
        accent_token: the first token of every source, for a model that knows it
        is_english: whether ``PHONES_PER_LETTER`` holds
        device: for the model

    Raises:
        ValueError: the tokenizer has no phonemes.
    """

    def __init__(self, folder: str | Path, accent_token: str, is_english: bool, device: str) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        vocabulary = self.tokenizer.get_vocab()
        if not (phones := known_phonemes(self.tokenizer)):
            raise ValueError(f"{folder} is not a model of pronunciation; use attnzoo translate")
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder).to(device).eval()
        self.phones = frozenset(phones)
        self.letters = frozenset(token for token in vocabulary if len(token) == 1)
        self.is_english = is_english
        self._prefix = accent_token if accent_token in vocabulary else ""
        self._phone_of = {vocabulary[f"{OPEN}{phone}{CLOSE}"]: phone for phone in phones}
        self._normalizer = self.tokenizer.backend_tokenizer.normalizer

    def readable(self, word: str) -> str | None:
        """A word as the model can read it, if need be without accents; None if it cannot or the word is too long."""
        for form in (word, plain(word)):
            normalized = self._normalizer.normalize_str(form) if self._normalizer else form
            if normalized and len(normalized) <= MAX_LETTERS and self.letters.issuperset(normalized):
                return normalized
        return None

    def read(
        self, words: Collection[str], n_best: int, num_beams: int | None, batch_size: int
    ) -> dict[str, list[Hypothesis]]:
        """At most ``n_best`` hypotheses for each of these readable words, the most probable first."""
        beams = num_beams or max(n_best, self.model.generation_config.num_beams or 1)
        ordered = sorted(words, key=lambda word: (len(word), word))
        found: dict[str, list[Hypothesis]] = {}
        for start in range(0, len(ordered), batch_size):
            batch = ordered[start : start + batch_size]
            hypotheses = self._search(batch, beams)
            found |= {word: best[:n_best] for word, best in zip(batch, hypotheses, strict=True)}
        return found

    def align(self, pairs: Sequence[tuple[str, tuple[str, ...]]]) -> list[AlignedPair | None]:
        """The alignment of every readable word and its phones; None where the model does not know all of them."""
        known = [number for number, (_, phones) in enumerate(pairs) if phones and self.phones.issuperset(phones)]
        sources = [self._prefix + pairs[number][0] for number in known]
        targets = [" ".join(pairs[number][1]) for number in known]
        found: list[AlignedPair | None] = [None] * len(pairs)
        for number, pair in zip(known, align(self.model, self.tokenizer, sources, targets), strict=True):
            if self._prefix:
                words, weights = pair.source_words[1:], pair.weights[:, 1:]
                pair = pair._replace(
                    source_words=words, weights=weights, links={(s - 1, t) for s, t in pair.links if s > 0}
                )
            found[number] = pair
        return found

    def _search(self, words: list[str], beams: int) -> list[list[Hypothesis]]:
        inputs = self.tokenizer([self._prefix + word for word in words], padding=True, return_tensors="pt")
        inputs = {name: inputs[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
        options: dict[str, Any] = {}
        if beams > 1:
            options["length_penalty"] = 0.0  # scores are log p; divided by the length they favour what repeats itself
        if self.is_english:
            limits = [int(PHONES_PER_LETTER * len(word)) + MORE_PHONES for word in words]
            options["max_new_tokens"] = max(limits)
            if limits[0] != limits[-1]:
                options["stopping_criteria"] = [_LengthLimits(limits, self.model.device)]
        outputs = self.model.generate(
            **inputs,
            custom_generate=search,
            num_beams=beams,
            num_return_sequences=beams,
            do_sample=False,
            return_dict_in_generate=True,
            **options,
        )
        sequences = outputs.sequences[:, 1:].tolist()  # without the start token
        scores = outputs.sequences_scores.tolist() if beams > 1 else [None] * len(sequences)
        return [
            self._hypotheses(sequences[row : row + beams], scores[row : row + beams])
            for row in range(0, len(sequences), beams)
        ]

    def _hypotheses(self, sequences: list[list[int]], scores: list[float | None]) -> list[Hypothesis]:
        """The hypotheses of one word that are not empty, the most probable first; those that were cut off come last."""
        end = self.model.generation_config.eos_token_id
        found: list[tuple[bool, float, tuple[str, ...]]] = []
        for ids, score in zip(sequences, scores, strict=True):
            phones = tuple(self._phone_of[token] for token in ids if token in self._phone_of)
            if phones and (score is None or score > NO_HYPOTHESIS):
                found.append((end in ids, score or 0.0, phones))
        found.sort(reverse=True)
        if not found or scores[0] is None:
            return [Hypothesis(phones, None) for _, _, phones in found]
        temperature = getattr(self.model.config, "confidence_temperature", 1.0)
        probabilities = confidences([log_probability for _, log_probability, _ in found], temperature)
        return [Hypothesis(phones, c) for (_, _, phones), c in zip(found, probabilities, strict=True)]


class _LengthLimits(StoppingCriteria):
    """Every word's own greatest number of new tokens, whatever the words it is batched with."""

    def __init__(self, limits: list[int], device: Any) -> None:
        self.limits = torch.tensor(limits, device=device)  # (B,)

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Any:
        """Which rows (B * candidates, T) are full."""
        return input_ids.shape[1] - 1 >= self.limits.repeat_interleave(len(input_ids) // len(self.limits))
