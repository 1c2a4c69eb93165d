"""Unicode and symbols: compatibility forms as plain characters, powers, fractions, and the spoken words of symbols."""

import html
import re
import unicodedata
from functools import cache
from typing import NamedTuple

from .numbers import MINUS, fraction_words, number_words

SYMBOLS = {"%": "percent", "&": "and", "+": "plus", "@": "at", "=": "equals", "\u00d7": "times", "°": "degrees"}
SYMBOLS |= {"№": "number", "±": "plus or minus", "÷": "divided by", "√": "square root of", "∞": "infinity"}
SYMBOLS |= {"≤": "less than or equal to", "≥": "greater than or equal to", "≈": "approximately"}
SYMBOLS |= {"≠": "not equal to", "→": "arrow", "§": "section", "‰": "per mille", "℃": "degrees celsius"}
SYMBOLS |= {"℉": "degrees fahrenheit", "©": "copyright", "®": "registered", "™": "trademark"}
SYMBOLS |= {"$": "dollars", "£": "pounds", "€": "euros", "¢": "cents"}  # after an amount, or alone
SYMBOLS[MINUS] = "minus"  # also for a hyphen before a number, after white space or punctuation
FRACTIONS = {}  # after a whole number
for _sign in "½¼¾⅓⅔⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒":
    _above, _below = unicodedata.normalize("NFKC", _sign).split("\u2044")
    SYMBOLS[_sign] = " ".join(fraction_words(_above, _below))
    FRACTIONS[_sign] = " ".join(fraction_words(_above, _below, after_whole=True))
GREEK_LETTER = re.compile("(?<![\u0370-\u03ff])([\u0391-\u03a9\u03b1-\u03c9])(?![\u0370-\u03ff])")
POWERS = {"²": "squared", "³": "cubed", "¹": "one"}
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ"
# Marks that are not spoken: those of Markdown and code, frames of tables, bars.
MARKS = re.compile("[|`~^<>\u2500-\u259f]")
# Invisible characters: places where a line may break, and the mark of a file's encoding.
INVISIBLE = "\u200b\u2060\ufeff"
TO_NORMALISE = re.compile(
    r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]{2,31}\d{0,2});"  # an entity of HTML
    r"|(?<=[A-Za-z])`(?=(?:[stmdSTMD]|re|ve|ll|RE|VE|LL)\b)"  # don`t
    rf"|\w[{INVISIBLE}]+|[{INVISIBLE}]+\w"
    r"|(?<=\d)(?:ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)"
    r"|[⁰¹²³⁴-⁹]+\u2044"
    r"|[^\x00-\x7f]"
)


class Normalised(NamedTuple):
    """A text in plain characters, and the place in the written text of each character and of the end."""

    text: str
    places: list[int] | range


def normalised(text: str) -> Normalised:
    """A text without HTML's entities and compatibility forms: ＄ becomes $, ﬁ two letters, ₂ a digit, don`t don't."""
    if text.isascii() and "&" not in text and "`" not in text:
        return Normalised(text, range(len(text) + 1))
    plain: list[str] = []
    places: list[int] = []
    end = 0
    for found in TO_NORMALISE.finditer(text):
        said = _plainly(found[0])
        if said != found[0]:
            places += [*range(end, found.start()), *([found.start()] + [found.end()] * (len(said) - 1))[: len(said)]]
            plain += (text[end : found.start()], said)
            end = found.end()
    return Normalised("".join(plain) + text[end:], [*places, *range(end, len(text) + 1)])


@cache
def _plainly(written: str) -> str:
    """The replacement of a piece that ``TO_NORMALISE`` finds; the piece itself if it stays."""
    if written[0] == "&":
        return html.unescape(written)
    if written in "`\u00b4":
        return "'"
    if len(written) > 1:
        return unicodedata.normalize("NFKC", written.strip(INVISIBLE))
    kind, _, _ = unicodedata.decomposition(written).rpartition(">")[0].partition(" ")
    category = unicodedata.category(written)
    is_digit = category == "No" and unicodedata.digit(written, None) is not None
    if written.isspace() or written in SYMBOLS or written in SUPERSCRIPTS or kind in ("<super", "<noBreak"):
        return written
    form = unicodedata.normalize("NFKC", written)
    if category == "No" and kind != "<fraction" and (is_digit or kind):  # ①, ⑴, ⒈, ❶ and ₁
        return str(int(unicodedata.numeric(written)))
    is_plain = form.isascii() or "GREEK" in unicodedata.name(form[0], "")
    return form if kind and is_plain and (len(form) == 1 or form.isalpha()) and category != "Nl" else written


def power_words(run: str, operand: str) -> list[str]:
    """The words of a run of superscripts after ``operand``, the text directly before it: "to the minus three" in 10⁻³.

    After a longer word it is a note, and after the sign of an ion a charge: only the number is spoken.
    """
    if run in POWERS:
        return [POWERS[run]]
    signs = {"⁺": "plus", "⁻": "minus"}
    words = []
    for piece in re.findall(r"[⁺⁻]|ⁿ|[^⁺⁻ⁿ]+", run):
        plainly = unicodedata.normalize("NFKC", piece)
        words += [signs[piece]] if piece in signs else [plainly] if piece == "ⁿ" else number_words(plainly)
    is_power = run[-1] not in signs and re.search(r"(?:[\d)]|(?<![^\W\d_])[^\W\d_]{1,3})\Z", operand)
    return ["to", "the", *words] if is_power else words


def with_greek_names(word: str) -> list[str]:
    """The parts of a word, with the names of single Greek letters in it: Δt has "delta" and "t".

    Those of a Greek word stay.
    """
    parts = GREEK_LETTER.split(word)
    return [*filter(None, (_greek_name(part) if GREEK_LETTER.fullmatch(part) else part for part in parts))]


@cache
def _greek_name(letter: str) -> str:
    return unicodedata.name(letter).rpartition(" ")[2].lower().replace("lamda", "lambda")
