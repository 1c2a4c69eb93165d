"""How often a word that is written alike and pronounced differently gets the right reading in a sentence.

``python -m attnzoo.training.studies.homographs WikipediaHomographData/data``

The sentences are the held-out ones of :mod:`attnzoo.training.data.homographs`, which says where they come from. An
answer counts as the reading whose label has the nearest pronunciation, and as wrong if two are equally near. The first
figure is the share of sentences, the second the mean over words. The classifier of readings chooses; with ``--tagger``
it is the words beside a word, or the tagger of spaCy or NLTK. The last line is the share of sentences that have the
reading that is the commonest in the others.
"""

from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from attnzoo.commands.parsers import command_parser
from attnzoo.phone_sets import split
from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.lexicons import COLUMNS
from attnzoo.pronunciation.taggers import installed_tagger, tags_by_neighbours

from ..commands.exits import exit_on_user_error
from ..data.homographs import Sentence, distance, is_held_out, read_readings, read_sentences

TAGGERS: dict[str, Any] = {"neighbours": lambda: tags_by_neighbours, "installed": installed_tagger}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.homographs", "Count the right readings.")
    parser.add_argument("data", type=Path, help="the folder data of WikipediaHomographData")
    parser.add_argument("--tagger", choices=TAGGERS, help="what chooses in place of the classifier")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        sentences, labels = read_sentences(options.data), read_readings(options.data)
        tagger = TAGGERS[options.tagger]() if options.tagger else None
        if options.tagger and tagger is None:
            raise ValueError("no tagger is installed; see docs/pronunciation_of_text.md")
        held_out = [one for one in sentences if is_held_out(one)]
        print(f"{len(held_out):,} of {len(sentences):,} sentences, by {options.tagger or 'the classifier'}")
        for accent, phones in COLUMNS:
            pronounce = Pronouncer(accent, phones, tagger=tagger)
            found = pronounce([one.text for one in held_out], num_beams=1)
            right: defaultdict[str, list[bool]] = defaultdict(list)
            for one, words in zip(held_out, found, strict=True):
                right[one.word].append(reading_of(one, words, phones, labels[one.word]) == one.reading)
            of_words = mean(mean(of_word) for of_word in right.values())
            print(f"{accent} {phones}: {mean(chain(*right.values())):.1%}, {of_words:.1%}")
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in sentences:
        if not is_held_out(one):
            counts[one.word][one.reading] += 1
    most = sum(counts[one.word].most_common(1)[0][0] == one.reading for one in held_out)
    print(f"always the commonest reading: {most / len(held_out):.1%}")


def reading_of(sentence: Sentence, words: list[Any], phone_set: str, labels: dict[str, Any]) -> str | None:
    """The reading that a sentence's labelled word was given."""
    place = 0
    for word in words:
        place = sentence.text.index(word.text, place) + len(word.text)
        if place > sentence.start:
            if word.phonemes is None:
                return None
            phones = split(word.phonemes, phone_set)
            near, next_to = sorted((distance(phones, phone_set, label), name) for name, label in labels.items())[:2]
            return near[1] if near[0] < next_to[0] else None
    return None


if __name__ == "__main__":
    main()
