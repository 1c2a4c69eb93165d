"""Tatoeba: sentences and their translations, by many people; here texts of one to five sentences.

``python -m attnzoo.training.make_data.tatoeba`` makes them. In training, the translations may be those of a larger
model, a teacher; ``python -m attnzoo.training.make_data.translations`` makes these.
"""

from dataclasses import replace

from .known import KnownData
from .licenses import CC_BY_2, Origin

TATOEBA = KnownData(
    path=r"(.*/)?tatoeba_en_[a-z]{2,3}",
    name="Tatoeba, one to five sentences joined to a text",
    license=CC_BY_2,
    sources=(
        Origin(
            name="Tatoeba, the sentence pairs of manythings.org",
            license=CC_BY_2,
            url="https://www.manythings.org/anki/",
        ),
    ),
    source="from the sentence pairs of [Tatoeba](https://tatoeba.org) (CC BY 2.0 FR) that "
    "[manythings.org/anki](https://www.manythings.org/anki/) collects "
    "(`python -m attnzoo.training.make_data.tatoeba` joins them)",
    limits="Everyday sentences, mostly short ones about a person called Tom, up to 40 words together. Names and words "
    "that are not in them are often wrong.",
)
TAUGHT = replace(
    TATOEBA,
    path=rf"{TATOEBA.path}_taught",
    name=f"{TATOEBA.name}; in training with a teacher's translations",
    source=f"{TATOEBA.source}; the target of a training text is what a larger model writes for it "
    "(`python -m attnzoo.training.make_data.translations`)",
)
