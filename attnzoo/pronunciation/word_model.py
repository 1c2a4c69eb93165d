"""A model that reads words letter by letter: from batches of words to their best pronunciations."""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ..alignment import AlignedPair
from ..batching import by_length
from ..languages import dictionaries_among, dictionaries_of, script_of, tags_of
from ..phone_sets import Phones, english_set, without_stress
from ..phonemes import CLOSE, OPEN, known_phonemes
from ..shipped_models import PRONUNCIATION
from .engines import EngineName, load_engine
from .text import INNER_E, RESPELLED_E, SOUNDED_E, plain, respelled, straight

# The largest number of phones of an English word, by its letters. In CMUdict and in misaki's gold entries only
# initialisms and a few entries of several words have more.
PHONES_PER_LETTER, MORE_PHONES = 1.25, 8
FEWEST_BEAMS = 5  # for several pronunciations: a confidence is a share of all that was found
MAX_LETTERS = 64  # in a word; the longest in a dictionary has 45
NO_HYPOTHESIS = -1e8  # the search gives a lower score to a place that no hypothesis has taken


class Hypothesis(NamedTuple):
    """A pronunciation as the model's phones, and its confidence (:func:`confidences`); None after a greedy search."""

    phones: tuple[str, ...]
    confidence: float | None


def confidences(log_probabilities: Sequence[float], temperature: float = 1.0, bias: float = 0.0) -> list[float]:
    r"""The probability that each hypothesis of a beam search is right.

    .. math:: c_i = \frac{w_i}{w_i + e^{-b} \sum_{j \neq i} w_j}, \qquad w_i = p(y_i | x)^{1/\tau}

    With b = 0 these are the probabilities of the hypotheses, as if there were no others. The bias is added to their
    log-odds. It is below 0 if the right pronunciation is often not among them, and then the sum of the :math:`c_i` is
    below 1 (Alexandari et al., 2020, "Maximum Likelihood with Bias-Corrected Calibration is Hard-To-Beat at Label Shift
    Adaptation", arXiv:1901.06852, section 2.3, for classes).

    Symbols: :math:`\tau` is ``temperature`` and b is ``bias``, the fields ``confidence_temperature`` and
    ``confidence_bias`` of a model's config, which are fitted on held-out words; :math:`\log p(y_i | x)` are
    ``log_probabilities``, which include the end tokens.
    """
    best = max(log_probabilities)
    weights = [math.exp((value - best) / temperature) for value in log_probabilities]
    total, rivals = sum(weights), math.exp(-bias)
    return [weight / (weight + rivals * (total - weight)) for weight in weights]


def phones_first(phones: Sequence[Phones], log_probabilities: Sequence[float], temperature: float = 1.0) -> list[int]:
    r"""The order of hypotheses: by the probability of their phones with any stress, and then by their own probability.

    .. math:: P(u) = \sum_{i: u_i = u} p(y_i | x)^{1/\tau}

    The most probable hypothesis may not have the most probable phones: if the stress is unclear, several hypotheses
    share the probability of their phones.

    Symbols: :math:`u_i` are the phones of :math:`y_i` without stress; the others are those of :func:`confidences`.
    """
    bare, best = [without_stress(one) for one in phones], max(log_probabilities)
    totals: defaultdict[Phones, float] = defaultdict(float)
    for one, value in zip(bare, log_probabilities, strict=True):
        totals[one] += math.exp((value - best) / temperature)
    return sorted(range(len(bare)), key=lambda place: (totals[bare[place]], log_probabilities[place]), reverse=True)


class WordModel:
    """A model of pronunciation with its tokenizer.

    Attributes:
        has_english_phones: whether its phones are ARPABET, or Kokoro's with accents
        dictionaries: for a model of several languages the dictionaries that it reads as, by their script; else empty

    Args:
        folder: the folder of the model, or its Hub id
        accent_token: the first token of every source, for a model that knows it; of an accent, or of a dictionary
        limits_phones: whether ``PHONES_PER_LETTER`` applies
        engine: the engine that runs it, see :func:`~attnzoo.pronunciation.engines.load_engine`
        device: the device of an engine of PyTorch
        language: for a model of several languages, see :func:`~attnzoo.languages.dictionaries_of`

    Raises:
        ValueError: the tokenizer has no phonemes; the engine does not fit; or the model has several languages and
            ``language`` is none of them, or it has not and ``language`` is one.
    """

    def __init__(
        self,
        folder: str | Path,
        accent_token: str,
        limits_phones: bool,
        engine: EngineName | None,
        device: str,
        language: str | None = None,
    ) -> None:
        self.engine = load_engine(folder, engine, device)
        tokenizer = self.engine.tokenizer
        vocabulary = tokenizer.get_vocab()
        if not (phones := known_phonemes(tokenizer)):
            raise ValueError(
                f"{folder} is not a pronunciation model: its tokenizer has no phonemes; choose a pronunciation model, "
                f"such as {PRONUNCIATION}"
            )
        dictionaries = dictionaries_among(phones)
        if dictionaries and language is None and accent_token not in vocabulary:
            languages = ", ".join(tags_of(dictionaries))
            raise ValueError(f"{folder} is a model of several languages: name one of them with language: {languages}")
        if language is not None and not dictionaries:
            raise ValueError(f"{folder} is not a model of several languages, got language={language!r}; leave it out")
        self.dictionaries = {} if language is None else dictionaries_of(language, dictionaries)
        self.phones = frozenset(phones).difference(dictionaries)
        self.letters = frozenset(token for token in vocabulary if len(token) == 1)
        self.limits_phones = limits_phones
        self.has_english_phones = english_set(phones) is not None
        self._respells = self.has_english_phones and self.letters.isdisjoint("çñéèêë")
        self.accent_token = accent_token if accent_token in vocabulary else ""
        self._phone_of = {vocabulary[f"{OPEN}{phone}{CLOSE}"]: phone for phone in self.phones}
        self._normalizer = tokenizer.backend_tokenizer.normalizer

    def readable(self, word: str) -> str | None:
        """A word in letters that the model can read: respelled or without accents if needed. None if the model cannot
        read it, if it is too long, or if none of ``dictionaries`` has its script.
        """
        return None if self.dictionaries and script_of(word) not in self.dictionaries else self.in_letters(word)

    def in_letters(self, word: str) -> str | None:
        """As :meth:`readable`, of a word in any script."""
        if any("\ud800" <= character <= "\udfff" for character in word):
            return None  # half of a surrogate pair, which no tokenizer takes
        if self._respells:
            word = respelled(word)
        for form_of in (str, self._partly_plain, plain):
            normalized = self._normalized(form_of(word))
            if normalized and len(normalized) <= MAX_LETTERS and self.letters.issuperset(normalized):
                return normalized
        return None

    def other_forms(self, word: str) -> list[str]:
        """Other spellings of a word whose accented e :meth:`readable` respells, to try if the model misreads this e.

        They are "rosaye" for "rosay", and the word without accents.
        """
        if not self._respells or not (SOUNDED_E.search(straight(word)) or INNER_E.search(word)):
            return []
        form, unaccented = self.readable(word), self.readable(plain(word))
        longer = form and RESPELLED_E.sub("aye", form)
        return [other for other in (longer, unaccented) if other and other != form]

    def _partly_plain(self, word: str) -> str:
        """A word with the accents removed from letters that the model does not know."""
        composed = unicodedata.normalize("NFC", word)
        return "".join(c if self.letters.issuperset(self._normalized(c)) else plain(c) for c in composed)

    def _normalized(self, text: str) -> str:
        return self._normalizer.normalize_str(text) if self._normalizer else text

    def read(
        self, words: Collection[str], n_best: int, num_beams: int | None, batch_size: int
    ) -> dict[str, list[Hypothesis]]:
        """At most ``n_best`` hypotheses for each of these readable words, the best first: by their probability, or for
        English phones by :func:`phones_first`.
        """
        beams = num_beams or max(n_best, self.engine.num_beams, FEWEST_BEAMS if n_best > 1 else 1)
        ordered = sorted(words)
        hypotheses = by_length(ordered, len, batch_size, lambda batch: self._search(batch, beams))
        return {word: best[:n_best] for word, best in zip(ordered, hypotheses, strict=True)}

    def align(self, pairs: Sequence[tuple[str, tuple[str, ...]]]) -> list[AlignedPair | None]:
        """The alignment of every readable word and its phones; None where the model does not know all of them."""
        known = [number for number, (_, phones) in enumerate(pairs) if phones and self.phones.issuperset(phones)]
        sources = [self._source(pairs[number][0]) for number in known]
        targets = [" ".join(pairs[number][1]) for number in known]
        found: list[AlignedPair | None] = [None] * len(pairs)
        for number, pair in zip(known, self.engine.align(sources, targets), strict=True):
            if self.accent_token or self.dictionaries:
                words, weights = pair.source_words[1:], pair.weights[:, 1:]
                pair = pair._replace(
                    source_words=words, weights=weights, links={(s - 1, t) for s, t in pair.links if s > 0}
                )
            found[number] = pair
        return found

    def _source(self, word: str) -> str:
        """The source of a readable word, which begins with the token of its accent or dictionary."""
        return (f"{OPEN}{self.dictionaries[script_of(word)]}{CLOSE}" if self.dictionaries else self.accent_token) + word

    def _search(self, words: list[str], beams: int) -> list[list[Hypothesis]]:
        limits = [int(PHONES_PER_LETTER * len(word)) + MORE_PHONES for word in words] if self.limits_phones else None
        sequences, scores = self.engine.search([self._source(word) for word in words], beams, limits)
        return [
            self._hypotheses(sequences[row : row + beams], scores and scores[row : row + beams])
            for row in range(0, len(sequences), beams)
        ]

    def _hypotheses(self, sequences: list[list[int]], scores: list[float] | None) -> list[Hypothesis]:
        """The hypotheses of one word that are not empty, the best first; those that were cut off come last."""
        found: list[tuple[bool, float, tuple[str, ...]]] = []
        for ids, score in zip(sequences, scores or [0.0] * len(sequences), strict=True):
            phones = tuple(self._phone_of[token] for token in ids if token in self._phone_of)
            if phones and score > NO_HYPOTHESIS:
                found.append((self.engine.end in ids, score, phones))
        found.sort(reverse=True)
        if not found or scores is None:
            return [Hypothesis(phones, None) for _, _, phones in found]
        ends, log_probabilities, phones_of = zip(*found, strict=True)
        certain = confidences(log_probabilities, *self.engine.calibration)
        order = list(range(len(found)))
        if self.has_english_phones and all(ends):
            order = phones_first(phones_of, log_probabilities, self.engine.calibration[0])
        return [Hypothesis(phones_of[place], certain[place]) for place in order]
