"""The n-gram for comparison with a language model: worked by hand, and a distribution over all symbols."""

import math

import pytest

from tests.benchmarks.kneser_ney import FALLBACK, KneserNey, discounts, score, spelling

SYMBOLS = "abcd."


def bigram() -> KneserNey:
    """A bigram of the texts "a b" and "a c"; "." ends them, and "d" is in neither."""
    return KneserNey([["a", "b"], ["a", "c"]], order=2, end=".", base=lambda _: 1 / len(SYMBOLS))


def test_a_bigram_is_as_worked_out_by_hand() -> None:
    # Before a, b and c stands one symbol each, before the end two: 5 in all. The discounts of 1, 1, 1 and 2 are 0.5,
    # 0.5, 0.5 and 1, so that 2.5 are shared among the 5 symbols of the base.
    unigram = {"a": (0.5 + 0.5) / 5, "b": 0.2, "c": 0.2, ".": (1 + 0.5) / 5, "d": 0.5 / 5}
    model = bigram()
    after_a = {  # b and c once each, of which 0.5 + 0.5 are shared by the unigrams
        "a": unigram["a"] / 2,
        "b": (0.5 + unigram["b"]) / 2,
        "c": (0.5 + unigram["c"]) / 2,
        ".": unigram["."] / 2,
        "d": unigram["d"] / 2,
    }
    for symbol, probability in after_a.items():
        assert model.probability(symbol, ("a",)) == pytest.approx(probability, rel=1e-12)
        assert model.probability(symbol, ("d",)) == pytest.approx(unigram[symbol], rel=1e-12)  # never a context
    start = (2 - 1 + 1 * unigram["a"]) / 2  # a starts both texts
    end = 0.5 + 0.5 * unigram["."]
    assert model.log_probability(["a", "b"]) == pytest.approx(math.log(start * after_a["b"] * end), rel=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_sum_to_one_after_every_context(order: int) -> None:
    texts = [list("abacabad"), list("abba"), list("cabbage"), list("dada"), []]
    symbols = {*"abcdeg.", "never seen"}
    model = KneserNey(texts, order, end=".", base=lambda _: 1 / len(symbols))
    for context in (("a",) * 4, tuple("baca"), (None,) * 4, (None, None, "a", "b"), tuple("zzza"), tuple("zzzz")):
        before = context[len(context) - order + 1 :]
        assert sum(model.probability(symbol, before) for symbol in symbols) == pytest.approx(1, rel=1e-12)


def test_discounts_are_those_of_chen_and_goodman() -> None:
    counts = [1] * 4 + [2] * 2 + [3, 4, 9]  # Y = 4 / (4 + 2 * 2)
    assert discounts(counts) == pytest.approx((1 - 2 * 0.5 * 2 / 4, 2 - 3 * 0.5 * 1 / 2, 3 - 4 * 0.5 * 1 / 1))
    assert discounts([1, 1, 2, 3]) == FALLBACK  # no 4


def test_a_word_is_spelled_in_bytes_each_of_which_has_a_probability() -> None:
    words = ["straße", "street", "streets", "tree"]
    spelled = spelling(words, order=3)
    letters = KneserNey([word.encode() for word in ["", *words]], 3, end=-1, base=lambda _: 1 / 257)
    for context in (b"st", b"ee", b"qq"):
        assert sum(letters.probability(byte, tuple(context)) for byte in range(-1, 256)) == pytest.approx(1, rel=1e-12)
    by_hand = math.prod(
        letters.probability(byte, context)
        for byte, context in zip([*b"tee", -1], [(None, None), (None, 116), (116, 101), (101, 101)], strict=True)
    )
    assert spelled("tee") == pytest.approx(by_hand, rel=1e-12)
    assert spelled("trees") > spelled("xyzzy") > 0


def test_words_that_were_never_seen_cost_their_spelling_unless_they_are_free() -> None:
    train = ["the state of the union is strong", "the union of the states"] * 3
    spelled = score(train, ["the state of the onion"], str.split, is_spelled=True)
    free = score(train, ["the state of the onion"], str.split, is_spelled=False)
    known = score(train, ["the state of the union"], str.split, is_spelled=True)
    assert known["word_perplexity"] < free["word_perplexity"] < spelled["word_perplexity"]
