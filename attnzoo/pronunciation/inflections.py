# ruff: noqa: RUF001 (tables of phones)
"""Forms in -s, -ed and -ing by their stems, in Kokoro's phones.

misaki's dictionary lists a form only if it is not regular, and misaki makes all others from the stem. The rules are
those of misaki 0.9.4. There is one difference: British stems in ə or a long vowel have a form in -ing, too, with ɹ if
they are spelled with an r ("storing"). misaki leaves these to its fallback.
"""

import re
from collections.abc import Iterator

from ..phone_sets import Phones, split, with_ending

DOUBLED = re.compile(r"([bcdgklmnprstvxz])\1ing$|cking$")  # running, picnicking
AFTER_VOICELESS = frozenset("pkfθʃsʧ")  # here -ed is t
FLAPPED = frozenset("AIOWYiuæɑəɛɪɹʊʌ")  # between these and a vowel, t is a flap in American English


def stems(word: str) -> Iterator[tuple[str, str]]:
    """The stems that a word may have, and its ending; the first that is listed is taken."""
    length = len(word)
    if word.endswith("'s"):
        yield word[:-2], "s"
    elif word.endswith("s") and length > 2:
        if not word.endswith("ss"):
            yield word[:-1], "s"
        if word.endswith("ies") and length > 4:
            yield f"{word[:-3]}y", "s"
        elif word.endswith("es") and length > 4:
            yield word[:-2], "s"
    if word.endswith("d") and length > 3:
        if not word.endswith("dd"):
            yield word[:-1], "ed"
        if word.endswith("ed") and not word.endswith("eed") and length > 4:
            yield word[:-2], "ed"
    if word.endswith("ing") and length > 4:
        if length > 5:
            yield word[:-3], "ing"
        yield f"{word[:-3]}e", "ing"
        if length > 5 and DOUBLED.search(word):
            yield word[:-4], "ing"


def inflected(stem: str, phones: Phones, ending: str, accent: str) -> Phones:
    """The phones of a stem with the ending "s", "ed" or "ing"."""
    if ending == "s":
        return with_ending(phones, "s", accent, "kokoro")
    sounds = "".join(phones)
    is_american = accent == "en-us"
    weak = "ᵻ" if is_american else "ɪ"
    if is_american and sounds[-1] == "t" and sounds[-2:-1] and sounds[-2] in FLAPPED:
        sounds = f"{sounds[:-1]}ɾ"
    if ending == "ed":
        last = sounds[-1]
        added = "t" if last in AFTER_VOICELESS else f"{weak}d" if last in "dtɾ" else "d"
    else:
        is_linked = not is_american and sounds[-1] in "əː" and stem.endswith(("r", "re"))
        added = "ɹɪŋ" if is_linked else "ɪŋ"
    return split(sounds + added, "kokoro")
