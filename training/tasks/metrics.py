"""Metrics as offline ``evaluate.Metric`` classes: no download, the same ``compute(predictions=, references=)`` as any
other.
"""

import inspect
import math
import sys
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
import sacrebleu
import sklearn.metrics
from rapidfuzz.distance import Levenshtein

STRING, NUMBER = datasets.Value("string"), datasets.Value("float64")
LARGEST_EXPONENT = math.log(sys.float_info.max)  # reached at first where a word is a whole line, without white space


class _Metric(evaluate.Metric):
    """What ``evaluate`` wants to know of a metric: attributes that a subclass sets."""

    prediction, reference = STRING, STRING

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)  # otherwise evaluate writes what it is given to a file

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=inspect.getdoc(type(self)),
            citation="",
            features=datasets.Features({"predictions": self.prediction, "references": self.reference}),
        )


class _PronunciationMetric(_Metric):
    """A metric of pronunciations.

    Paper: Yao and Zweig (2015), "Sequence-to-Sequence Neural Net Models for Grapheme-to-Phoneme Conversion".

    Predictions: one pronunciation per word, phonemes separated by spaces. References: for each word the list of its
    accepted pronunciations, written in the same way.
    """

    reference = datasets.Sequence(STRING)

    def _check(self, references: list[list[str]]) -> None:
        if not references:
            raise ValueError("there are no references, so that there is nothing to score")
        for row, pronunciations in enumerate(references):
            if not any(pronunciation.split() for pronunciation in pronunciations):
                raise ValueError(f"references[{row}] has no pronunciation: {pronunciations}")


class PhonemeErrorRate(_PronunciationMetric):
    r"""PER, in percent: edit distance to the nearest accepted pronunciation, summed over the words and divided by the
    summed lengths of these nearest pronunciations.

    Of two accepted pronunciations at the same distance the longer counts as the nearest.
    """

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, float]:
        self._check(references)
        errors = phonemes = 0
        for prediction, pronunciations in zip(predictions, references, strict=True):
            candidates = [pronunciation.split() for pronunciation in pronunciations]
            distance, negative_length = min((Levenshtein.distance(prediction.split(), c), -len(c)) for c in candidates)
            errors, phonemes = errors + distance, phonemes - negative_length
        return {"per": 100 * errors / phonemes}


class WordErrorRate(_PronunciationMetric):
    """WER, in percent: the words whose prediction is none of their accepted pronunciations."""

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, float]:
        self._check(references)
        wrong = sum(
            prediction.split() not in [pronunciation.split() for pronunciation in pronunciations]
            for prediction, pronunciations in zip(predictions, references, strict=True)
        )
        return {"wer": 100 * wrong / len(predictions)}


class _LabelMetric(_Metric):
    """A metric of predicted and true labels, both as the number of a label for every example, by scikit-learn."""

    prediction = reference = datasets.Value("int64")


class Accuracy(_LabelMetric):
    """Accuracy, in percent: the examples whose label is predicted."""

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        _check_labels(predictions, references)
        return {"accuracy": 100 * float(sklearn.metrics.accuracy_score(references, predictions))}


class MacroF1(_LabelMetric):
    """Macro-F1, in percent: the mean of the labels' F1, each 2 TP / (2 TP + FP + FN), over all that occur."""

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        _check_labels(predictions, references)
        score = sklearn.metrics.f1_score(references, predictions, average="macro", zero_division=0)
        return {"macro_f1": 100 * float(score)}


class Matthews(_LabelMetric):
    r"""Matthews' correlation of predicted and true labels, in percent, for any number of labels (Gorodkin, 2004).

    .. math:: R = \frac{c\, n - \sum_k p_k t_k}{\sqrt{(n^2 - \sum_k p_k^2) (n^2 - \sum_k t_k^2)}}

    with n examples, c of them right, and for label k p_k predictions and t_k examples; 0 if there is only one label
    on either side.
    """

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        _check_labels(predictions, references)
        if len({*predictions, *references}) == 1:  # scikit-learn gives 0 too, with a warning about its matrix
            return {"matthews": 0.0}
        return {"matthews": 100 * float(sklearn.metrics.matthews_corrcoef(references, predictions))}


def confusion_matrix(predictions: Sequence[int], references: Sequence[int], num_labels: int) -> np.ndarray:
    """How many examples of the row's label were given the column's.

    Shape:
        - returns: (num_labels, num_labels)

    Raises:
        ValueError: a label is negative, there are none, or the numbers of predictions and references differ.
    """
    _check_labels(predictions, references)
    return sklearn.metrics.confusion_matrix(references, predictions, labels=range(num_labels))


def _check_labels(predictions: Sequence[int], references: Sequence[int]) -> None:
    """Refuse negative labels: data without labels has -1 for one."""
    if len(predictions) != len(references) or not len(references):
        raise ValueError(
            f"there are {len(predictions)} predictions and {len(references)} references; a prediction for every "
            "reference is needed, and at least one"
        )
    for name, labels in (("predictions", predictions), ("references", references)):
        for row, label in enumerate(labels):
            if label < 0:
                raise ValueError(
                    f"{name}[{row}] is {label}, which is no label's number; these start at 0, and an example without "
                    "a label cannot be counted"
                )


class _LikelihoodMetric(_Metric):
    """A metric of whole texts and their log-probabilities, whatever the tokens of the model that gives them.

    Predictions: the natural logarithm of every text's probability. References: the texts.
    """

    prediction = NUMBER

    def _nats(self, log_probabilities: list[float], size: int) -> float:
        """Nats per word or byte, of which the texts have ``size``."""
        if not size:
            raise ValueError("the references have no words, so that there is nothing to score")
        for row, value in enumerate(log_probabilities):
            if not value <= 0:
                raise ValueError(f"a log-probability is at most 0, got {value} as predictions[{row}]")
        return -math.fsum(log_probabilities) / size


class WordPerplexity(_LikelihoodMetric):
    r"""Perplexity per word.

    .. math:: \exp\Big(-\frac{1}{N} \sum_{x} \ln p(x)\Big)

    Symbols: :math:`x` is a text, its end among what is predicted; :math:`N` the number of words of all texts, a word
    being what stands between white space. Models of different tokens can be compared by it.
    """

    def _compute(self, predictions: list[float], references: list[str]) -> dict[str, float]:
        nats = self._nats(predictions, sum(len(text.split()) for text in references))
        return {"word_perplexity": math.exp(nats) if nats < LARGEST_EXPONENT else math.inf}


class BitsPerByte(_LikelihoodMetric):
    """Bits per byte of the texts in UTF-8: minus the binary logarithm of their probability over their bytes."""

    def _compute(self, predictions: list[float], references: list[str]) -> dict[str, float]:
        nats = self._nats(predictions, sum(len(text.encode()) for text in references))
        return {"bits_per_byte": nats / math.log(2)}


class _TranslationMetric(_Metric):
    """A metric of translations and one reference for each, by sacreBLEU, with case and punctuation.

    Paper: Post (2018), "A Call for Clarity in Reporting BLEU Scores".
    """

    key: str
    sacrebleu_class: type[sacrebleu.metrics.base.Metric]

    def signature(self) -> str:
        """The settings and version of sacreBLEU, to be quoted with a figure."""
        metric = self.sacrebleu_class()
        metric.corpus_score(["a"], [["a"]])  # which tells it the number of references
        return str(metric.get_signature())

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        if not references:
            raise ValueError("there are no references, so that there is nothing to score")
        score = float(self.sacrebleu_class().corpus_score(predictions, [references]).score)
        return {self.key: score, f"{self.key}_signature": self.signature()}


class BLEU(_TranslationMetric):
    """BLEU of the whole corpus, 0 to 100 (Papineni et al., 2002): the geometric mean of the precisions of n-grams, n up
    to 4, times a penalty on translations that are shorter than the references; words as mteval's 13a cuts them.
    """

    key = "bleu"
    sacrebleu_class = sacrebleu.metrics.BLEU


class ChrF(_TranslationMetric):
    """chrF of the whole corpus, 0 to 100 (Popovic, 2015): the F-score, recall twice as heavy, of n-grams of characters,
    n up to 6, white space left out.
    """

    key = "chrf"
    sacrebleu_class = sacrebleu.metrics.CHRF
