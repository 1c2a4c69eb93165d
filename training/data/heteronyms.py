"""Sentences with a word that is written like another, by the reading that it has in each."""

from .known import KnownData
from .licenses import APACHE, Origin

HETERONYMS = KnownData(
    path=r"(.*/)?heteronyms",
    name="WikipediaHomographData, sentences with one word between brackets",
    license=APACHE,
    sources=(
        Origin(
            name="WikipediaHomographData, sentences of Wikipedia with the readings of 162 words",
            license=APACHE,
            url="https://github.com/google-research-datasets/WikipediaHomographData",
        ),
    ),
    language="en",
    source="[WikipediaHomographData](https://github.com/google-research-datasets/WikipediaHomographData) (Gorman, "
    "Mazovetskiy and Nikolaev, 2018)",
    limits="English sentences with one of 162 words between ⟦ and ⟧. Its classes are the readings of all these words; "
    "compare only those of the word (`attnzoo.pronunciation` does). The sentences are from Wikipedia, so the forms of "
    "speech, such as the imperative, are rare.",
)
