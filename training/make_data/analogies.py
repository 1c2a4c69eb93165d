"""New words by analogy: known pairs such as "singer" and "singers" show how to say "wallflowers", from "wallflower".

A network may memorise a word without learning its parts: it reads "valve" right and "valves" wrong. From words that
share the stem of a training word it learns that a stem keeps its pronunciation.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import combinations

SHORTEST_STEM, LONGEST_ENDING = 3, 3  # letters
FEWEST, SHARE = 60, 0.75  # pairs of words behind a rule, and the share of them that follow it

Sounds = tuple[str, ...]
Ends = tuple[str, str, str]  # the ending of a word, the ending that replaces it, and the last phoneme of the word
Rules = dict[Ends, tuple[int, Sounds]]  # the number of phonemes that are removed, and those that replace them


def words_by_analogy(
    words: dict[str, list[str]], count: int, is_free: Callable[[str], bool], chance: random.Random
) -> dict[str, str]:
    """At most ``count`` new words with their pronunciations, made from known ones by :func:`rules`.

    Args:
        words: the known words, each with its pronunciations, of which the first one counts
        count: the number of words to make
        is_free: whether a word may be made
        chance: chooses among all words that the rules make
    """
    known = {word: tuple(listed[0].split()) for word, listed in words.items()}
    by_ending: dict[tuple[str, str], list[tuple[str, int, Sounds]]] = defaultdict(list)
    for (old, new, last), (lost, sounds) in rules(known).items():
        by_ending[old, last].append((new, lost, sounds))
    made: dict[str, str] = {}
    for word, phonemes in known.items():
        for cut in range(max(SHORTEST_STEM, len(word) - LONGEST_ENDING), len(word) + 1):
            for new, lost, sounds in by_ending.get((word[cut:], phonemes[-1]), ()):
                if (other := word[:cut] + new) not in known and is_free(other):
                    made.setdefault(other, " ".join(phonemes[: len(phonemes) - lost] + sounds))
    return dict(chance.sample(sorted(made.items()), min(count, len(made))))


def rules(known: dict[str, Sounds]) -> Rules:
    """The changes of pronunciation by another ending, for endings where known words with the same stem agree."""
    stems: dict[str, list[str]] = defaultdict(list)
    for word in known:
        for cut in range(max(SHORTEST_STEM, len(word) - LONGEST_ENDING), len(word) + 1):
            stems[word[:cut]].append(word)
    seen: dict[Ends, Counter[tuple[int, Sounds]]] = defaultdict(Counter)
    for stem, of_stem in stems.items():
        for pair in combinations(of_stem, 2):
            first, second = (word[len(stem) :] for word in pair)
            if first[:1] != second[:1]:  # else they share a longer stem
                for word, other in (pair, pair[::-1]):
                    before, after = known[word], known[other]
                    same = _shared(before, after)
                    change = len(before) - same, after[same:]
                    seen[word[len(stem) :], other[len(stem) :], before[-1]][change] += 1
    found: Rules = {}
    for ends, changes in seen.items():
        change, times = changes.most_common(1)[0]
        if times >= FEWEST and times >= SHARE * changes.total():
            found[ends] = change
    return found


def _shared(first: Sounds, second: Sounds) -> int:
    """The number of phonemes that both begin with."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))
