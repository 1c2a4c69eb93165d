"""Renaming of the rare words that a text shares with its summary."""

from pathlib import Path

import pytest
from attnzoo.training.tasks.renaming import COPIES, RARE, Renaming
from attnzoo.training.tasks.summarization import Summarization, SummaryData

from tests.training.runs import overrides, train_recipe

TEXT = "Gucumber reads features; GUCUMBER and gucumber-2 run. See paysal, café and 2024."
SUMMARY = "Runs gucumber and paysal, from 2024"
ROWS = [
    (TEXT, SUMMARY),
    *[(f"the café reads and runs see features {n}", f"the café runs {n}") for n in range(RARE + 1)],
]


def renamed(share: float) -> list[tuple[str, str]]:
    examples = Renaming(ROWS, share)({"source": [TEXT], "target": [SUMMARY]})
    return list(zip(examples["source"], examples["target"], strict=True))


def test_a_rare_shared_word_has_one_new_name_in_both_texts_in_its_own_case() -> None:
    pairs = renamed(1.0)
    assert len(pairs) == COPIES
    names = set()
    for source, target in pairs:
        words = target.removesuffix(", from 2024").split()
        assert [words[0], words[2]] == ["Runs", "and"]
        name, other = words[1], words[3]
        assert source == (
            f"{name.capitalize()} reads features; {name.upper()} and {name}-2 run. See {other}, café and 2024."
        )
        names |= {name, other}
    halves = {"gucu", "mber", "pay", "sal"}
    assert all(any(name.startswith(half) for half in halves) for name in names)
    assert names - {"gucumber", "paysal"}


def test_what_is_frequent_in_one_text_alone_or_a_number_stays() -> None:
    assert Renaming(ROWS, 1.0).rare == ["gucumber", "paysal"]
    assert Renaming([("one zebra", "two"), ("three", "four zebra")], 1.0).rare == []


def test_draws_are_the_same_in_every_run_and_follow_the_share() -> None:
    assert renamed(0.5) == renamed(0.5)
    assert set(renamed(0.0)) == {(TEXT, SUMMARY)}
    rows = [(f"word{n} is", f"word{n}") for n in range(500)]
    batch = {"source": [source for source, _ in rows], "target": [target for _, target in rows]}
    changed = Renaming(rows, 0.25)(batch)["target"]
    originals = [target for _, target in rows for _ in range(COPIES)]
    share = sum(new != old for new, old in zip(changed, originals, strict=True)) / len(originals)
    assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / len(originals)) ** 0.5 + 1 / 500)


def test_training_texts_alone_are_renamed(tmp_path: Path) -> None:
    for split, count in (("train", 40), ("validation", 5), ("test", 5)):
        lines = (f"about {split}{n} and more\tuses {split}{n}\n" for n in range(count))
        (tmp_path / f"{split}.tsv").write_text("description\tsynopsis\n" + "".join(lines))
    task = Summarization(SummaryData(path=str(tmp_path), vocabulary_size=60, renaming=0.5))
    assert len(task.training_rows()) == COPIES * 40
    assert set(task.training_rows()["source"]) - set(task.splits["train"]["source"])
    assert task.splits["test"]["target"] == [f"uses test{n}" for n in range(5)]
    sets = overrides("task.data", path=str(tmp_path), vocabulary_size=60, renaming=0.5)
    (tmp_path / "links").write_text("\n" * 40)
    for said, setting in (
        (r"needs one example for a row; set task\.data\.renaming=0", f"training.alignment_links={tmp_path}/links"),
        ("renaming must be from 0 to 1, got 1.5", "task.data.renaming=1.5"),
        (r"renaming needs all rows in memory; set task\.data\.streaming=false", "task.data.streaming=true"),
    ):
        with pytest.raises(SystemExit, match=said):
            train_recipe("attentional_rnn_debian", tmp_path / "refused", [*sets, "training.max_steps=1", setting])
