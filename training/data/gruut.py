"""gruut's dictionaries of French, Dutch, Italian and Swedish, from the PyPI packages ``gruut-lang-fr`` and so on.

A package is not imported. Only its SQLite file is read, which has the dictionary, and alignments of letters and
phonemes.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from attnzoo.alignment import Links

from .known import KnownData, package_folder
from .licenses import MIT, Origin

WORD = re.compile(r"[^\W\d_]([^\W\d_]|['-])+")  # two or more letters, with apostrophes and hyphens
NAMES = {"fr": "French", "nl": "Dutch", "it": "Italian", "sv": "Swedish"}
PACKAGES = {  # version and SHA-256
    "fr": ("2.0.2", "d2de9fc2f92ede277cb6dfe72afdba1b902d329b3cc1f1c706e66b31f0d436bd"),
    "nl": ("2.0.2", "e39a9880c98dc9dfbaa554e9c116e0eb71bfe3b281d32e6123526d3bbb3b7d65"),
    "it": ("2.0.1", "1ffdbc0d4daf6957aa9ea67184f77212f3b486e867d8c03c054256eed0519f4b"),
    "sv": ("2.0.1", "736263daedd607271d96e5a69a7bdc20bda6201189d48dca03d7ad3c1991dd40"),
}


class LinkedWord(NamedTuple):
    """A lowercase word and its pronunciation.

    Attributes:
        source_words: the letters.
        target_words: the phonemes.
        links: pairs of a letter and a phoneme that it is spoken as: (index of the letter, index of the phoneme).
    """

    source_words: list[str]
    target_words: list[str]
    links: Links


def read_gruut(path: Path) -> dict[str, dict[str, list[str]]]:
    """The entries of a dictionary, as a training split; ``path`` is its name, such as "gruut-it".

    Entries with digits or signs and those of one letter are left out.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    rows: dict[str, list[str]] = {"word": [], "pronunciation": []}
    for word, phonemes in _query(path, "SELECT word, phonemes FROM word_phonemes ORDER BY id"):
        if WORD.fullmatch(word):
            rows["word"].append(word)
            rows["pronunciation"].append(phonemes)
    return {"train": rows}


def read_linked_words(path: Path) -> Iterator[LinkedWord]:
    """The alignments of a package. Its authors made them by a program and not by hand.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    for spelling, alignment in _query(path, "SELECT word, alignment FROM g2p_alignments ORDER BY id"):
        phonemes: list[str] = []
        links: Links = set()
        letter = 0
        for part in alignment.split(" "):  # "c|h}k" or "x}k|s"; "_" means no phoneme
            letters, sounds = (side.split("|") for side in part.split("}"))
            spoken = [sound for sound in sounds if sound != "_"]
            links |= {(letter + i, len(phonemes) + j) for i in range(len(letters)) for j in range(len(spoken))}
            letter += len(letters)
            phonemes += spoken
        word = spelling.lower()
        if len(word) == letter and WORD.fullmatch(word):
            yield LinkedWord(list(word), phonemes, links)


def _query(path: Path, query: str) -> Iterator[tuple[str, str]]:
    database = package_folder(f"gruut-lang-{str(path).removeprefix('gruut-')}", path) / "lexicon.db"
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        yield from connection.execute(query)


def _known(code: str) -> KnownData:
    package, (version, sha256) = f"gruut-lang-{code}", PACKAGES[code]
    url = f"https://pypi.org/project/{package}/"
    return KnownData(
        path=f"gruut-{code}",
        name=f"gruut's {NAMES[code]} dictionary",
        license=MIT,
        sources=(
            Origin(name=f"dictionary of the package {package}", version=version, license=MIT, url=url, sha256=sha256),
        ),
        language=code,
        source=f"of the PyPI package [`{package}`]({url})",
        limits=f"{NAMES[code]} words, one at a time, without their context. Inflected forms of a word may be on both "
        "sides of the split.",
        read=read_gruut,
    )


GRUUT = tuple(_known(code) for code in NAMES)
