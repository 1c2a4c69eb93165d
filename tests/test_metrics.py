"""The metrics, on numbers worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.metrics import PhonemeErrorRate, WordErrorRate, edit_distance

words = st.lists(st.sampled_from("abc"), max_size=6)


def test_edit_distance_by_hand() -> None:
    assert edit_distance("kitten", "sitting") == 3  # k -> s, e -> i, + g
    assert edit_distance("", "abc") == 3
    assert edit_distance("abc", "abc") == 0


@given(words, words, words)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_edit_distance_is_a_metric(a: list[str], b: list[str], c: list[str]) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


def test_per_counts_against_the_nearest_pronunciation() -> None:
    # Word 1: one substitution from a pronunciation of 4, two from the other. Word 2: right. 1 error in 4 + 2 phonemes.
    scores = PhonemeErrorRate().compute(
        predictions=["T AH M EY", "HH AY"], references=[["T AH M EH", "T OW M AA"], ["HH AY"]]
    )
    assert scores == {"per": pytest.approx(100 / 6)}


def test_of_two_equally_near_pronunciations_the_longer_counts() -> None:
    # "A B" is one deletion from "A" and one insertion from "A B C".
    assert PhonemeErrorRate().compute(predictions=["A B"], references=[["A", "A B C"]]) == {
        "per": pytest.approx(100 / 3)
    }


def test_wer_accepts_any_listed_pronunciation() -> None:
    scores = WordErrorRate().compute(
        predictions=["IY DH ER", "AY DH ER", "EY DH ER", ""], references=[["IY DH ER", "AY DH ER"]] * 4
    )
    assert scores == {"wer": 50.0}


def test_a_word_without_a_pronunciation_is_an_error() -> None:
    for metric in (PhonemeErrorRate(), WordErrorRate()):
        with pytest.raises(ValueError, match=r"references\[1\] has no pronunciation"):
            metric.compute(predictions=["A", "B"], references=[["A"], []])
