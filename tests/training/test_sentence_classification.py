"""Sentence classification, from a user's files to an evaluated, released model, and errors of files."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from attnzoo.training import evaluate, release
from attnzoo.training.data.splits import split_of
from attnzoo.training.recipe import load_recipe
from attnzoo.training.studies import repeat
from attnzoo.training.tasks.sentence_classification import ClassificationData, SentenceClassification
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    pipeline,
)

from tests.training.reviews import COLUMNS, SMALL, sentences, task_of
from tests.training.runs import ROOT, overrides, train_recipe

SHIPPED = ROOT / "model_cards" / "self-attentive-sst2"


@pytest.fixture(scope="module")
def classifier(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training on the reviews; not to be changed."""
    sets = [*SMALL, f"task.data.path={reviews}", *(f"task.data.{key}={value}" for key, value in COLUMNS.items())]
    return train_recipe("self_attentive_sst2", tmp_path_factory.mktemp("classifier"), sets)


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
    with pytest.raises(SystemExit, match=r"length_penalty=2\.0 is for predictions that are generated"):
        evaluate.main([str(classifier / "best"), "--length-penalty", "2"])


@pytest.mark.parametrize("names", [None, {-1: "bad", 0: "even", 1: "good"}], ids=["single", "pairs"])
def test_labels_below_zero_are_evaluated_and_served(
    names: dict[int, str] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if a file has only some of the labels: 0 and 1 are not the first two of the names."""
    frame = sentences().assign(reply="So it is.")
    frame["verdict"] = (frame["verdict"] == "praise").astype(int) - frame["review"].str.contains("not").astype(int)
    frame.to_csv(tmp_path / "moods.csv", index=False)
    columns = COLUMNS | ({"text_pair_column": "reply"} if names else {})
    sets = [*SMALL, *overrides("task.data", path=str(tmp_path / "moods.csv"), label_names=names, **columns)]
    sets += overrides("training", max_steps=20, evaluations=1) + overrides("model", sentence_pair=names is not None)
    best = train_recipe("self_attentive_sst2", tmp_path / "run", sets) / "best"
    some = frame[frame["verdict"] >= 0][:40]
    some.to_csv(tmp_path / "some.csv", index=False)
    evaluate.main([str(best), f"--set=task.data.path={tmp_path / 'some.csv'}"])
    serve = pipeline("text-classification", str(best))
    inputs = [{"text": text, "text_pair": "So it is."} if names else text for text in some["review"]]
    served = [found["label"] for found in serve(inputs)]
    expected = [names[verdict] if names else str(verdict) for verdict in some["verdict"]]
    accuracy = 100 * np.mean([one == other for one, other in zip(served, expected, strict=True)])
    assert 0 < accuracy < 100
    assert f"test split, 40 examples: accuracy {accuracy:.2f} %" in capsys.readouterr().out


def test_a_model_of_other_labels_or_of_pairs_is_not_evaluated(classifier: Path, reviews: Path, tmp_path: Path) -> None:
    best = str(classifier / "best")
    with pytest.raises(
        SystemExit, match=r"the model's labels are blame, praise, and those of .* are praise, blame; let"
    ):
        evaluate.main([best, "--set", "task.data.label_names=[praise, blame]"])
    with pytest.raises(SystemExit, match=r"lower_case=False cannot be set: .*best has its tokenizer .* with True"):
        evaluate.main([best, "--set=task.data.lower_case=false"])
    pd.read_csv(reviews).assign(reply="So it is.").to_csv(tmp_path / "pairs.csv", index=False)
    sets = [f"--set=task.data.path={tmp_path / 'pairs.csv'}", "--set=task.data.text_pair_column=reply"]
    with pytest.raises(
        SystemExit, match=r"reads single sentences, and task\.data\.text_pair_column is reply; leave it"
    ):
        evaluate.main([best, *sets])


def test_a_classifier_is_released_with_its_confusion_matrix(classifier: Path, reviews: Path, tmp_path: Path) -> None:
    folder = tmp_path / "self-attentive-reviews"
    release.main([str(classifier), str(folder)])
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    task = task_of(reviews)
    accuracy = evaluate.evaluate(folder, task, "test")["accuracy"]
    card = (folder / "README.md").read_text()
    assert f"| test | {len(task.splits['test'])} | {accuracy:.2f} |" in card
    assert "decoding" not in card
    assert "](confusion.png)" in card
    for name in task.card.pictures:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    for path in folder.iterdir():
        assert str(reviews.parent).encode() not in path.read_bytes()
    release.main([str(classifier), str(folder)])  # a release is replaced by the next
    with pytest.raises(SystemExit, match="num_beams=5 is for predictions that are generated"):
        release.main([str(classifier), str(folder), "--num-beams", "5"])


def test_all_rows_of_a_file_of_ones_own_are_evaluated(
    classifier: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The labels are the model's, and not all need occur; data with the training's name is split as in the training."""
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
    (tmp_path / reviews.name).write_bytes(reviews.read_bytes())
    evaluate.main([best])
    cut = capsys.readouterr().out.splitlines()[0]
    evaluate.main([best, f"--set=task.data.path={tmp_path / reviews.name}"])
    assert capsys.readouterr().out.splitlines()[0] == cut
    assert "50 examples" not in cut
    frame[:50].assign(verdict="mixed").to_csv(tmp_path / "mixed.csv", index=False)
    with pytest.raises(SystemExit, match=r"the label 'mixed' is none of blame, praise; let task\.data\.label_names"):
        evaluate.main([best, f"--set=task.data.path={tmp_path / 'mixed.csv'}"])


def test_a_vocabulary_holds_all_characters_or_is_refused(reviews: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def size(**keys: Any) -> int:
        return len(task_of(reviews, **keys).make_tokenizer())

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
        data = ClassificationData(path=str(tmp_path / "a.csv"), **COLUMNS, normalization=normalization)
        assert word in SentenceClassification(data).make_tokenizer().get_vocab()


def test_what_stands_in_two_splits_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = sentences()
    for split, part in (("train", frame[:200]), ("validation", frame[195:300]), ("test", frame[290:])):
        part.to_csv(tmp_path / f"{split}.csv", index=False)
    task_of(tmp_path)
    said = capsys.readouterr().err
    assert "5 of the 105 different examples of the validation split are in the train split too" in said
    assert "10 of the 110 different examples of the test split are in the validation split too" in said
    assert "of the test split are in the train split" not in said
    frame[290:].assign(review=frame["review"].str.upper() + " ").to_csv(tmp_path / "train.csv", index=False)
    task_of(tmp_path)
    said = capsys.readouterr().err
    assert "110 of the 110 different examples of the test split are in the train split too, ignoring" in said


def test_splits_are_by_a_hash_of_the_sentence(reviews: Path) -> None:
    task = task_of(reviews)
    assert sum(len(rows) for rows in task.splits.values()) == 400
    for split, rows in task.splits.items():
        for text in rows["text"]:
            hundredth = int.from_bytes(hashlib.sha1(text.encode()).digest(), "big") % 100
            assert split == ("test" if hundredth < 10 else "validation" if hundredth < 20 else "train")
    assert task.card.split_note == "validation and test cut out of train by a hash of the text"


@pytest.mark.parametrize("names", [["all"], ["train", "test"], ["train", "validation", "test"]])
def test_a_stream_gives_the_same_examples(tmp_path: Path, names: list[str]) -> None:
    frame = sentences()
    for place, name in enumerate(names):
        frame[place :: len(names)].to_csv(tmp_path / f"{name}.csv", index=False)
    held, streamed = (task_of(tmp_path, streaming=s) for s in (False, True))
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
def test_a_wrong_name_is_said_with_those_there_are(reviews: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        SentenceClassification(ClassificationData(**{"path": str(reviews), **COLUMNS, **change}))


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
        ClassificationData(path="x/y", **change)


def test_words_are_those_of_the_treebank(reviews: Path) -> None:
    tokenizer = task_of(reviews).make_tokenizer()

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


def test_rare_words_and_subwords(reviews: Path, tmp_path: Path) -> None:
    frame = sentences()
    rare = "A unique masterpiece"
    assert split_of(rare) == "train"
    frame.loc[len(frame)] = [rare, "praise"]
    frame.to_csv(tmp_path / "a.csv", index=False)

    def vocabulary(**more: Any) -> PreTrainedTokenizerFast:
        task = task_of(tmp_path / "a.csv", **more)
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


def test_words_are_dropped_in_training_alone(reviews: Path) -> None:
    task = task_of(reviews, word_dropout=0.5)
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


def test_word_vectors_start_the_embeddings(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "glove.txt").write_text("unseen 1 2 3\ngood 4 5 6\nbad 7 8 9\n")
    vectors = {"word_vectors": str(tmp_path / "glove.txt"), "added_words": 2, "tune_word_vectors": False}
    task = task_of(reviews, **vectors)
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
    sets += ["model.gate_size=8", "training.max_steps=120"]
    output = train_recipe("self_attentive_sick", tmp_path / "run", sets)
    assert json.loads((output / "run.json").read_text())["validation"]["accuracy"] > 95
    tokenizer = AutoTokenizer.from_pretrained(output / "best")
    encoded = tokenizer("car red", "it blue")
    assert encoded["token_type_ids"] == [0, 0, 0, 1, 1, 1]
    labelled = pipeline("text-classification", str(output / "best"))
    assert labelled({"text": "car 1 is red", "text_pair": "it is red"})["label"] == "1"
    card = (output / "best" / "README.md").read_text()
    assert 'classify({"text": "car ' in card
    single = [*sets, "model.sentence_pair=false", "model.gate_size=null", "model.compare_hops=false"]
    with pytest.raises(SystemExit, match=r"model\.sentence_pair=false and task\.data\.text_pair_column=b"):
        train_recipe("self_attentive_sick", tmp_path / "other", single)


def test_a_recipe_is_repeated_with_several_seeds(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [*SMALL, f"task.data.path={reviews}", *(f"task.data.{key}={value}" for key, value in COLUMNS.items())]
    sets += ["training.max_steps=3", "training.evaluations=1"]
    arguments = [str(ROOT / "configs" / "self_attentive_sst2.yaml"), "--seeds", "4", "5", "--models", str(tmp_path)]
    arguments += [f"--set={item}" for item in sets]
    repeat.main(arguments)
    printed = capsys.readouterr().out
    task = task_of(reviews)
    folders = sorted(tmp_path.glob("self-attentive-sst2-*"))
    low, high = sorted(evaluate.evaluate(folder / "best", task, "test")["accuracy"] for folder in folders)
    assert f"| test | mean (lowest to highest) | {(low + high) / 2:.2f} ({low:.2f} to {high:.2f}) |" in printed
    with pytest.raises(SystemExit, match="the seeds are those of --seeds"):
        repeat.main([*arguments, "--set=training.seed=7"])


def test_the_shipped_model_knows_praise_from_blame() -> None:
    labelled = pipeline("text-classification", str(SHIPPED))
    answers = labelled(["A wonderful, moving film!", "dull, stupid and boring"])
    assert [row["label"] for row in answers] == ["positive", "negative"]
    with pytest.raises(ValueError, match="at least one token"):  # without an end token a blank text has none
        labelled("")


def test_without_an_end_token_every_token_is_a_word(tmp_path: Path) -> None:
    sentences().to_csv(tmp_path / "reviews.csv", index=False)
    tokenizer = task_of(tmp_path / "reviews.csv", end_token=False).make_tokenizer()
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("The plot was dull.")["input_ids"])
    assert tokens == ["the", "plot", "was", "dull", "."]
    assert not tokenizer("")["input_ids"]
    with pytest.raises(StrictDataclassClassValidationError, match="end_token=false is for single sentences"):
        task_of(tmp_path / "reviews.csv", text_pair_column="reply", end_token=False)
