"""Metrics as offline ``evaluate.Metric`` classes: no download, the same ``compute(predictions=, references=)`` as any
other.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
import sacrebleu

_G2P_CITATION = "Yao and Zweig (2015), Sequence-to-Sequence Neural Net Models for Grapheme-to-Phoneme"
_INPUTS = """
    predictions: one pronunciation per word, phonemes separated by spaces
    references: for each word the list of its accepted pronunciations, written in the same way
"""


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Levenshtein distance: the fewest insertions, deletions and substitutions from one sequence to the other."""
    previous = list(range(len(right) + 1))
    for row, left_item in enumerate(left, start=1):
        current = [row]
        for column, right_item in enumerate(right, start=1):
            substitution = previous[column - 1] + (left_item != right_item)
            current.append(min(previous[column] + 1, current[-1] + 1, substitution))
        previous = current
    return previous[-1]


class _PronunciationMetric(evaluate.Metric):
    description = ""

    def _info(self) -> evaluate.MetricInfo:
        features = {"predictions": datasets.Value("string"), "references": datasets.Sequence(datasets.Value("string"))}
        return evaluate.MetricInfo(
            description=self.description,
            citation=_G2P_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(features),
        )

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

    description = "Phoneme error rate against the nearest of several accepted pronunciations, in percent."

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, float]:
        self._check(references)
        errors = phonemes = 0
        for prediction, pronunciations in zip(predictions, references, strict=True):
            candidates = [pronunciation.split() for pronunciation in pronunciations]
            distance, negative_length = min((edit_distance(prediction.split(), c), -len(c)) for c in candidates)
            errors, phonemes = errors + distance, phonemes - negative_length
        return {"per": 100 * errors / phonemes}


class WordErrorRate(_PronunciationMetric):
    """WER, in percent: the words whose prediction is none of their accepted pronunciations."""

    description = "Share of words whose pronunciation is none of the accepted ones, in percent."

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, float]:
        self._check(references)
        wrong = sum(
            prediction.split() not in [pronunciation.split() for pronunciation in pronunciations]
            for prediction, pronunciations in zip(predictions, references, strict=True)
        )
        return {"wer": 100 * wrong / len(predictions)}


class _LabelMetric(evaluate.Metric):
    """Of predicted and true labels, numbers both."""

    description = citation = ""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.description,
            citation=self.citation,
            inputs_description="predictions and references: the number of a label for every example",
            features=datasets.Features(
                {"predictions": datasets.Value("int64"), "references": datasets.Value("int64")},
            ),
        )


class Accuracy(_LabelMetric):
    """Accuracy, in percent: the examples whose label is predicted."""

    description = "Share of examples whose label is predicted, in percent."

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        predicted, true = _labels(predictions, references)
        return {"accuracy": 100 * float(np.mean(predicted == true))}


class MacroF1(_LabelMetric):
    """Macro-F1, in percent: the mean of the labels' F1, each 2 TP / (2 TP + FP + FN), over all that occur."""

    description = "Mean over the labels of the F1 score, in percent."

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        matrix = confusion_matrix(predictions, references)
        predicted_or_true = matrix.sum(axis=0) + matrix.sum(axis=1)  # 2 TP + FP + FN
        occurs = predicted_or_true > 0
        return {"macro_f1": 100 * float(np.mean(2 * matrix.diagonal()[occurs] / predicted_or_true[occurs]))}


class Matthews(_LabelMetric):
    r"""Matthews' correlation of predicted and true labels, in percent, for any number of labels (Gorodkin, 2004).

    .. math:: R = \frac{c\, n - \sum_k p_k t_k}{\sqrt{(n^2 - \sum_k p_k^2) (n^2 - \sum_k t_k^2)}}

    with n examples, c of them right, and for label k p_k predictions and t_k examples; 0 if there is but one label
    on either side.
    """

    description = "Matthews' correlation coefficient, in percent."
    citation = "Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient"

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        matrix = confusion_matrix(predictions, references).astype(float)
        number, true, predicted = matrix.sum(), matrix.sum(axis=1), matrix.sum(axis=0)
        variances = (number**2 - predicted @ predicted) * (number**2 - true @ true)
        covariance = matrix.trace() * number - predicted @ true
        return {"matthews": 100 * float(covariance / np.sqrt(variances)) if variances else 0.0}


def confusion_matrix(predictions: Sequence[int], references: Sequence[int], num_labels: int = 0) -> np.ndarray:
    """How many examples of the row's label were given the column's, over ``num_labels`` or as many as occur.

    Shape:
        - returns: (number of labels, number of labels)

    Raises:
        ValueError: a label is negative, there are none, or not as many of the one as of the other.
    """
    predicted, true = _labels(predictions, references)
    size = max(num_labels, 1 + int(max(predicted.max(), true.max())))
    matrix = np.zeros((size, size), dtype=np.int64)
    np.add.at(matrix, (true, predicted), 1)
    return matrix


def _labels(predictions: Sequence[int], references: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays. -1 is what data without labels has for one, and would be the last label's number to numpy."""
    if len(predictions) != len(references) or not len(references):
        raise ValueError(
            f"there are {len(predictions)} predictions and {len(references)} references; a prediction for every "
            "reference is needed, and one at least"
        )
    arrays = np.asarray(predictions), np.asarray(references)
    for name, labels in zip(("predictions", "references"), arrays, strict=True):
        if labels.min() < 0:
            row = int(labels.argmin())
            raise ValueError(
                f"{name}[{row}] is {labels[row]}, which is no label's number; these start at 0, and an example without "
                "a label cannot be counted"
            )
    return arrays


LARGEST_EXPONENT = math.log(sys.float_info.max)  # reached at first where a word is a whole line, without white space


class _LikelihoodMetric(evaluate.Metric):
    """Of whole texts and their log-probabilities, whatever the tokens of the model that gives them."""

    description = citation = ""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.description,
            citation=self.citation,
            inputs_description="predictions: the natural logarithm of every text's probability; references: the texts",
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("string")},
            ),
        )

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

    description = "Perplexity per word, words being what stands between white space."

    def _compute(self, predictions: list[float], references: list[str]) -> dict[str, float]:
        nats = self._nats(predictions, sum(len(text.split()) for text in references))
        return {"word_perplexity": math.exp(nats) if nats < LARGEST_EXPONENT else math.inf}


class BitsPerByte(_LikelihoodMetric):
    """Bits per byte of the texts in UTF-8: minus the binary logarithm of their probability over their bytes."""

    description = "Bits per byte of UTF-8."

    def _compute(self, predictions: list[float], references: list[str]) -> dict[str, float]:
        nats = self._nats(predictions, sum(len(text.encode()) for text in references))
        return {"bits_per_byte": nats / math.log(2)}


class _TranslationMetric(evaluate.Metric):
    """Of translations and one reference for each, by sacreBLEU (Post, 2018), case and punctuation as they are."""

    description = citation = ""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.description,
            citation=self.citation,
            inputs_description="predictions: a translation for every sentence; references: the right one",
            features=datasets.Features(
                {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
            ),
        )

    def signature(self) -> str:
        """What a figure has to be quoted with: sacreBLEU's settings and version."""
        metric = self._sacrebleu()
        metric.corpus_score(["a"], [["a"]])  # which tells it the number of references
        return str(metric.get_signature())

    def _sacrebleu(self) -> sacrebleu.metrics.base.Metric:
        raise NotImplementedError

    def _corpus_score(self, predictions: list[str], references: list[str]) -> float:
        if not references:
            raise ValueError("there are no references, so that there is nothing to score")
        return float(self._sacrebleu().corpus_score(predictions, [references]).score)


class BLEU(_TranslationMetric):
    """BLEU of the whole corpus, 0 to 100 (Papineni et al., 2002): the geometric mean of the precisions of n-grams, n up
    to 4, times a penalty on translations that are shorter than the references; words as mteval's 13a cuts them.
    """

    description = "Corpus BLEU, cased, of detokenised text, by sacreBLEU."
    citation = "Papineni et al. (2002), BLEU; Post (2018), A Call for Clarity in Reporting BLEU Scores"

    def _sacrebleu(self) -> sacrebleu.metrics.base.Metric:
        return sacrebleu.metrics.BLEU()

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        return {"bleu": self._corpus_score(predictions, references), "bleu_signature": self.signature()}


class ChrF(_TranslationMetric):
    """chrF of the whole corpus, 0 to 100 (Popovic, 2015): the F-score, recall twice as heavy, of n-grams of characters,
    n up to 6, white space left out.
    """

    description = "Corpus chrF2, by sacreBLEU."
    citation = "Popovic (2015), chrF; Post (2018), A Call for Clarity in Reporting BLEU Scores"

    def _sacrebleu(self) -> sacrebleu.metrics.base.Metric:
        return sacrebleu.metrics.CHRF()

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        return {"chrf": self._corpus_score(predictions, references), "chrf_signature": self.signature()}
