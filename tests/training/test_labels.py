"""Labels of sentences: the kinds of files with labels, their names and numbers, and errors."""

import json
import zipfile
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from attnzoo.training.data.labels import known_numbers
from attnzoo.training.tasks.sentence_classification import ClassificationData, SentenceClassification

from tests.training.reviews import COLUMNS, sentences, task_of


def test_numbers_of_a_models_labels(tmp_path: Path) -> None:
    """By name, by the data's own names, or by place; ambiguous labels raise an error."""

    def numbers(labels: list[Any], names: list[str]) -> dict[str, int]:
        return known_numbers(datasets.Dataset.from_dict({"label": labels}), names, "a.csv")[1]

    assert numbers(["b", "b"], ["a", "b"]) == {"a": 0, "b": 1}
    assert numbers([2, 5], ["1", "2", "5"]) == {"1": 0, "2": 1, "5": 2}
    assert numbers([1, 0], ["no", "yes"]) == {"0": 0, "1": 1}
    for labels, names in (([1, 2], ["no", "yes"]), ([0, 1], ["1", "2"])):
        with pytest.raises(ValueError, match="label_names"):
            numbers(labels, names)
    named = datasets.Dataset.from_dict({"label": [0, 1]}).cast_column("label", datasets.ClassLabel(names=["yes", "no"]))
    assert known_numbers(named, ["no", "yes"], "a.csv")[1] == {"0": 1, "1": 0}


LINES = "".join(f"{verdict} {review}\n" for review, verdict in sentences().itertuples(index=False))


@pytest.mark.parametrize(
    ("name", "prefix", "keys"),
    [
        ("a.txt", "__label__", {}),
        ("a.csv", "__label__", {}),
        ("a.label", "TOPIC:", {"label_first": True}),
        ("folder", "__label__", {}),
    ],
)
def test_lines_that_begin_with_a_label(
    name: str, prefix: str, keys: dict[str, Any], reviews: Path, tmp_path: Path
) -> None:
    lines = [prefix + line for line in LINES.splitlines()]
    if name == "folder":
        (tmp_path / name).mkdir()
        (tmp_path / name / "b.txt").write_text("\n".join(lines[:200]))
        (tmp_path / name / "c.txt").write_text("\n".join(lines[200:]))
    else:
        (tmp_path / name).write_text("\n\n".join(lines))
    task = SentenceClassification(ClassificationData(path=str(tmp_path / name), **keys))
    expected = task_of(reviews)
    assert task.labels == [prefix.removeprefix("__label__") + label for label in expected.labels]
    for split, rows in task.splits.items():
        assert rows[:] == expected.splits[split][:]


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("__label__a x\n__label__b\n", {}, "row 2: '__label__b' is not a label and a text; or .*skip_bad_rows"),
        ("__label__a x\nb y\n", {}, "row 2: 'b y' does not begin with __label__"),
        ("__label__a __label__b x\n", {}, "row 1 has two labels"),
        ("a x\nb y\n", {}, r"a\.txt is not of a known kind: .* set task\.data\.label_first=true; .*separator"),
        ("", {"label_first": True}, r"a\.txt is empty"),
        ("\ufeff\n\n", {}, r"a\.txt is empty"),
        ("__label__a x\n", {"streaming": True}, "is read whole: leave out subset and streaming"),
        ("__label__a x\n", {"columns": ["a"]}, r"task\.data\.columns is for tables of text"),
        ("__label__a x\n", {"text_pair_column": "b"}, r"leave out task\.data\.text_pair_column"),
    ],
)
def test_lines_that_are_no_label_and_sentence(text: str, keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        SentenceClassification(ClassificationData(path=str(tmp_path / "a.txt"), **keys))


def test_lines_without_a_sentence_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("__label__lost\n" + "".join(f"__label__{line}\n" for line in LINES.splitlines()))
    task = SentenceClassification(ClassificationData(path=str(tmp_path / "a.txt"), skip_bad_rows=True))
    assert task.labels == ["blame", "praise"]
    assert "skipped 1 of 401 rows; the first is row 1: '__label__lost' is not a label" in capsys.readouterr().err


def test_every_kind_of_label_gives_numbers_and_names(tmp_path: Path) -> None:
    frame = sentences()
    numbers = (frame["verdict"] == "praise").astype(int)
    is_praise = datasets.ClassLabel(names=["thumbs down", "thumbs up"])
    named = datasets.Dataset.from_dict({"review": frame["review"], "verdict": numbers})
    named = named.cast_column("verdict", is_praise)
    named.save_to_disk(tmp_path / "named")
    frame.assign(verdict=numbers).to_json(tmp_path / "numbers.jsonl", orient="records", lines=True)
    frame.assign(verdict=numbers).to_csv(tmp_path / "numbers.csv", index=False)
    frame.assign(verdict=numbers * 8 + 2).to_parquet(tmp_path / "stars.parquet")
    frame.to_csv(tmp_path / "words.tsv", index=False, sep="\t")

    def task(name: str, **more: Any) -> SentenceClassification:
        return task_of(tmp_path / name, **more)

    tasks = {
        task("named"): ["thumbs down", "thumbs up"],
        task("numbers.jsonl"): ["0", "1"],
        task("numbers.csv"): ["0", "1"],
        task("numbers.csv", label_names=["no", "yes"]): ["no", "yes"],
        task("stars.parquet"): ["2", "10"],  # by their size
        task("words.tsv"): ["blame", "praise"],
    }
    for of_kind, labels in tasks.items():
        assert of_kind.labels == labels
        for split in ("train", "validation", "test"):
            rows = of_kind.splits[split]
            expected = [int(("good" in t or "fine" in t) != ("not" in t)) for t in rows["text"]]
            assert rows["labels"][:] == expected
    assert task("words.tsv", label_names=["praise", "blame"]).splits["test"]["labels"][0] == 1 - expected[0]


MOODS = {"-1": "bad", "0": "even", "1": "good"}


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("int", "csv"), *((kind, suffix) for kind in ("int", "float", "text") for suffix in ("jsonl", "parquet"))],
)
@pytest.mark.parametrize(
    "label_names", [None, ["-1", "0", "1"], [-1, 0, 1], {-1: "bad", 0: "even", 1: "good"}], ids=str
)
def test_labels_below_zero(kind: str, suffix: str, label_names: Any, tmp_path: Path) -> None:
    """A label may be any whole number; a mapping gives each its name."""
    frame = sentences()
    frame["verdict"] = (frame["verdict"] == "praise").astype(int) - frame["review"].str.contains("not").astype(int)
    if kind != "int":
        frame["verdict"] = frame["verdict"].astype(float if kind == "float" else str)
    path = tmp_path / f"a.{suffix}"
    if suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, frame.to_dict("records"))))
    else:
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    task = task_of(path, label_names=label_names)
    assert task.labels == list(MOODS.values() if isinstance(label_names, dict) else MOODS)
    expected = {text: int(label) + 1 for text, label in frame.itertuples(index=False)}
    for split, rows in task.splits.items():
        assert rows["labels"][:] == [expected[text] for text in rows["text"]], split


def test_a_mapping_may_give_one_name_to_several_labels(tmp_path: Path) -> None:
    frame = sentences()
    frame["verdict"] = [n % 4 + 1 for n in range(len(frame))]
    frame.to_csv(tmp_path / "stars.csv", index=False)
    names = {1: "no", 2: "no", 3: "yes", 4: "yes"}
    task = task_of(tmp_path / "stars.csv", label_names=names)
    expected = {text: int(stars > 2) for text, stars in frame.itertuples(index=False)}
    assert task.labels == ["no", "yes"]
    assert task.splits["train"]["labels"][:] == [expected[text] for text in task.splits["train"]["text"]]
    with pytest.raises(ValueError, match=r"the label 4 is none of .*\{LABEL: NAME"):
        task_of(tmp_path / "stars.csv", label_names={1: "no", 2: "no", 3: "yes"})
    with pytest.raises(ValueError, match=r"name each label: \{1: NAME, 2: NAME, 3: NAME, 4: NAME\}"):
        task_of(tmp_path / "stars.csv", label_names=["a", "b", "c", "d"])


def test_spaces_around_a_label_are_no_part_of_it(tmp_path: Path) -> None:
    frame = sentences()
    frame["verdict"] = [f" {verdict} " if row % 2 else verdict for row, verdict in enumerate(frame["verdict"])]
    frame.to_csv(tmp_path / "spaces.csv", index=False)
    task = task_of(tmp_path / "spaces.csv")
    assert task.labels == ["blame", "praise"]
    assert set(task.splits["test"]["labels"]) == {0, 1}


@pytest.mark.parametrize(
    ("names", "first", "message"),
    [
        (["1", "2"], 0, r"label_names is \['1', '2'\], and the labels of .* are numbers themselves"),
        (["1", "0"], 0, r"label_names is \['1', '0'\], and the labels of .* are numbers themselves"),
        (["no", "yes"], 1, r"the labels are numbers up to 2, none is 0, and the 2 names .* are for 0 to 1"),
    ],
)
def test_names_that_the_numbers_contradict(tmp_path: Path, names: list[str], first: int, message: str) -> None:
    frame = sentences()
    numbers = (frame["verdict"] == "praise").astype(int) + first
    frame.assign(verdict=numbers).to_csv(tmp_path / "numbers.csv", index=False)
    with pytest.raises(ValueError, match=message):
        task_of(tmp_path / "numbers.csv", label_names=names)


def test_names_in_another_order_than_those_of_the_data(tmp_path: Path) -> None:
    frame = sentences()
    named = datasets.Dataset.from_dict({"review": frame["review"], "verdict": (frame["verdict"] == "praise") * 1})
    named.cast_column("verdict", datasets.ClassLabel(names=["no", "yes"])).save_to_disk(tmp_path / "named")

    def labels(names: list[str]) -> list[str]:
        return task_of(tmp_path / "named", label_names=names).labels

    assert labels(["no", "yes"]) == ["no", "yes"]
    assert labels(["bad", "good"]) == ["bad", "good"]
    with pytest.raises(
        ValueError, match=r"\['yes', 'no'\], and .* in another order: \['no', 'yes'\]; leave label_names"
    ):
        labels(["yes", "no"])


@pytest.mark.parametrize("label_names", [None, ["blame", "praise"]])
def test_one_label_alone_is_refused_with_names_too(tmp_path: Path, label_names: list[str] | None) -> None:
    sentences().assign(verdict=0).to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(ValueError, match="there is no label but '0'; two or more are expected"):
        task_of(tmp_path / "one.csv", label_names=label_names)


@pytest.mark.parametrize(("one", "other"), [("01", "1"), ("1", "1.0"), ("-0", "0")])
def test_a_number_in_two_spellings_is_no_two_labels(one: str, other: str, tmp_path: Path) -> None:
    verdicts = [(one, other, "2")[row % 3] for row in range(len(sentences()))]
    sentences().assign(verdict=verdicts).to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(ValueError, match=f"the labels '{one}' and '{other}' are the same number"):
        task_of(tmp_path / "two.csv")


def test_whole_numbers_that_no_float_tells_apart_are_two_labels(tmp_path: Path) -> None:
    verdicts = [str(2**53 + row % 2) for row in range(len(sentences()))]
    sentences().assign(verdict=verdicts).to_csv(tmp_path / "large.csv", index=False)
    assert task_of(tmp_path / "large.csv").labels == [str(2**53), str(2**53 + 1)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("good", 0), ("bad", 2)] * 50, r"the label 2 is none of 0, 1"),
        ([("good", 1), ("bad", -1)] * 50, r"the label -1 is none of 0, 1 \(it is unlabelled, it seems\)"),
        ([("good", 1), (" ", 0)] * 50, "row 2: column 'review' is empty"),
        ([("good", 0.5), ("bad", 1.0)] * 50, "column 'verdict' has 0.5, which is not a label"),
        ([("good", None), ("bad", 1)] * 50, "column 'verdict'"),
        ([(3, 1), (4, 0)] * 50, "column 'review' has 3, which is not text"),
    ],
)
def test_rows_that_cannot_be_learned_from(tmp_path: Path, rows: list[tuple[Any, Any]], message: str) -> None:
    pd.DataFrame(rows, columns=["review", "verdict"]).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    with pytest.raises(ValueError, match=message):
        task_of(tmp_path / "a.jsonl", label_names=["no", "yes"])


def test_an_accent_in_one_or_two_characters_is_one_label(tmp_path: Path) -> None:
    verdicts = [("caf\u00e9", "cafe\u0301", "bar")[row % 3] for row in range(len(sentences()))]
    for names in (None, ["bar", "cafe\u0301"], {"cafe\u0301": "caf\u00e9", "bar": "bar"}):
        sentences().assign(verdict=verdicts).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
        task = task_of(tmp_path / "a.jsonl", label_names=names)
        assert sorted(task.labels) == ["bar", "caf\u00e9"]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("one", "other"), [(True, 1), (0, False), (1.0, True), ("true", True), ("good", 3)])
def test_labels_of_two_kinds_are_refused(one: Any, other: Any, streaming: bool, tmp_path: Path) -> None:
    rows = [json.dumps({"review": f"a film {row}", "verdict": (one, other)[row % 2]}) for row in range(100)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    with pytest.raises(ValueError, match=f"row 2: column 'verdict' has {other!r}, and labels before it are .* one way"):
        task_of(tmp_path / "a.jsonl", streaming=streaming)


def test_labels_that_leave_nothing_to_learn(tmp_path: Path) -> None:
    frame = sentences()
    frame.assign(verdict=-1).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="there is no label but '-1'; two or more are expected"):
        task_of(tmp_path / "none.parquet")
    frame.drop_duplicates("verdict").to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(ValueError, match=r"few\.csv has no examples for the \w+ split"):
        task_of(tmp_path / "few.csv")


def test_a_label_of_a_held_out_split_that_training_does_not_have(tmp_path: Path) -> None:
    frame = sentences()
    (tmp_path / "data").mkdir()
    for split, part in (("train", frame[:200]), ("validation", frame[200:300]), ("test", frame[300:])):
        part = part.assign(verdict="mixed") if split == "test" else part
        part.to_csv(tmp_path / "data" / f"{split}.csv", index=False)
    with pytest.raises(ValueError, match=r"test split: the label 'mixed' is none of blame, praise"):
        task_of(tmp_path / "data")


def test_a_table_inside_a_wheel(tmp_path: Path) -> None:
    frame = sentences()
    lines = ["Kind\treview\tverdict", "discrete\tstring\tdiscrete", "\tmeta\tclass"]
    lines += [f"{n % 2}\t{row.review} https://t.co/{n}\t{row.verdict}" for n, row in frame.iterrows()]
    path = tmp_path / "tables-2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/reviews.tab", "\n".join([*lines, "", ""]))  # a blank last line is no row
        archive.writestr("data/short.tab", "\n".join([*lines[:4], "1\tfine"]))
        archive.writestr("data/empty.tab", "\n".join(lines[:3]))
        archive.writestr("data/gaps.tab", "\n".join([*lines, "1\t\tpraise"]))

    def task(**more: Any) -> SentenceClassification:
        keys = {"path": str(path), "member": "data/reviews.tab", "mask_urls": True, **COLUMNS}
        return SentenceClassification(ClassificationData(**keys | more))

    assert sum(len(rows) for rows in task().splits.values()) == 400
    half = task(only={"Kind": "1"})
    assert sum(len(rows) for rows in half.splits.values()) == 200
    assert half.splits["test"]["text"][0].endswith("<url>")
    assert half.name == "reviews.tab"
    with pytest.raises(ValueError, match=r"has no column 'kind'; in task\.data\.only name one of: Kind, review"):
        task(only={"kind": "1"})
    with pytest.raises(ValueError, match=r"no row has Kind='2'; change task\.data\.only"):
        task(only={"Kind": "2"})
    with pytest.raises(ValueError, match=r"short\.tab, row 2: it has 2 cells, and the table 3 columns"):
        task(member="data/short.tab")
    with pytest.raises(ValueError, match=r"gaps\.tab, row 401: column 'review' is empty in .*skip_bad_rows=true"):
        task(member="data/gaps.tab")
    assert sum(len(rows) for rows in task(member="data/gaps.tab", skip_bad_rows=True).splits.values()) == 400
    with pytest.raises(ValueError, match=r"empty\.tab has no rows"):
        task(member="data/empty.tab")
    with pytest.raises(ValueError, match=r"has no file 'x\.tab'; task\.data\.member is one of: data/reviews\.tab"):
        task(member="x.tab")
    with pytest.raises(FileNotFoundError, match=r"`pip download --no-deps tables==3\.0`"):
        task(path=str(tmp_path / "tables-3.0-py3-none-any.whl"))
