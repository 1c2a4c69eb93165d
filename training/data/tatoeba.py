"""Tatoeba: sentences and their translations, by many people; here texts of one to five sentences.

``python -m attnzoo.training.make_data.tatoeba`` makes them.
"""

from .known import KnownData

TATOEBA = KnownData(
    path=r"(.*/)?tatoeba_en_[a-z]{2,3}",
    name="Tatoeba, one to five sentences joined to a text",
    license={"license": "cc-by-2.0"},
    source="from the sentence pairs of [Tatoeba](https://tatoeba.org) (CC BY 2.0 FR) that "
    "[manythings.org/anki](https://www.manythings.org/anki/) collects "
    "(`python -m attnzoo.training.make_data.tatoeba` joins them)",
    limits="Everyday sentences, mostly short ones about a person called Tom, up to 40 words together. Names and words "
    "that are not in them are often wrong.",
)
