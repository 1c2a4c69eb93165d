"""Sentences for the readings of a word, made of sentences with words that behave alike.

"They caught a trout" becomes "They caught a ⟦bass⟧", with the reading that is a fish. ``substitutes.tsv`` has the words
for each reading, between commas. A word that is also another part of speech has a word before it: "a smile" is found
after an article or another determiner, "to cut" where a verb follows. Of other words only those in brackets are
replaced: "[next] to".
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..data.homographs import Sentence

TABLE = Path(__file__).with_name("substitutes.tsv")
FEWEST, MOST = 3, 25  # words of a sentence
EACH = 3  # sentences that are made of each substitute, at most
BEFORE = {  # what the first word of a substitute stands for
    "a ": "an? the this my your his its our their no any some every another one",
    "to ": "to can could will would shall should may might must cannot can't won't wouldn't couldn't shouldn't don't "
    "doesn't didn't I you we they please not never let's",
}
BEFORE = {start: f"(?:{'|'.join(words.split())}) " for start, words in BEFORE.items()}
WORD = re.compile(r"[\w'-]+")
END = re.compile(r'(?<=[.!?])"?\s+(?=["A-Z0-9])')  # of a sentence in a text
ARTICLE = re.compile(r"\b(an?) $", re.IGNORECASE)


def read_substitutes() -> dict[str, list[str]]:
    """The substitutes of every reading."""
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {reading: substitutes.split(", ") for reading, substitutes in rows}


def made_sentences(
    texts: Iterable[str], words: Mapping[str, str], substitutes: Mapping[str, Iterable[str]]
) -> list[Sentence]:
    """Sentences for every reading, at most three of each substitute, drawn at random.

    The word has an uppercase letter where the substitute had one. No sentence has the word elsewhere, too.

    Args:
        texts: where the substitutes are looked for
        words: the word of every reading; others get no sentence
        substitutes: those of every reading
    """
    every = {sentence for text in texts for sentence in END.split(text)}
    sentences = sorted(sentence for sentence in every if FEWEST <= len(sentence.split()) <= MOST)
    places: defaultdict[str, set[int]] = defaultdict(set)
    for place, sentence in enumerate(sentences):
        for word in WORD.findall(sentence):
            places[word.lower()].add(place)
    chance, made = random.Random(1), dict[Sentence, None]()
    for reading, others in substitutes.items():
        for substitute in others if reading in words else ():
            pattern, needed = _pattern(substitute)
            of_all = set.intersection(*(places[one] for one in needed)) - places[words[reading]]
            matches = (pattern.search(sentences[place]) for place in sorted(of_all))
            found = [_with_word(words[reading], reading, match) for match in matches if match]
            made |= dict.fromkeys(chance.sample(found, min(EACH, len(found))))
    return list(made)


def _pattern(substitute: str) -> tuple[re.Pattern[str], list[str]]:
    """What finds a substitute in a sentence, and the words that such a sentence has, in lowercase."""
    start = next((start for start in BEFORE if substitute.startswith(start)), "")
    written = substitute.removeprefix(start)
    before, _, others = written.rpartition("[")
    replaced, _, after = others.partition("]")
    parts = f"{re.escape(before)}(?P<replaced>{re.escape(replaced)}){re.escape(after)}"
    flags = re.IGNORECASE if written.islower() else 0  # so a lowercase word may begin a sentence
    return re.compile(rf"(?<![\w'-]){BEFORE.get(start, '')}{parts}(?![\w'-])", flags), WORD.findall(written.lower())


def _with_word(word: str, reading: str, match: re.Match[str]) -> Sentence:
    """The sentence with a word in the place of what was found. "A" becomes "an" before the sound of a vowel, and the
    other way round.
    """
    start, end = match.span("replaced")
    before, after = match.string[:start], match.string[end:]
    put = word.capitalize() if match["replaced"][0].isupper() else word
    article = "an" if word[0] in "aeiou" and not word.startswith("use") else "a"
    before = ARTICLE.sub(lambda found: f"{found[1][0]}{article[1:]} ", before)
    return Sentence(word, reading, before + put + after, len(before), len(before) + len(put))
