"""Training words joined from others, so that a model learns to read words longer than those of its data."""

import random
from collections.abc import Callable

from attnzoo.phone_sets import PRIMARY, SECONDARY, are_arpabet
from attnzoo.phonemes import accent_and_spelling

from .pronunciations import PronunciationData


def joined_words(
    words: dict[str, list[str]], data: PronunciationData, phonemes: set[str], is_held_out: Callable[[str], bool]
) -> dict[str, str]:
    """New words of two or three others, each with its pronunciation; see ``PronunciationData.compounds``.

    Args:
        words: the training words with their pronunciations; the first pronunciation is taken
        data: the section ``task.data``, with the number of words to make
        phonemes: those of the training words
        is_held_out: whether a word must not be made

    Raises:
        ValueError: fewer than three words to join.
    """
    chance = random.Random(0)
    by_accent: dict[str, list[str]] = {}
    for word in sorted(word for word in words if accent_and_spelling(word)[1].isalpha()):
        by_accent.setdefault(accent_and_spelling(word)[0], []).append(word)
    accents = [accent for accent, of_accent in by_accent.items() if len(of_accent) > 2]
    if not accents:
        raise ValueError(f"task.data.compounds joins training words, and {data.path} has fewer than three")
    made: dict[str, str] = {}
    for _ in range(2 * data.compounds):  # twice as many: a few of the joined words are known or held out
        accent = chance.choice(accents)
        parts = chance.sample(by_accent[accent], chance.choice((2, 2, 3)))
        word = accent + "".join(accent_and_spelling(part)[1] for part in parts)
        stressed = chance.randrange(len(parts))
        sounds = [_with_weaker_stress(words[part][0], phonemes) for part in parts]
        sounds[stressed] = words[parts[stressed]][0]
        if len(made) < data.compounds and word not in words and not is_held_out(word):
            made[word] = " ".join(sounds)
    return made


def _with_weaker_stress(pronunciation: str, known: set[str]) -> str:
    """With secondary stress where the primary one was, or without stress, whichever of the two is a known phoneme."""
    sounds = pronunciation.split()
    primary, weaker = ("1", ("2", "0", "")) if are_arpabet(sounds) else (PRIMARY, (SECONDARY, ""))
    forms = ([sound.replace(primary, mark) for mark in weaker] for sound in sounds)
    chosen = (next((f for f in of_sound if f in known or not f), sounds[at]) for at, of_sound in enumerate(forms))
    return " ".join(filter(None, chosen))  # a mark may be a phoneme of its own
