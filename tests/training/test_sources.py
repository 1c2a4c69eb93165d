"""A user's own data: every kind of source gives the same examples, and errors are clear."""

import gc
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from attnzoo.training.data.json_files import json_stream
from attnzoo.training.data.row_checks import checked
from attnzoo.training.data.sources import Source, SourceError, read_rows
from attnzoo.training.loop.checkpoint import checkpoints
from attnzoo.training.recipe import load_recipe
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme, PronunciationData
from attnzoo.training.train import main
from safetensors.torch import load_file

from tests.regular_language import SMALL
from tests.training.runs import ROOT, log_rows, train_recipe

Pairs = list[tuple[str, str]]
COLUMNS = {"word_column": "spelling", "pronunciation_column": "sounds"}


@pytest.fixture(autouse=True)
def no_bars() -> Iterator[None]:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture(scope="module")
def pairs(few_words: Path) -> Pairs:
    lines = [line.split(maxsplit=1) for line in few_words.read_text().splitlines()[1:]]
    return [(word, sounds) for word, sounds in lines]


def table(pairs: Pairs) -> pd.DataFrame:
    """A table with an unused column whose values are of two types."""
    rows = [(n if n % 2 else f"n{n}", word, sounds) for n, (word, sounds) in enumerate(pairs)]
    return pd.DataFrame(rows, columns=["note", *COLUMNS.values()])


def write(path: Path, pairs: Pairs) -> None:
    """Write a file of the kind of its suffix."""
    frame, name = table(pairs), path.name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".tsv")):
        frame.to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
    elif name.endswith(".parquet"):
        frame.astype(str).to_parquet(path)
    else:
        frame.astype(str).to_json(path, orient="records", lines=name.endswith(".jsonl"))


def folder_of(suffix: str) -> Callable[[Path, Pairs], None]:
    def make(path: Path, pairs: Pairs) -> None:
        path.mkdir()
        for part in range(2):
            write(path / f"train-{part}{suffix}", pairs[part::2])

    return make


def saved(as_dict: bool) -> Callable[[Path, Pairs], None]:
    def make(path: Path, pairs: Pairs) -> None:
        rows = datasets.Dataset.from_pandas(table(pairs).astype(str))
        (datasets.DatasetDict({"train": rows}) if as_dict else rows).save_to_disk(str(path))

    return make


FILES = ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.tsv.gz", "a.jsonl.gz", "a.json.gz"]
FILES += ["a.csv.GZ", "a.TSV"]
KINDS: dict[str, tuple[str, Callable[[Path, Pairs], None]]] = {name: (name, write) for name in FILES} | {
    "folder of csv": ("rows", folder_of(".csv")),
    "folder of jsonl": ("rows", folder_of(".jsonl")),
    "folder named as a reader": ("json", folder_of(".parquet")),
    "saved dataset": ("rows", saved(False)),
    "saved splits": ("rows", saved(True)),
}


def examples(task: GraphemeToPhoneme) -> list[tuple[list[int], list[int]]]:
    return sorted((row["input_ids"], row["labels"]) for row in task.training_examples(task.make_tokenizer()))


@pytest.fixture(scope="module")
def plain(few_words: Path) -> tuple[dict[str, list[Any]], list[tuple[list[int], list[int]]]]:
    """The held-out splits and the training examples of the dictionary file."""
    task = GraphemeToPhoneme(str(few_words))
    return {split: list(task.splits[split]) for split in ("validation", "test")}, examples(task)


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same_examples(
    kind: str, streaming: bool, pairs: Pairs, plain: Any, tmp_path: Path
) -> None:
    name, make = KINDS[kind]
    make(tmp_path / name, pairs)
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path / name), streaming=streaming, **COLUMNS))
    assert isinstance(task.splits["train"], datasets.IterableDataset if streaming else datasets.Dataset)
    assert {split: list(task.splits[split]) for split in ("validation", "test")} == plain[0]
    assert examples(task) == plain[1]


def test_a_changed_file_is_read_again(pairs: Pairs, tmp_path: Path) -> None:
    for rows in (pairs, pairs[:90]):
        write(tmp_path / "a.csv", rows)
        assert len(read_rows(PronunciationData(path=str(tmp_path / "a.csv"), **COLUMNS), ["word"])["train"]) == len(
            rows
        )


# Folders --------------------------------------------------------------------------------------------------------------


def read(path: Path, streaming: bool = False) -> dict[str, list[str]]:
    """The words of every split."""
    rows = read_rows(PronunciationData(path=str(path), streaming=streaming, **COLUMNS), ["word"])
    return {split: [row["word"] for row in of_split] for split, of_split in rows.items()}


def files(folder: Path, *names: str) -> Path:
    """A folder of files; the only word of each file is its name without the suffix."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".txt"):
            (folder / name).write_text("a note")
        else:
            write(folder / name, [(Path(name).name.split(".")[0], "B")])
    return folder


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.csv", "b.csv.gz", "in/it/c.csv"], {"train": ["a", "b", "c"]}),
        (["a.csv", "b.txt", "c.txt", "README.txt", ".d.csv", ".e/f.csv", "config.json"], {"train": ["a"]}),
        (["a.json", "b.jsonl"], {"train": ["a", "b"]}),
        (["train.csv", "Test.csv"], {"train": ["train"], "test": ["Test"]}),
        (["train/a.csv", "train/b.csv", "dev/c.csv"], {"train": ["a", "b"], "validation": ["c"]}),
        (["train-train.csv", "x_TEST_1.csv"], {"train": ["train-train"], "test": ["x_TEST_1"]}),
        (["trainer.csv", "contest.csv"], {"train": ["contest", "trainer"]}),  # no words of their own
    ],
)
def test_every_file_of_a_folder_is_read_once(
    names: list[str], expected: dict[str, list[str]], streaming: bool, tmp_path: Path
) -> None:
    assert read(files(tmp_path / "rows", *names), streaming) == expected


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.csv", "c.csv", "b.jsonl"], "rows has files of several kinds: a.csv, b.jsonl; keep one kind"),
        (["a.csv", "b.tsv"], "rows has files of several kinds: a.csv, b.tsv"),
        (["train.csv", "more.csv"], "it is not clear to which split these files belong: more.csv; where one name"),
        (["train.csv", "train/test.csv"], "it is not clear to which split these files belong: train/test.csv;"),
        (["b.txt", "c.txt"], "rows has no files that end in .csv, .tsv"),
    ],
)
def test_a_folder_of_which_a_part_would_be_left_out_is_refused(names: list[str], message: str, tmp_path: Path) -> None:
    assert message in refusal(files(tmp_path / "rows", *names))


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_a_path_is_no_pattern(streaming: bool, tmp_path: Path) -> None:
    files(tmp_path, "w[1].csv", "w1.csv", "d[1]/right*.csv", "d[1]/right2.csv", "d1/wrong.csv")
    assert read(tmp_path / "w[1].csv", streaming) == {"train": ["w[1]"]}
    assert read(tmp_path / "d[1]", streaming) == {"train": ["right*", "right2"]}


# Splits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
def test_splits_of_its_own_are_kept(name: str, streaming: bool, pairs: Pairs, tmp_path: Path) -> None:
    write(tmp_path / "train.csv", pairs[200:])
    write(tmp_path / "test.csv", pairs[:100])
    write(tmp_path / f"{name}.csv", [*pairs[100:200], (pairs[100][0], "EH")])
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path), streaming=streaming, **COLUMNS))
    assert task.splits["test"]["word"][:] == sorted(word.lower() for word, _ in pairs[:100])
    validation = {row["word"]: row["pronunciations"] for row in task.splits["validation"]}
    assert len(validation) == 100
    assert validation[pairs[100][0].lower()] == [pairs[100][1], "EH"]
    assert len(list(task.splits["train"])) == len(pairs) - 200
    assert task.card.split_note == "in its own splits"


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_a_missing_split_is_cut_out_of_train(streaming: bool, pairs: Pairs, plain: Any, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", pairs[100:])
    write(tmp_path / "test.jsonl", pairs[:100])
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path), streaming=streaming, **COLUMNS))
    by_hash = [row["word"] for row in plain[0]["validation"]]
    rest = {word.lower() for word, _ in pairs[100:]}
    assert task.splits["validation"]["word"][:] == [word for word in by_hash if word in rest]
    assert {row["word"] for row in task.splits["train"]} == rest - set(by_hash)  # words that hash to test are in it
    assert task.card.split_note == "in its own splits, validation cut out of train by a hash of the word"


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize(
    ("train", "validation", "test", "message"),
    [
        (slice(98, None), slice(50, 60), slice(60, 100), "2 words of the test split are in the train split too: "),
        (slice(100, None), slice(95, 105), slice(50, 90), "5 words of the validation split are in the train split too"),
        (slice(100, None), slice(0, 60), slice(50, 100), "10 words of the test split are in the validation split too"),
    ],
)
def test_a_word_in_two_splits_is_refused(
    train: slice, validation: slice, test: slice, message: str, streaming: bool, pairs: Pairs, tmp_path: Path
) -> None:
    for name, of_split in (("train", train), ("validation", validation), ("test", test)):
        write(tmp_path / f"{name}.csv", [(word.upper(), sounds) for word, sounds in pairs[of_split]])
    refused = refusal(tmp_path, streaming)
    assert message in refused
    assert any(repr(word.lower()) in refused for word, _ in pairs[:110])
    assert "remove them from one of the two" in refused


def test_split_names_of_a_saved_dataset(pairs: Pairs, tmp_path: Path) -> None:
    rows = datasets.Dataset.from_pandas(table(pairs).astype(str))
    datasets.DatasetDict({"train": rows, "dev": rows, "more": rows}).save_to_disk(str(tmp_path / "saved"))
    source = PronunciationData(path=str(tmp_path / "saved"), **COLUMNS)
    assert list(read_rows(source, ["word"])) == ["train", "validation"]
    datasets.DatasetDict({"dev": rows, "more": rows}).save_to_disk(str(tmp_path / "other"))
    with pytest.raises(ValueError, match="has no split 'train'; its splits: dev, more"):
        read_rows(PronunciationData(path=str(tmp_path / "other"), **COLUMNS), ["word"])


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_words_that_look_like_something_else_stay_words(name: str, streaming: bool, tmp_path: Path) -> None:
    """Also in columns with the task's name for them, or for another column."""
    words = ["null", "nan", "none", "NA", "N/A", "true", "1e5", "007", "inf", '"quoted"', "a,b", "naïve"]
    frame = pd.DataFrame({"word": words, "other": [None] * len(words)})
    for column in ("word", "pronunciation"):
        frame.rename(columns={"word": column, "other": "word"} if column != "word" else {}).to_csv(
            tmp_path / name, index=False, sep="\t" if "tsv" in name else ","
        )
        source = PronunciationData(path=str(tmp_path / name), streaming=streaming, word_column=column)
        assert [row["word"] for row in read_rows(source, ["word"])["train"]] == words


DATES = ["1941-08-23", "2001-01-01T10:00:00Z", "12:30"]
TEXTS = {"a": ["word", "007", "1e5", "true", "null", "NaN", "-0"], "b": DATES, "c": DATES[:1]}


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("order", ["abc", "cba"])
@pytest.mark.parametrize("kind", ["lines", "array", "indented array", "languages", "parquet"])
def test_dates_and_numbers_in_quotation_marks_stay_text(kind: str, order: str, streaming: bool, tmp_path: Path) -> None:
    """The JSON reader of the datasets library converts such texts to times, and fails if the next file has none."""
    for place, name in enumerate(order):
        rows = [{"spelling": text, "sounds": text, "other": 5} for text in TEXTS[name]]
        if kind == "parquet":
            pd.DataFrame(rows).to_parquet(tmp_path / f"{place}.parquet")
        elif kind in ("lines", "languages"):
            lines = [json.dumps({"translation": row} if kind == "languages" else row) for row in rows]
            (tmp_path / f"{place}.jsonl").write_text("\n".join(lines))
        else:
            indent = 1 if kind == "indented array" else None
            (tmp_path / f"{place}.json").write_text("\n" * bool(indent) + json.dumps(rows, indent=indent))
    found = read_rows(PronunciationData(path=str(tmp_path), streaming=streaming, **COLUMNS), ["word", "pronunciation"])
    expected = [text for name in order for text in TEXTS[name]]
    assert list(found["train"]) == [{"word": text, "pronunciation": text} for text in expected]


@pytest.mark.parametrize("order", [1, -1])
def test_a_column_of_text_in_one_parquet_file_and_of_times_in_another_is_refused(order: int, tmp_path: Path) -> None:
    """The datasets library would use the type of the first file for both."""
    for name, text in zip("ab", ["1941-08-23", pd.Timestamp("1941-08-23")][::order], strict=True):
        pd.DataFrame({"spelling": [text], "sounds": ["B"]}).to_parquet(tmp_path / f"{name}.parquet")
    assert "column 'spelling' is " in refusal(tmp_path)


def test_labels_of_json_have_the_names_that_a_readme_of_the_hub_declares(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "1999-12-31", "label": 1}\n{"text": "b", "label": 0}\n')
    types = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["yes", "no"]))
    columns = {"text": "text", "label": "label"}
    rows = json_stream([str(tmp_path / "a.jsonl")], columns)
    for streaming in (False, True):
        found = checked(rows, columns, ["label"], "a.jsonl", skip=False, streaming=streaming, types=types)
        assert list(found) == [{"text": "1999-12-31", "label": 1}, {"text": "b", "label": 0}]
        assert found.features == types


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_was_looked_into_leaves_no_file_open(pairs: Pairs, tmp_path: Path) -> None:
    """The library's reader closes a csv file only after reading it to the end."""
    write(tmp_path / "a.csv", pairs)
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path / "a.csv"), streaming=True, **COLUMNS))
    assert len(list(task.splits["train"])) > 100
    del task
    gc.collect()


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_words_are_lower_case_and_stress_is_dropped_where_asked(streaming: bool, pairs: Pairs, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [*pairs, (" Talo ", " T  AA1 L OW0")])
    for stress, pronunciation in ((None, "T AA1 L OW0"), ("keep", "T AA1 L OW0"), ("drop", "T AA L OW")):
        data = PronunciationData(path=str(tmp_path / "a.jsonl"), streaming=streaming, stress=stress, **COLUMNS)
        splits = GraphemeToPhoneme(data).splits
        listed = [row["pronunciations"] for rows in splits.values() for row in rows if row["word"] == "talo"]
        assert [pronunciation] in listed


# What is wrong --------------------------------------------------------------------------------------------------------


def refusal(path: Path | str, streaming: bool = False, **fields: Any) -> str:
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        GraphemeToPhoneme(PronunciationData(path=str(path), streaming=streaming, **(COLUMNS | fields)))
    return str(error.value)


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_is_named_with_those_there_are(
    kind: str, streaming: bool, pairs: Pairs, tmp_path: Path
) -> None:
    name, make = KINDS[kind]
    make(tmp_path / name, pairs)
    message = refusal(tmp_path / name, streaming, word_column="wort")
    assert "has no column 'wort'; set task.data.word_column to one of: note, spelling, sounds" in message
    assert name in message


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "spelling,sounds\nbab,B AA B\n,EH\n", "train split, row 2: column 'spelling' is empty"),
        ("a.csv", "spelling,sounds\nbab,B AA B\nbeb\n", "train split, row 2: column 'sounds' is empty"),
        ("a.csv", "spelling,sounds\nbab,B AA B\nbeb,  \n", "train split, row 2: column 'sounds' is empty"),
        ("a.csv", "spelling,sounds\na,b,c\n", "a.csv, line 2: 3 cells, but there are 2 columns"),
        ("a.csv", "spelling,sounds\nbab,B\na,b,c\n", "a.csv, line 3: 3 cells, but there are 2 columns"),
        ("a.csv", "spelling,sounds\n", "a.csv has a header and no rows"),
        ("a.csv", "", "a.csv is empty"),
        ("a.jsonl", "", "a.jsonl is empty"),
        ("a.jsonl", '{"spelling": "bab", "sounds": "B"}\n{"spelling": "bab"}\n', "row 2: column 'sounds' is empty"),
        ("a.jsonl", '{"spelling": 5, "sounds": "B"}\n', "row 1: column 'spelling' has 5, which is not text"),
        ("a.jsonl", '{"spelling": "bab"\n', "a.jsonl cannot be read"),
        ("a.parquet", "no parquet", "a.parquet cannot be read"),
        ("a.csv.gz", "not compressed", "a.csv.gz cannot be read"),
        ("a.csv", "spelling,sounds\ncafé,K\n", "a.csv is not UTF-8"),
        ("a.jsonl", '{"spelling": "café", "sounds": "K"}\n', "a.jsonl is not UTF-8"),
        ("a.csv", "spelling,sounds\nbab,b aa b\n", "a.csv has no words for the validation split, of 1 words"),
        ("a.jsonl", '["a","b"]\n["c","d"]\n', "a.jsonl"),
        ("a.jsonl", '{"spelling": "bab", "sounds": "B"}\n["a","b"]\n', "a.jsonl cannot be read"),
        ("a.json", '[{"spelling": "bab", "sounds": "B"}, 3]', "a.json cannot be read"),
        ("a.json", '[{"spelling": "bab", "sounds": "B"}', "a.json cannot be read"),
        ("a.json", '{"data": [{"spelling": "bab", "sounds": "B"}]}', "has its rows in 'data' of an object around them"),
        ("a.json", '{\n"of": "1",\n"rows": {"0": {"spelling": "a"}}}', "rows in 'rows' of an object around them"),
        ("a.json", '{"spelling": ["bab"], "sounds": ["B"]}', "which is not text; write a row for each text"),
        ("a.jsonl", '{"spelling": "a", "spelling": "b", "sounds": "B"}', "a key occurs twice"),
        ("a.jsonl", '{"spelling": "\\ud800", "sounds": "B"}', "row 1: column 'spelling' has '\\ud800', with half of a"),
        ("a.jsonl", '{"spelling": ' + "[" * 10**5 + "}", "a.jsonl cannot be read: line 1 is not JSON"),
    ],
)
def test_an_unsound_file_is_refused(name: str, text: str, message: str, streaming: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    refused = refusal(tmp_path / name, streaming)
    assert message in refused
    assert "a." in refused


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_a_long_value_is_cut_in_a_message(streaming: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"spelling": list(range(9999)), "sounds": "B"}) + "\n")
    assert "column 'spelling' has [0, 1, 2" in refusal(path, streaming)
    assert len(refusal(path, streaming)) < 600
    path.write_text(json.dumps({f"column{n}": "x" for n in range(999)}) + "\n")
    assert "to one of: column0, column1" in refusal(path, streaming)
    assert len(refusal(path, streaming)) < 600
    path.write_text(json.dumps({"spelling": "bab", "sounds": "b" * 9999}) + "\n")
    assert "no pronunciation has a space, such as 'bbb" in refusal(path, streaming)
    assert len(refusal(path, streaming)) < 600


def test_an_unsound_row_far_into_a_stream_is_found_before_training(pairs: Pairs, tmp_path: Path) -> None:
    rows = pairs * 12
    write(tmp_path / "a.csv", [*rows, ("bab", "")])
    assert f"row {len(rows) + 1}: column 'sounds' is empty" in refusal(tmp_path / "a.csv", streaming=True)


@pytest.mark.parametrize("blank", [" ", "\u3000", "\x1c\x1f"])
def test_a_blank_text_is_found_among_many_and_signs_are_text(blank: str) -> None:
    texts = {"source": ["\u00a7", "\u0939\u093f", "\U0001f600"] * 4_000, "target": ["a"] * 12_000}
    texts["target"][11_000] = blank
    arguments = datasets.Dataset.from_dict(texts), {name: name for name in texts}, (), "here"
    with pytest.raises(SourceError, match="row 11001: column 'target' is empty in the row of"):
        checked(*arguments, skip=False)
    assert len(checked(*arguments, skip=True)) == 11_999  # type: ignore[arg-type]


def test_a_cut_file_is_refused(pairs: Pairs, tmp_path: Path) -> None:
    write(tmp_path / "whole.jsonl", pairs)
    packed = gzip.compress((tmp_path / "whole.jsonl").read_bytes())
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    for streaming in (False, True):
        assert "a.jsonl.gz cannot be read" in refusal(tmp_path / "a.jsonl.gz", streaming)


def test_what_is_not_there_is_said(dictionary: Path, pairs: Pairs, tmp_path: Path) -> None:
    assert "neither a file nor a folder, nor the name of a dataset of the Hub" in refusal(tmp_path / "gone.csv")
    assert "neither a file nor a folder" in refusal("data/gone.csv")  # a file's suffix: the Hub is not asked
    (tmp_path / "empty").mkdir()
    assert "empty has no files that end in .csv, .tsv" in refusal(tmp_path / "empty")
    (tmp_path / "rows.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"rows\.xlsx is not of a known kind; a file of rows ends in \.csv"):
        read_rows(Source(path=str(tmp_path / "rows.xlsx")), [])
    write(tmp_path / "a.csv", pairs)
    for path in (tmp_path / "a.csv", files(tmp_path / "rows", "a.csv")):
        assert f"task.data.subset is 'large', and {path} has no subsets" in refusal(path, subset="large")
    assert "task.data.path is empty" in refusal("")
    assert "neither 'cmudict' nor 'misaki' nor a file or folder" in refusal("/abs/words", streaming=True)
    assert "is a dictionary and is read whole" in refusal(dictionary, streaming=True)
    assert "names one column twice: sounds, sounds" in refusal(tmp_path / "a.csv", word_column="sounds")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_local_file_is_read_without_a_request(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The datasets library would report every use of its readers to its server."""
    asked: list[Any] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *arguments, **_: asked.append(arguments))
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("datasets.config.HF_UPDATE_DOWNLOAD_COUNTS", True)
    assert read(files(tmp_path / "rows", name), streaming=False)
    assert not asked
    assert datasets.config.HF_UPDATE_DOWNLOAD_COUNTS


def test_a_hub_that_is_not_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    message = "error: task.data.path is 'attnzoo/no-such-words': no file or folder here, and the Hub has"
    with pytest.raises(SystemExit, match=message):
        main(["demo", "--output", str(tmp_path / "run"), "--set=task.data.path=attnzoo/no-such-words"])


def test_the_keys_of_the_recipe() -> None:
    recipe = load_recipe(ROOT / "configs" / "demo.yaml", ["task.data.word_column=w", "task.data.streaming=true"])
    assert recipe.task.data == PronunciationData(path="cmudict", word_column="w", streaming=True)
    for override, message in (
        ("task.data.word_colum=w", "unknown key 'word_colum' in task.data; did you mean 'word_column'"),
        ("task.data.streaming=3", "streaming"),
        ("task.name=g2p", "task.name is 'g2p'; known: causal_language_modeling, grapheme_to_phoneme"),
    ):
        with pytest.raises(ValueError, match=message):
            load_recipe(ROOT / "configs" / "demo.yaml", [override])


def test_figures_and_limits_of_cmudict_are_for_cmudict_alone(dictionary: Path, cmudict_task: GraphemeToPhoneme) -> None:
    task, other = cmudict_task, GraphemeToPhoneme(str(dictionary))
    assert (task.card.language, "English" in task.card.limits) == ("en", True)
    assert "CMUdict, old split" in (task.card.published or "")
    assert (other.card.language, other.card.published, "English" in other.card.limits) == (None, None, False)


# Training -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def streamed(pairs: Pairs, tmp_path: Path) -> Callable[..., Path]:
    """Train on a stream for more than two epochs; returns the output folder."""
    write(tmp_path / "a.jsonl", pairs)

    def run(name: str, *more: str) -> Path:
        sets = [*SMALL, f"task.data.path={tmp_path / 'a.jsonl'}", "task.data.streaming=true", "training.max_steps=20"]
        sets += [f"task.data.{key}={value}" for key, value in COLUMNS.items()]
        sets += ["training.accumulation_steps=2", "training.checkpoint_every=5", "training.keep_checkpoints=9"]
        sets += ["model.dropout=0.3", "training.evaluations=2", "training.warmup_steps=2"]
        return train_recipe("demo", tmp_path / name, sets, *more)

    return run


def test_a_streamed_training_learns_and_resumes_to_the_same_weights(
    streamed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = streamed("whole")
    assert "a.jsonl: streamed training examples" in capsys.readouterr().out
    first, *_, last = log_rows(whole, "loss")
    assert last["loss"] < first["loss"] - 0.5
    assert last["epoch"] >= 2
    weights = (whole / "last" / "model.safetensors").read_bytes()
    for kept in (1, 5):  # as if it had been killed after that checkpoint, in the first epoch and in a later one
        (whole / "run.json").unlink()
        for folder in checkpoints(whole)[kept:]:
            folder.rename(folder.with_name(f".{folder.name}"))
        streamed("whole", "--resume")
        assert (whole / "last" / "model.safetensors").read_bytes() == weights
    assert load_file(whole / "last" / "model.safetensors")


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_the_longest_training_example_is_known_before_training(streaming: bool, pairs: Pairs, tmp_path: Path) -> None:
    words = [f"{'ab' * 12}{letter}" for letter in "aeiou"]
    write(tmp_path / "train.jsonl", [*pairs[100:], *((word, "B " * 30) for word in words[:1]), (words[1], "B")])
    write(tmp_path / "test.jsonl", [*pairs[:100], (words[2], "B " * 40)])  # which is not trained on
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path), streaming=streaming, **COLUMNS))
    shown, tokens = task.longest
    assert tokens == max(max(len(source), len(target)) for source, target in examples(task)) == 31
    assert shown.startswith(f"{words[0]!r}, 'B B ")


def test_data_for_one_split_alone_has_no_other(pairs: Pairs, tmp_path: Path) -> None:
    write(tmp_path / "mine.csv", pairs[:40])
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "test.csv", pairs[:40])
    for name in ("mine.csv", "folder"):
        data = PronunciationData(path=str(tmp_path / name), **COLUMNS)
        assert {split: len(rows) for split, rows in read_rows(data, ["word"], only="test").items()} == {"test": 40}
        assert len(GraphemeToPhoneme(data, only="test").splits["test"]) == len({word.lower() for word, _ in pairs[:40]})
    with pytest.raises(ValueError, match="has no split 'train'; its splits: test"):
        read_rows(PronunciationData(path=str(tmp_path / "folder"), **COLUMNS), ["word"])
