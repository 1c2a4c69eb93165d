"""Recipes: every YAML file in the project is valid, and every mistake in one is an error that says what to do."""

import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from attnzoo.training.recipe import load_recipe, save_recipe
from attnzoo.training.tasks import TASKS

import attnzoo  # noqa: F401

RECIPES = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
SOUND = """
model: {model_type: attentional_rnn, embedding_size: 8}
task: {name: grapheme_to_phoneme, data: {path: cmudict}}
training: {max_steps: 10}
"""


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "sound.yaml"
    path.write_text(SOUND)
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads_and_its_model_can_be_built(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.task.name in TASKS
    with torch.device("meta"):
        model = TASKS[recipe.task.name].auto_class.from_config(recipe.model_config(vocab_size=70))
    assert model.config.model_type == recipe.model["model_type"]
    assert not recipe.task.data.path.startswith(("/", "..")), "a default must be something that every user can reach"
    header = path.read_text().split("\n\n")[0]
    assert "Paper:" in header
    assert "Command:" in header


def test_override_replaces_a_value_and_keeps_its_type(sound: Path) -> None:
    recipe = load_recipe(sound, ["training.learning_rate=1e-2", "model.embedding_size=16", "training.max_steps=7"])
    assert recipe.training.learning_rate == 0.01
    assert recipe.model["embedding_size"] == 16
    assert recipe.training.max_steps == 7


def test_a_power_of_ten_is_a_number_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "power.yaml"
    path.write_text(SOUND.replace("max_steps: 10", "max_steps: 10, learning_rate: 1e-3, weight_decay: 2.5E-2"))
    training = load_recipe(path).training
    assert (training.learning_rate, training.weight_decay) == (0.001, 0.025)


@pytest.mark.parametrize("more", [[], ["training.max_steps=null"]])
def test_a_budget_in_minutes_takes_the_place_of_one_in_steps_and_the_other_way_round(
    sound: Path, more: list[str]
) -> None:
    recipe = load_recipe(sound, [*more, "training.max_minutes=0.5"])
    assert (recipe.training.max_steps, recipe.training.max_minutes) == (None, 0.5)
    recipe = load_recipe("demo", ["training.max_steps=7"])
    assert (recipe.training.max_steps, recipe.training.max_minutes) == (7, None)
    with pytest.raises(ValueError, match="got 7 and 2"):
        load_recipe("demo", ["training.max_steps=7", "training.max_minutes=2"])


def test_a_sign_is_a_value_also_where_yaml_has_another_meaning_for_it() -> None:
    for sign in ",|;: #-":
        assert load_recipe("demo", [f"task.data.separator={sign}"]).task.data.separator == sign
    assert load_recipe("demo", ["task.data.separator=~"]).task.data.separator is None


def test_what_ships_figures_counts_steps() -> None:
    """On another machine the same minutes give other steps, and so other figures; only the demo may count minutes."""
    shipped = [*RECIPES, *(RECIPES[0].parent.parent / "model_cards").glob("*/recipe.yaml")]
    assert [path.stem for path in shipped if load_recipe(path).training.max_steps is None] == ["demo"]


def test_saved_recipe_is_the_same_recipe_with_every_default(sound: Path, tmp_path: Path) -> None:
    recipe = load_recipe(sound, ["training.seed=5"])
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_recipe(tmp_path / "saved.yaml") == recipe
    assert yaml.safe_load((tmp_path / "saved.yaml").read_text())["training"]["batch_tokens"] == 4096


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.learning_rat=1", "unknown key 'learning_rat' in training; did you mean 'learning_rate'"),
        ("model.embeding_size=1", "unknown key 'embeding_size' in model; did you mean 'embedding_size'"),
        ("task.data.pth=1", "unknown key 'pth' in task.data; did you mean 'path'"),
        ("trainin.seed=1", "unknown key 'trainin' in recipe; did you mean 'training'"),
        ("model.model_type=attentional_rn", "did you mean 'attentional_rnn'"),
        ("training.seed=one", "seed"),
        ("training.learning_rate=-1", "learning_rate must be above 0, got -1"),
        ("training.batch_tokens=0", "batch_tokens must be at least 1, got 0"),
        ("training.warmup_steps=-1", "warmup_steps must not be negative, got -1"),
        ("training.label_smoothing=1.5", "label_smoothing must be at least 0 and below 1, got 1.5"),
        ("training.ema_decay=1", "ema_decay must be at least 0 and below 1, got 1"),
        (
            "training={max_steps: 10, max_minutes: 3}",
            "give either training.max_steps or training.max_minutes, got 10 and 3; for example "
            "--set training.max_minutes=null",
        ),
        ("training.max_steps=null", "got None and None; for example --set training.max_steps=1000"),
        ("training.schedule=cosin", "cosin"),
        ("training.learning_rate=.nan", "learning_rate must be above 0, got nan"),
        ("training.seed=-1", "seed must not be negative, got -1"),
        ("model.vocab_size=100", "'vocab_size' in model comes from the task's data"),
        ("model.model_type=bart", "model.model_type 'bart' is unknown; known: attentional_rnn"),
        ("task.data=cmudict", "task.data must be a mapping with 'path', got 'cmudict'"),
        ("training=3", "section 'training' must be a mapping"),
        ("model.input_feeding=true", "input_feeding=True belongs to wiring='luong', got wiring='bahdanau'"),
        ("seed", "--set takes section.key=value, got 'seed'"),
        ("task.name.x=1", "'name' is a value, not a section"),
        ("training.seed=[1", "not valid YAML"),
        ("training.seed=" + "[" * 5000, "--set training.seed: the value is nested too deeply"),
        ("training=[&steps 3, *steps]", "aliases (*name) are not allowed"),
        ("training={seed: 1, seed: 2}", "the key 'seed' is given twice"),
        ("model.encoder_hidden_size=1000000000000000000", "encoder_hidden_size must be at most 65,536"),
    ],
)
def test_a_mistake_is_named(sound: Path, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        load_recipe(sound, [override])


def test_a_missing_recipe_names_those_beside_it(sound: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no recipe at .*sond\.yaml.*sound\.yaml"):
        load_recipe(sound.with_name("sond.yaml"))


def test_a_recipe_of_the_package_is_found_by_its_name_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()  # which is no recipe
    demo = next(path for path in RECIPES if path.stem == "demo")
    assert load_recipe("demo") == load_recipe(demo)
    with pytest.raises(FileNotFoundError, match=r"no recipe at g2p_bahdana; did you mean 'g2p_bahdanau'\?") as error:
        load_recipe("g2p_bahdana")
    _, _, first, *names = str(error.value).splitlines()  # one on each line, the closest first
    assert first == "  g2p_bahdanau"
    assert {first, *names} == {f"  {path.stem}" for path in RECIPES}
    with pytest.raises(FileNotFoundError, match=r"no recipe at configs.demo\.yaml; did you mean 'demo'\?"):
        load_recipe("configs/demo.yaml")
    (tmp_path / "demo").rmdir()
    shutil.copy(next(path for path in RECIPES if path.stem == "penalty"), "demo")
    assert load_recipe("demo").task.name == "sentence_classification", "a file of that name comes first"


def test_the_labels_of_the_data_take_the_place_of_the_papers(sound: Path) -> None:
    sound.write_text(
        "model: {model_type: self_attentive, paper: lin2017-age}\n"
        "task: {name: sentence_classification, data: {path: reviews.csv}}\ntraining: {max_steps: 10}\n"
    )
    labels = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    assert load_recipe(sound).model_config(**labels).num_labels == 2
    assert load_recipe(sound).model_config().num_labels == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not valid YAML"),
        ("3", "must hold the sections"),
        ("", "must hold"),
        ("\xff", "'utf-8' codec can't decode"),
        ("a: " + "[" * 50_000, "is nested too deeply"),
        ("a: " + "b" * 10_000_000, "has 10,000,003 bytes, a recipe has at most 100,000"),
        ("a: &a [lol, lol]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),  # and so on: the billion laughs
    ],
)
def test_a_file_that_is_no_recipe(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"(?s)broken\.yaml .*{message}"):
        load_recipe(path)


def test_a_missing_section_is_named(tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    path.write_text("model: {model_type: attentional_rnn}\ntraining: {max_steps: 1}\n")
    with pytest.raises(ValueError, match="recipe lacks the key 'task'"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        (
            "masked",
            "model.attention_pattern=causal",
            "task 'masked_language_modeling': SmallTransformerForMaskedLM needs",
        ),
        ("causal", "model.attention_pattern=bidirectional", "attention_pattern='causal', got 'bidirectional'"),
        ("masked", "model={model_type: self_attentive}", "Unrecognized configuration class .*SelfAttentiveConfig"),
    ],
)
def test_a_head_that_does_not_fit_the_task_is_refused_as_the_recipe_is_read(
    name: str, override: str, message: str
) -> None:
    recipe = next(path for path in RECIPES if path.stem == f"small_transformer_sotu_{name}")
    with pytest.raises(ValueError, match=message):
        load_recipe(recipe, [override])
