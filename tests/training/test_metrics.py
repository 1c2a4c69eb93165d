"""The metrics, on examples worked by hand."""

import math
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
from attnzoo.training.tasks.confusion import draw_confusion_matrix
from attnzoo.training.tasks.metrics import (
    BLEU,
    ROUGE,
    Accuracy,
    BitsPerByte,
    ChrF,
    MacroF1,
    Matthews,
    PhonemeErrorRate,
    StressErrorRate,
    WordErrorRate,
    confusion_matrix,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def test_per_counts_against_the_nearest_pronunciation() -> None:
    # Word 1: one substitution from a pronunciation of 4, two from the other. Word 2: right. 1 error in 4 + 2 phonemes.
    scores = PhonemeErrorRate().compute(
        predictions=["T AH M EY", "HH AY"], references=[["T AH M EH", "T OW M AA"], ["HH AY"]]
    )
    assert scores["per"] == pytest.approx(100 / 6)


def test_of_two_equally_near_pronunciations_the_longer_counts() -> None:
    # "A B" is one deletion from "A" and one insertion from "A B C".
    scores = PhonemeErrorRate().compute(predictions=["A B"], references=[["A", "A B C"]])
    assert scores["per"] == pytest.approx(100 / 3)


def test_wer_accepts_any_listed_pronunciation() -> None:
    scores = WordErrorRate().compute(
        predictions=["IY DH ER", "AY DH ER", "EY DH ER", ""], references=[["IY DH ER", "AY DH ER"]] * 4
    )
    assert scores["wer"] == 50.0


@pytest.mark.parametrize(
    "predictions",
    [
        ["K AE1 T", "K AE0 T", "K AE1 P", "K AE2", "R EH1 K ER0 D", "R IH1 K ER0 D"],
        ["k ˈæ t", "k ˌæ t", "k ˈæ p", "k æ", "ɹ ˈɛ k ə d", "ɹ ˈɪ k ə d"],  # noqa: RUF001
        ["k ˈ æ t", "k æ t", "k ˈ æ p", "k æ", "ɹ ˈ ɛ k ə d", "ɹ ˈ ɪ k ə d"],  # noqa: RUF001
    ],
    ids=["digits", "marks", "marks apart"],
)
def test_stress_errors_are_the_words_that_only_stress_makes_wrong(predictions: list[str]) -> None:
    right, noun = predictions[0], predictions[4]
    references = [[right], [right], [right], [right], [noun, right], [noun, right]]
    scores = StressErrorRate().compute(predictions=predictions, references=references)
    assert scores["stress_errors"] == pytest.approx(100 / 6)
    assert WordErrorRate().compute(predictions=predictions, references=references)["wer"] == pytest.approx(400 / 6)


@given(st.lists(st.sampled_from(["A1 B", "A0 B", "A1", "B A2"]), min_size=2, max_size=30))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_an_interval_is_around_its_figure(predictions: list[str]) -> None:
    references = [["A1 B"]] * len(predictions)
    for metric in (PhonemeErrorRate(), WordErrorRate(), StressErrorRate()):
        value, low, high = metric.compute(predictions=predictions, references=references).values()
        assert low <= value + 1e-9
        assert value <= high + 1e-9
        assert [value, low, high] == [*metric.compute(predictions=predictions, references=references).values()]


TEXTS = ["a b c d e", "b c d e f", "c d e f g", "d e f g h"]


@pytest.mark.parametrize(
    ("metric", "wrong", "right", "is_log"),
    [
        (WordErrorRate(), "B", ["A"], False),
        (Accuracy(), 0, 1, False),
        (ROUGE(), "x", "a", False),
        (BitsPerByte(), -2.0, "a", True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_interval_has_the_width_of_the_binomial(metric: Any, wrong: Any, right: Any, is_log: bool) -> None:
    """1000 examples, a fifth of them wrong: 1.96 standard errors of sqrt(p (1 - p) / n) on each side."""
    good = -1.0 if is_log else right[0] if isinstance(right, list) else right
    figures = metric.compute(predictions=[good] * 800 + [wrong] * 200, references=[right] * 1000)
    key = next(iter(figures))
    figure, low, high = (figures[f"{key}{which}"] for which in ("", "_low", "_high"))
    unit = 1 / math.log(2) if is_log else 100.0  # between a wrong example and a right one
    error = 1.96 * unit * np.sqrt(0.2 * 0.8 / 1000)
    assert (low, high) == (
        pytest.approx(figure - error, abs=0.1 * error),
        pytest.approx(figure + error, abs=0.1 * error),
    )


def test_chrf_of_a_model_that_is_almost_always_wrong_has_an_interval() -> None:
    """Some samples of the bootstrap have no letter in common with their references."""
    figures = ChrF().compute(predictions=["qq", "qq", "ab"], references=["xy", "xy", "ax"])
    assert figures["chrf_low"] == 0 < figures["chrf"] < figures["chrf_high"]


@pytest.mark.parametrize("metric", [BLEU(), ChrF()], ids=lambda metric: metric.key)
def test_the_interval_of_bleu_and_chrf_is_around_it(metric: Any) -> None:
    predictions = [text if row % 3 else text[:-1] + "x" for row, text in enumerate(TEXTS * 30)]
    found = metric.compute(predictions=predictions, references=TEXTS * 30)
    assert found[f"{metric.key}_low"] < found[metric.key] < found[f"{metric.key}_high"]
    exact = metric.compute(predictions=TEXTS, references=TEXTS)
    assert exact[f"{metric.key}_low"] == pytest.approx(exact[f"{metric.key}_high"]) == pytest.approx(100)


def test_a_word_without_a_pronunciation_is_an_error() -> None:
    for metric in (PhonemeErrorRate(), WordErrorRate(), StressErrorRate()):
        with pytest.raises(ValueError, match=r"references\[1\] has no pronunciation"):
            metric.compute(predictions=["A", "B"], references=[["A"], []])
        with pytest.raises(ValueError, match="there are no references"):
            metric.compute(predictions=[], references=[])


def test_accuracy_and_macro_f1_by_hand() -> None:
    predictions, references = [0, 0, 1, 1, 2], [0, 1, 1, 1, 0]
    assert Accuracy().compute(predictions=predictions, references=references)["accuracy"] == 60.0
    # F1 of label 0: 2 * 1 / (2 + 2), of 1: 2 * 2 / (2 + 3), of 2: 0.
    assert MacroF1().compute(predictions=predictions, references=references) == {
        "macro_f1": pytest.approx(100 * (0.5 + 0.8 + 0) / 3)
    }


def test_matthews_of_two_labels_is_the_classical_formula() -> None:
    predictions, references = [1] * 6 + [0] * 4, [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]
    tp, fp, tn, fn = 4, 2, 3, 1
    expected = (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    score = Matthews().compute(predictions=predictions, references=references)
    assert score == {"matthews": pytest.approx(100 * expected)}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_matthews_is_the_correlation_of_indicators(pairs: list[tuple[int, int]]) -> None:
    predictions, references = map(list, zip(*pairs, strict=True))
    one_hot = np.eye(4)
    x, y = (one_hot[labels] - one_hot[labels].mean(axis=0) for labels in (predictions, references))
    scale = np.sqrt((x * x).sum() * (y * y).sum())
    expected = 100 * (x * y).sum() / scale if scale else 0.0
    score = Matthews().compute(predictions=predictions, references=references)["matthews"]
    assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", [Accuracy(), MacroF1(), Matthews()], ids=lambda metric: type(metric).__name__)
def test_a_negative_label_is_no_label(metric: evaluate.Metric) -> None:
    """Test splits without labels on the Hub have -1; a loss ignores -100."""
    with pytest.raises(ValueError, match=r"references\[1\] is -1, which is not the number of a label"):
        metric.compute(predictions=[0, 1, 1], references=[0, -1, 1])
    with pytest.raises(ValueError, match=r"predictions\[2\] is -100, which is not the number of a label"):
        metric.compute(predictions=[0, 1, -100], references=[0, 1, 1])


@pytest.mark.parametrize("metric", [Accuracy(), MacroF1(), Matthews()], ids=lambda metric: type(metric).__name__)
def test_nothing_has_no_score(metric: evaluate.Metric) -> None:
    with pytest.raises(ValueError, match="there are 0 predictions and 0 references"):
        metric.compute(predictions=[], references=[])


def test_a_confusion_matrix_needs_a_prediction_for_every_reference() -> None:
    with pytest.raises(ValueError, match="there are 1 predictions and 3 references"):
        confusion_matrix([0], [0, 1, 1], num_labels=2)


def test_the_confusion_matrix_counts_and_is_drawn(tmp_path: Path) -> None:
    matrix = confusion_matrix([0, 0, 1], [0, 1, 1], num_labels=3)
    assert matrix.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    draw_confusion_matrix(matrix, ["good", "b$a$d", "neither"], tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
