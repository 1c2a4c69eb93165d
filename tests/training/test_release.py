"""A finished run as a released model: small, complete, and described by its measured figures."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from attnzoo.training import card as training_card
from attnzoo.training import evaluate, release
from attnzoo.training.data.cmudict import CMUDICT
from attnzoo.training.recipe import for_other_machines, hub_id, load_recipe
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from huggingface_hub import ModelCard
from transformers import AutoModelForSeq2SeqLM

ROOT = Path(__file__).parents[2]


def test_a_release_is_small_loads_as_float32_and_reports_what_it_loads_as(
    run: Path, dictionary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cards" / "attentional-rnn-g2p-test"
    release.main([str(run), str(folder)])
    expected = capsys.readouterr().out.split("test ")[1].split(",")[0]  # PER
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    original = AutoModelForSeq2SeqLM.from_pretrained(run / "best")
    for name, weight in model.named_parameters():
        assert torch.equal(weight, original.get_parameter(name).half().float())
    sizes = [(path / "model.safetensors").stat().st_size for path in (folder, run / "best")]
    assert sizes[0] < 0.6 * sizes[1]
    assert model.generation_config.num_beams == 5
    assert "path: regular.dict" in (folder / "recipe.yaml").read_text()
    with pytest.raises(SystemExit, match=r"task\.data\.path is 'regular\.dict'"):  # no machine's path goes out with it
        evaluate.main([str(folder)])
    evaluate.main([str(folder), "--set", f"task.data.path={dictionary}"])
    assert f"regular.dict, test split, {len(_words_of(dictionary, 'test'))} examples, beam 5: {expected}" in (
        capsys.readouterr().out
    )
    assert not {"is_local", "local_files_only"} & json.loads((folder / "tokenizer_config.json").read_text()).keys()
    card = (folder / "README.md").read_text()
    assert f"| test | {len(_words_of(dictionary, 'test'))} | {expected[4:-2]} |" in card
    assert "| validation |" in card
    assert "23.55" not in card  # published for CMUdict, of which this is none
    assert "(alignment.png)" in card
    assert (folder / "alignment.png").read_bytes().startswith(b"\x89PNG")
    for path in folder.iterdir():
        assert str(dictionary.parent).encode() not in path.read_bytes()
    metadata = ModelCard.load(folder / "README.md").data
    assert metadata.eval_results[0].dataset_split == "test"
    figures, of_run = (json.loads((place / "run.json").read_text()) for place in (folder, run))
    assert figures.items() > of_run.items()
    assert f"PER {figures['test']['per']:.2f}" in expected
    with pytest.raises(SystemExit, match="holds no finished training: it has no best"):
        release.main([str(folder), str(tmp_path / "other")])
    with pytest.raises(SystemExit, match=r"holds no finished training: it has no run\.json"):
        release.main([str(run / "best"), str(tmp_path / "other")])
    with pytest.raises(SystemExit, match="num_beams must be at least 1, got 0"):
        release.main([str(run), str(folder), "--num-beams", "0"])
    assert (folder / "README.md").read_text() == card  # a release that fails leaves the one before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_release_may_be_the_mean_of_several_trainings(
    run: Path, dictionary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its card says so, and its validation figures are those of the mean."""
    other, folder = tmp_path / "other", tmp_path / "cards" / "mean"
    shutil.copytree(run / "best", other)
    model = AutoModelForSeq2SeqLM.from_pretrained(other)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    model.save_pretrained(other)
    release.main([str(run), str(folder), "--average-with", str(other)])
    mean = AutoModelForSeq2SeqLM.from_pretrained(folder)
    for name, weight in AutoModelForSeq2SeqLM.from_pretrained(run / "best").named_parameters():
        torch.testing.assert_close(mean.get_parameter(name), (2 * weight).half().float(), rtol=2e-3, atol=0)
    card = " ".join((folder / "README.md").read_text().split())
    assert "The weights are the mean of 2 checkpoints." in card
    assert "`recipe.yaml` in this folder, the steps, the minutes and the seed are those of one of the averaged" in card
    figures = json.loads((folder / "run.json").read_text())
    assert figures["averaged"] == 2
    capsys.readouterr()
    evaluate.main([str(folder), "--split", "validation", "--num-beams=1", "--set", f"task.data.path={dictionary}"])
    assert f"PER {figures['validation']['per']:.2f}" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="is not a checkpoint folder"):
        release.main([str(run), str(folder), "--average-with", str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run.json", r"run\.json is damaged: "),
        ("recipe.yaml", r"recipe\.yaml"),
        ("best/config.json", r"config\.json is damaged: "),
        ("best/generation_config.json", r"generation_config\.json is damaged: "),
        ("best/model.safetensors", "are damaged or incomplete"),
        ("best/tokenizer.json", r"tokenizer\.json is damaged: "),
        ("best/tokenizer_config.json", r"tokenizer_config\.json is damaged: "),
    ],
)
def test_a_damaged_run_is_not_released(run: Path, tmp_path: Path, name: str, message: str) -> None:
    """A file is cut, as by a full disk. Without its generation config a model would decode differently."""
    shutil.copytree(run, tmp_path / "run")
    damaged = tmp_path / "run" / name
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    with pytest.raises(SystemExit, match=message):
        release.main([str(tmp_path / "run"), str(tmp_path / "folder")])
    assert not (tmp_path / "folder").exists()


def test_a_run_without_its_generation_config_is_not_released(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "best" / "generation_config.json").unlink()
    with pytest.raises(SystemExit, match=r"generation_config\.json"):
        release.main([str(tmp_path / "run"), str(tmp_path / "folder")])


def test_the_working_directory_is_not_replaced(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="is the working directory, which a release would replace"):
        release.main([str(run), "."])


@pytest.mark.parametrize("place", ["run", "run/best", "theirs", "theirs/thesis.txt", "noted", "."])
def test_a_release_replaces_nothing_but_a_release(
    run: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "run")
    for folder, name in (("theirs", "thesis.txt"), ("noted", "README.md")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("years of work")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit, match=r"is a part of the run|holds something other than a release"):
        release.main(["run", place])
    with pytest.raises(SystemExit, match=r"^error: other is one of the checkpoints to average"):
        release.main(["run", "other", "--average-with", "other"])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_note_is_on_the_card_and_stays_when_it_is_written_again(
    run: Path, dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    note = "It was prolonged from 3 minutes to 5."
    release.main([str(run), "noted", "--note", note])
    card = Path("noted", "README.md").read_text()
    assert note in card
    Path("noted", "README.md").write_text(card.replace(note, "All went well."))
    training_card.main(["noted", "--set", f"task.data.path={dictionary}"])
    assert Path("noted", "README.md").read_text() == card
    release.main([str(run), "noted"])
    assert note not in Path("noted", "README.md").read_text()


def test_other_weights_under_a_name_are_another_version(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record says which the earlier weights were, and in which commit they are."""
    monkeypatch.chdir(tmp_path)
    for variable in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{variable}_NAME", "zoo")
        monkeypatch.setenv(f"GIT_{variable}_EMAIL", "zoo@example.org")
    subprocess.run(["git", "init", "--quiet"], check=True)
    record, folder = Path("named", "record.json"), tmp_path / "run"
    shutil.copytree(run, folder)
    release.main([str(folder), "named"])
    first = json.loads(record.read_text())
    assert (first["version"], first["earlier"]) == (1, [])
    assert first["sha256"] == hashlib.sha256(Path("named", "model.safetensors").read_bytes()).hexdigest()
    release.main([str(folder), "named", "--num-beams", "2"])
    same = json.loads(record.read_text())
    assert (same["version"], same["figures"][-1]["decoding"]) == (1, "beam 2")
    subprocess.run(["git", "add", "named"], check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", "Add a model"], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "best")
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    model.save_pretrained(folder / "best")
    release.main([str(folder), "named"])
    second = json.loads(record.read_text())
    assert second["version"] == 2
    assert second["earlier"] == [{"version": 1, "sha256": first["sha256"], "commit": commit}]
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    model.save_pretrained(folder / "best")
    release.main([str(folder), "named"])  # the second weights are in no commit
    third = json.loads(record.read_text())
    assert third["earlier"] == [*second["earlier"], {"version": 2, "sha256": second["sha256"], "commit": None}]


def test_a_checkpoint_has_no_path_of_the_machine_and_is_evaluated_inside_its_run(
    run: Path, dictionary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every folder that can be pushed; the run's own recipe, which --resume reads, has the whole path."""
    assert f"path: {dictionary}" in (run / "recipe.yaml").read_text()
    for name in ("best", "last"):
        for path in (run / name).iterdir():
            content = path.read_bytes()
            assert not [place for place in (dictionary.parent, run, ROOT, Path.home()) if bytes(place) in content], path
            if path.suffix in (".json", ".yaml"):
                assert not absolute_paths(yaml.safe_load(content)), path
        assert "path: regular.dict" in (run / name / "recipe.yaml").read_text()
        evaluate.main([str(run / name), "--split", "validation", "--num-beams", "1"])
        assert "regular.dict, validation split" in capsys.readouterr().out

    # Elsewhere it is said, as for a released folder; a recipe that happens to be above is not the run's.
    shutil.copytree(run / "best", tmp_path / "run" / "best")
    shutil.copy(ROOT / "configs" / "demo.yaml", tmp_path / "run" / "recipe.yaml")
    (tmp_path / "recipe.yaml").write_text("flour, butter, sugar")
    with pytest.raises(SystemExit, match=r"task\.data\.path is 'regular\.dict'"):
        evaluate.main([str(tmp_path / "run" / "best")])
    evaluate.main([str(tmp_path / "run" / "best"), f"--set=task.data.path={dictionary}", "--split=validation"])


def absolute_paths(tree: Any) -> list[str]:
    """The texts in a tree of values that are absolute paths."""
    if isinstance(tree, dict | list):
        return [
            found for value in (tree.values() if isinstance(tree, dict) else tree) for found in absolute_paths(value)
        ]
    return [tree] if isinstance(tree, str) and re.match(r"/\w|[A-Z]:\\|~/", tree) else []


def test_a_copy_of_known_data_has_its_id_on_the_hub(tmp_path: Path) -> None:
    recipes = ROOT / "configs"
    there, elsewhere, own, theirs = (
        load_recipe(recipes / "attentional_rnn_multi30k.yaml", [f"task.data.path={path}"])
        for path in ("bentrevett/multi30k", tmp_path / "multi30k", tmp_path / "my captions.csv", "owner/captions")
    )
    assert [hub_id(recipe) for recipe in (there, elsewhere)] == ["bentrevett/multi30k"] * 2
    assert [hub_id(recipe) for recipe in (own, theirs)] == [None, "owner/captions"]
    shown = [for_other_machines(recipe).task.data.path for recipe in (there, elsewhere, own, theirs)]
    assert shown == ["bentrevett/multi30k", "bentrevett/multi30k", "my captions.csv", "owner/captions"]
    vectors = load_recipe(recipes / "self_attentive_sst2_glove.yaml", [f"task.data.word_vectors={tmp_path / 'a.txt'}"])
    assert for_other_machines(vectors).task.data.word_vectors == "a.txt"
    graphs = load_recipe(recipes / "attentional_rnn_multi30k.yaml", ["training.cuda_graphs=true"])
    assert not for_other_machines(graphs).training.cuda_graphs
    assert hub_id(vectors) == "SetFit/sst2"


def test_a_card_for_cmudict_has_published_figures_beside_its_own() -> None:
    assert "23.55" in str(CMUDICT.published)
    assert str(CMUDICT.published) in (ROOT / "model_cards" / "attentional-rnn-g2p-cmudict" / "README.md").read_text()


def test_a_weight_that_half_precision_cannot_hold_is_not_released(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    model = AutoModelForSeq2SeqLM.from_pretrained(run / "best")
    model.lm_head.weight.data[0, 0] = 1e5
    model.save_pretrained(tmp_path / "run" / "best")
    with pytest.raises(SystemExit, match=r"lm_head\.weight has values that half precision cannot hold"):
        release.main([str(tmp_path / "run"), str(tmp_path / "folder")])


def _words_of(dictionary: Path, split: str) -> list[str]:
    return GraphemeToPhoneme(str(dictionary)).splits[split]["word"][:]
