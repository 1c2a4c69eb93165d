"""The parts of a text that are not sentences, and their spoken words: addresses, tags, rules, operators, code."""

import re
from collections.abc import Callable
from typing import NamedTuple

from .abbreviations import roman_words
from .capitals import Kind
from .numbers import FRACTION, SCIENTIFIC, SPACED, fraction_words, is_fraction, number_words, scientific_words
from .symbols import SUPERSCRIPTS, SYMBOLS, power_words

# Addresses of e-mail and web pages. Their punctuation is spoken.
ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s<>()\[\]{}|`\"\u201d\u2019]*[\w/]|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"
    r"|(?:[\w-]{1,63}\.){1,6}(?:com|org|net|edu|gov|io|uk)\b"
)
IN_ADDRESS = {".": "dot", "/": "slash", ":": "colon", "-": "dash", "_": "underscore", "?": "question mark", "#": "hash"}
IN_ADDRESS |= {"~": "tilde", " ": "space"}
# A number of hexadecimal digits, of which at least two are letters or digits each.
CHECKSUM = r"(?=[\da-f]*\d[\da-f]*\d)(?=[\da-f]*[a-f][\da-f]*[a-f])[\da-f]{7,64}"
# An identifier of a service: letters and digits that alternate at least twice.
IDENTIFIER = r"(?=[A-Za-z]*\d+[A-Za-z]+\d+[A-Za-z]+\d)[A-Za-z\d]{16,64}"
IN_ADDRESSES = re.compile(rf"%[\dA-F]{{2}}|(?<![^\W_]){CHECKSUM}(?![^\W_])|[^\W\d_]+|\d+|[\W_]")
TAGS = (
    "a|abbr|article|aside|b|blockquote|body|br|button|center|code|dd|del|details|div|dl|dt|em|figure|figcaption|font"
    "|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|label|li|link|main|mark|meta|nav|ol|p|picture"
    "|pre|s|samp|script|section|small|source|span|strong|style|sub|summary|sup|svg|table|tbody|td|tfoot|th|thead|title"
    "|tr|tt|u|ul|var|video"
)
OPERATORS = {"<=": SYMBOLS["≤"], ">=": SYMBOLS["≥"], "!=": SYMBOLS["≠"], "~=": "compatible with", "&&": "and"}
OPERATORS |= {"->": SYMBOLS["→"], "=>": SYMBOLS["→"]}
EQUATIONS = {"==": "equals", "===": "equals", "*": "times"}
ARROW_HEADS = tuple("<>=~|")  # next to an operator these make it a longer arrow or a line, which are not spoken
POWERS = ("^", "**")
COMPARISONS = {"<": "less than", ">": "greater than"}
BEFORE_OPERAND = re.compile(r" ?[\w\"'($\[{./\\-]")
AFTER_OPERAND = re.compile(r".*[\w\"')\]] ?\Z")
BEFORE_NUMBER = re.compile(r" ?[$.]?\d")


class Reading(NamedTuple):
    """The spoken words of a piece of a text, and its kind. Markup has no words, and nor has what is not read."""

    parts: tuple[str, ...]
    kind: Kind = "word"


def spelled_code(code: str) -> Reading:
    """The letters and digits of a code."""
    parts = (part for c in code.upper() for part in (number_words(c) if c.isdigit() else c))
    return Reading(tuple(part for part in parts if part != "-"), "compound")


def reading_at(found: re.Match[str], number_before: str | None, word_before: str) -> Reading | None:
    """The reading of a match of ``MARKUP``; None if it has no special reading in its place.

    Args:
        found: the match
        number_before: the number directly before it, or None
        word_before: the word before it, if only a space is between them, or ""
    """
    kind, written, text = str(found.lastgroup), found[0], found.string
    if kind == "sign":
        return _sign(written, text[max(0, found.start() - 80) : found.start()], text[found.end() : found.end() + 4])
    if kind == "fraction":
        above, slash, below = FRACTION.fullmatch(written).groups()  # type: ignore[union-attr]  # as MARKUP found it
        is_date = word_before.lower() == "on" and not text.startswith(" of", found.end())
        if is_date or not is_fraction(above, slash, below):
            return None
        return Reading(tuple(fraction_words(above, below, after_whole=bool(number_before and number_before.isdigit()))))
    if kind == "power":
        return Reading(tuple(power_words(written, text[max(0, found.start() - 8) : found.start()])))
    if kind == "roman":
        return Reading(tuple(roman_words(written, word_before)))
    return READINGS[kind](written)


def _sign(sign: str, before: str, after: str) -> Reading:
    """The reading of an operator, between its operands or before one; elsewhere it is markup, which is not spoken."""
    line = before.rpartition("\n")[2]
    has_space, is_close = line[-1:] == " ", after[:1] != " "
    is_between = AFTER_OPERAND.match(line) and BEFORE_OPERAND.match(after) and has_space != is_close
    said = ""
    if sign in OPERATORS:
        said = "" if line[-1:] in ARROW_HEADS or after[:1] in ARROW_HEADS else OPERATORS[sign]
    elif sign in COMPARISONS:
        is_first = not line.strip()  # it marks the line as a quotation
        is_bracket = sign == ">" and line.rfind("<") > line.rfind(">")  # of <name@example.org>
        is_of_number = BEFORE_NUMBER.match(after) and (sign == "<" or not (is_first or is_bracket))
        said = COMPARISONS[sign] if is_of_number or (is_between and has_space) else ""
    elif sign in POWERS and is_between and re.search(r"(?:[\d)\]]|\b[A-Za-z])\Z", line) and (is_close or sign == "**"):
        said = "to the"
    elif sign in EQUATIONS and is_between and (sign != "*" or has_space or (line[-1].isdigit() and after[0].isdigit())):
        said = EQUATIONS[sign]
    elif sign == "~" and BEFORE_NUMBER.match(after) and not re.search(r"[\w~/.]\Z", line):
        said = "about"
    return Reading(tuple(said.split())) if said else Reading((), "punctuation")


READINGS: dict[str, Callable[[str], Reading]] = {
    "tag": lambda written: Reading((), "unknown"),
    "rule": lambda written: Reading((), "punctuation"),
    "dollar": lambda written: Reading(("dollar",)),
    "code": spelled_code,
    "scientific": lambda written: Reading(tuple(scientific_words(written))),
    "spaced": lambda written: Reading(tuple(number_words(re.sub(r"\s", ",", written)))),
    "prefix": lambda written: Reading((written.upper(),)),
    "by": lambda written: Reading(("by",)),
    "dot": lambda written: Reading(("dot",)),
}
# The pattern of every piece, the first that fits counts. A lookahead for their first characters makes the search fast.
MARKUP = re.compile(
    rf"(?=[<>=!~^*&|+$.\d\-A-Za-z`\"(\])\u201d:#_\u2160-\u217f{SUPERSCRIPTS}])(?:"
    r"(?P<ending>(?<=\w)(?:[`\"*()\]\u201d]|</\w+>)+['\u2019]s\b)"
    r"|(?P<prefix>(?<![\w'])[bfr](?='[^'\s]{2}))"  # of a string in code: b'text'
    rf"|(?P<tag><!--.*?-->|<!(?i:doctype)[^<>]*>|</?(?i:{TAGS})(?:\s[^<>]*)?/?>)"
    # Underlines and the borders of tables; a prompt ($) that has no word before it; bullets at the beginning of a line.
    r"|(?P<rule>(?<!\S)[-=~^+|:*#_]{3,}(?!\S)|(?<!\w )(?<!\w)\$(?= +[A-Za-z./])"
    r"|(?:(?<=\n)|(?<![\s\S]))[+=](?=\s))"
    r"|(?P<sign>[<>!~]=|-+>|=>|={2,}|<+|>+|\*+|~+|\^+|&&|\|{2,}|\+{3,})"
    r"|(?P<dollar>\$(?=[A-Za-z_{(]))"
    rf"|(?<![\w.,])(?:(?P<scientific>{SCIENTIFIC.pattern})|(?P<spaced>{SPACED.pattern}))"
    rf"|(?<!\w)(?P<code>(?:0[xX][\da-fA-F]+|[\da-f]{{8}}(?:-[\da-f]{{4}}){{3}}-[\da-f]{{12}}|{CHECKSUM}|{IDENTIFIER})\b)"
    rf"|(?<![\w.,/:\u2044-])(?P<fraction>{FRACTION.pattern})"
    r"|(?P<by>(?<=\d)[xX](?=\d)|(?<=\d )x(?= \d))"
    r"|(?P<dot>(?<!\.)\.(?=[a-z_])(?:(?<!\b\w\.)|(?=\w\w))|(?<=\d)\.(?=x\b))"
    rf"|(?P<power>[{SUPERSCRIPTS}]+)|(?P<roman>[\u2160-\u217f]+))"
)
