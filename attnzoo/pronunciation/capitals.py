"""Words that are spelled out or taken apart because of their uppercase letters (GPU-based, OAuth); technical terms."""

import re
from typing import Literal

from .numbers import HYPHENS, number_words
from .symbols import with_greek_names

Kind = Literal["word", "capitals", "acronym", "initialism", "compound", "punctuation", "unknown"]
# Initialisms that dictionaries also list as words (it, us), or that look like words. In uppercase they are spelled out.
INITIALISMS = frozenset(["AI", "AST", "EST", "EU", "ID", "IO", "IP", "IT", "OS", "OSS", "PM", "UK", "UN", "URI", "US"])
INITIALISMS |= {"AIX", "DOI", "IDNA", "NA", "UUID"}
# Initialisms that are also written in lowercase, and look like words.
IN_SMALL_LETTERS = frozenset(
    ["api", "aws", "ci", "cli", "cpu", "doi", "eg", "exe", "gid", "gpu", "gui", "id", "ie", "ietf", "ip"]
)
IN_SMALL_LETTERS |= {"irq", "os", "ssh", "uid", "ui", "uri", "url", "utf", "uuid", "wsgi"}
# Technical terms whose pronunciation differs from their spelling, given as words and initialisms. A lowercase key
# serves for every capitalisation.
TERMS = {"LaTeX": "lay tech", "BibTeX": "bib tech", "TeX": "tech", "IoT": "i O T", "SaaS": "sass", "JPEG": "jay peg"}
TERMS |= {"readme": "reed me", "json": "jason", "jsonl": "jason L", "pypi": "pie P I", "sqlite": "SQL light"}
TERMS |= {"numpy": "numb pie", "scipy": "sigh pie", "pytorch": "pie torch", "pytest": "pie test", "github": "git hub"}
TERMS |= {
    "pyenv": "pie env",
    "gitlab": "git lab",
    "macos": "mack OS",
    "ios": "i OS",
    "stdin": "standard in",
    "stdout": "standard out",
}
TERMS |= {"stderr": "standard error", "readthedocs": "reed the docks"}
TERMS |= {"wget": "W get", "utcnow": "UTC now", "img": "image", "yml": "Y M L", "usr": "user", "pipx": "pip X"}
TERMS |= {"dtype": "D type", "groupby": "group by", "iana": "I anna", "jax": "jacks", "libc": "lib C", "meta": "metta"}
TERMS |= {
    "bibtex": "bib tech",
    "ctrl": "control",
    "gzip": "G zip",
    "ipynb": "I P Y N B",
    "re": "ree",
}
TERMS |= {"sh": "S H", "nan": "nann", "psutil": "P S you till", "systemd": "system D"}
TERMS |= {"async": "ace ink", "asyncio": "ace ink I O", "circleci": "circle CI", "tzinfo": "T Z info"}
# Lowercase words without a vowel are spelled (www), except sounds (shh) and abbreviations that are read as words (mr).
WITHOUT_VOWELS = re.compile(
    r"(?!(?:br+|gr+|hm+|hmph|m+|pff+t?|ps+t|s+hh+|tsk|z+|dr|ft|hrs?|jr|lbs?|ltd|mrs?|ms|mt|nth|sr|st|vs)\Z)[b-df-hj-np-tv-xz]{2,8}"
)
PLURAL_LETTER = re.compile("(?!Ms|Vs)[B-DF-HJ-NP-TV-Z]s")  # your Ps and Qs
LONGEST_ACRONYM = 3  # letters; a longer uppercase word is more often a word
LONGEST_INITIALISM = 5  # letters, if no English word begins or ends like it: GPU, HDMI, IBM
ONSETS = (
    "bl br ch chl chr cl cr cz dr dw fl fr gh gl gn gr gw kh kl kn kr ll pf ph phl phr pl pn pr ps pt rh "
    "sc sch schl schm schn schr schw scl scr sh shr sk sl sm sn sp sph spl spr sq st str sv sw sz th thr "
    "thw tr ts tw vl vr wh wr zh zw"
).replace(" ", "|")
UNLIKE_WORDS = re.compile(
    rf"(?!mc|(?:{ONSETS})[aeiouy])[^aeiouy]{{2}}"
    r"|.*(?:(?!ck|(.)\1)[bcdfjkpqtvxz][bcdfgjklmnqrvwx]|s[bdfgjlnrvwxz])\Z",
    re.IGNORECASE,
)
CAPITALS = re.compile("([A-Z]{2,})((?:['\u2019]?s)?)")
# The parts of a word with uppercase letters inside it: HTTP-Server, O-Auth, IP-v, i-Phone, PDFs.
INNER = re.compile("[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]{2,}(?:['\u2019]?s)?(?![A-Za-z])|[A-Z]{2,}|[A-Z]?[^A-Z]+|[A-Z]")
HAS_INNER = re.compile(r"(?=.*[a-z]).[^A-Z]*[A-Z]")
NAME = re.compile("(?:Ma?c|O['\u2019]|D['\u2019])[A-Z].*|(?:De|Di|Du|Fitz|La|Le|Van)[A-Z][a-z]{2,}")  # McDonald, LeBron
# An initialism and a word that are written together in lowercase: httpcore, urllib.
WITH_INITIALISM = re.compile("(http|html|json|sql|ssl|url|xml)(?!s)([a-z]{3,})")
IS_PLAIN = re.compile("[A-Za-z]?[a-z]*")


def reading(word: str, is_mixed: bool = True, is_alone: bool = False) -> tuple[tuple[str, ...], Kind]:
    """The spoken parts of a word, and their kind: its letters, or the words that it consists of.

    Args:
        word: without white space
        is_mixed: whether the whole text has lowercase letters, so that uppercase letters can mark an acronym
        is_alone: whether the whole text has no other word
    """
    if said := term(word):
        return tuple(said.split()), "compound"
    letters = word if word in IN_SMALL_LETTERS else word.removesuffix("s")
    if letters in IN_SMALL_LETTERS:
        return (*letters[:-1].upper(), letters[-1].upper() + ("'s" if word != letters else "")), "initialism"
    if both := WITH_INITIALISM.fullmatch(word):
        return (term(both[1]) or both[1].upper(), both[2]), "compound"
    if IS_PLAIN.fullmatch(word) and not PLURAL_LETTER.fullmatch(word):
        return (word,), "word"
    if PLURAL_LETTER.fullmatch(word):
        return (f"{word[0]}'s",), "initialism"
    if capitals := CAPITALS.fullmatch(word):
        letters, plural = capitals.groups()
        parts = (*letters[:-1], letters[-1] + ("'s" if plural else ""))
        if not set(letters) & set("AEIOUY") or (is_mixed and letters in INITIALISMS):
            return parts, "initialism"
        is_unlike = len(letters) <= LONGEST_INITIALISM and UNLIKE_WORDS.match(letters)
        if plural == "s" or is_unlike or (is_mixed and len(letters) <= LONGEST_ACRONYM):
            return parts, "acronym"
        if is_alone and len(letters) <= LONGEST_ACRONYM:
            return parts, "capitals"
        return (word,), "word"
    return (parts, "compound") if (parts := _parts(word, is_mixed)) else ((word,), "word")


def term(word: str) -> str | None:
    """The spoken words of a technical term, perhaps with s or 's; None for another word."""
    for stem, ending in ((word, ""), (word[:-2], "'s"), (word[:-1], "s")):
        if word.endswith(ending) and (said := TERMS.get(stem) or TERMS.get(stem.lower())):
            return said + ("'s" if ending else "")
    return None


def _parts(word: str, is_mixed: bool) -> tuple[str, ...]:
    """The parts of a compound or of a word such as OAuth; empty if all of them are read as plain words."""
    parts: list[str] = []
    is_apart = False
    for part in re.split(f"[{HYPHENS}]", word):
        inner = _inner(part)
        is_apart |= inner != [part] or (part != word and reading(part, is_mixed)[1] != "word")
        parts += filter(None, inner)
    return tuple(parts) if is_apart else ()


def _inner(part: str) -> list[str]:
    """The spoken words of a part of a compound: a technical term, words such as OAuth, the names of Greek letters."""
    if said := term(part):
        return said.split()
    if HAS_INNER.match(part) and not NAME.fullmatch(part):
        return [piece.upper() if len(piece) == 1 else piece for piece in INNER.findall(part)]  # "a" is a letter here
    return [part] if part.isascii() else with_greek_names(part)


def parts_of_name(name: str) -> tuple[str, ...]:
    """The words of an identifier with underscores: of x86_64 "x", "eighty", "six", "sixty" and "four"."""
    parts: list[str] = []
    for piece in re.findall(r"\d+|[^\W\d_]+", name):
        parts += number_words(piece) if piece.isdigit() else [piece]
    return tuple(parts)
