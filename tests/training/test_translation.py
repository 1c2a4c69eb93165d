"""Translation, from a user's files to a released model of either family, and errors of files."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import sacrebleu
import torch
from attnzoo.training import evaluate, release
from attnzoo.training.data.sources import SourceError
from attnzoo.training.loop.progress import Best
from attnzoo.training.recipe import load_recipe, save_recipe
from attnzoo.training.tasks import translation
from attnzoo.training.tasks.metrics import BLEU, ChrF
from attnzoo.training.tasks.translation import Translation, TranslationData, translate
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from tests.training.runs import ROOT, log_rows, overrides, train_recipe

RECIPES = {"rnn": "attentional_rnn_multi30k", "transformer": "small_transformer_multi30k"}
SMALL = {
    "rnn": [
        *overrides("model", embedding_size=24, encoder_hidden_size=32, decoder_hidden_size=64, readout_size=24),
        *("model.initializer_range=0.3", "training.learning_rate=1e-2"),
    ],
    "transformer": [
        *overrides("model", hidden_size=64, num_hidden_layers=1, intermediate_size=128),
        "training.learning_rate=3e-3",
    ],
}
TRAINING = [
    *("model.dropout=0", "training.schedule=cosine"),
    *overrides("task.data", source_column="en", target_column="de", vocabulary_size=60),
    *overrides("training", max_minutes=None, max_steps=250, batch_tokens=800, warmup_steps=20, precision="fp32"),
    *overrides("training", label_smoothing=0, ema_decay=0, evaluations=2, log_every=50),
]
WORDS = {"a": "ein", "red": "rot", "man": "Mann", "Köln": "Köln", "sees": "sieht", "dog": "Hund", "two": "zwei"}


def pairs(number: int = 400) -> list[dict[str, str]]:
    """Different sentences of a language, and their translations word by word into another one."""
    random = np.random.default_rng(0)
    rows: dict[str, str] = {}
    while len(rows) < number:
        words = random.choice(list(WORDS), size=random.integers(2, 6))
        rows[" ".join(words) + "."] = " ".join(WORDS[word] for word in words) + "."
    return [{"en": source, "de": target} for source, target in rows.items()]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.csv"
    pd.DataFrame(pairs()).to_csv(path, index=False)
    return path


def data(path: Path, **fields: Any) -> TranslationData:
    return TranslationData(
        **{"path": str(path), "source_column": "en", "target_column": "de", "vocabulary_size": 60} | fields
    )


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=list(RECIPES))
def translator(request: pytest.FixtureRequest, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training of either family; not to be changed."""
    sets = [*TRAINING, *SMALL[request.param], f"task.data.path={table}"]
    return train_recipe(RECIPES[request.param], tmp_path_factory.mktemp(request.param), sets)


def test_it_learns_to_translate_and_keeps_its_best_weights(
    translator: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = json.loads((translator / "run.json").read_text())
    assert result["validation"]["bleu"] > 80
    bleu = {row["step"]: row["validation"]["bleu"] for row in log_rows(translator, "validation")}
    assert bleu[result["steps"]] == max(bleu.values())
    evaluate.main([str(translator / "best"), "--split", "validation"])
    assert f"BLEU {result['validation']['bleu']:.2f}, chrF" in capsys.readouterr().out
    card = (translator / "best" / "README.md").read_text()
    assert "| split | examples | BLEU | chrF | decoding |" in card
    assert f"BLEU: sacreBLEU, {result['validation']['bleu_signature']}." in card


def test_a_release_translates_with_beams_and_shows_what_it_looks_at(
    translator: Path, table: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "translator"
    release.main([str(translator), str(folder)])
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.generation_config.num_beams == 5
    (picture,) = folder.glob("*.png")  # one head has a picture of its own, several have theirs in a grid
    assert picture.name == ("heads.png" if model.config.model_type == "small_transformer" else "alignment.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    scores = evaluate.evaluate(folder, Translation(data(table)), "test")
    card = (folder / "README.md").read_text()
    assert f"| test | {scores['examples']} | {scores['bleu']:.2f} | {scores['chrf']:.2f} | beam 5 |" in card
    assert str(table.parent) not in card
    assert translate(model, tokenizer, ["two red man."], num_beams=5) == ["zwei rot Mann."]


def test_sentences_come_back_in_their_order_and_an_empty_one_is_refused(translator: Path) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(translator / "best").train()
    tokenizer = AutoTokenizer.from_pretrained(translator / "best")
    sentences = ["two dog.", "a red man sees Köln.", "dog sees."]
    together = translate(model, tokenizer, sentences)
    assert model.training
    assert together == [translate(model, tokenizer, [sentence])[0] for sentence in sentences]
    with pytest.raises(ValueError, match="sentence 1 is empty"):
        translate(model, tokenizer, ["a dog", " "])
    with pytest.raises(ValueError, match="num_beams must be at least 1, got 0"):
        translate(model, tokenizer, ["a dog"], num_beams=0)


def test_columns_and_dicts_of_languages_are_the_same_data(table: Path, tmp_path: Path) -> None:
    expected = Translation(data(table))
    rows = [{"id": str(number), "translation": pair} for number, pair in enumerate(pairs())]
    path = write_lines(tmp_path / "pairs.jsonl", rows)
    datasets.Dataset.from_list(rows).cast_column("translation", datasets.Translation(["en", "de"])).save_to_disk(
        tmp_path / "saved"
    )
    for given_ in (data(path), data(tmp_path / "saved")):
        task = Translation(given_)
        assert {split: rows[:] for split, rows in task.splits.items()} == {
            split: rows[:] for split, rows in expected.splits.items()
        }
    streamed = Translation(data(path, streaming=True))
    assert list(streamed.splits["train"]) == list(expected.splits["train"])
    assert streamed.make_tokenizer().get_vocab() == expected.make_tokenizer().get_vocab()


def test_splits_are_cut_by_the_source_so_that_a_sentence_is_on_one_side(tmp_path: Path) -> None:
    twice = [pair | {"de": pair["de"] + ending} for pair in pairs() for ending in ("", "!")]
    task = Translation(data(write_lines(tmp_path / "pairs.jsonl", twice)))
    sources = {split: set(rows["source"][:]) for split, rows in task.splits.items()}
    assert sources["train"].isdisjoint(sources["test"] | sources["validation"])
    assert sources["test"].isdisjoint(sources["validation"])
    assert sum(map(len, task.splits.values())) == len(twice)


@pytest.fixture(scope="module")
def tokenizer(table: Path) -> PreTrainedTokenizerFast:
    return Translation(data(table, vocabulary_size=80)).make_tokenizer()


def test_a_vocabulary_is_of_both_languages_and_no_larger_than_asked(tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer) <= 80
    assert [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id] == [
        *range(4)
    ]
    assert tokenizer.tokenize("man Mann") == ["▁man", "▁Mann"]
    assert tokenizer("a dog.")["input_ids"][-1] == tokenizer.eos_token_id


def test_a_vocabulary_smaller_than_the_characters_is_refused(table: Path) -> None:
    """It is not silently enlarged, since all characters are kept for any size."""
    with pytest.raises(ValueError, match=r"vocabulary_size is 10, and the characters of the training rows are \d+ tok"):
        Translation(data(table, vocabulary_size=10)).make_tokenizer()


def test_a_file_for_the_test_split_alone_is_one_whole(table: Path) -> None:
    task = Translation(data(table), only="test")
    assert {split: len(rows) for split, rows in task.splits.items()} == {"test": 400}
    assert task.card.split_note == "all rows of the test split"


def test_syllables_are_taken_apart_and_put_together(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Translation(data(table, normalization="nfd"), only="test")
    monkeypatch.setattr(translation, "translate", lambda *_: ["K\u006f\u0308ln \u1100\u1161"])
    assert task.predict(None, None, "test") == ["K\u00f6ln \uac00"]  # type: ignore[arg-type]
    tokenizer = Translation(data(table, normalization="nfd")).make_tokenizer()
    assert tokenizer.decode(tokenizer("K\u00f6ln")["input_ids"], skip_special_tokens=True) == "Ko\u0308ln"


@pytest.mark.parametrize("setting", ["subwords=unigram", "normalization=nfd", "vocabulary_size=70"])
def test_a_key_of_the_tokenizer_is_refused_in_an_evaluation(setting: str, table: Path, tmp_path: Path) -> None:
    sets = ["task.data.source_column=en", "task.data.target_column=de", f"task.data.path={table}"]
    save_recipe(load_recipe(RECIPES["rnn"], sets), tmp_path / "recipe.yaml")
    with pytest.raises(ValueError, match=rf"task\.data\.{setting} cannot be set: .* has its tokenizer .* with"):
        evaluate.task_for(tmp_path, [f"task.data.{setting}"], "test")


# Of the characters that the training sentences have.
TEXT = st.text(alphabet="".join(sorted({*"".join((*WORDS, *WORDS.values())), *". "})))


@given(text=TEXT)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_decoding_gives_the_text_back(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == " ".join(text.split())


def test_signs_and_spaces_come_back_in_normal_form(tmp_path: Path) -> None:
    text = "„Zwei“ (2,5 km) -- it's 10:30 Uhr, 3-mal so groß!"
    rows = [{"en": f"{number} {text}", "de": text} for number in range(60)]
    tokenizer = Translation(data(write_lines(tmp_path / "signs.jsonl", rows), vocabulary_size=200)).make_tokenizer()
    tokenizer.save_pretrained(tmp_path / "saved")
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path / "saved")):
        for same in (text, text.replace(" ", "\u00a0 "), text.replace("ß", "ß\n")):
            expected = " ".join(same.split())
            assert one.decode(one(same)["input_ids"], skip_special_tokens=True) == expected
        assert one("Ko\u0308ln")["input_ids"] == one("Köln")["input_ids"]
        assert one("丏")["input_ids"].count(one.unk_token_id) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"en": "a", "de": "b"}, {"en": "a", "de": " "}], r"row 2: column 'de' is empty"),
        ([{"en": "a", "de": "b"}, {"en": None, "de": "b"}], r"row 2: column 'en' is empty"),
        ([{"en": "a", "fr": "b"}], r"no column 'de'; set task\.data\.target_column to one of: en, fr"),
        ([{"translation": {"en": "a", "fr": "b"}}], r"no column 'de'; set task\.data\.target_column to one of: en, fr"),
        ([{"translation": {"en": "a", "de": "b"}}, {"translation": {"en": "a"}}], r"row 2: column 'de' is empty"),
        ([{"translation": {"en": "a", "de": "b"}}, {"translation": None}], r"row 2: column 'en' is empty"),
        ([{"translation": "a"}], r"no column 'en'; set task\.data\.source_column to one of: translation"),
        ([{"en": "a", "de": 3}], r"row 1: column 'de' has 3, which is not text; put it in quotation marks"),
        ([{"en": "a", "de": "b"}], r"has no pairs for the"),
    ],
)
def test_unsound_rows_are_refused(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Translation(data(write_lines(tmp_path / "pairs.jsonl", rows)))


def test_an_unsound_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"pairs\.csv is empty"):
        Translation(data(path))
    path.write_bytes("en,de\na man,ein M\u00e4nnchen\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"pairs\.csv is not UTF-8 .*; convert it, from latin-1 perhaps"):
        Translation(data(path))
    with pytest.raises(FileNotFoundError, match=r"neither a file nor a folder"):
        Translation(data(tmp_path / "none.csv"))
    with pytest.raises(ValueError, match=r"task\.data names one column twice: en, en"):
        Translation(data(path, target_column="en"))


def test_pairs_on_two_sides_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split, rows in {"train": pairs(20), "validation": pairs(2), "test": pairs(30)[25:]}.items():
        write_lines(tmp_path / f"{split}.jsonl", rows)
    assert Translation(data(tmp_path)).card.split_note == "in its own splits"
    assert "2 of the 2 different pairs of the validation split are in the train split too" in capsys.readouterr().err


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("column", ["en", "de"])
def test_a_row_longer_than_a_batch_is_refused_in_every_split(split: str, column: str, tmp_path: Path) -> None:
    """The error comes before the training, whose first evaluation would not end."""
    rows = pairs(120)
    of_splits = {"train": rows[:60], "validation": rows[60:90], "test": rows[90:]}
    of_splits[split][1] = of_splits[split][1] | {column: "a man " * 1000}
    for name, of_split in of_splits.items():
        write_lines(tmp_path / f"{name}.jsonl", of_split)
    sets = [*TRAINING, *SMALL["rnn"], f"task.data.path={tmp_path}", "training.max_steps=1"]
    called = "training" if split == "train" else split
    with pytest.raises(SystemExit, match=rf"the {called} example .* tokens, more than batch_tokens=\d+; raise it"):
        train_recipe("attentional_rnn_multi30k", tmp_path / "run", sets)
    assert not (tmp_path / "run" / "recipe.yaml").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.data.vocabulary_size=4", "vocabulary_size must be above 4, the special tokens, got 4"),
        ("task.data.target_colum=de", "unknown key 'target_colum' in task.data; did you mean 'target_column'"),
    ],
)
def test_a_mistake_in_the_recipe_is_named(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_recipe(ROOT / "configs" / "small_transformer_multi30k.yaml", [override])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            ["model.attention_pattern=causal"],
            r"not for the task 'translation'.*attention_pattern='encoder_decoder', got 'ca",
        ),
        (
            ["model.position_embedding=learned", "model.max_position_embeddings=4"],
            r"sentence of \d+ tokens, more than the model's max_position_embeddings=4",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused(table: Path, tmp_path: Path, fields: list[str], message: str) -> None:
    sets = [*TRAINING, *SMALL["transformer"], f"task.data.path={table}", *fields]
    with pytest.raises(SystemExit, match=message):
        train_recipe("small_transformer_multi30k", tmp_path / "run", sets)


def test_a_text_that_names_the_end_goes_on_after_it(table: Path) -> None:
    task = Translation(TranslationData(path=str(table), source_column="en", target_column="de", vocabulary_size=60))
    tokenizer = task.make_tokenizer()
    ids = tokenizer("a man </s> sees")["input_ids"]
    assert ids.count(tokenizer.eos_token_id) == 1
    assert ids[-1] == tokenizer.eos_token_id


@pytest.mark.parametrize("columns", [("en", "de"), ("source", "target")])
def test_a_cards_languages_are_codes(tmp_path: Path, columns: tuple[str, str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({columns[0]: f"a {n}", columns[1]: f"b {n}"}) + "\n" for n in range(80)))
    task = Translation(TranslationData(path=str(path), source_column=columns[0], target_column=columns[1]))
    assert task.card.language == (["en", "de"] if columns[0] == "en" else None)


def test_both_are_sacrebleus_and_say_how_they_were_computed() -> None:
    predictions, references = ["Ein Mann schläft.", "Zwei Hunde"], ["Ein Mann schläft fest.", "Zwei kleine Hunde."]
    bleu = BLEU().compute(predictions=predictions, references=references)
    assert bleu["bleu"] == sacrebleu.corpus_bleu(predictions, [references]).score
    assert bleu["bleu_signature"] == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    chrf = ChrF().compute(predictions=predictions, references=references)
    assert chrf["chrf"] == sacrebleu.corpus_chrf(predictions, [references]).score
    assert chrf["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    for metric in (BLEU(), ChrF()):
        with pytest.raises(ValueError, match="there are no references"):
            metric.compute(predictions=[], references=[])


@pytest.mark.parametrize(("greater_is_better", "kept"), [(True, 30.0), (False, 10.0)])
def test_the_best_evaluation_is_the_greatest_where_greater_is_better(greater_is_better: bool, kept: float) -> None:
    best = Best(greater_is_better)
    for score in (20.0, 30.0, 10.0, 15.0):
        best.update(score, {})
    assert best.score == kept


def test_patience_begins_after_the_warm_up_with_the_first_score_above_zero() -> None:
    """The later of two equal models is kept: it has learned longer."""
    best = Best(greater_is_better=True)
    for step in range(4):
        assert best.update(0.0, {"step": step})
    assert (best.figures["step"], best.evaluations_since) == (3, 0)
    assert best.update(5.0, {"step": 5})
    for score in (0.0, 4.0):
        assert not best.update(score, {})
    assert best.is_out_of_patience(2)
    assert best.update(5.0, {"step": 8})
    assert (best.figures["step"], best.evaluations_since) == (8, 3)
    errors = Best(greater_is_better=False)
    counted = []
    for step, score in enumerate((90.0, 95.0, 95.0, 95.0)):
        errors.update(score, {}, is_warming_up=step < 2)
        counted.append(errors.evaluations_since)
    assert counted == [0, 0, 1, 2]
