"""The table of results: what it measures, keeps and compares."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from attnzoo.training import results
from attnzoo.training.data.pronunciations import PronunciationData
from attnzoo.training.make_data import test_words as parts
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

ROOT = Path(__file__).parents[2]
STORED = results.read_rows(ROOT / "results" / "results.csv")


def test_rows_are_measured_kept_and_compared(
    run: Path, dictionary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cards, folder = tmp_path / "cards", tmp_path / "results"
    shutil.copytree(run / "best", cards / "tiny")
    folder.mkdir()
    recipe = cards / "tiny" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("path: regular.dict", f"path: {dictionary}"))
    other = shutil.copy(dictionary, tmp_path / "other.dict")
    sets = [("other words", ["*"], f"task.data.path={other}"), ("no words", ["ti*"], "task.data.path=none.dict")]
    sets.append(("not of this model", ["*-de"], "task.data.path=none.dict"))
    entries = [{"name": name, "about": "a test", "models": of, "set": [key]} for name, of, key in sets]
    (folder / "test_sets.yaml").write_text(json.dumps(entries))

    with pytest.raises(ValueError, match=r"^1 of 3 were not measured"):
        results.refill(cards, folder, ["tiny"])
    assert "tiny, no words: error: task.data.path is 'none.dict'" in capsys.readouterr().err
    rows = results.read_rows(folder / "results.csv")
    figures = json.loads((run / "run.json").read_text())["validation"]
    assert [row["test_set"] for row in rows] == ["own"] * 2 + ["other words"] * 2
    assert {row["metric"] for row in rows} == {"per", "wer"} <= figures.keys()
    assert rows[0]["command"] == "attnzoo evaluate tiny"
    assert float(rows[0]["low"]) <= float(rows[0]["value"]) <= float(rows[0]["high"])

    rows[0]["value"], rows[1]["tolerance"] = f"{float(rows[0]['value']) + 0.06:.2f}", "5"
    rows.append(rows[1] | {"test_set": "no words"})
    results.write_rows(folder / "results.csv", rows)
    entries = entries[:1]
    (folder / "test_sets.yaml").write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=r"figures that differ from .*: 1\ntiny, own, per: .*, stored .*, tolerance 0"):
        results.refill(cards, folder, ["tiny"], check=True)
    results.refill(cards, folder, ["tiny"])
    after = results.read_rows(folder / "results.csv")
    assert [row["tolerance"] for row in after] == ["0.05", "5", "0.05", "0.05", "5"]
    assert after[-1] == rows[-1]
    with pytest.raises(FileNotFoundError, match="has no model huge"):
        results.refill(cards, folder, ["huge"])


def test_every_trained_model_has_its_rows_and_they_are_those_of_its_release() -> None:
    todo = results.measurements(ROOT / "model_cards", results.read_test_sets(ROOT / "results" / "test_sets.yaml"), "*")
    assert {(row["model"], row["test_set"]) for row in STORED} == {(one.folder.name, one.test_set) for one in todo}
    for row in STORED:
        if row["test_set"] == results.OWN:
            released = json.loads((ROOT / "model_cards" / row["model"] / "run.json").read_text())["test"]
            assert float(row["value"]) == pytest.approx(released[row["metric"]], abs=float(row["tolerance"])), row


def test_five_figures_are_measured_again(tmp_path: Path) -> None:
    """Those of a model whose data is an installed package."""
    name = "attentional-rnn-g2p-it"
    assert len([row for row in STORED if (row["model"], row["test_set"]) == (name, results.OWN)]) == 5
    results.write_rows(tmp_path / "results.csv", STORED)
    (tmp_path / "test_sets.yaml").write_text("[]")
    results.refill(ROOT / "model_cards", tmp_path, [name], check=True)


def test_a_damaged_list_of_test_sets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test_sets.yaml"
    path.write_text("- {name: a, about: b, models: [c]}\n")
    with pytest.raises(ValueError, match="an entry has the keys name, about, models, set"):
        results.read_test_sets(path)


def test_the_table_can_be_read_by_anyone() -> None:
    with (ROOT / "results" / "results.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == results.COLUMNS


@pytest.mark.parametrize("kind", parts.KINDS)
def test_a_part_of_the_test_words_is_a_test_set(
    kind: str, run: Path, dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out = tmp_path / "model", tmp_path / "words"
    shutil.copytree(run / "best", model)
    recipe = model / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("path: regular.dict", f"path: {dictionary}"))
    held_out = {row["word"]: row["pronunciations"] for row in GraphemeToPhoneme(str(dictionary)).splits["test"]}
    lengths = sorted({len(word) for word in held_out})
    monkeypatch.setattr(parts, "LETTERS", lengths[1])
    some = {*sorted(held_out)[:3], "not in the data"}
    monkeypatch.setattr(parts, "names", lambda: some)
    parts.main([str(model), kind, str(out)])
    kept = GraphemeToPhoneme(PronunciationData(path=str(out)), "test").splits["test"]
    wanted = {word for word in held_out if (word in some if kind == "names" else len(word) >= lengths[1])}
    assert {row["word"]: row["pronunciations"] for row in kept} == {word: held_out[word] for word in wanted}
    assert 0 < len(wanted) < len(held_out)
    with pytest.raises(SystemExit, match="File exists"):
        parts.main([str(model), kind, str(out)])
