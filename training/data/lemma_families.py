"""Lemma families of English: an inflected word is in the family of its lemma, as "running" is in that of "run".

A model that has seen "run" in training finds "running" easy. A split by families puts both into the same split.
"""

import functools
import re
import unicodedata

# An ending is removed if a vowel and one more letter stay.
ENDING = re.compile(r"(?<=..)(s|ed|ing|er|est|l[yi]|ness)$")
VOWEL = re.compile("[aeiouy]")
# The spelling of the rest: (as in) make, making; run, running; panic, panicked; gentle, handling; happy; basically.
SPELLINGS = (
    (re.compile(r"(?<=..)e$"), ""),
    (re.compile(r"([a-z])\1$"), r"\1"),
    (re.compile(r"ck$"), "c"),
    (re.compile(r"(?<=[^aeiouy])l$"), ""),
    (re.compile(r"y$"), "i"),
    (re.compile(r"ical$"), "ic"),
)


@functools.cache
def family(word: str) -> str:
    """The name of a word's lemma family: the word without the endings of inflection.

    These are s, 's, ed, ing, er, est, ly and ness, one after the other, with the letters that they double, drop or
    change. Case, accents, apostrophes and hyphens do not count. The rules do not know meanings: "water" is in the
    family of "wat", and a family may have unrelated words. Irregular forms ("went") are families of their own. The same
    rules cut words without Latin letters, and words of other languages.
    """
    letters = unicodedata.normalize("NFD", word.casefold())
    stem = "".join(letter for letter in letters if letter.isalnum()) or word
    while (shorter := _shorter(stem)) != stem:
        stem = shorter
    return stem


def _shorter(stem: str) -> str:
    """The stem without one ending, or in a simpler spelling; the same if there is nothing to do."""
    for rule, replacement in ((ENDING, ""), *SPELLINGS):
        shorter = rule.sub(replacement, stem)
        if shorter != stem and len(shorter) > 1 and VOWEL.search(shorter):
            return shorter
    return stem
