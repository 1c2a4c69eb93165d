"""The tasks, one file each: load, tokenize, collate, score."""

from .grapheme_to_phoneme import GraphemeToPhoneme

TASKS = {"grapheme_to_phoneme": GraphemeToPhoneme}
