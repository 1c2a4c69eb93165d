# ruff: noqa: RUF001 (tables of phones)
"""The commonest readings of words with several readings: how they are counted; the dictionaries follow the table."""

import csv
from pathlib import Path

import pytest
from attnzoo.training.data.homographs import as_arpabet, distance, is_held_out, read_readings, read_sentences
from attnzoo.training.make_data import heteronyms
from attnzoo.training.make_data.commonest_readings import commonest, table
from attnzoo.training.make_data.substitutes import made_sentences, read_substitutes
from attnzoo.training.studies.homographs import reading_of

from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.lexicons import COLUMNS, _table, full_dictionary, look_up, readings_of
from attnzoo.pronunciation.readings import marked
from tests.factory import refused

LABELS = {"wind": {"air": "'wɪnd", "turn": "'waɪnd"}, "polish": {"rub": "'pɑːləʃ", "land": "'poʊləʃ"}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in the form of WikipediaHomographData."""
    sentences = [("wind", "turn", f"They wind {n} clocks.", 5) for n in range(8)]
    sentences += [("wind", "air", f'"The" wind {n}.', 6) for n in range(4)]
    sentences += [
        ("wind", "air", f"Wind {n}.", 0) for n in range(20)
    ]  # the first word of a sentence has an uppercase letter
    sentences += [("polish", "rub", f"We polish {n} shoes.", 3) for n in range(12)]
    sentences += [("polish", "land", f"A Polish town {n}.", 2) for n in range(12)]
    (tmp_path / "train").mkdir()
    for word in LABELS:
        with (tmp_path / "train" / f"{word}.tsv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONNUMERIC)
            rows.writerow(["homograph", "wordid", "sentence", "start", "end"])
            rows.writerows([*one, one[3] + len(word)] for one in sentences if one[0] == word)
    with (tmp_path / "wordids.tsv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerow(["homograph", "wordid", "label", "pronunciation"])
        rows.writerows([word, name, "", sound] for word, names in LABELS.items() for name, sound in names.items())
    return tmp_path


def test_the_commonest_reading_is_that_of_the_sentences(data: Path) -> None:
    sentences = read_sentences(data)
    assert commonest(sentences) == {"wind": "turn", "polish": "rub", "Polish": "land"}
    assert commonest(sentences[:9]) == {}  # too few
    balanced = [one._replace(reading=("air", "turn")[place % 2]) for place, one in enumerate(sentences[:12])]
    assert commonest(balanced) == {}
    (rows := table(commonest(sentences), read_readings(data))).sort()
    assert [row[:2] for row in rows] == [
        ["Polish", "P OW1 L IH0 SH"],
        ["polish", "P AA1 L IH0 SH"],
        ["wind", "W AY1 N D"],
    ]
    assert rows[2] == ["wind", "W AY1 N D", "wˈInd", "wˈInd"]


def test_a_sentence_that_does_not_mark_its_word_is_refused(data: Path, tmp_path: Path) -> None:
    with refused(ValueError, "has no sentences"):
        read_sentences(tmp_path / "train")
    file = data / "train" / "wind.tsv"
    file.write_text(file.read_text(encoding="utf-8").replace("\t5\t9", "\t4\t8", 1), encoding="utf-8")
    with refused(ValueError, "wind.tsv: 'They wind 0 clocks.' does not have 'wind' at 4 to 8"):
        read_sentences(data)


def test_the_study_finds_the_reading_that_was_given(data: Path) -> None:
    labels, sentences = read_readings(data), read_sentences(data)
    for accent, phones in COLUMNS:
        for tag, reading in (("VB", "turn"), ("NN", "air")):
            pronounce = Pronouncer(accent, phones, tagger=lambda words, tag=tag: [tag] * len(words))
            one = next(one for one in sentences if one.word == "wind" and one.start == 6)
            assert reading_of(one, pronounce(one.text), phones, labels["wind"]) == reading
    assert 0 < sum(map(is_held_out, sentences)) < len(sentences) / 2


def test_a_label_in_arpabet() -> None:
    assert as_arpabet("'ætɹəˌbjuːt") == tuple(["AE1", "T", "R", "AH0", "B", "Y", "UW2", "T"])
    assert as_arpabet("ə'ʤʌst") == tuple(["AH0", "JH", "AH1", "S", "T"])
    assert distance(("B", "AO0", "R", "N"), "arpabet", ("B", "AO2", "R", "N")) == 0


@pytest.mark.parametrize("column", COLUMNS, ids="-".join)
def test_the_dictionaries_have_the_commonest_reading_first(column: tuple[str, str]) -> None:
    """The dictionaries also keep all their other readings."""
    dictionary = full_dictionary(*column)
    for word, (entry,) in _table("commonest_readings.tsv", *column).items():
        assert look_up(dictionary, word)[0].phones == entry.phones, word
    found = Pronouncer(*column, tagger=lambda words: [""] * len(words))("an estimate of the defect, I live and use it")
    assert [len(word.variants) for word in found if word.text in ("estimate", "live", "use")] == [2, 2, 2]


def test_sentences_are_marked_and_divided_and_their_readings_listed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heteronyms, "read_substitutes", lambda: {"air": ["storm"], "turn": ["to roll"], "": ["map"]})
    texts, readings, out = tmp_path / "texts.csv", tmp_path / "readings.tsv", tmp_path / "out"
    texts.write_text("en\nThe storm is over. Please roll up the map.\n", encoding="utf-8")
    heteronyms.main([str(data), str(out), str(readings), "--texts", str(texts)])
    rows = {split: list(csv.DictReader((out / f"{split}.csv").open())) for split in ("train", "validation", "test")}
    found = {(row["text"].replace("⟦", "").replace("⟧", ""), row["label"]) for of in rows.values() for row in of}
    sentences = read_sentences(data)
    assert rows["train"][-2:] == [  # the readings of no word of the data have no sentence
        {"text": "The ⟦wind⟧ is over.", "label": "air"},
        {"text": "Please ⟦wind⟧ up the map.", "label": "turn"},
    ]
    found -= {("The wind is over.", "air"), ("Please wind up the map.", "turn")}
    assert found == {(one.text, one.reading) for one in sentences}
    assert {row["text"] for row in rows["test"]} == {
        f"{one.text[: one.start]}⟦{one.text[one.start : one.end]}⟧{one.text[one.end :]}"
        for one in sentences
        if is_held_out(one)
    }
    lines = [line.split("\t") for line in readings.read_text(encoding="utf-8").splitlines()]
    assert [line[:3] for line in lines[1:]] == [
        ["polish", "land", "P OW1 L IH0 SH"],
        ["polish", "rub", "P AA1 L IH0 SH"],
        ["wind", "air", "W IH1 N D"],
        ["wind", "turn", "W AY1 N D"],
    ]
    assert lines[0] == ["word", "reading", "en-us_arpabet", "en-us_kokoro", "en-gb_kokoro"]
    assert readings.with_suffix(".LICENSE").read_text(encoding="utf-8").startswith("readings.tsv: ")
    # A reading that only held-out sentences have is not asked for.
    only = [one._replace(reading="other") if is_held_out(one) else one for one in sentences]
    assert not heteronyms.divided(only)["test"]


@pytest.mark.parametrize(
    ("word", "substitute", "expected"),
    [
        ("bass", "trout", ["A ⟦bass⟧ is here, in an open sea.", "Our ⟦bass⟧ won't bite!", "⟦Bass⟧ is good today."]),
        ("open", "trout", ["Our ⟦open⟧ won't bite!", "⟦Open⟧ is good today."]),  # the first sentence has "open"
        ("row", "throw stones", ["They ⟦row⟧ today."]),
        ("upset", "shock", ["It's an ⟦upset⟧ to me."]),
        ("use", "shock", ["It's a ⟦use⟧ to me."]),
        ("bow", "a cut", ["The deep cut beside a ⟦bow⟧ hurts."]),
        ("tear", "to cut", ["You can't ⟦tear⟧ it."]),
        ("close", "[next] to", ["Sit ⟦close⟧ to me."]),
        ("polish", "German", ["The ⟦Polish⟧ word is long."]),
        ("read", "won", []),  # a part of "won't"
    ],
)
def test_a_word_stands_for_one_that_behaves_alike(word: str, substitute: str, expected: list[str]) -> None:
    texts = [
        "A trout is here, in an open sea. Our trout won't bite! Trout is good today.",
        "They throw stones today. It's a shock to me. The deep cut beside a cut hurts.",
        "You can't cut it. Cut it! Sit next to me. He was next.",
        "The German word is long. It is no german one. A trout.",
        "It is a trout" + " and a trout" * 8,
    ]
    found = made_sentences([*texts, texts[0]], {"one": word}, {"one": [substitute], "another": ["throw"]})
    assert {(one.word, one.reading) for one in found} <= {(word, "one")}
    assert sorted(
        marked(one.text[: one.start], one.text[one.start : one.end], one.text[one.end :]) for one in found
    ) == (sorted(expected))


def test_every_substitute_has_its_share() -> None:
    """However often each occurs."""
    texts = [f"She wrote {n} letters." for n in range(30)] + [f"She saw {n} birds." for n in range(2)]
    found = made_sentences(texts, {"read_past": "read"}, {"read_past": ["wrote", "saw", "bought"]})
    assert [one.text.endswith("birds.") for one in found] == [False, False, False, True, True]
    assert len(set(found)) == 5


def test_the_substitutes_are_of_several_readings_of_a_word() -> None:
    words, readings = readings_of(*COLUMNS[0]), read_substitutes()
    of_readings = [max((word for word in words if reading.startswith(word)), key=len) for reading in readings]
    assert all(of_readings.count(word) > 1 for word in of_readings)
    for reading, substitutes in readings.items():
        assert len({*substitutes}) == len(substitutes), reading
