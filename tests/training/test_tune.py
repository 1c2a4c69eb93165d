"""The search over recipes: the searched keys, the kept files, and resuming after an interruption."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training import tune
from attnzoo.training.commands.exits import StoppedError
from attnzoo.training.recipe import Recipe, load_recipe
from filelock import FileLock

from tests.factory import refused
from tests.regular_language import SMALL, write_dictionary

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("few_phonemes")


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """The command line: the demo recipe with 4 steps on the regular language."""
    words = tmp_path / "cmudict.dict"
    write_dictionary(words, draws=300)
    sets = [*SMALL, f"task.data.path={words}", "training.max_steps=4", "training.warmup_steps=1"]
    search = "--search=training.learning_rate=1e-5..1e-1"
    recipe = str(ROOT / "configs" / "demo.yaml")
    return [recipe, f"--output={tmp_path / 'tuned'}", search, *(f"--set={item}" for item in sets)]


def without_search(arguments: list[str]) -> list[str]:
    return [argument for argument in arguments if "--search" not in argument]


def weights(output: Path) -> list[str]:
    return sorted(path.parent.parent.name for path in output.glob("*/best/model.safetensors"))


def test_the_best_trial_is_kept(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune.main([*arguments, "--trials=3"])
    output = tmp_path / "tuned"
    runs = {path.parent.name: json.loads(path.read_text()) for path in output.glob("*/run.json")}
    assert len(runs) == 3
    best = min(sorted(runs), key=lambda name: runs[name]["validation"]["per"])
    assert weights(output) == [best]
    assert load_recipe(output / "best.yaml") == load_recipe(output / best / "recipe.yaml")
    header, _, *rows = (output / "trials.md").read_text().splitlines()
    assert header == "| trial | training.learning_rate | validation PER | steps | minutes |"
    scores = [float(row.split("|")[3]) for row in rows]
    assert rows[0].startswith(f"| {best} |")
    assert scores == sorted(scores)
    assert len(scores) == 3
    assert "\n".join(rows) in capsys.readouterr().out

    for name in ("best.yaml", "trials.md"):  # the command ended before it wrote them
        (output / name).unlink()
    tune.main([*arguments, "--trials=4"])  # goes on with the trials of before
    assert len([*output.glob("*/run.json")]) == 4
    with refused(SystemExit, "have another search; choose another --output"):
        tune.main([*arguments, "--trials=5", "--search=training.label_smoothing=0..0.2"])
    with FileLock(output / "lock"), refused(SystemExit, "another attnzoo tune is running in"):
        tune.main([*arguments, "--trials=5"])


def test_a_trial_that_was_interrupted_goes_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []

    def stopped(recipe: Recipe, task: Any, output: Path) -> dict[str, Any]:
        asked.append((output.name, recipe.training.learning_rate))
        raise StoppedError(signal.SIGTERM, 3)

    with monkeypatch.context() as patch:
        patch.setattr(tune, "train_once", stopped)
        with pytest.raises(SystemExit):
            tune.main([*arguments, "--trials=1"])
    tune.main([*arguments, "--trials=1"])
    recipe = load_recipe(tmp_path / "tuned" / "best.yaml")
    assert [(*weights(tmp_path / "tuned"), recipe.training.learning_rate)] == asked


def test_values_that_cannot_be_trained_with_are_left_out(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch of 3 tokens has no room for an example; a path with a slash is a choice like any other."""
    paths = "--search=task.data.path={0},{0}.copy.dict".format(tmp_path / "cmudict.dict")
    shutil.copy(tmp_path / "cmudict.dict", tmp_path / "cmudict.dict.copy.dict")
    tune.main([*without_search(arguments), "--search=training.batch_tokens=3,200", paths])
    said = capsys.readouterr().out
    assert "tokens, more than batch_tokens=3" in said
    assert "20 trials in a row failed or repeated others" in said  # two combinations, and nothing more to try
    assert len((tmp_path / "tuned" / "trials.md").read_text().splitlines()) == 4
    assert len(weights(tmp_path / "tuned")) == 1


def test_if_no_trial_finishes_it_is_an_error(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(*given: Any) -> dict[str, Any]:
        raise FloatingPointError("the loss is nan at step 3; lower training.learning_rate")

    monkeypatch.setattr(tune, "train_once", diverging)
    with refused(SystemExit, "no trial finished"):
        tune.main([*arguments, "--trials=1"])


def test_a_folder_of_the_users_is_left_alone(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "best.yaml").write_text("mine")
    with refused(SystemExit, "holds something other than a search"):
        tune.main(arguments)


def test_the_learning_rate_and_dropout_by_default() -> None:
    searched = tune.default_search(load_recipe("demo", ["training.learning_rate=1e-3"]))
    assert searched == ["training.learning_rate=0.00025..0.004", "model.dropout=0..0.5"]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("training.learning_rate", "takes section.key=low..high"),
        ("training.learning_rate=", "takes section.key=low..high"),
        ("training.learning_rate=2..1", "a range is two numbers, the lower one first"),
        ("training.learning_rate=a..b", "a range is two numbers"),
        ("training.learning_rate=1e-3", "give a range or at least two values"),
        ("training.learning_rate=0...inf", "a range is two numbers"),
        ("training.learning_rat=1..2", "did you mean 'learning_rate'?"),
        ("training.batch_tokens=1e2..4e2", "expected int"),
        ("model.dropout=0.1,1.5", "dropout"),
        ("task.data.sources=[a],[b]", "a choice is one value"),
    ],
)
def test_what_cannot_be_searched_is_refused(search: str, message: str, arguments: list[str], tmp_path: Path) -> None:
    with refused(SystemExit, message):
        tune.main([*without_search(arguments), f"--search={search}"])
    assert not (tmp_path / "tuned").exists()
