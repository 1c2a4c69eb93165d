"""The fallback in misaki itself, without espeak, and the dictionary of misaki's package."""

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnzoo.pronunciation import MisakiFallback, Pronouncer, phonemize
from attnzoo.pronunciation.lexicons import full_dictionary
from tests.factory import refused

# It has no release for later ones. It is in the extra [test], so that nothing is skipped for want of it.
needs_misaki = pytest.mark.skipif(sys.version_info >= (3, 13), reason="misaki needs Python below 3.13")
SENTENCES = [
    "Blorptastic Fnordson met O’Blorp's xylozoo.",
    "Zyxwq-Fnord sold 42 Blorpsters in Vlkava, didn't he?",
    "Café Blørp & Zażółć: 👍 寿司 (the Snorkwhistlers').",
    "a\u200bb ﬁnorp XQZZT mblorp3D \x00 — …",
]


def test_what_it_returns(kokoro_folder: Path) -> None:
    for british in (False, True):
        fallback = MisakiFallback(british=british, model=kokoro_folder, lexicon={"zyx": "zˈɪks"})
        phonemes, rating = fallback(SimpleNamespace(text="Blorp"))
        assert isinstance(phonemes, str)
        assert not {*phonemes} & {*"ɾʔ"}  # as misaki prints them
        assert rating == 2
        assert fallback(SimpleNamespace(text="Zyx")) == ("zˈɪks", 5)
        for text in ("寿司", "👍", "", "!", "a" * 10_000):
            assert fallback(SimpleNamespace(text=text)) == (None, None)


def test_the_model_that_comes_with_attnzoo_speaks_both_accents() -> None:
    """Without misaki's dictionary, since it lists these words."""
    us, gb = (MisakiFallback(british=british, dictionary=False) for british in (False, True))
    for word, american, british in (("ladder", "lˈædəɹ", "lˈadə"), ("bath", "bˈæθ", "bˈɑːθ")):
        assert us(SimpleNamespace(text=word)) == (american, 2)
        assert gb(SimpleNamespace(text=word)) == (british, 2)


def test_phonemize(kokoro_folder: Path) -> None:
    assert phonemize("The cat, cat!") == "ðə ˈkæt, ˈkæt!"
    assert phonemize("Hello", phones="arpabet") == "HH AH0 L OW1"
    assert phonemize("Blorp!", accent="gb", phones="kokoro", model=kokoro_folder).endswith("!")
    assert phonemize("cat", accent="en-us") == phonemize("cat")
    with refused(ValueError, "accent must be one of en-us, en-gb", "'fr'"):
        phonemize("cat", accent="fr")
    with refused(ValueError, "text must be one text, got ['cat']"):
        phonemize(["cat"])  # type: ignore[arg-type]


@pytest.fixture
def g2p(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """misaki's ``G2P`` with a tagger of this test, since spaCy's models are not on a package index."""
    spacy: Any = importlib.import_module("spacy")
    blank = spacy.blank("en")

    def tagger(text: str) -> Any:
        document = blank(text)
        for token in document:
            token.tag_ = "NNP" if token.is_title else "CD" if token.like_num else ":" if token.is_punct else "NN"
        return document

    monkeypatch.setattr(spacy.util, "is_package", lambda name: True)
    monkeypatch.setattr(spacy, "load", lambda name, **options: tagger)
    return importlib.import_module("misaki.en").G2P


@needs_misaki
@pytest.mark.parametrize("british", [False, True])
def test_misaki_calls_it_for_unknown_words(british: bool, g2p: Callable[..., Any], kokoro_folder: Path) -> None:
    fallback = MisakiFallback(british=british, model=kokoro_folder)
    asked: list[tuple[str, Any]] = []

    def recorded(token: Any) -> Any:
        asked.append((token.text, fallback(token)))
        return asked[-1][1]

    options = {"trf": False, "british": british, "unk": ""}
    g2p_with_fallback = g2p(fallback=recorded, **options)
    for sentence in SENTENCES:
        asked.clear()
        phonemes, tokens = g2p_with_fallback(sentence)
        found = {token.text: token.phonemes for token in tokens}
        assert any(answer for _, (answer, _) in asked)
        for text, (answer, rating) in asked:
            assert (answer is None, found[text]) == (rating is None, answer)
        assert {text for text in found if found[text] is None} == {text for text, (answer, _) in asked if not answer}
        assert all(found[text] in phonemes for text in found if found[text])
    uses_espeak = "misaki.espeak" in sys.modules
    assert not uses_espeak


@needs_misaki
def test_the_dictionary_of_misakis_package(kokoro_folder: Path) -> None:
    american, british = (
        Pronouncer(accent, "kokoro", model=kokoro_folder, dictionary=True, tagger=lambda words: ["VBD"] * len(words))
        for accent in ("en-us", "en-gb")
    )
    words = ["kettle", "Polish", "polish", "FBI", "blorp", "read"]
    found = american.words(words)
    assert [word.source for word in found[:3]] == ["dictionary"] * 3
    assert found[0].phonemes == "kˈɛTᵊl"
    assert found[1].phonemes != found[2].phonemes
    assert found[4].source == "model"
    assert [variant.parts_of_speech for variant in found[5].variants] == [
        ("ADV", "NOUN", "VERB"),
        ("ADJ", "VBD", "VBN"),
    ]
    assert american("I read")[1].phonemes == "ɹˈɛd"
    assert british.words(["kettle"])[0].phonemes == "kˈɛtᵊl"


@needs_misaki
@pytest.mark.parametrize("accent", ["en-us", "en-gb"])
def test_the_present_tense_is_not_the_past(accent: str, kokoro_folder: Path) -> None:
    """misaki lists that of "read", "reread" and "wound" with the pronunciation of the past; and "used" of "used to"."""

    def spoken(text: str, *tags: str) -> list[str]:
        pronounce = Pronouncer(accent, "kokoro", model=kokoro_folder, dictionary=True, tagger=lambda words: [*tags])
        return [word.phonemes for word in pronounce(text)]

    for word in ("read", "reread", "wound"):
        (_, present), (_, past), (_, base) = (spoken(f"I {word}", "PRP", tag) for tag in ("VBP", "VBD", "VB"))
        assert present == base != past
    knife, habit, passive = (
        spoken(f"used {word}", tag, "TO") for word, tag in (("it", "VBD"), ("to", "VBD"), ("to", "VBN"))
    )
    assert knife[0] == passive[0] != habit[0]


@needs_misaki
@pytest.mark.parametrize("accent", ["en-us", "en-gb"])
def test_forms_follow_their_stem_as_in_misaki(accent: str, kokoro_folder: Path, g2p: Callable[..., Any]) -> None:
    en: Any = importlib.import_module("misaki.en")
    lexicon, context = en.Lexicon(accent == "en-gb"), en.TokenContext(future_vowel=False)
    pronounce = Pronouncer(
        accent, "kokoro", model=kokoro_folder, dictionary=True, tagger=lambda words: [""] * len(words)
    )
    tags = {"s": "NNS", "d": "VBD", "g": "VBG"}
    words = [word for word in full_dictionary("en-us", "arpabet") if re.fullmatch("[a-z]{5,}(?:s|ed|ing)", word)]
    listed = {*lexicon.golds, *lexicon.silvers}
    derived = [word for word in words[::10] if word not in listed]
    words = ["licenses", "released", "cities", "created", "includes", "recorded", *derived]
    expected = {word: lexicon.get_word(word, tags[word[-1]], None, context)[0] for word in words}
    expected = {word: phonemes for word, phonemes in expected.items() if phonemes is not None}
    for word in pronounce.words([*expected]):
        written = [one.phonemes for one in word.variants] if word.text[-1] == "s" else [word.phonemes]
        assert expected[word.text].replace("ɾ", "T").replace("ʔ", "t") in written, word
    assert len(expected) > 500
    if accent == "en-gb":  # misaki has none of these
        said = [word.phonemes for word in pronounce.words(["storing", "measuring", "pawing"])]
        assert said == ["stˈɔːɹɪŋ", "mˈɛʒəɹɪŋ", "pˈɔːɪŋ"]
