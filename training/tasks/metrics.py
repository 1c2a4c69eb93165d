"""Metrics as classes of the ``evaluate`` library that download nothing: ``compute(predictions=, references=)``.

Next to most figures are the ends of its 95 % confidence interval, "NAME_low" and "NAME_high", by bootstrap over the
examples.
"""

import functools
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
import sacrebleu
import sklearn.metrics
from rapidfuzz.distance import Levenshtein

from attnzoo.phone_sets import without_stress

from ..statistics import SAMPLES, bootstrap_mean, bootstrap_ratios, percentiles

STRING = datasets.Value("string")
# An untrained model exceeds it if a line has no spaces, and so is one word.
LARGEST_EXPONENT = math.log(sys.float_info.max)


class _Metric(evaluate.Metric):
    """A metric of the library ``evaluate``, described by attributes that a subclass sets.

    Attributes:
        prediction, reference: the types of a prediction and of a reference.
        key: the name of the figure.
        rate: computes the figure of predictions and references, as a fraction.
    """

    prediction, reference = STRING, STRING
    key: str
    rate: Callable[..., float]

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)  # otherwise evaluate writes its arguments to a file

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=inspect.getdoc(type(self)),
            citation="",
            features=datasets.Features({"predictions": self.prediction, "references": self.reference}),
        )


def with_interval(key: str, figure: float, bounds: tuple[float, float]) -> dict[str, float]:
    """A figure and the ends of its confidence interval, by their names."""
    return {key: figure, f"{key}_low": bounds[0], f"{key}_high": bounds[1]}


class _PronunciationMetric(_Metric):
    r"""A metric of pronunciations: the errors of all words, divided by the number of units, in percent.

    .. math:: 100 \frac{\sum_w e_w}{\sum_w n_w}

    Symbols: :math:`e_w` are the errors in word w, :math:`n_w` its units: words, or phonemes.

    Paper: Yao and Zweig (2015), "Sequence-to-Sequence Neural Net Models for Grapheme-to-Phoneme Conversion".

    Predictions: one pronunciation per word, phonemes separated by spaces. References: for each word the list of its
    accepted pronunciations, written in the same way.

    Attributes:
        count: the errors and the units of a word, for a prediction and the accepted pronunciations.
    """

    reference = datasets.Sequence(STRING)
    count: Callable[..., tuple[int, int]]

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, float]:
        pairs, words = np.unique(self._counts(predictions, references), axis=0, return_counts=True)
        errors, size = words @ pairs
        bounds = percentiles(bootstrap_ratios(100 * pairs[:, 0], pairs[:, 1], words))
        return with_interval(self.key, 100 * float(errors) / int(size), bounds)

    def _counts(self, predictions: list[str], references: list[list[str]]) -> np.ndarray:
        """The errors and the units of every word: (words, 2)."""
        if not references:
            raise ValueError("there are no references, so there is nothing to measure")
        for row, pronunciations in enumerate(references):
            if not any(pronunciation.split() for pronunciation in pronunciations):
                raise ValueError(f"references[{row}] has no pronunciation: {pronunciations}")
        return np.array(
            [
                self.count(prediction.split(), [pronunciation.split() for pronunciation in listed])
                for prediction, listed in zip(predictions, references, strict=True)
            ]
        )


class PhonemeErrorRate(_PronunciationMetric):
    r"""PER, in percent: edit distance to the nearest accepted pronunciation, summed over the words and divided by the
    summed lengths of these nearest pronunciations.

    Of two accepted pronunciations at the same distance, the longer one counts as the nearest.
    """

    key = "per"

    def count(self, prediction: list[str], accepted: list[list[str]]) -> tuple[int, int]:
        distance, negative_length = min((Levenshtein.distance(prediction, a), -len(a)) for a in accepted)
        return distance, -negative_length


class WordErrorRate(_PronunciationMetric):
    """WER, in percent: the share of words whose prediction equals none of their accepted pronunciations."""

    key = "wer"

    def count(self, prediction: list[str], accepted: list[list[str]]) -> tuple[int, int]:
        return int(prediction not in accepted), 1


class StressErrorRate(_PronunciationMetric):
    """Stress errors, in percent: the share of words whose phones are right and whose stress is wrong.

    The prediction equals no accepted pronunciation, but equals one without the stress of both (see
    ``attnzoo.phone_sets.without_stress``). WER is WER without stress plus stress errors.
    """

    key = "stress_errors"

    def count(self, prediction: list[str], accepted: list[list[str]]) -> tuple[int, int]:
        bare = [without_stress(one) for one in accepted]
        return int(prediction not in accepted and without_stress(prediction) in bare), 1


class _LabelMetric(_Metric):
    """A metric of predicted and true labels, both as the number of a label for every example, by scikit-learn."""

    prediction = reference = datasets.Value("int64")

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        _check_labels(predictions, references)
        return {self.key: 100 * float(self.rate(references, predictions))}


class Accuracy(_LabelMetric):
    """Accuracy, in percent: the share of examples whose label is predicted."""

    key = "accuracy"
    rate = staticmethod(sklearn.metrics.accuracy_score)

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        figures = super()._compute(predictions, references)
        [right] = np.nonzero(np.equal(predictions, references))
        counts = np.array([len(right), len(references) - len(right)])
        bounds = percentiles(bootstrap_ratios(np.array([100.0, 0.0]), np.ones(2), counts))
        return with_interval(self.key, figures[self.key], bounds)


class MacroF1(_LabelMetric):
    """Macro-F1, in percent: the mean of the labels' F1, each 2 TP / (2 TP + FP + FN), over all labels that occur."""

    key = "macro_f1"
    rate = staticmethod(functools.partial(sklearn.metrics.f1_score, average="macro", zero_division=0))


class Matthews(_LabelMetric):
    r"""Matthews' correlation of predicted and true labels, in percent, for any number of labels (Gorodkin, 2004).

    .. math:: R = \frac{c\, n - \sum_k p_k t_k}{\sqrt{(n^2 - \sum_k p_k^2) (n^2 - \sum_k t_k^2)}}

    Symbols: n examples, c of them right; label k has p_k predictions and t_k examples. It is 0 if there is only one
    label in the predictions or in the references.
    """

    key = "matthews"

    def rate(self, references: list[int], predictions: list[int]) -> float:
        if len({*predictions, *references}) == 1:  # scikit-learn gives 0 too, with a warning about its matrix
            return 0.0
        return sklearn.metrics.matthews_corrcoef(references, predictions)


def confusion_matrix(predictions: Sequence[int], references: Sequence[int], num_labels: int) -> np.ndarray:
    """The number of examples with the label of the row that were predicted as the label of the column.

    Shape:
        - returns: (num_labels, num_labels)

    Raises:
        ValueError: a label is negative, there are none, or the numbers of predictions and references differ.
    """
    _check_labels(predictions, references)
    return sklearn.metrics.confusion_matrix(references, predictions, labels=range(num_labels))


def _check_labels(predictions: Sequence[int], references: Sequence[int]) -> None:
    """Raise a ValueError for labels that cannot be counted. Data without labels has -1 for each."""
    if len(predictions) != len(references) or not len(references):
        raise ValueError(
            f"there are {len(predictions)} predictions and {len(references)} references; a prediction for every "
            "reference is needed, and at least one"
        )
    for name, labels in (("predictions", predictions), ("references", references)):
        for row, label in enumerate(labels):
            if label < 0:
                raise ValueError(
                    f"{name}[{row}] is {label}, which is not the number of a label; these start at 0, and an "
                    "example without a label cannot be counted"
                )


class _LikelihoodMetric(_Metric):
    """A metric of whole texts by their log-probabilities, which do not depend on the model's tokens.

    Predictions: the natural logarithm of every text's probability. References: the texts.
    """

    prediction = datasets.Value("float64")

    def _nats(self, log_probabilities: list[float], sizes: list[int]) -> list[float]:
        """Nats per word or per byte, and the ends of the interval; ``sizes`` are their numbers in each text."""
        if not sum(sizes):
            raise ValueError("the references have no words, so there is nothing to measure")
        for row, value in enumerate(log_probabilities):
            if not value <= 0:
                raise ValueError(f"a log-probability is at most 0, got {value} as predictions[{row}]")
        with np.errstate(divide="ignore", invalid="ignore"):  # samples of empty texts alone
            low, high = percentiles(bootstrap_ratios(-np.array(log_probabilities), np.array(sizes)))
        return [-math.fsum(log_probabilities) / sum(sizes), low, high]


class WordPerplexity(_LikelihoodMetric):
    r"""Perplexity per word.

    .. math:: \exp\Big(-\frac{1}{N} \sum_{x} \ln p(x)\Big)

    Symbols: :math:`x` is a text, whose end is predicted, too; :math:`N` is the number of words of all texts, which
    white space separates. It does not depend on the tokens of a model, so it can compare models with different tokens.
    """

    def _compute(self, predictions: list[float], references: list[str]) -> dict[str, float]:
        nats = self._nats(predictions, [len(text.split()) for text in references])
        figure, *bounds = (math.exp(one) if one < LARGEST_EXPONENT else math.inf for one in nats)
        return with_interval("word_perplexity", figure, (bounds[0], bounds[1]))


class BitsPerByte(_LikelihoodMetric):
    """Bits per byte: minus the binary logarithm of the texts' probability, divided by their number of UTF-8 bytes."""

    def _compute(self, predictions: list[float], references: list[str]) -> dict[str, float]:
        nats = self._nats(predictions, [len(text.encode()) for text in references])
        figure, low, high = (one / math.log(2) for one in nats)
        return with_interval("bits_per_byte", figure, (low, high))


class _TranslationMetric(_Metric):
    """A metric of translations and one reference for each, by sacreBLEU, with case and punctuation. Its interval is
    sacreBLEU's: the mean of the bootstrap samples, plus and minus half the width of their middle 95 %.

    Paper: Post (2018), "A Call for Clarity in Reporting BLEU Scores".
    """

    sacrebleu_class: type[sacrebleu.metrics.base.Metric]

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        if not references:
            raise ValueError("there are no references, so there is nothing to measure")
        found = self.sacrebleu_class().corpus_score(predictions, [references], n_bootstrap=SAMPLES)
        mean, half = float(found._mean), float(found._ci)  # of the samples; sacreBLEU prints them
        figures = with_interval(self.key, float(found.score), (max(0.0, mean - half), min(100.0, mean + half)))
        return figures | {f"{self.key}_signature": self.signature()}

    def signature(self) -> str:
        """The settings and version of sacreBLEU, for citing a figure."""
        metric = self.sacrebleu_class()
        metric.corpus_score(["a"], [["a"]])
        return str(metric.get_signature())


class BLEU(_TranslationMetric):
    """BLEU of the whole corpus, 0 to 100 (Papineni et al., 2002): the geometric mean of the precisions of n-grams, n up
    to 4, times a penalty on translations that are shorter than the references. The words are those of mteval's
    tokenizer 13a.
    """

    key = "bleu"
    sacrebleu_class = sacrebleu.metrics.BLEU


class _FloatCHRF(sacrebleu.metrics.CHRF):
    """chrF as a float: sacreBLEU has no mean of a sample's float32 and the 0.0 of one without a common letter."""

    def _compute_f_score(self, statistics: list[int]) -> float:
        return float(super()._compute_f_score(statistics))


class ChrF(_TranslationMetric):
    """chrF of the whole corpus, 0 to 100 (Popovic, 2015): the F-score of n-grams of characters without white space, n
    up to 6, with twice the weight on recall.
    """

    key = "chrf"
    sacrebleu_class = _FloatCHRF


class ROUGE(_Metric):
    """ROUGE-1, ROUGE-2 and ROUGE-L (Lin, 2004), F1 in percent: the mean of the texts, by Google's package rouge-score.

    Words are runs of ASCII letters and digits in lowercase; words longer than three letters are reduced to Porter's
    stems.
    """

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        if not references:
            raise ValueError("there are no references, so there is nothing to measure")
        from rouge_score.rouge_scorer import RougeScorer  # it imports nltk, which takes seconds

        names = ["rouge1", "rouge2", "rougeL"]
        scorer = RougeScorer(names, use_stemmer=True)
        scores = [scorer.score(*pair) for pair in zip(references, predictions, strict=True)]
        figures: dict[str, float] = {}
        for name in names:
            mean, *bounds = bootstrap_mean(np.array([100 * score[name].fmeasure for score in scores]))
            figures |= with_interval(name, mean, (bounds[0], bounds[1]))
        return figures
