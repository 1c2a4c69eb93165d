"""The drop-in for phonemizer: its separators, its defaults, and nothing that it silently does otherwise."""

import inspect

import pytest

from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.phonemizer import Separator, phonemize
from tests.factory import refused

USUAL = {"strip": True, "preserve_punctuation": True, "with_stress": True}


def test_separators_are_placed_as_in_phonemizers_documentation() -> None:
    """There "hello world" gives ``hh ax l ;esyll ow ;esyll ;eword w er l d ;esyll ;eword``, or stripped
    ``hh-ax-l|ow w-er-l-d``; espeak has no syllables.
    """
    assert phonemize("hello world") == "həloʊ wɝld "
    ends = Separator(phone=" ", word=";eword ", syllable=";esyll ")
    assert phonemize("hello world", separator=ends) == "h ə l oʊ ;eword w ɝ l d ;eword "
    assert phonemize("hello world", separator=Separator(phone="-"), strip=True) == "h-ə-l-oʊ w-ɝ-l-d"
    assert phonemize("Hello, “world”!", **USUAL) == "həlˈoʊ, “wˈɝld”!"
    assert phonemize("Hello, “world”!", strip=True) == "həloʊ wɝld"
    assert phonemize("Hello, world!", separator=Separator(phone=" ", word="_"), **USUAL) == "h ə l ˈoʊ,_w ˈɝ l d!"


def test_texts_and_lines() -> None:
    assert phonemize("hello\n\n world\n", strip=True) == "həloʊ\nwɝld"
    assert phonemize(["hello", " ", "world"], strip=True) == ["həloʊ", "wɝld"]
    assert phonemize(["hello", "", "world"], strip=True, preserve_empty_lines=True) == ["həloʊ", "", "wɝld"]
    assert phonemize("") == ""
    assert phonemize([]) == []


@pytest.mark.parametrize("language", ["en-us", "en-gb"])
def test_the_phones_are_those_of_a_pronouncer(language: str) -> None:
    """Only the place of the marks of stress differs; numbers and initialisms are several words, or one."""
    texts = ["He sold the GPU for $42 in 1999, didn't he?", "A well-known x86_64 chip: it’s “good”.", "👍 Blorp 寿司"]
    pronounce = Pronouncer(language, "ipa")
    for text, found in zip(texts, phonemize(texts, language, **USUAL), strict=True):
        assert found.replace("ˈ", "").replace("ˌ", "") == pronounce.phonemize(text).replace("ˈ", "").replace("ˌ", "")


def test_every_phone_has_its_own_place() -> None:
    """A diphthong and an affricate are one phone, and a t before a sh is not one."""
    spaced = Separator(phone=" ", word=" | ")
    assert phonemize("nutshell joy", separator=spaced, strip=True) == "n ʌ t ʃ ɛ l | dʒ ɔɪ"
    assert phonemize("church", "en-gb", separator=spaced, strip=True, with_stress=True) == "tʃ ˈɜː tʃ"


def test_what_is_not_supported_is_refused() -> None:
    ours = inspect.signature(phonemize).parameters
    assert all(ours[name].default is False for name in ("strip", "preserve_punctuation", "with_stress"))
    phonemize("cat", backend="espeak", language_switch="remove-flags", words_mismatch="ignore", njobs=4, logger=None)
    for name, value in (("tie", True), ("prepend_text", True), ("punctuation_marks", "!"), ("steess", True)):
        with refused(TypeError, "does not support the argument", repr(name)):
            phonemize("cat", **{name: value})
    with refused(ValueError, "backend must be 'espeak'", "'festival'"):
        phonemize("cat", backend="festival")
    with refused(ValueError, "language='fi'", "the model has no such language"):
        phonemize("kissa", language="fi")
    with refused(ValueError, "expected a text or a list of texts, got 5"):
        phonemize(5)  # type: ignore[call-overload]
    with refused(ValueError, "every item must be a text, got b'cat'"):
        phonemize([b"cat"])  # type: ignore[list-item]
