"""Renaming: a rare word of a text and its summary becomes a made-up one in both, so that the model has to copy it."""

import random
import re
from collections import Counter
from collections.abc import Iterable

from .base import Batch

WORD = re.compile(r"\w+")
RARE = 5  # a word of at most so many training examples is rare; numbers are not words
COPIES = 8  # of an example in the training examples


class Renaming:
    """Replaces rare words that a text and its summary share by made-up ones.

    A name that the training texts have can be learned by heart; one that was made up for this example can only be
    copied. A made-up word is the first half of one rare word and the second half of another, and it is written as the
    word that it replaces: small, Capitalised or LARGE. The idea, to replace names so that a model must read its text,
    is of Hermann et al. (2015), "Teaching Machines to Read and Comprehend", arXiv:1506.03340, section 2.2; they replace
    all entities by numbered marks.

    Args:
        rows: pairs of texts, all that are trained on
        share: the probability with which a rare word is replaced

    Attributes:
        rare: the rare words that some text shares with its summary, in the order of the alphabet
    """

    def __init__(self, rows: Iterable[tuple[str, str]], share: float) -> None:
        count: Counter[str] = Counter()
        shared: set[str] = set()
        for source, target in rows:
            sides = words(source), words(target)
            count.update(sides[0] | sides[1])
            shared |= sides[0] & sides[1]
        self.rare = sorted(word for word in shared if count[word] <= RARE and not word[0].isdigit())
        self.members = set(self.rare)
        self.share = share

    def __call__(self, rows: Batch) -> Batch:
        """``COPIES`` examples for every row, each with words of its own. All draws depend on the texts alone."""
        examples: Batch = {"source": [], "target": []}
        for texts in zip(rows["source"], rows["target"], strict=True):
            shared = sorted(self.members & words(texts[0]) & words(texts[1]))
            draw = random.Random("\n".join(texts))
            for _ in range(COPIES):
                names = {word: self.made_up(draw) for word in shared if draw.random() < self.share}
                for column, text in zip(examples, texts, strict=True):
                    examples[column].append(WORD.sub(lambda found: _renamed(found.group(), names), text))  # noqa: B023
        return examples

    def made_up(self, draw: random.Random) -> str:
        """The first half of a rare word and the second half of another."""
        first, second = draw.choice(self.rare), draw.choice(self.rare)
        return first[: (len(first) + 1) // 2] + second[len(second) // 2 :]


def words(text: str) -> set[str]:
    """The words of a text in lower case."""
    return set(WORD.findall(text.lower()))


def _renamed(word: str, names: dict[str, str]) -> str:
    """The new name of a word, if it has one, in the word's own case."""
    name = names.get(word.lower(), word)
    if name is word:
        return word
    return name.upper() if word.isupper() and len(word) > 1 else name.capitalize() if word[0].isupper() else name
