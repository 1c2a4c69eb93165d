"""Taggers are used if they are installed with their models; nothing is downloaded."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnzoo.pronunciation import taggers


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__spec__=object(), **members))


def test_nltk_with_its_model_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "nltk", pos_tag=lambda words: [(word, "NN") for word in words])
    tagger = taggers._nltk_tagger()
    assert tagger is not None
    assert tagger(["a", "b"]) == ["NN", "NN"]

    def missing(words: list[str]) -> None:
        raise LookupError("Resource averaged_perceptron_tagger_eng not found")

    stand_in(monkeypatch, "nltk", pos_tag=missing)
    assert taggers._nltk_tagger() is None


def test_spacy_with_its_model_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """spaCy gets the words of the text and does not split them again."""
    documents = SimpleNamespace(Doc=lambda vocab, words: [SimpleNamespace(tag_=f"{vocab}-{word}") for word in words])

    class Pipeline:
        vocab = "tag"

        def __call__(self, document: Any) -> Any:
            return document

    stand_in(monkeypatch, "spacy", load=lambda name, enable: Pipeline(), tokens=documents)
    monkeypatch.setattr(taggers, "SPACY_MODEL", "no_such_model_of_spacy")
    assert taggers._spacy_tagger() is None
    stand_in(monkeypatch, "no_such_model_of_spacy")
    tagger = taggers._spacy_tagger()
    assert tagger is not None
    assert tagger(["rock-n-roll", "is"]) == ["tag-rock-n-roll", "tag-is"]


@pytest.mark.parametrize("content", ["", "raise RuntimeError('broken')", "load = 3"])
def test_what_cannot_be_loaded_is_no_tagger(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a folder without a model, or another package of this name, the text is read with a warning."""
    (tmp_path / "broken_model_of_spacy").mkdir()
    (tmp_path / "broken_model_of_spacy" / "__init__.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(taggers, "SPACY_MODEL", "broken_model_of_spacy")
    with pytest.warns(UserWarning, match="broken_model_of_spacy cannot be loaded"):
        assert taggers._spacy_tagger() is None

    def failing(words: list[str]) -> None:
        raise OSError(content)

    stand_in(monkeypatch, "nltk", pos_tag=failing)
    with pytest.warns(UserWarning, match="NLTK's tagger cannot be used"):
        assert taggers._nltk_tagger() is None


def test_a_tag_has_the_names_of_misakis_dictionary() -> None:
    assert taggers.parts_of_speech("VBD") == ("VBD", "VERB")
    assert taggers.parts_of_speech("NNP") == ("NNP", "NOUN")
    assert taggers.parts_of_speech("DT") == ("DT", "DT")
    assert taggers.parts_of_speech("JJ") == ("JJ", "ADJ", "NOUN")  # a noun before a noun, as in "a use case"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("the *use of it", "NN"),
        ("for *use with", "NN"),
        ("a daily *record of", "NN"),
        ("an *invalid name is", "JJ"),
        ("to *use it", "VB"),
        ("you can't *use it", "VB"),
        ("which *rejects the text", "VB"),
        ("*Use the file", "VB"),
        ("it has *read the text", "VBN"),
        ("it was not *read by", "VBN"),
        ("it is *close to", "JJ"),
        ("a *two-minute talk", "NN"),
        ("in *Polish waters", ""),  # a name
        ("*Digest", ""),
    ],
)
def test_without_a_tagger_the_words_beside_it_tell_a_part_of_speech(text: str, tag: str) -> None:
    words = text.split()
    place = next(place for place, word in enumerate(words) if word[0] == "*")
    assert taggers.tags_by_neighbours([word.removeprefix("*") for word in words])[place] == tag
