"""A finished run as a released model: small, complete, and described by what it was measured to do."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForSeq2SeqLM

from training import evaluate, release
from training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

ROOT = Path(__file__).parent.parent


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
    with pytest.raises(SystemExit, match="holds no finished training"):
        release.main([str(folder), str(tmp_path / "other")])
    with pytest.raises(SystemExit, match="num_beams must be at least 1, got 0"):
        release.main([str(run), str(folder), "--num-beams", "0"])
    assert (folder / "README.md").read_text() == card  # a release that fails leaves the one before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("place", ["run", "run/best", "theirs", "theirs/thesis.txt", "."])
def test_a_release_replaces_nothing_but_a_release(
    run: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.txt").write_text("years of work")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit, match=r"is a part of the run|holds something else than a release"):
        release.main(["run", place])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_card_for_cmudict_has_published_figures_beside_its_own() -> None:
    assert "23.55" in str(GraphemeToPhoneme("cmudict").published)
    card = (ROOT / "model_cards" / "attentional-rnn-g2p-cmudict" / "README.md").read_text()
    assert str(GraphemeToPhoneme("cmudict").published) in card


def test_a_weight_that_half_precision_cannot_hold_is_not_released(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    model = AutoModelForSeq2SeqLM.from_pretrained(run / "best")
    model.lm_head.weight.data[0, 0] = 1e5
    model.save_pretrained(tmp_path / "run" / "best")
    with pytest.raises(SystemExit, match=r"lm_head\.weight has values that half precision cannot hold"):
        release.main([str(tmp_path / "run"), str(tmp_path / "folder")])


def _words_of(dictionary: Path, split: str) -> list[str]:
    return GraphemeToPhoneme(str(dictionary)).splits[split]["word"][:]
