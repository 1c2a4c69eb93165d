"""misaki's dictionaries of American and British English in Kokoro's phones, from the PyPI package ``misaki``.

The package is not imported, since it imports spaCy. Only its data files are read.
"""

import json
from pathlib import Path

from attnzoo.phone_sets import ACCENT_TOKENS, PRIMARY, SECONDARY, SILVER_TOKENS, split

from .known import KnownData, package_folder
from .licenses import APACHE, Origin

ACCENTS = {"us": "en-us", "gb": "en-gb"}
NO_VOWELS = {f"{stress}{phone}" for stress in (PRIMARY, SECONDARY) for phone in "hj"}  # in three faulty entries


def read_misaki(path: Path) -> dict[str, dict[str, list[str]]]:
    """The gold entries of both accents as a training split, and the silver ones as "extra"; ``path`` is only a name.

    A gold word begins with ⟦us⟧ or ⟦gb⟧, a silver word with ⟦silverus⟧ or ⟦silvergb⟧, because the two tiers follow
    different conventions: American "un-" has secondary stress in 91 % of the gold entries and in 15 % of the silver
    ones. A model learns from both tiers and follows the conventions of the tier whose token it reads.

    An entry that depends on the part of speech is a row for each of its pronunciations. Uppercase words ("ACAT") are
    left out: they are spelled out, or read against the rules of spelling.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    data = package_folder("misaki", path) / "data"
    splits: dict[str, dict[str, list[str]]] = {}
    for split_name, tier, tokens in (("train", "gold", ACCENT_TOKENS), ("extra", "silver", SILVER_TOKENS)):
        rows: dict[str, list[str]] = {"word": [], "pronunciation": []}
        for accent, name in ACCENTS.items():
            entries = json.loads((data / f"{accent}_{tier}.json").read_text(encoding="utf-8"))
            for word, value in entries.items():
                for pronunciation in [value] if isinstance(value, str) else dict.fromkeys(filter(None, value.values())):
                    phones = split(pronunciation, "kokoro")
                    if NO_VOWELS.isdisjoint(phones) and (len(word) == 1 or not word.isupper()):
                        rows["word"].append(tokens[name] + word)
                        rows["pronunciation"].append(" ".join(phones))
        splits[split_name] = rows
    return splits


DICTIONARIES = Origin(
    name="dictionaries of the package misaki",
    version="0.9.4",
    license=APACHE,
    url="https://pypi.org/project/misaki/",
    sha256="90e2eeb169786c014c429e5058d2ea6bcd02d651f2a24450ba6c9ffc0f8da15a",
)
MISAKI = KnownData(
    path="misaki",
    name="misaki's English dictionaries",
    license=APACHE,
    sources=(DICTIONARIES,),
    language="en",
    source="of the PyPI package [`misaki`](https://pypi.org/project/misaki/) (Apache-2.0) of American and "
    "British English, whose silver entries are trained on unless their word or its family is held out",
    limits="English words, one at a time, without their context. The phones are those of misaki and Kokoro, which "
    'are not IPA though they look like it: `A` is the vowel of "face". A vowel is one phone with its stress mark. '
    "The first token of a source is the accent, `⟦us⟧` or `⟦gb⟧`; after `⟦silverus⟧` or `⟦silvergb⟧` the model follows "
    "the conventions of misaki's silver entries instead. A word that occurs with and without an uppercase "
    "first letter (Polish, polish) is one word, not a name, and has both pronunciations; either counts as right. A "
    "word whose pronunciation depends on the part of speech has all of them. Uppercase words are not in the data.",
    read=read_misaki,
)
