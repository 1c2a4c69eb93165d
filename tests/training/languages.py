"""Words of four languages, spelled by rules that are simpler than the real ones.

A syllable is a consonant and a vowel, in Korean with or without a final consonant.
"""

# ruff: noqa: RUF001, SIM905  (letters that look like Latin ones)

import re
import unicodedata
from itertools import product

import numpy as np

GREEK = dict(zip("βγδζθκλμνπρστφχ", "v ɣ ð z θ k l m n p r s t f x".split(), strict=True))
GREEK_VOWELS = {
    "α": "a",
    "ε": "e",
    "η": "i",
    "ο": "o",
    "ου": "u",
    "ά": "ˈa",
    "έ": "ˈe",
    "ή": "ˈi",
    "ό": "ˈo",
    "ού": "ˈu",
}
HINDI = dict(zip("कखगघचछजतथदधनपफबमरलस", "k kʰ ɡ ɡʱ t͡ʃ t͡ʃʰ d͡ʒ t̪ t̪ʰ d̪ d̪ʱ n p pʰ b m r l s".split(), strict=True))
HINDI_VOWELS = {"": "ə", "ा": "aː", "ि": "ɪ", "ी": "iː", "ु": "ʊ", "ू": "uː", "े": "eː", "ो": "oː"}
ICELANDIC = dict(zip("bdfgklmnprstvþð", "p t f k kʰ l m n pʰ r s tʰ v θ ð".split(), strict=True))
ICELANDIC_VOWELS = dict(zip("aáeéiíoóuúæö", "a au ɛ jɛ ɪ i ɔ ou ʏ u ai œ".split(), strict=True))
# Of jamo: the first of a syllable, its vowel, and its last.
KOREAN = [["ᄀ k", "ᄂ n", "ᄃ t", "ᄅ ɾ", "ᄆ m", "ᄇ p", "ᄉ s", "ᄋ ", "ᄌ t͡ɕ", "ᄒ h"]]
KOREAN += [["ᅡ a", "ᅥ ʌ", "ᅩ o", "ᅮ u", "ᅳ ɯ", "ᅵ i"], ["", "ᆨ k̚", "ᆫ n", "ᆷ m", "ᆼ ŋ"]]


def _syllables() -> dict[str, list[tuple[str, str]]]:
    """The syllables of every language and their phonemes."""
    jamo = [[entry.partition(" ")[::2] for entry in entries] for entries in KOREAN]
    tables = {
        "greek": (GREEK.items(), GREEK_VOWELS.items()),
        "hindi": (HINDI.items(), HINDI_VOWELS.items()),
        "icelandic": (ICELANDIC.items(), ICELANDIC_VOWELS.items()),
        "korean": jamo,
    }
    return {
        language: [
            tuple(map("".join, zip(*((s, f"{p} ") for s, p in parts), strict=True))) for parts in product(*table)
        ]
        for language, table in tables.items()
    }


def words_of(language: str, number: int = 700) -> dict[str, str]:
    """Words of one to three syllables and their phonemes; Icelandic k is another phoneme before e and i."""
    random = np.random.default_rng(0)
    syllables = _syllables()[language]
    words = {}
    while len(words) < number:
        chosen = [syllables[i] for i in random.integers(len(syllables), size=random.integers(1, 4))]
        word, phonemes = ("".join(side) for side in zip(*chosen, strict=True))
        if language == "icelandic":
            phonemes = re.sub(r"kʰ (?=ɪ|ɛ)", "cʰ ", phonemes)
        words[unicodedata.normalize("NFC", word)] = " ".join(phonemes.split())
    return words
