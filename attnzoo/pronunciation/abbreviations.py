"""The words that are spoken for abbreviations: titles, streets, months and units of measure.

An abbreviation takes its period, unless the period may end the sentence.
"""

import re
import unicodedata
from typing import NamedTuple

from .numbers import number_words

# Before a name.
TITLES = {"Dr": "doctor", "Mr": "mister", "Mrs": "missus", "Ms": "miz", "St": "saint", "Mt": "mount", "Capt": "captain"}
TITLES |= {"Col": "colonel", "Gen": "general", "Gov": "governor", "Lt": "lieutenant", "Prof": "professor"}
TITLES |= {"Rev": "reverend", "Sen": "senator", "Sgt": "sergeant"}
OFTEN_WITHOUT_PERIOD = frozenset(["PhD", "Dr", "Mr", "Mrs", "Ms", "St", "Jr", "Sr", "vs", "etc"])
# Words that begin a sentence and are not names: in "Main St. The", St. is a street.
NO_NAME = re.compile(
    r"\s+(?i:a|an|and|as|at|but|by|for|from|he|her|his|how|i|if|in|it|my|not|on|or|our|she|so|that|the|their|then|there"
    r"|these|they|this|to|we|what|when|where|why|you|your)\b(?!\.\s*[A-Z])"  # in "Prof. A. Smith", A is an initial
)
ENDS_TEXT = re.compile(r"[\"'\u201d\u2019)\]]*\s*\Z")
# Anywhere.
WORDS = {"Dr": "doctor", "Mr": "mister", "Mrs": "missus", "Ms": "miz", "St": "street", "Ave": "avenue", "Rd": "road"}
WORDS |= {"Blvd": "boulevard", "Jr": "junior", "Sr": "senior", "Co": "company", "Corp": "corporation"}
WORDS |= {
    "Inc": "incorporated",
    "Ltd": "limited",
    "approx": "approximately",
    "vs": "versus",
    "etc": "et cetera",
    "PhD": "P H D",
}
# Before and after a number.
MONTHS = {"Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June", "Jul": "July"}
MONTHS |= {"Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November"}
MONTHS |= {"Dec": "December"}
DAYS = {"Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Thur": "Thursday"}
DAYS |= {"Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday"}
DAY_OF_DATE = re.compile(rf"({'|'.join(DAYS)})\b\.?(?=,? (?:\d|(?:{'|'.join(MONTHS)})\b))")  # Sat, 3 Oct
DAY_OR_YEAR = re.compile(r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?|(?:19|20)\d\d")  # after dec or DEC
BEFORE_NUMBERS = {"No": "number", "Fig": "figure", "Vol": "volume", "p": "page", "pp": "pages"} | MONTHS
# Units: after a number, and those with a slash anywhere.
UNITS = {"mm": "millimeter(s)", "cm": "centimeter(s)", "m": "meter(s)", "km": "kilometer(s)", "hr": "hour(s)"}
UNITS |= {"ft": "foot", "mg": "milligram(s)", "g": "gram(s)", "kg": "kilogram(s)", "oz": "ounce(s)", "lb": "pound(s)"}
UNITS |= {
    "lbs": "pound(s)",
    "ml": "milliliter(s)",
    "l": "liter(s)",
    "mph": "mile(s) per hour",
    "m/s": "meter(s) per second",
}
UNITS |= {"mL": UNITS["ml"], "dl": "deciliter(s)", "dL": "deciliter(s)"}
UNITS |= {
    f"{mass}/{other}": f"{UNITS[mass]} per {UNITS[other.lower()].removesuffix('(s)')}"
    for mass in ("mg", "g", "kg")
    for other in ("ml", "mL", "dl", "dL", "l", "L", "kg")
}
UNITS |= {"km/h": "kilometer(s) per hour", "kW": "kilowatt(s)", "kWh": "kilowatt hour(s)", "Hz": "hertz"}
UNITS |= {"kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "KB": "kilobyte(s)", "MB": "megabyte(s)"}
UNITS |= {"yd": "yard(s)", "mi": "mile(s)", "sec": "second(s)", "ms": "millisecond(s)"}
UNITS |= {"tsp": "teaspoon(s)", "tbsp": "tablespoon(s)", "gal": "gallon(s)"}
UNITS |= {f"{scale[0]}bps": f"{scale}bit(s) per second" for scale in ("kilo", "Mega", "Giga")}
UNITS |= {"s": "second(s)", "h": "hour(s)", "ns": "nanosecond(s)", "μs": "microsecond(s)", "μg": "microgram(s)"}
UNITS |= {"μm": "micrometer(s)", "nm": "nanometer(s)", "μl": "microliter(s)", "μL": "microliter(s)", "Ω": "ohm(s)"}
UNITS |= {
    "μF": "microfarad(s)",
    "nF": "nanofarad(s)",
    "pF": "picofarad(s)",
    "μH": "microhenry(s)",
    "μA": "microampere(s)",
}
UNITS |= {
    "mA": "milliampere(s)",
    "μV": "microvolt(s)",
    "mV": "millivolt(s)",
    "μW": "microwatt(s)",
    "mW": "milliwatt(s)",
}
UNITS |= {"kΩ": "kiloohm(s)", "MΩ": "megaohm(s)", "V": "volt(s)", "W": "watt(s)", "dB": "decibel(s)", "px": "pixel(s)"}
UNITS |= {"KiB": "kibibyte(s)", "MiB": "mebibyte(s)", "GiB": "gibibyte(s)"}
UNITS |= {"GB": "gigabyte(s)", "TB": "terabyte(s)", "min": "minute(s)", "hrs": "hour(s)"}
UNITS |= {unit.upper(): UNITS[unit] for unit in ("mm", "cm", "km", "mg", "kg", "oz", "lb", "lbs", "ft", "mph")}
UNIT = re.compile(rf"(?:{'|'.join(sorted(UNITS, key=len, reverse=True))})(?![^\W⁰¹²³⁴-⁹])")
AFTER_DRIVE = re.compile(r"\.(?:\s+[a-zß-öø-ÿ]|,\s+(?:\d|[A-Z][a-z]))")  # a lowercase letter, or the rest of an address
GREETINGS = ("Dear", "Hello", "Hey", "Hi", "Thanks")  # after these, Dr. is a doctor without a name
WITH = re.compile(r"w/(?:o\b)?(?=\s|[A-Za-z]|[.,;:!?)]|$)")  # w/ and w/o
NEXT_WORD = re.compile(r"(\s*)(\w*)")


# Names after which a Roman numeral is an ordinal: Henry VIII. Else it is a cardinal: World War II.
RULERS = re.compile(
    "Alexander|Benedict|Catherine|Charles|Christian|Clement|Edward|Elizabeth|Francis|Frederick|George|Gregory|Gustav|Henry"
    "|Innocent|Ivan|James|John|Leo|Louis|Napoleon|Nicholas|Paul|Peter|Philip|Pius|Richard|Robert|Urban|Wilhelm|William"
)
# Capitalised words before which IV means "intravenous" and is not a numeral: Use IV fluids.
BEFORE_IV = frozenset(["Give", "Start", "Stop", "Through", "Use", "Via", "With", "Without"])
# Words before which a lowercase numeral is one too, and every numeral of at least two letters.
DIVISIONS = frozenset(
    ["act", "appendix", "book", "canto", "ch", "chapter", "chapters", "ep", "figure", "p", "page", "pages"]
)
DIVISIONS |= {"part", "pp", "scene", "section", "vol", "volume"}
ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
ROMAN = re.compile(r"(X{0,3}(?:IX|IV|V?I{0,3}))((?:['\u2019]s)?)")  # 1 to 39
ANY_ROMAN = re.compile("(?=.)M{0,3}(?:C[DM]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})")


class Abbreviation(NamedTuple):
    """Where an abbreviation ends, and the words that are spoken for it."""

    end: int
    spoken: str


def abbreviation(text: str, start: int, end: int, before: str, number: str | None) -> Abbreviation | None:
    """The abbreviation at these places of a text; None if the word there is not one.

    Args:
        text: the whole text
        start: where the word begins
        end: where it ends
        before: the word before it, if only a space is between them, or ""
        number: the number before it. It ends in a hyphen if the unit is singular: after a hyphen (5-km), or if "a" or
            "an" is before the number
    """
    if (unit := UNIT.match(text, start)) and (number is not None or "/" in unit[0] or unit[0][0] == "μ"):
        is_one = number is not None and (number == "1" or number.endswith("-"))  # a 5-km run, a 5 km run
        of_unit = UNITS[unit[0]].replace("(s)", "" if is_one else "s")
        end = unit.end()
        return Abbreviation(end + _goes_on(text, end), of_unit if is_one else of_unit.replace("foot", "feet"))
    if number is not None and text.startswith("in.", start) and not text.startswith("..", start + 2):
        spoken = "inch" if number == "1" or number.endswith("-") else "inches"
        return Abbreviation(start + len("in") + (not ends_sentence(text, start + len("in."))), spoken)
    if text[start - 1 : start] not in tuple("/.:") and (slashed := WITH.match(text, start)):
        return Abbreviation(slashed.end(), "without" if slashed[0] == "w/o" else "with")
    if day := DAY_OF_DATE.match(text, start):
        return Abbreviation(day.end(), DAYS[day[1]])
    if number is not None and text[start:end] == "M" and text[start - 1].isdigit():  # 300M
        return Abbreviation(end, "million")
    if text.startswith("Ph.D.", start):
        return Abbreviation(start + len("Ph.D") + (not ends_sentence(text, start + len("Ph.D."))), WORDS["PhD"])
    has_period = text.startswith(".", end) and not text.startswith("..", end)
    word = text[start:end]
    space, following = NEXT_WORD.match(text, end + has_period).groups()  # type: ignore[union-attr]  # it always matches
    is_date = word.capitalize() in MONTHS and space and DAY_OR_YEAR.fullmatch(following)
    if is_date or (has_period and word.isupper()):
        word = word.capitalize()
    if not has_period and word not in OFTEN_WITHOUT_PERIOD and word not in MONTHS:
        return None
    if word in TITLES and space and following[:1].isupper() and not NO_NAME.match(text, end + has_period):
        return Abbreviation(end + has_period, TITLES[word])
    is_page = word in ("p", "pp") and ANY_ROMAN.fullmatch(following.upper())
    is_number = following[:1].isdigit() or (len(following) > 1 and (is_page or ROMAN.fullmatch(following)))
    if is_number and (before_number := BEFORE_NUMBERS.get(word)):
        return Abbreviation(end + has_period, before_number)
    if word == "Dr" and _is_name(before) and before not in GREETINGS and AFTER_DRIVE.match(text, end):
        spoken = "drive"
    elif word in MONTHS and number is not None:
        spoken = MONTHS[word]
    elif word in WORDS and (has_period or word not in ("Dr", "Mr", "Mrs", "Ms")):
        spoken = WORDS[word]
    else:
        return None
    return Abbreviation(end + (_goes_on(text, end) or (has_period and following[:1].isdigit())), spoken)


def roman_numeral(word: str, before: str) -> str | None:
    """The words of a Roman numeral after the word ``before``; None for another word, or for one letter after a name."""
    division = before.lower().rstrip(".")
    is_numeral = len(word) > 1 or word in "ivx" or (word in "VX" and before[:1].isupper())
    if (
        division in DIVISIONS
        and is_numeral
        and ANY_ROMAN.fullmatch(word.upper())
        and word in (word.upper(), word.lower())
    ):
        return " ".join(roman_words(word, before))
    found = ROMAN.fullmatch(word)
    if not found or not _is_name(before) or (found[1] == "IV" and before in BEFORE_IV):
        return None
    if len(found[1]) < 2 and (not RULERS.fullmatch(before) or found[1] in ("", "I")):  # Malcolm X, and I
        return None
    return " ".join(roman_words(found[1], before)) + found[2]


def roman_words(numeral: str, before: str) -> list[str]:
    """The words of a Roman numeral, also in Unicode's own characters: an ordinal after the name of a ruler."""
    values = [ROMAN_DIGITS[digit] for digit in unicodedata.normalize("NFKC", numeral).upper()]
    number = sum(-one if one < following else one for one, following in zip(values, [*values[1:], 0], strict=True))
    return ["the", *number_words(f"{number}th")] if RULERS.fullmatch(before) else number_words(str(number))


def ends_sentence(text: str, place: int) -> bool:
    """Whether a sentence certainly ends before this place, where a period may be one of an abbreviation."""
    found = NO_NAME.match(text, place)
    return ENDS_TEXT.match(text, place) is not None or (found is not None and found[0].strip()[0].isupper())


def _is_name(word: str) -> bool:
    """Whether a word has an uppercase letter and is not one of those that often begin a sentence."""
    return re.fullmatch(r"[A-Z][a-z]+\.?", word) is not None and not NO_NAME.fullmatch(f" {word}")


def _goes_on(text: str, place: int) -> bool:
    """Whether the text has a period here that does not end the sentence: a lowercase letter or a mark follows."""
    return re.compile(r"\.(?:[,;:)]|\s*[^\W\d_A-Z])").match(text, place) is not None
