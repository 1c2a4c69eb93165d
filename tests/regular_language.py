"""A small language with regular spelling, which the trainings of the tests learn in seconds."""

from pathlib import Path

import numpy as np

from attnzoo.alignment import Links
from tests.training.runs import overrides

# Every letter is one phoneme, but h is silent after t and k, which it changes: a rule over two letters.
PHONEMES = ["AA", "B", "D", "EH", "G", "HH", "IY", "K", "L", "M", "N", "OW", "P", "R", "S", "T", "UW"]
SOUNDS = dict(zip("abdeghiklmnoprstu", PHONEMES, strict=True))
SMALL = [
    *overrides("model", embedding_size=24, encoder_hidden_size=32, encoder_layers=1, decoder_hidden_size=64),
    *overrides("model", readout_size=32, dropout=0.0, initializer_range=0.3),
    *overrides("training", max_minutes=None, batch_tokens=200, learning_rate=1e-2, precision="fp32", log_every=5),
    *overrides("training", evaluations=1),
]


def spell_out(word: str) -> str:
    sounds = word.replace("th", "X").replace("kh", "Y")
    return " ".join({"X": "TH", "Y": "CH"}.get(letter) or SOUNDS[letter] for letter in sounds)


def gold_links(word: str) -> tuple[Links, Links]:
    """The sure and the possible links of letters and phonemes; the silent h may be linked or not."""
    sure, letter = set(), 0
    silent = set()
    for phoneme in range(len(spell_out(word).split())):
        sure.add((letter, phoneme))
        if word[letter : letter + 2] in ("th", "kh"):
            silent.add((letter + 1, phoneme))
            letter += 1
        letter += 1
    return sure, sure | silent


def write_dictionary(path: Path, draws: int = 1500) -> None:
    """Words of one to three syllables, by default 1,000 and more, in CMUdict's format."""
    random = np.random.default_rng(0)
    consonants, vowels = ["b", "d", "g", "k", "l", "m", "n", "p", "r", "s", "t", "th", "kh"], list("aeiou")
    words = {
        "".join(random.choice(consonants) + random.choice(vowels) for _ in range(random.integers(1, 4)))
        for _ in range(draws)
    }
    lines = [";;; a comment", *(f"{word.upper()}  {spell_out(word)}" for word in sorted(words))]
    path.write_text("\n".join(lines))
