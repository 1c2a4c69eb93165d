"""A small model of the kind that Firefox runs learns a teacher's translations, and goes to Firefox."""

from pathlib import Path

import datasets
import pytest
import torch
from attnzoo.training.make_data import translations
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import firefox
from attnzoo.cli import main
from tests.training.runs import overrides, train_recipe

WORDS = {"one": "eins", "two": "zwei", "red": "rot", "big": "groß", "house": "Haus", "houses": "Häuser", "and": "und"}
TRAINING = overrides("training", max_steps=3, warmup_steps=1, evaluations=1, log_every=1, precision="fp32")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    texts = [f"{one} {two} {three}" for one in WORDS for two in WORDS for three in WORDS]
    for name, some in {"train": texts[10:], "validation": texts[:5], "test": texts[5:10]}.items():
        rows = "".join(f"{text}\t{' '.join(WORDS[word] for word in text.split())}\n" for text in some)
        (folder / f"{name}.tsv").write_text("en\tde\n" + rows, encoding="utf-8")
    return folder


def data_keys(path: Path, size: int) -> list[str]:
    return overrides("task.data", path=str(path), vocabulary_size=size)


@pytest.fixture(scope="module")
def teacher(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = overrides("model", embedding_size=16, encoder_hidden_size=8, decoder_hidden_size=16, attention_size=8)
    sizes += overrides("model", readout_size=16)
    output = tmp_path_factory.mktemp("teacher")
    return train_recipe("tatoeba_en_de", output / "run", [*sizes, *TRAINING, *data_keys(data, 60)]) / "best"


@pytest.fixture(scope="module")
def taught(data: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taught") / "data"
    translations.main([str(teacher), str(data), str(folder), "--num-beams", "2"])
    return folder


def test_targets_of_training_alone_are_the_teachers(data: Path, teacher: Path, taught: Path) -> None:
    before, after = (datasets.load_dataset(str(folder)) for folder in (data, taught))
    assert {name: rows.column_names for name, rows in after.items()} == {name: ["en", "de"] for name in before}
    assert after["train"]["en"][:] == before["train"]["en"][:]
    for name in ("validation", "test"):
        assert after[name].to_dict() == before[name].to_dict()
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(teacher), AutoTokenizer.from_pretrained(teacher)
    for row in after["train"].select(range(0, 300, 50)):
        batch = tokenizer([row["en"]], return_tensors="pt")
        ids = model.generate(**batch, num_beams=2, max_new_tokens=batch["input_ids"].shape[1] + 50)
        assert row["de"] == tokenizer.decode(ids[0], skip_special_tokens=True)
    with pytest.raises(SystemExit, match="is there already"):
        translations.main([str(teacher), str(data), str(taught)])
    with pytest.raises(SystemExit, match="--processes must be at least 1, not 0"):
        translations.main([str(teacher), str(data), str(taught.parent / "none"), "--processes", "0"])
    with pytest.raises(SystemExit, match="self-attentive-reviews is a model of sentence_classification; give one of"):
        translations.main(["self-attentive-reviews", str(data), str(taught.parent / "none")])


def test_the_student_is_a_model_of_firefox(data: Path, taught: Path, tmp_path: Path) -> None:
    sizes = overrides("model", hidden_size=16, num_hidden_layers=1, num_decoder_layers=1, intermediate_size=8)
    best = train_recipe("tatoeba_firefox", tmp_path / "run", [*sizes, *TRAINING, *data_keys(data, 300)]) / "best"
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(best), AutoTokenizer.from_pretrained(best)
    assert len(tokenizer) == model.config.vocab_size <= 300
    start = model.config.decoder_start_token_id
    assert start == tokenizer.pad_token_id == len(tokenizer) - 1
    assert not model.get_input_embeddings().weight[start].any()
    assert tokenizer.decode(tokenizer("two großen 7 €").input_ids, skip_special_tokens=True) == "two großen 7 €"

    (tmp_path / "sentences.txt").write_text("one red house\nbig houses\n")
    out = tmp_path / "firefox"
    export = ["export", "--to", "firefox", str(best), str(out), "--weights", "float32"]
    main([*export, "--sentences", str(tmp_path / "sentences.txt")])
    written, its_tokenizer = firefox.load(out)
    batch = its_tokenizer(["one red house and two"], return_tensors="pt")
    labels = tokenizer(["ein rotes Haus"], return_tensors="pt").input_ids
    assert batch.input_ids.tolist() == tokenizer(["one red house and two"]).input_ids
    assert torch.equal(written(**batch, labels=labels).logits, model(**batch, labels=labels).logits)

    for name, value in (("normalization", "nfd"), ("bpe_dropout", 0.1)):
        keys = [*data_keys(data, 300), *overrides("task.data", **{name: value})]
        with pytest.raises(SystemExit, match=f"{name}='?{value}'? is for subwords='bpe'"):
            train_recipe("tatoeba_firefox", tmp_path / "none", [*sizes, *TRAINING, *keys])
