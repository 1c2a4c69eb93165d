"""Summaries: Debian's lists as rows, ROUGE, the definition of a new word, and a model that learns to copy."""

import hashlib
import json
import string
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from attnzoo.training import evaluate, release
from attnzoo.training.data.debian import DEBIAN
from attnzoo.training.data.sources import SourceError
from attnzoo.training.make_data import debian
from attnzoo.training.recipe import load_recipe
from attnzoo.training.studies import summary_baselines
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from attnzoo.training.tasks.summarization import Summarization, SummaryData
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import search
from tests.factory import make_model, refused
from tests.training.runs import overrides, train_recipe

RECIPES = ["attentional_rnn_debian", "small_transformer_debian"]


# Debian's lists -------------------------------------------------------------------------------------------------------


def stanza(name: str, synopsis: str, *lines: str) -> str:
    text = "".join(f" {line}\n" for line in lines)
    return f"Package: {name}\nDescription-md5: 0\nDescription-en: {synopsis}\n{text}\n"


def lists(folder: Path, stanzas: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "deb.example.org_dists_stable_main_i18n_Translation-en").write_text("".join(stanzas), encoding="utf-8")
    return folder


def many(number: int = 300) -> list[str]:
    return [stanza(f"p{n}", f"tool {n}", f"The program p{n} is a tool.") for n in range(number)]


def test_a_list_becomes_rows_of_which_no_first_paragraph_is_twice(tmp_path: Path) -> None:
    first = stanza("game", "Über-game ", "A game of", "strategy.  For two.", ".", " * it is fun", " * it is free", ".")
    others = [
        stanza("game-data", "data", "A Game of strategy. For two.", ".", "These are the data."),
        "Package: none\n\n",
    ]
    folder = lists(tmp_path, [first, *others, *many()])
    (folder / "deb.example.org_dists_stable-updates_main_i18n_Translation-en").write_text(stanza("new", "new", "New."))
    splits = debian.read_lists(folder)
    rows = [row for columns in splits.values() for row in zip(*columns.values(), strict=True)]
    assert len(rows) == 301
    assert ("game", "A game of strategy. For two.\n* it is fun * it is free", "Über-game") in rows
    for split, columns in splits.items():
        for text in columns["description"]:
            digest = hashlib.sha1(text.split("\n")[0].lower().encode()).hexdigest()
            assert (int(digest, 16) % 100 < 8) == (split != "train")
    assert all(set(splits["test"]["description"]).isdisjoint(splits[other]["description"]) for other in ("train",))


def test_the_command_writes_what_the_task_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "debian"
    debian.main([str(output), "--lists", str(lists(tmp_path / "lists", many()))])
    digest = capsys.readouterr().out.splitlines()[2].split()[-1]
    task = Summarization(SummaryData(path=str(output), vocabulary_size=60))
    assert task.name == DEBIAN.name
    assert task.card.language == "en"
    assert f"SHA-256 {digest[:16]}" in task.card.split_note
    with pytest.raises(SystemExit, match="File exists"):
        debian.main([str(output), "--lists", str(tmp_path / "lists")])


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("Packages", b"", FileNotFoundError, "no lists of English descriptions; run `apt-get update"),
        ("a_Translation-en.lz4", b"", FileNotFoundError, "only a compressed list, a_Translation-en.lz4; run"),
        ("a_Translation-en", b"Package: \xff\n", SourceError, "not UTF-8"),
        ("a_Translation-en", b"nothing", SourceError, "no package for the train split"),
    ],
)
def test_lists_that_cannot_be_used(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(error, message):
        debian.read_lists(tmp_path)


# Scores ---------------------------------------------------------------------------------------------------------------


def table(folder: Path, **rows: list[tuple[str, str]]) -> Path:
    folder.mkdir(exist_ok=True)
    for split, pairs in rows.items():
        pd.DataFrame(pairs, columns=["description", "synopsis"]).to_csv(folder / f"{split}.csv", index=False)
    return folder


def test_scores_by_hand(tmp_path: Path) -> None:
    """ROUGE by its definition; of three words in text and summary that no training text has, the output has two."""
    rows = [("Frob quux is nice.", "frob the quux"), ("A zork.", "zork tools")]
    folder = table(tmp_path, train=[("the nice tools is a", "tools")], validation=rows, test=rows)
    task = Summarization(SummaryData(path=str(folder)))
    scores = task.measure("test", ["a quux tool", "ZORK"])
    # First: "quux" of 3 and 3 words. Second: "zork" of 1 and 2. No two neighbours are the same.
    expected = {"rouge1": 100 * (1 / 3 + 2 / 3) / 2, "rouge2": 0.0, "rougeL": 100 * (1 / 3 + 2 / 3) / 2}
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert scores["num_new_words"] == 3
    assert scores["new_words"] == pytest.approx(200 / 3)
    assert task.measure("test", ["tool", "tools"])["rouge1"] == pytest.approx(100 * (0 + 2 / 3) / 2)  # stems


@pytest.mark.parametrize("split", ["validation", "test"])
def test_without_training_texts_no_word_counts_as_new(split: str, tmp_path: Path) -> None:
    folder = table(tmp_path, train=[("A zork.", "zork tools")])
    task = Summarization(SummaryData(path=str(folder / "train.csv")), split)
    scores = task.measure(split, ["zork"])
    assert scores["rouge1"] == pytest.approx(200 / 3)
    assert not {"new_words", "num_new_words"} & {*scores, *task.metric_names}


def test_baselines_take_what_they_say() -> None:
    text = "Frob, a filter, is the tool for x. It provides y."
    assert summary_baselines.after_verb(text) == "tool for x."
    assert summary_baselines.after_verb("No verb here") == "No verb here"
    assert summary_baselines.first_words("a b " * 9) == "a b " * 5 + "a b"
    known = ["red cars", "green leaves", "red cars near green leaves"]
    assert list(summary_baselines.nearest(["green leaves"], known, ["1", "2", "3"])) == ["2"]


# A model --------------------------------------------------------------------------------------------------------------


def packages(number: int, seed: int) -> list[tuple[str, str]]:
    """Texts that each have a name of random letters, and summaries with this name."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(number):
        name = "".join(random.choice(list(string.ascii_lowercase), size=4))
        kind = random.choice(["tool", "game", "library"])
        rows.append((f"The package {name} is a {kind} that is free.", f"{kind} {name}"))
    return rows


@pytest.fixture(scope="module", params=RECIPES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    table(folder, train=packages(500, 0), validation=packages(40, 1), test=packages(10, 2))
    sizes = {
        "attentional_rnn_debian": [
            *overrides(
                "model",
                embedding_size=32,
                encoder_hidden_size=32,
                decoder_hidden_size=64,
                attention_size=32,
                readout_size=32,
            ),
            "model.initializer_range=0.3",
        ],
        "small_transformer_debian": overrides("model", hidden_size=64, num_hidden_layers=1, intermediate_size=128),
    }
    sets = [
        *sizes[request.param],
        *("model.dropout=0", f"task.data.path={folder}", "task.data.vocabulary_size=60"),
        *overrides("training", max_steps=200, batch_tokens=1200, learning_rate=5e-3, warmup_steps=20, precision="fp32"),
        *overrides("training", schedule="cosine", label_smoothing=0, ema_decay=0, evaluations=1, optimizer="adamw"),
    ]
    return train_recipe(request.param, tmp_path_factory.mktemp(request.param), sets)


def test_it_learns_to_copy_names_that_it_never_saw(run: Path, tmp_path: Path) -> None:
    validation = json.loads((run / "run.json").read_text())["validation"]
    assert validation["num_new_words"] > 30
    assert validation["new_words"] > 80
    folder = tmp_path / "summaries"
    release.main([str(run), str(folder)])
    assert (folder / "copies.png").read_bytes().startswith(b"\x89PNG")
    card = (folder / "README.md").read_text()
    assert "Get To The Point" in card
    assert "copies.png" in card
    evaluate.main([str(run / "best"), "--num-beams", "2"])


@pytest.mark.parametrize("beams", [1, 3])
def test_no_three_tokens_are_twice_in_a_summary(run: Path, beams: int) -> None:
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(run / "best"), AutoTokenizer.from_pretrained(run / "best")
    batch = tokenizer(["The package frob is a game that is free."], return_tensors="pt")

    def is_repeated(**options: Any) -> bool:
        [ids] = model.generate(**batch, num_beams=beams, min_new_tokens=40, **options).tolist()
        triples = [*zip(ids, ids[1:], ids[2:], strict=False)]
        return len(triples) > len({*triples})

    assert is_repeated(no_repeat_ngram_size=0)  # forced to go on after its end
    assert not is_repeated()
    assert not is_repeated(custom_generate=search)


@pytest.mark.parametrize("run", RECIPES[:1], indirect=True)  # the search is the same for all families
def test_a_length_penalty_makes_longer_summaries_and_is_released(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, sizes = Summarization.measure, []

    def noted(task: Summarization, split: str, predictions: list[Any]) -> dict[str, Any]:
        sizes.append(sum(map(len, predictions)))
        return measure(task, split, predictions)

    monkeypatch.setattr(Summarization, "measure", noted)
    for penalty in ("-30", "30"):
        evaluate.main([str(run / "best"), "--num-beams", "3", "--length-penalty", penalty])
    assert sizes[0] < sizes[1]
    assert "beam 3, length penalty 30: " in capsys.readouterr().out
    folder = tmp_path / "released"
    release.main([str(run), str(folder), "--num-beams", "3", "--length-penalty", "30"])
    config = AutoModelForSeq2SeqLM.from_pretrained(folder).generation_config
    assert (config.num_beams, config.length_penalty) == (3, 30)
    data = load_recipe(run / "recipe.yaml").task.data.path
    evaluate.main([str(folder), "--set", f"task.data.path={data}"])  # decodes by the generation config alone
    assert sizes[3] == sizes[2] > sizes[0]
    assert "| beam 3, length penalty 30.0 |" in (folder / "README.md").read_text()
    assert capsys.readouterr().out.count("beam 3, length penalty 30") == 2
    for options, message in (
        (["--num-beams", "1", "--length-penalty", "2"], "length_penalty=2 is for beam search"),
        (["--length-penalty", "nan"], "length_penalty must be a number from -100 to 100, got nan"),
        (["--length-penalty", "1e30"], "length_penalty must be a number from -100 to 100"),
    ):
        with pytest.raises(SystemExit, match=message):
            release.main([str(run), str(folder), *options])


def test_long_texts_are_cut(tmp_path: Path) -> None:
    rows = packages(20, 0)
    folder = table(tmp_path, train=rows, validation=rows[:2], test=rows[:2])
    task = Summarization(SummaryData(path=str(folder), vocabulary_size=60, max_source_tokens=5))
    tokenizer = task.make_tokenizer()
    encoded: Any = task.training_examples(tokenizer)
    assert isinstance(encoded, datasets.Dataset)
    assert {len(ids) for ids in encoded["input_ids"]} == {5}
    assert {ids[-1] for ids in encoded["input_ids"]} == {tokenizer.eos_token_id}
    assert max(len(labels) for labels in encoded["labels"]) > 5
    # Also with the tokenizer of another training, to start from or to evaluate.
    tokenizer.model_max_length = 9
    model, text = make_model("luong-lstm-concat-copy-coverage", vocab_size=len(tokenizer)), task.splits["test"][:1]
    task.prepare(model, tokenizer)
    assert tokenizer.model_max_length == 5
    tokenizer.model_max_length = 9
    first = tokenizer(text["source"], truncation=True, max_length=5, return_tensors="pt")
    [cut] = task.predict_rows(model.eval(), tokenizer, datasets.Dataset.from_dict(text))
    assert cut == tokenizer.decode(model.generate(**first)[0], skip_special_tokens=True)


def test_phonemes_are_not_copied() -> None:
    with pytest.raises(ValueError, match="no letter is a phoneme"):
        GraphemeToPhoneme.prepare(object(), make_model("luong-lstm-concat-copy-coverage"), None)  # type: ignore[arg-type]
