"""Numbers as English words, by the package num2words; without it digit by digit.

num2words is under the LGPL and so the optional extra ``text``.
"""

import importlib
import importlib.util
import math
import re
import unicodedata
import warnings
from functools import cache
from typing import Any

from ..installing import pip_install

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
MAX_DIGITS = 15  # of a number that is read as one; a longer one is read digit by digit
YEARS = range(1100, 2100)
CURRENCIES = {"$": ("dollar", "cent"), "£": ("pound", "pence"), "€": ("euro", "cent"), "¢": ("cent", "")}
MINUS = "\u2212"
HYPHENS = "-\u2010\u2011"
SCALES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "tn": "trillion"}
SCALES |= {name: name for name in ("hundred", "thousand", "million", "billion", "trillion")}
# An amount of money with a scale: $5M, $1.5 billion.
AMOUNT = re.compile(
    rf"[$£€][{HYPHENS}{MINUS}]?([\d.,]*\d) ?((?ai:{'|'.join(sorted(SCALES, key=len, reverse=True))}))\b"
)
TRAILING = re.compile(r"(\d[\d.,]*)(?<=\d) ?([$£€¢])(?!\.?\d)")  # 5 €, but not in 5 €10 notes
DECIMAL_COMMA = re.compile(r"(?:\d+|\d{1,3}(?:\.\d{3})+),(?!\d{3}$)\d+")  # 5,20 and 1.234,5, but not 1,234
GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)*")  # 1,234,567.8
TIME = re.compile(r"(?<![\d:])(\d{1,2}):([0-5]\d)(?![\d:])")  # 10:30
ORDINALS = ("st", "nd", "rd", "th")
# Numbers between whose groups of three digits there is a narrow space, or another that does not break a line.
SPACED = re.compile(r"\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?!\d)")
SCIENTIFIC = re.compile(rf"(\d+(?:\.\d+)?)[eE]([-+{MINUS}]?)(\d+)(?![\w.])")  # 1e-5
FRACTION = re.compile(r"(\d{1,4})([/\u2044])(\d{1,4})(?![\w/\u2044]|[.,-]\d)")  # 2/3
PARTS = ["", "", "half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
# With a plain slash only these are fractions, unless the number above is 1: 24/7, 9/11 and 7/10 are not.
DENOMINATORS = frozenset((2, 3, 4, 5, 6, 8, 16, 32, 64))


@cache
def _num2words() -> Any:
    """The function num2words, or None."""
    if importlib.util.find_spec("num2words") is not None:
        return importlib.import_module("num2words").num2words
    warnings.warn(f"numbers are read digit by digit; to read 42 as forty two: {pip_install('text')}", stacklevel=2)
    return None


def number_words(number: str) -> list[str]:
    """The words of a number such as 42, .5, 1,000.5, 1999, 3rd, 1990s, 10:30, $5.20, $-5, 5,20 € or $5 million."""
    if number[0] in CURRENCIES and number[1] in (*HYPHENS, MINUS):
        return ["minus", *number_words(number[0] + number[2:])]
    if time := TIME.fullmatch(number):
        hour, minutes = str(int(time[1])), time[2]
        if not int(minutes):
            return [*number_words(hour), "o'clock" if 1 <= int(hour) <= 12 else "hundred"]
        return [*number_words(hour), *(["oh"] if int(minutes) < 10 else []), *number_words(str(int(minutes)))]
    if trailing := TRAILING.fullmatch(number):
        return number_words(trailing[2] + trailing[1])
    if scaled := AMOUNT.fullmatch(number):
        return [*number_words(scaled[1]), SCALES[scaled[2].lower()], CURRENCIES[number[0]][0] + "s"]
    currency = CURRENCIES.get(number[0])
    digits = "".join(str(unicodedata.digit(character, character)) for character in number.lstrip("$£€¢"))
    digits = "0" + digits if digits.startswith(".") else digits  # $.50
    amount, suffix = re.fullmatch(r"([\d.,]+)(\w*)", digits.lower()).groups()  # type: ignore[union-attr]  # by the caller
    if DECIMAL_COMMA.fullmatch(amount) and not suffix:
        amount = amount.replace(".", "").replace(",", ".")
    elif "," in amount and not GROUPED.fullmatch(amount):  # a list: 1,2,3
        return [word for part in number.split(",") if part for word in number_words(part)]
    whole, *fractions = amount.replace(",", "").split(".")
    if len(fractions) > 1 or _num2words() is None or len(whole) > MAX_DIGITS:  # 192.168.0.1
        words = _digit_by_digit(amount)
        return [*words, currency[0] + "s" * (amount != "1")] if currency else words
    if suffix in ORDINALS:
        return _cardinal(whole, to="ordinal")
    if currency and (not fractions or (len(fractions[0]) == 2 and currency[1])):
        return _money(whole, fractions[0] if fractions else "", currency)
    is_year = len(whole) == 4 and "," not in amount and not fractions and int(whole) in YEARS and not currency
    words = (
        _cardinal(whole, to="year" if is_year else "cardinal") if whole[0] != "0" or whole == "0" else [*_digits(whole)]
    )
    words += ["point", *_digits(fractions[0])] if fractions else []
    if suffix == "s":
        words[-1] = words[-1].removesuffix("y") + ("ies" if words[-1].endswith("y") else "s")
    return [*words, currency[0] + "s"] if currency else words


def fraction_words(above: str, below: str, after_whole: bool = False) -> list[str]:
    """The words of a fraction: three quarters; after a whole number "and three quarters", "and a half"."""
    name = PARTS[int(below)] if int(below) < len(PARTS) else ""
    if not name and (int(below) < 2 or _num2words() is None):
        return [*number_words(above), "over", *number_words(below)]
    *tens, last = [name] if name else _cardinal(below, to="ordinal")
    one = "an" if last.startswith("e") else "a"
    count = [one] if after_whole and above == "1" else _digits(above) if len(above) == 1 else _cardinal(above)
    plural = "halves" if last == "half" else f"{last}s"
    return [*(["and"] if after_whole else []), *count, *tens, last if int(above) == 1 else plural]


def is_fraction(above: str, slash: str, below: str) -> bool:
    """Whether two numbers with a slash between them are read as a fraction."""
    if slash != "/":
        return True
    one, other = int(above), int(below)
    return (
        0 < one < other
        and below[0] != "0"
        and above[0] != "0"
        and math.gcd(one, other) == 1
        and (other in DENOMINATORS or (one == 1 and other in (7, 9, 10, 100, 1000)))
    )


def scientific_words(number: str) -> list[str]:
    """The words of a number that ``SCIENTIFIC`` matches: one times ten to the minus five."""
    mantissa, sign, exponent = SCIENTIFIC.fullmatch(number).groups()  # type: ignore[union-attr]  # by the caller
    minus = ["minus"] if sign not in ("", "+") else []
    return [*number_words(mantissa), "times", "ten", "to", "the", *minus, *number_words(exponent)]


def _digits(text: str) -> list[str]:
    return [DIGITS[int(digit)] for digit in text]


def _digit_by_digit(amount: str) -> list[str]:
    return [word for c in amount if c != "," for word in (_digits(c) if c != "." else ["point"])]


def _cardinal(digits: str, **options: str) -> list[str]:
    return re.findall(r"[a-z]+", _num2words()(int(digits), **options))


def _money(whole: str, cents: str, currency: tuple[str, str]) -> list[str]:
    """The words of an amount: five dollars and twenty cents. A part of zero is left out, unless both are zero."""
    dollars, hundredths = (
        [*_cardinal(amount or "0"), unit] for amount, unit in ((whole, currency[0]), (cents, currency[1]))
    )
    for words, amount in ((dollars, whole), (hundredths, cents or "0")):
        words[-1] += "s" if int(amount) != 1 and words[-1] != "pence" else ""
    if not int(cents or "0"):
        return dollars
    return [*dollars, "and", *hundredths] if int(whole) else hundredths
