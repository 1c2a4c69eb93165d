"""Sentences with a word that is written like another, by the reading that it has in each."""

from .known import KnownData
from .licenses import APACHE, CC_BY_2, Origin
from .tatoeba import TATOEBA

HETERONYMS = KnownData(
    path=r"(.*/)?heteronyms",
    name="WikipediaHomographData, sentences with one word between brackets",
    license=CC_BY_2,
    sources=(
        Origin(
            name="WikipediaHomographData, sentences of Wikipedia with the readings of 162 words",
            license=APACHE,
            url="https://github.com/google-research-datasets/WikipediaHomographData",
        ),
        *TATOEBA.sources,
    ),
    language="en",
    source="[WikipediaHomographData](https://github.com/google-research-datasets/WikipediaHomographData) (Gorman, "
    "Mazovetskiy and Nikolaev, 2018); in training also sentences of [Tatoeba](https://tatoeba.org) "
    "(CC BY 2.0 FR) in which the word stands for another (`python -m attnzoo.training.make_data.heteronyms`)",
    limits="English sentences with one of 162 words between ⟦ and ⟧. Its classes are the readings of all these words; "
    "compare only those of the word (`attnzoo.pronunciation` does). Those of the figures are from Wikipedia; in "
    "everyday sentences the rarer reading is missed more often.",
)
