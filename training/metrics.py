"""Metrics as offline ``evaluate.Metric`` classes: no download, the same ``compute(predictions=, references=)`` as any
other.
"""

from collections.abc import Sequence

import datasets
import evaluate

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
