# ruff: noqa: RUF001 (tables of phones)
r"""Labelled sentences of words that are written alike and pronounced differently.

The sentences are from Wikipedia, about 90 for each of 162 words (Gorman, Mazovetskiy and Nikolaev, 2018, "Improving
homograph disambiguation with supervised machine learning", LREC). They are under Apache-2.0::

    git clone https://github.com/google-research-datasets/WikipediaHomographData

``attnzoo.training.make_data.commonest_readings`` counts readings in them; ``attnzoo.training.studies.homographs``
measures on the held-out ones.
"""

import csv
import re
from pathlib import Path
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from attnzoo.phone_sets import (
    ARPABET_CONSONANTS,
    ARPABET_VOWELS,
    PRIMARY,
    SECONDARY,
    STRESS,
    Phones,
    arpabet_as_kokoro,
    split,
)

from .splits import split_of

# Symbols in the labels' pronunciations that differ from those of ``phone_sets``.
SYMBOLS = str.maketrans({"ʤ": "dʒ", "ʧ": "tʃ", "ː": "", "0": "", "1": "", "'": PRIMARY})
PHONES = {sound: phone for phone, sound in (ARPABET_VOWELS | ARPABET_CONSONANTS).items()} | {"ə": "AH", "ɚ": "ER"}
PHONE = re.compile("|".join(sorted(PHONES, key=len, reverse=True)))
DIGITS = {mark: digit for digit, mark in STRESS.items()}
# Marks that do not distinguish two readings: secondary stress, length, and the kind of a weak vowel.
ALIKE = str.maketrans({SECONDARY: "", "ː": "", "ᵻ": "ə", "ᵊ": "ə", "ɾ": "t", "ɒ": "ɑ", "Q": "O"})
WEAK = re.compile(f"(?<!{PRIMARY})ɪ")


class Sentence(NamedTuple):
    """A sentence with one labelled word.

    Attributes:
        word: in lowercase
        reading: the label, one of the word's labels in the data
        text: the sentence
        start: the place in the sentence where the word begins
        end: the place where it ends
    """

    word: str
    reading: str
    text: str
    start: int
    end: int


def read_sentences(folder: Path) -> list[Sentence]:
    """The published training sentences, in a folder ``train`` with a file for each word.

    Raises:
        ValueError: there are none, or a row does not mark its word.
    """
    found = []
    for file in sorted((folder / "train").glob("*.tsv")):
        for row in _rows(file):
            one = Sentence(row["homograph"], row["wordid"], row["sentence"], int(row["start"]), int(row["end"]))
            if one.text[one.start : one.end].lower() != one.word:
                raise ValueError(f"{file}: {one.text!r} does not have {one.word!r} at {one.start} to {one.end}")
            found.append(one)
    if not found:
        raise ValueError(f"{folder} has no sentences; give the folder data of WikipediaHomographData")
    return found


def read_readings(folder: Path) -> dict[str, dict[str, Phones]]:
    """The readings of every word and their pronunciations in ARPABET."""
    found: dict[str, dict[str, Phones]] = {}
    for row in _rows(folder / "wordids.tsv"):
        found.setdefault(row["homograph"], {})[row["wordid"]] = as_arpabet(row["pronunciation"])
    return found


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def is_held_out(sentence: Sentence) -> bool:
    """Whether a sentence is held out for measuring: a tenth of the sentences are, by a hash of the text."""
    return split_of(sentence.text) == "test"


def as_arpabet(pronunciation: str) -> Phones:
    """A label's pronunciation in ARPABET. The label's marks of stress are before the syllable or before the vowel."""
    found, stress = [], ""
    for mark, sound in re.findall(f"([{PRIMARY}{SECONDARY}])|({PHONE.pattern})", pronunciation.translate(SYMBOLS)):
        phone = PHONES.get(sound, "")
        if phone in ARPABET_VOWELS:
            found.append(phone + DIGITS[stress])
            stress = ""
        elif phone:
            found.append(phone)
        stress = mark or stress
    return (*found[:-1], found[-1].replace("IY2", "IY0"))  # as in the dictionaries


def distance(one: Phones, phone_set: str, reading: Phones) -> int:
    """The number of phones that differ from those of a reading in ARPABET, without marks that do not distinguish
    readings.
    """
    kokoro = arpabet_as_kokoro(one) if phone_set == "arpabet" else one
    return Levenshtein.distance(_essential(kokoro), _essential(arpabet_as_kokoro(reading)))


def _essential(phones: Phones) -> Phones:
    return split(WEAK.sub("ə", "".join(phones).translate(ALIKE)), "kokoro")
