"""Pronunciation of many languages: WikiPron's words, their balance, and figures over languages."""

import csv
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest
from attnzoo.training.data.balanced_accents import balanced
from attnzoo.training.data.pronunciations import PronunciationData
from attnzoo.training.make_data import wikipron
from attnzoo.training.tasks import grapheme_to_phoneme
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

from tests.benchmarks import pronunciation_languages


def dictionary(folder: Path, name: str, words: list[tuple[str, str]]) -> None:
    (folder / wikipron.SCRAPED).mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{word}\t{said}\n" for word, said in words)
    (folder / wikipron.SCRAPED / f"{name}.tsv").write_text(lines, encoding="utf-8")


def numbered(count: int) -> list[tuple[str, str]]:
    """Words of letters that stand for the digits of a number."""
    return [("".join(chr(97 + int(digit)) for digit in str(n)), "a b") for n in range(count)]


def splits_of(source: Path, out: Path, *more: str) -> dict[str, list[tuple[str, str]]]:
    wikipron.main([str(source), str(out), *more])
    files = {split: datasets.Dataset.from_parquet(str(out / f"{split}.parquet")) for split in wikipron.SPLITS}
    return {split: list(zip(f["word"][:], f["pronunciation"][:], strict=True)) for split, f in files.items()}


def test_words_of_a_clone_are_divided_without_overlap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clone = tmp_path / "wikipron"
    dictionary(clone, "aaa_latn_broad", [("unread", "x")] * 700)
    dictionary(clone, "aaa_latn_broad_filtered", [*numbered(700), ("bcd", "s i"), ("j" * 41, "l o n g")])
    dictionary(clone, "bbb_latn_x_narrow", [*numbered(650), *((word.upper(), said) for word, said in numbered(650))])
    dictionary(clone, "few_latn_broad_filtered", numbered(599))
    dictionary(tmp_path / "task" / "x", "fra_dev", [])
    (tmp_path / "task" / "fra_dev.tsv").write_text("jjj\tk e p t\n", encoding="utf-8")
    found = splits_of(clone, tmp_path / "made", "--leave-out", str(tmp_path / "task"))
    words = {split: {word for word, _ in entries} for split, entries in found.items()}
    everything = set().union(*words.values())
    assert {word.partition("⟧")[0] for word in everything} == {"⟦aaa_latn", "⟦bbb_latn_x"}
    assert not {f"⟦aaa_latn⟧{word}" for word in ("unread", "j" * 41, "jjj")} & everything
    assert {said for entries in found.values() for word, said in entries if word == "⟦aaa_latn⟧bcd"} == {"a b", "s i"}
    assert sum(word.startswith("⟦aaa") for word in words["test"]) == 70
    assert sum(word.startswith("⟦aaa") for word in words["validation"]) == 35
    lower = {split: {word.lower() for word in of} for split, of in words.items()}
    assert len(lower["train"] | lower["validation"] | lower["test"]) == sum(map(len, lower.values())) == 1350
    assert re.search("train: .*, [1-9][0-9]* left out", capsys.readouterr().out)
    # The task takes the files as they are.
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path / "made"), normalization="nfd"))
    assert len(task.splits["test"]) == len(lower["test"])

    words = ["Ab", "xa", "ab", "ba", "b", "a", "ab"]
    rows = {"language": ["aaa_latn"] * 7, "word": words, "phones": ["a"] * 7}
    other = tmp_path / "other"
    other.mkdir()
    for split, of_split in (("test", [0, 1]), ("validation", [2, 3]), ("train", [4, 5, 6])):
        datasets.Dataset.from_dict(rows).select(of_split).to_parquet(other / f"{split}.parquet")
    made = splits_of(other, tmp_path / "again")  # "ab" is in two more splits, and no training word has an x
    assert {split: [word for word, _ in entries] for split, entries in made.items()} == {
        "train": ["⟦aaa_latn⟧b", "⟦aaa_latn⟧a"],
        "validation": ["⟦aaa_latn⟧ba"],
        "test": ["⟦aaa_latn⟧Ab"],
    }
    for source, message in ((tmp_path, "is neither a clone"), (clone, "File exists")):
        with pytest.raises(SystemExit, match=message):
            wikipron.main([str(source), str(tmp_path / "again")])


@pytest.mark.parametrize("exponent", [0, 0.5, 1])
def test_small_accents_get_more_turns(exponent: float) -> None:
    accents = ["large"] * 900 + ["small"] * 100 + ["tiny"] * 7
    rows = balanced(accents, exponent)
    turns = Counter(accents[row] for row in rows)
    for accent, count in Counter(accents).items():
        assert turns[accent] == pytest.approx(900 * (count / 900) ** exponent, abs=1)
        of_rows = Counter(row for row in rows if accents[row] == accent)
        assert len(of_rows) == count
        assert max(of_rows.values()) - min(of_rows.values()) <= 1


def test_many_accents_have_the_mean_of_their_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grapheme_to_phoneme, "MANY_ACCENTS", 2)
    lines = [f"⟦{name}⟧{word} a b\n" for name in ("xx", "yy", "zz_latn") for word, _ in numbered(40)]
    path = tmp_path / "three.dict"
    path.write_text("".join([*lines, "⟦zz_latn⟧jj a b\n"]), encoding="utf-8")
    task = GraphemeToPhoneme(str(path))
    rows = task.splits["test"]
    said = ["a b" if word.startswith(("⟦xx", "⟦zz")) else "a c" for word in rows["word"]]
    figures = task.measure("test", said)
    assert [figures[f"wer_{name}"] for name in ("xx", "yy", "zz_latn")] == [0, 100, 0]
    assert math.isclose(figures["wer_macro"], 100 / 3)
    assert math.isclose(figures["per_macro"], 50 / 3)
    assert [key for key in task.metric_names if key not in ("per", "wer")] == ["per_macro", "wer_macro"]


def test_the_loss_leaves_out_held_out_phonemes_that_nothing_teaches(tmp_path: Path) -> None:
    for split, lines in {"train": ["ab\ta b", "ba\tb a"], "validation": ["aa\ta a", "aa\ta x", "bb\tx"]}.items():
        text = "\n".join(["word\tpronunciation", *lines])
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    (tmp_path / "test.tsv").write_text("word\tpronunciation\nabb\tb x\n", encoding="utf-8")
    task = GraphemeToPhoneme(str(tmp_path))
    tokenizer = task.make_tokenizer()
    [example] = task.held_out_examples(tokenizer, "validation")
    assert tokenizer.decode(example["labels"], skip_special_tokens=True) == "a a"
    assert task.measure("validation", ["a a", "b"])["wer"] == 50  # its figures count them


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_balance_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"task\.data\.balance must be from 0 to 1"):
        PronunciationData(path="cmudict", balance=value)


def test_a_peer_is_trained_on_each_dictionary_by_itself_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer of this test says of every word what the first training word sounds like; it fails once."""
    sounds = {"⟦xx_latn⟧": ("a b", 60), "⟦yy_latn⟧": ("c d", 90), "⟦zz_latn⟧": ("e f", 40)}
    lines = [f"{name}{word} {said}\n" for name, (said, count) in sounds.items() for word, _ in numbered(count)]
    (tmp_path / "three.dict").write_text("".join(lines), encoding="utf-8")
    asked: list[int] = []

    def answers_of(peer: str, request: dict[str, Any]) -> list[str]:
        asked.append(len(request["train"]))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return [request["train"][0][1][0]] * len(request["words"])

    monkeypatch.setattr(pronunciation_languages, "answers_of", answers_of)
    arguments = ["phonetisaurus", "--set", f"task.data.path={tmp_path / 'three.dict'}"]
    arguments += ["--set", "task.data.balance=1", "--output", str(tmp_path / "figures.csv")]
    with pytest.raises(KeyboardInterrupt):
        pronunciation_languages.main(arguments)
    pronunciation_languages.main(arguments)
    rows = list(csv.DictReader((tmp_path / "figures.csv").open()))
    assert [row["dictionary"] for row in rows] == ["zz_latn", "xx_latn", "yy_latn"]  # the smallest first
    assert {(row["peer"], row["wer"], row["per_high"]) for row in rows} == {("phonetisaurus 0.3.0", "0.00", "0.00")}
    assert [int(row["train_words"]) for row in rows] == [asked[0], *asked[2:]]
    with pytest.raises(SystemExit):
        pronunciation_languages.main([*arguments, "--only", "qq_latn"])
