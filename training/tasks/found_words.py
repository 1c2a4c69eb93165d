"""The words of pronunciation data: what one pass over the entries finds, and errors of data that cannot be used."""

import sys
from dataclasses import dataclass, field

from attnzoo.phonemes import accent_and_spelling

from ..data.sources import short
from .letter_tokenizer import accents

MAX_UNDIVIDED = 0.05  # of the training words: up to this share of pronunciations without spaces is only reported


@dataclass
class FoundWords:
    """The words of the data and their statistics, collected in one pass.

    Attributes:
        splits: the words of every split with their pronunciations; a streamed training split is left out
        letters: the letters of the training words
        accents: the accents' tokens at the beginning of training words
        phonemes: the phonemes of their pronunciations
        separated: the phonemes of training words with several phonemes
        alone: the training words with only one phoneme, by this phoneme; words of one letter are left out
        longest: the longest training example, as a message shows it, and its tokens on its longer side
        shared: words that are in two splits, by the held-out split and the other one
        streamed: the number of training entries of a stream
    """

    splits: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {"train": {}, "validation": {}, "test": {}})
    letters: set[str] = field(default_factory=set)
    accents: set[str] = field(default_factory=set)
    phonemes: set[str] = field(default_factory=set)
    separated: set[str] = field(default_factory=set)
    alone: dict[str, str] = field(default_factory=dict)
    longest: tuple[str, int] = ("", 0)
    shared: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    streamed: int = 0

    def add(self, split: str, word: str, pronunciation: str, is_streamed: bool) -> None:
        """Add an entry. The entries of the data's own held-out splits must be added first."""
        for held_out in ("test", "validation"):
            if held_out != split and word in self.splits[held_out]:
                self.shared.setdefault((held_out, split), set()).add(word)
        if split == "train":
            phonemes = pronunciation.split()
            accent, spelling = accent_and_spelling(word)
            self.letters.update(spelling)
            self.accents.update([accent] if accent else [])
            self.phonemes.update(phonemes)
            if len(phonemes) > 1:
                self.separated.update(phonemes)
            elif phonemes and len(spelling) > 1:
                self.alone.setdefault(phonemes[0], word)
            tokens = max(len(spelling) + bool(accent), len(phonemes)) + 1  # and the end
            if tokens > self.longest[1]:
                self.longest = f"{short(repr(word))}, {short(repr(pronunciation))}", tokens
        self.streamed += is_streamed
        if not is_streamed and pronunciation not in (known := self.splits[split].setdefault(word, [])):
            known.append(pronunciation)

    def check(self, splits: list[str], path: str) -> None:
        """Raise a ValueError if the words cannot be used for training or evaluation; ``splits`` must all have words."""
        if not self.separated and any(len(phoneme) > 1 for phoneme in self.phonemes):
            raise ValueError(
                f"{path}: no pronunciation has a space, such as {short(repr(min(self.phonemes)))}; separate phonemes "
                "by spaces: k æ t"
            )
        # Words whose only phoneme consists of those of other words: "kæt" of k, æ and t.
        if undivided := {word for phoneme, word in self.alone.items() if _is_made_of(phoneme, self.separated)}:
            message = (
                f"{path}: the pronunciations of {len(undivided):,} words, such as {first_words(undivided)}, have no "
                "spaces, though they are made of the phonemes of other words; separate their phonemes by spaces"
            )
            if len(undivided) > MAX_UNDIVIDED * (self.streamed or len(self.splits["train"])):
                raise ValueError(message)
            print(message, file=sys.stderr)
        for split in splits:
            if not (self.letters if split == "train" else self.splits[split]):
                total = sum(map(len, self.splits.values())) + self.streamed
                raise ValueError(f"{path} has no words for the {split} split, of {total} words in all")
        if self.shared:
            (held_out, split), words = next(iter(self.shared.items()))
            raise ValueError(
                f"{path}: {len(words):,} words of the {held_out} split are in the {split} split too: "
                f"{first_words(words)}; remove them from one of the two, else the figures of the {held_out} split are "
                "not measured on words that are new to the model"
            )
        for split in ("validation", "test") if "train" in splits else ():  # else the tokenizer raises the error
            for word in sorted(self.splits[split]):
                if unknown := sorted(set(accent_and_spelling(word)[1]) - self.letters):
                    strip = ", or set task.data.normalization=strip_accents" if accents(unknown) else ""
                    raise ValueError(
                        f"{path}: {word!r} of the {split} split has letters that no training word has: "
                        f"{' '.join(unknown)}; remove it, or add training words{strip}"
                    )


def first_words(words: set[str]) -> str:
    """The first three words, for a message."""
    return ", ".join(short(repr(word)) for word in sorted(words)[:3]) + (", ..." if len(words) > 3 else "")


def _is_made_of(text: str, parts: set[str]) -> bool:
    """Whether a text is a sequence of two or more of these parts."""
    longest = max(map(len, parts), default=0)
    ends = {0}
    for end in range(1, len(text) + 1):
        if any(start in ends and text[start:end] in parts for start in range(max(0, end - longest), end)):
            ends.add(end)
    return len(text) in ends and text not in parts
