"""The verses of the PyPI package ``bible-alignments``: the New Testament in Greek (SBLGNT) and English (Berean Standard
Bible), with the links between their words, made by hand. The wheel is opened as a zip and not installed.

``python -m attnzoo.training.make_data.verses WHEEL FOLDER`` writes them as files.
"""

import csv
import hashlib
import io
import itertools
import json
import unicodedata
import zipfile
from pathlib import Path
from typing import NamedTuple

from attnzoo.alignment import Links

from .known import KnownData
from .licenses import APACHE, CC_BY, Origin
from .sources import SourceError, readable
from .wheels import open_wheel, read_member

GREEK, ENGLISH, LINKS = (
    "data/sources/SBLGNT.tsv",
    "data/eng/targets/BSB/nt_BSB.tsv",
    "data/eng/alignments/BSB/SBLGNT-BSB-manual.json",
)


class Verse(NamedTuple):
    """A verse in both languages. Words are lowercase, Greek words without accents; punctuation marks are left out.

    Attributes:
        name: book, chapter and verse, in two and three and three digits.
        source_words: the Greek words.
        target_words: the English words.
        links: the links made by hand; all count as sure.
    """

    name: str
    source_words: list[str]
    target_words: list[str]
    links: Links

    @property
    def is_for_development(self) -> bool:
        """Whether its links may be used to choose a head: a tenth of the verses have such links, by the SHA-1 of the
        name.
        """
        return int(hashlib.sha1(self.name.encode()).hexdigest(), 16) % 10 == 0


def read_verses(path: Path) -> list[Verse]:
    """The verses that have words in both languages and links, in the order of the text.

    Raises:
        FileNotFoundError: the file does not exist; the message has the command that downloads it.
        ValueError: it is not a complete wheel, or not one of this package.
    """
    with open_wheel(path) as archive:
        for member in (GREEK, ENGLISH, LINKS):
            if member not in archive.namelist():
                raise SourceError(f"{path} has no file {member!r}; version 0.4.2 of the package has it")
        with readable(str(path)):
            greek = {row["id"]: row for row in _rows(archive, GREEK)}
            english = {row["id"]: row for row in _rows(archive, ENGLISH) if row["exclude"] != "y"}
            records = json.loads(read_member(archive, LINKS))["records"]
            verses: dict[str, Verse] = {}
            places: dict[str, tuple[str, int]] = {}  # the verse of each word, and its position there
            for name, row in greek.items():
                verse = verses.setdefault(name[1:9], Verse(name[1:9], [], [], set()))
                places[name] = verse.name, len(verse.source_words)
                verse.source_words.append(_without_accents(row["text"]))
            for name, row in english.items():
                if name[:8] in verses:
                    verse = verses[name[:8]]
                    places[name] = verse.name, len(verse.target_words)
                    verse.target_words.append(row["text"].lower())
            pairs = (pair for record in records for pair in itertools.product(record["source"], record["target"]))
            for source, target in pairs:
                if source in places and target in places:
                    (of_source, source_place), (of_target, target_place) = places[source], places[target]
                    if of_source == of_target:  # a few words were translated in the verse before or after
                        verses[of_source].links.add((source_place, target_place))
    return [verse for verse in verses.values() if verse.target_words and verse.links]


def _rows(archive: zipfile.ZipFile, member: str) -> csv.DictReader:
    text = read_member(archive, member).decode("utf-8")
    return csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)


def _without_accents(word: str) -> str:
    letters = unicodedata.normalize("NFD", word.lower())
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if not unicodedata.combining(letter)))


def read_splits(path: Path) -> dict[str, dict[str, list[str]]]:
    """Sentences and translations: all verses to train on, those for development to validate, the others to test.

    Models are measured by how they align words. Training does not see these links.
    """
    verses = read_verses(path)
    splits = {
        "train": verses,
        "validation": [verse for verse in verses if verse.is_for_development],
        "test": [verse for verse in verses if not verse.is_for_development],
    }
    return {
        split: {
            "source": [" ".join(verse.source_words) for verse in of_split],
            "target": [" ".join(verse.target_words) for verse in of_split],
        }
        for split, of_split in splits.items()
    }


BIBLE_VERSES = KnownData(
    path=r"(.*/)?bible_alignments-[^/]*\.whl",
    name="New Testament in Greek (SBLGNT) and English (Berean Standard Bible)",
    license=APACHE,
    sources=(
        Origin(
            name="verses and alignments, in the package bible-alignments",
            version="0.4.2",
            license=CC_BY,
            url="https://pypi.org/project/bible-alignments/",
            sha256="84f6b15e706657777824aac811567cb5cb2b38ad2b94497209f5f3c3f67b0984",
        ),
    ),
    source="of the PyPI package [`bible-alignments`](https://pypi.org/project/bible-alignments/)",
    split_note="all verses for training, of which a tenth is for validation and the others are for test",
    read=read_splits,
)
