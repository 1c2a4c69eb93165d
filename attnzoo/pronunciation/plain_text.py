"""Splits a text in any language into words and punctuation; numbers and symbols are unknown."""

import re
import unicodedata
from collections.abc import Collection

from .numbers import HYPHENS
from .symbols import SYMBOLS
from .text import APOSTROPHES, Token

# The pattern of every kind of token, over the classes of the characters (``_class_of``). Words are written in letters
# with their marks, and with one of the characters "j" between two letters.
TOKENS = re.compile("(?P<word>am*(?:j?am*)*)|(?P<punctuation>[pj]+)|(?P<unknown>[xm]+)|(?P<space> +)")


def words_and_punctuation(text: str, letters: Collection[str]) -> list[Token]:
    """The tokens of a text. Their texts and spaces together are the text, without white space at its beginning.

    Args:
        text: words with spaces or punctuation between them
        letters: other characters of words than Unicode's letters, such as the tsheg between the syllables of Tibetan
    """
    text = unicodedata.normalize("NFC", text)
    tokens: list[Token] = []
    for found in TOKENS.finditer("".join(_class_of(character, letters) for character in text)):
        kind, written = found.lastgroup, text[found.start() : found.end()]
        if kind != "space":
            tokens.append(Token(written, (written,) if kind == "word" else (), kind))  # type: ignore[arg-type]
        elif tokens:
            tokens[-1] = tokens[-1]._replace(space=written)
    return tokens


def _class_of(character: str, letters: Collection[str]) -> str:
    """The class of a character in ``TOKENS``.

    "a": a letter; "m": a mark or a format character; "j": a hyphen, an apostrophe or one of ``letters``; "p": other
    punctuation; " ": white space, also without a width, as between Khmer words; "x": anything else, also %, & and @.
    """
    category = unicodedata.category(character)
    if character.isspace() or character == "\u200b":
        return " "
    if category[0] in "LM" or category == "Cf":
        return "a" if category[0] == "L" else "m"
    if character in letters or character in f"'{APOSTROPHES}{HYPHENS}":
        return "j"
    return "p" if category[0] == "P" and character not in SYMBOLS else "x"
