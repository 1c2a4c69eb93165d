# ruff: noqa: RUF001 (tables of phones)
"""American pronunciations in British English, in Kokoro's phones: for names that misaki's British dictionary lacks.

``RULES`` has the regular differences of the two accents. Where British English has several vowels for an American one,
as in "Laura" and "Doris", the spelling decides.
"""

import re
from functools import cache

from ..phone_sets import PRIMARY, SECONDARY, Phones, arpabet_as_kokoro, split
from .lexicons import Entry, full_dictionary

VOWEL = "[AIQWYaiuɑɒɔəɛɜɪʊʌæO]"
STRESSED = f"[{PRIMARY}{SECONDARY}]?{VOWEL}"
# A pattern, its replacement, and a pattern that the spelling must match (empty: any word); applied in this order.
RULES = [
    (f"ɜɹ(?={STRESSED})", "ʌɹ", ""),  # Murray
    ("ɜɹ", "ɜː", ""),
    (f"([ɑɔ])ɹ(?!{STRESSED})", r"\1ː", ""),
    ("ɔ(?=ɹ)", "ɔː", "au|or[aeiouy]*[iy][aeo]|or[ae]$|our|oor|oar"),  # Laura, Gloria
    ("ɔ(?=ɹ)", "ɒ", ""),  # Doris
    ("ɔ(?!ː)", "ɒ", "o(?!u|w|a|$)"),
    ("ɔ(?!ː)", "ɔː", ""),
    ("ɑ(?!ː)", "ɔː", "au(?!n|gh)|aw(?![aeiouy])"),  # Auckland
    ("ɑ(?!ː)", "ɒ", "o"),  # Donald
    ("ɑ(?!ː)", "ɑː", ""),
    (f"[ɪi]ɹ(?!{STRESSED})", "ɪə", ""),
    ("ɪ(?=ɹ)", "ɪə", "e[ae]r|er[aeiouy]"),
    (f"ɛɹ(?!{STRESSED})", "ɛː", ""),
    ("ɛ(?=ɹ)", "ɛː", "a[eiy]r|ear|ar[yi]$|are|ari[aeou]|arah?$"),  # Sarah
    ("ɛ(?=ɹ)", "a", "ar"),  # Harry
    ("ʊ(?=ɹ)", "ʊə", ""),
    (f"(?<=[IWY])ɹ(?!{STRESSED})", "ə", ""),
    (f"ɹ(?!{STRESSED})", "", ""),
    (f"(?<![{PRIMARY}{SECONDARY}])i(?={STRESSED}|[zd]$)", "ɪ", ""),
    (f"i(?!$)|(?<=[{PRIMARY}{SECONDARY}])i", "iː", ""),
    (f"(?<=[tdn])([{PRIMARY}{SECONDARY}]?)u", r"j\1u", "^(?!.*(?:o[ou]|o[^aeiou]*$))"),  # Stewart
    ("u", "uː", ""),
    (f"(?<=[pbtdkɡfvszθʃʒʧʤmn])əl(?!{STRESSED})", "ᵊl", ""),
    (f"(?<=[tdszvfʃʒʧʤθ])ən(?!{STRESSED})", "ᵊn", ""),
]
SAME_IN_ALL = str.maketrans("æO", "aQ")
SILENT = re.compile("(?<=[^aeiouy])es?$|(?<=q)u|^y(?=[aeiou])")  # letters without a vowel sound
# Not converted: a word with an apostrophe, which is read by its stem, and -ed and -ing, which the model reads better.
NOT_CONVERTED = re.compile(".*'|[a-z].*(?:ed|ing)$")


@cache
def british_entries(word: str) -> tuple[Entry, ...]:
    """The CMU dictionary's entries of a word, converted. None without misaki: it would convert common words too."""
    if NOT_CONVERTED.match(word) or not full_dictionary("en-gb", "kokoro"):
        return ()
    listed = full_dictionary("en-us", "arpabet").get(word.lower(), ())
    return tuple(Entry(as_british(word.lower(), one.phones), one.parts_of_speech) for one in listed)


def as_british(word: str, phones: Phones) -> Phones:
    """American ARPABET of a lowercase word, as British English in Kokoro's phones."""
    before, primary, after = "".join(arpabet_as_kokoro(phones)).partition(PRIMARY)
    sounds = [*before, *primary, *after.replace(SECONDARY, "")]
    letters = re.findall("[aeiouy]+", SILENT.sub("", word))
    vowels = [place for place, sound in enumerate(sounds) if re.match(VOWEL, sound)]
    if len(letters) == len(vowels):  # else it is not clear which letters a vowel has
        for spelling, place in zip(letters, vowels, strict=True):
            is_prefix = spelling == "e" and place == vowels[0] and sounds[place + 1 :][:1] != ["ɹ"]  # Elizabeth
            if sounds[place] == "ə" and (spelling in "iy" or is_prefix):
                sounds[place] = "ɪ"
    found = "".join(sounds).translate(SAME_IN_ALL)
    for american, british, spelling in RULES:
        if re.search(spelling, word):
            found = re.sub(american, british, found)
    return split(found, "kokoro")
