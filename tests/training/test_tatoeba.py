"""Texts joined from Tatoeba's sentences, the recipes of equal size that learn them, and the study of these models."""

import json
import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from attnzoo.training.make_data import tatoeba
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.studies import why_attention
from transformers import AutoModelForSeq2SeqLM

from tests.training.runs import train_recipe

ROOT = Path(__file__).parents[2]
SHELF = sorted(path.stem for path in (ROOT / "configs").glob("tatoeba_*20*.yaml"))


def test_every_pair_is_in_as_many_texts_and_these_are_short() -> None:
    chance = random.Random(3)
    pairs = [(" ".join([f"e{n}"] * chance.randint(1, 20)), f"d{n}") for n in range(200)] + [("w " * 49 + "w", "long")]
    texts = list(tatoeba.joined(pairs, 3, random.Random(1)))
    assert Counter(word for _, text in texts for word in text.split()) == {other: 3 for _, other in pairs}
    english = dict(map(reversed, pairs))  # type: ignore[arg-type]
    sizes = Counter(len(text.split()) for _, text in texts)
    assert set(sizes) == {1, 2, 3, 4, 5}
    for source, target in texts:
        assert source == " ".join(english[word] for word in target.split())
        assert len(source.split()) <= tatoeba.WORDS or target == "long"


def test_a_file_of_the_collection_is_divided_by_its_english_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"Sentence {n % 700} here.\tSatz {n}.\tCC-BY 2.0 (France) Attribution\n" for n in range(900)]
    (tmp_path / "deu.txt").write_text("".join(lines), encoding="utf-8")
    arguments = [str(tmp_path / "deu.txt"), "de", str(tmp_path / "made")]
    tatoeba.main(arguments)
    printed = capsys.readouterr().out
    splits = tatoeba.read_pairs(tmp_path / "deu.txt", "de")
    assert sum(map(len, splits.values())) == 900
    first, *others = ({english for english, _ in pairs} for pairs in splits.values())
    assert not first.intersection(*others)
    assert f"train: {len(splits['train']):,} pairs" in printed
    # The folder has splits of its own, and is read back with them.
    again = tatoeba.read_pairs(tmp_path / "made", "de")
    assert {name: len(pairs) for name, pairs in again.items()}.keys() == splits.keys()
    with pytest.raises(SystemExit, match="File exists"):
        tatoeba.main(arguments)
    with_a_seen_one = splits | {"test": [*splits["test"], ("a new sentence", splits["train"][0][1])]}
    assert tatoeba.without_seen_translations(with_a_seen_one) == splits
    (tmp_path / "few.txt").write_text(lines[0], encoding="utf-8")
    with pytest.raises(SystemExit, match="has no pair for the"):
        tatoeba.main([str(tmp_path / "few.txt"), "de", str(tmp_path / "other")])
    (seen := tmp_path / "seen").mkdir()
    for split, translation in {"train": "same", "validation": "same", "test": "another"}.items():
        (seen / f"{split}.tsv").write_text(f"en\tde\n{split}\t{translation}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="with --unseen has no pair for the validation split"):
        tatoeba.main([str(seen), "de", str(tmp_path / "other"), "--unseen"])
    assert not (tmp_path / "other").exists()


def test_the_recipes_differ_in_their_models_and_steps_alone_and_have_one_size_and_number_of_tokens() -> None:
    recipes = [load_recipe(ROOT / "configs" / f"{name}.yaml") for name in SHELF]
    assert len(recipes) == 10
    others = [asdict(recipe.training) for recipe in recipes]
    assert {training.pop("max_steps") * training.pop("batch_tokens") for training in others} == {3000 * 4096}
    warmups = {training.pop("warmup_steps") for training in others}
    assert warmups == {500, 1000}
    assert all(
        (recipe.task, other) == (recipes[0].task, others[0]) for recipe, other in zip(recipes, others, strict=True)
    )
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    models = [AutoModelForSeq2SeqLM.from_config(r.model_config(vocab_size=4000, **special)) for r in recipes]
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in models]
    assert max(sizes) < 1.04 * min(sizes)
    assert 2 * max(sizes) < 3.5e6  # bytes in half precision


def test_the_study_measures_by_length_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "tatoeba_en_de"
    data.mkdir()
    for split, number in (("train", 150), ("validation", 4), ("test", 40)):
        rows = (
            f"{'the man sleeps ' * (n % 12 + 1)}now.\t{'der Mann schläft ' * (n % 12 + 1)}jetzt.\n"
            for n in range(number)
        )
        (data / f"{split}.tsv").write_text("en\tde\n" + "".join(rows), encoding="utf-8")
    sizes = [
        "task.data.vocabulary_size=60",
        "training.max_steps=2",
        "training.evaluations=1",
        "training.warmup_steps=1",
    ]
    small = ["model.embedding_size=8", "model.encoder_hidden_size=8", "model.decoder_hidden_size=8"]
    for name, more in (("cho2014", ["model.readout_size=8"]), ("luong2015_local_p", ["model.readout_size=8"])):
        run = train_recipe(f"tatoeba_{name}", tmp_path / name, [f"task.data.path={data}", *sizes, *small, *more])
        (run / "best").rename(tmp_path / f"{name.replace('_', '-')}-tatoeba-en-de")
    capsys.readouterr()
    why_attention.main(
        ["--models", str(tmp_path), "--plot", str(tmp_path / "a.png"), "--set", f"task.data.path={data}"]
    )
    record = json.loads((tmp_path / "a.json").read_text())
    assert list(record["models"]) == ["cho2014", "luong2015-local-p"]
    *parts, long, whole = record["texts"].values()
    assert sum(parts) == whole == 40
    assert long == sum(3 * (n % 12 + 1) + 1 >= 20 for n in range(40))
    assert record["models"]["cho2014"]["alignment"] is None
    pair = record["models"]["luong2015-local-p"]["alignment"]
    assert len(pair["weights"]) == len(pair["target"])
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert (tmp_path / "a_alignments.png").stat().st_size > 5_000
    assert "| luong2015-local-p |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"has no model \*20\S*-tatoeba-en-de"):
        why_attention.main(["--models", str(tmp_path / "none")])


def test_data_that_is_missing_says_how_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"'data/tatoeba_en_de': neither .*make_data\.tatoeba"):
        make_task(load_recipe("tatoeba_bahdanau2014"))
