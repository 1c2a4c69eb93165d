"""The reading of a word that is written like another, in its sentence."""

import csv
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attnzoo import model_path
from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.lexicons import COLUMNS, full_dictionary, installed_dictionary, readings_of
from attnzoo.pronunciation.readings import NEAREST, ReadingModel, marked, sentence_of
from attnzoo.pronunciation.text import tokenize
from attnzoo.shipped_models import HETERONYMS

# Two sentences for every word, one for each reading; their pronunciations in ARPABET.
SENTENCES = [
    ("The lead singer left the band.", "lead", "L IY1 D"),
    ("The roof is covered with lead.", "lead", "L EH1 D"),
    ("The wind blew from the north.", "wind", "W IH1 N D"),
    ("The river begins to wind through the valley.", "wind", "W AY1 N D"),
    ("They wound the bandage around his arm.", "wound", "W AW1 N D"),
    ("He died of a wound in the chest.", "wound", "W UW1 N D"),
    ("Please close the door.", "close", "K L OW1 Z"),
    ("The two are close friends.", "close", "K L OW1 S"),
]


@pytest.fixture(scope="module")
def pronounce() -> Pronouncer:
    return Pronouncer()


@pytest.mark.parametrize(("sentence", "word", "phonemes"), SENTENCES)
def test_a_word_is_read_as_its_sentence_asks(pronounce: Pronouncer, sentence: str, word: str, phonemes: str) -> None:
    (found,) = [one for one in pronounce(sentence) if one.text == word]
    assert found.phonemes == phonemes
    assert found.source == "dictionary"
    confidences = [variant.confidence or 0 for variant in found.variants]
    assert found.confidence == confidences[0] > 0.5
    assert confidences == sorted(confidences, reverse=True)
    assert sum(confidences) == pytest.approx(1)
    # In a text each sentence is read for itself.
    other = next(one for one, of, _ in SENTENCES if of == word and one != sentence)
    alone, together = [pronounce(one) for one in (other, sentence)], pronounce(f"{other} {sentence}")
    assert [one.phonemes for one in together] == [one.phonemes for some in alone for one in some]


def test_lexicon_and_tagger_prevail_and_a_word_alone_has_the_commonest_reading() -> None:
    sentence = "The pipes were made of lead."
    own = Pronouncer(lexicon={"lead": "L IY1 D"})(sentence)
    assert [word.phonemes for word in own if word.text == "lead"] == ["L IY1 D"]
    tagged = Pronouncer(tagger=lambda words: ["VB"] * len(words))(sentence)
    assert [(word.phonemes, word.confidence) for word in tagged if word.text == "lead"] == [("L IY1 D", 1.0)]
    (alone,) = Pronouncer().words(["read"])
    assert (alone.phonemes, alone.confidence) == ("R IY1 D", 1.0)
    assert Pronouncer(dictionary=False)(sentence)[-2].source == "model"


def test_the_probabilities_are_a_softmax_over_the_readings_of_the_word() -> None:
    model = AutoModelForSequenceClassification.from_pretrained(model_path(HETERONYMS)).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_path(HETERONYMS))
    sentences = [marked("I ", "read", " it yesterday."), marked("The pipes were made of ", "lead", ".")]
    readings = [list(readings_of(*COLUMNS[0])[word]) for word in ("read", "lead")]
    found = ReadingModel()(sentences, readings)
    for sentence, names, probabilities in zip(sentences, readings, found, strict=True):
        with torch.inference_mode():
            logits = model(**tokenizer(sentence, return_tensors="pt")).logits[0].double()
        powers = {name: float(logits[model.config.label2id[name]].exp()) for name in names}
        expected = {name: power / sum(powers.values()) for name, power in powers.items()}
        assert probabilities == pytest.approx(expected, abs=1e-5)


def test_rare_readings_are_found_in_everyday_sentences() -> None:
    """Two sentences for each of two readings of twenty words, most of which an encyclopedia has in one of them."""
    with Path(__file__).with_name("everyday_readings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    listed = readings_of(*COLUMNS[0])
    words = [row["text"].partition("⟦")[2].partition("⟧")[0].lower() for row in rows]
    found = ReadingModel()([row["text"] for row in rows], [listed[word] for word in words])
    right = [max(one, key=lambda name: one[name]) == row["label"] for one, row in zip(found, rows, strict=True)]
    assert sum(right) >= 0.9 * len(rows)


@pytest.mark.parametrize("column", COLUMNS, ids="-".join)
def test_model_table_and_dictionaries_have_the_same_readings(column: tuple[str, str]) -> None:
    listed = readings_of(*column)
    names = {name for readings in listed.values() for name in readings}
    assert names == {*AutoModelForSequenceClassification.from_pretrained(model_path(HETERONYMS)).config.label2id}
    for dictionary in (installed_dictionary(*column), full_dictionary(*column)):
        for word, readings in listed.items():
            entries = [entry.phones for entry in dictionary[word]] if dictionary else [*readings.values()]
            assert {*readings.values()} <= {*entries}, word
            assert len(entries) == len({*entries}), word


def test_a_sentence_ends_at_its_mark_and_a_long_one_is_cut() -> None:
    tokens = tokenize("One. Two read, three! Four")
    assert sentence_of(tokens, 3) == "Two ⟦read⟧, three! "
    assert sentence_of(tokens, 0) == "⟦One⟧. "
    assert sentence_of(tokens, len(tokens) - 1) == "⟦Four⟧"
    tokens = tokenize("a " * 200)
    assert sentence_of(tokens, 100) == "a " * NEAREST + "⟦a⟧" + " a" * NEAREST + " "


@pytest.mark.parametrize("end", [".", '."', ".)", "?!", "!!", "\u2026", ".\n\n", "\n\n"])
def test_a_sentence_is_read_alone_whatever_ends_it(end: str) -> None:
    tokens = tokenize(f"The singer left{end} He paints with lead{end} Good")
    place = [token.text for token in tokens].index("lead")
    sentence = sentence_of(tokens, place)
    assert sentence.startswith("He paints with ⟦lead⟧")
    assert "Good" not in sentence
    assert "singer" not in sentence


def test_a_word_alone_is_not_read_as_a_sentence(pronounce: Pronouncer) -> None:
    for word in ("use", "live", "read", "sow"):
        (alone,) = pronounce.words([word])
        for written in (f"{word}.", f"'{word}'", f"({word})!"):
            (found,) = pronounce.words([written])
            assert (found.phonemes, found.confidence) == (alone.phonemes, 1.0), written


@pytest.mark.parametrize("accent", ["en-us", "en-gb"])
def test_a_reading_that_a_dictionary_lacks_changes_nothing(accent: str) -> None:
    """misaki lists some words with a first uppercase letter apart, such as Polish."""
    pronounce = Pronouncer(accent, "kokoro")
    for sentence in ("Polish the table with a cloth.", "Mobile phones are everywhere.", "I met him in August."):
        for word in pronounce(sentence):
            assert word.confidence is None or word.confidence > 0.5 or word.source == "model", (sentence, word)
            assert word.variants == () or word.confidence is not None


def test_a_long_neighbour_is_cut() -> None:
    tokens = tokenize("lead " + "-" * 20_000 + "x" * 300)
    assert len(sentence_of(tokens, 0)) < 200
