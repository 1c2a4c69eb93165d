"""Parts of speech, which choose between the pronunciations of a heteronym such as "read" or "record"."""

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Tagger = Callable[[list[str]], Sequence[str]]  # the words of a text to their Penn Treebank tags
SPACY_MODEL = "en_core_web_sm"
# The parts of speech of misaki's dictionary, by the beginnings of Penn Treebank tags.
PARTS_OF_SPEECH = {"VB": "VERB", "NN": "NOUN", "RB": "ADV", "JJ": "ADJ"}


@cache
def installed_tagger() -> Tagger | None:
    """SpaCy's tagger or NLTK's, if it is installed with its model; nothing is downloaded."""
    return _spacy_tagger() or _nltk_tagger()


def parts_of_speech(tag: str) -> tuple[str, ...]:
    """The names that misaki's dictionary may have for a Penn Treebank tag, the narrowest first."""
    return tag, PARTS_OF_SPEECH.get(tag[:2], tag)


def _spacy_tagger() -> Tagger | None:
    spacy = _imported("spacy")
    if spacy is None or importlib.util.find_spec(SPACY_MODEL) is None:
        return None
    try:
        pipeline = spacy.load(SPACY_MODEL, enable=["tok2vec", "tagger"])
        tag = pipeline(spacy.tokens.Doc(pipeline.vocab, words=["a"]))[0].tag_
    except Exception as error:  # of whatever is installed under this name
        _warned(f"spaCy's {SPACY_MODEL}", f"cannot be loaded ({error})")
        return None
    if not tag:
        _warned(f"spaCy's {SPACY_MODEL}", "has no tagger")
        return None

    def tags(words: list[str]) -> list[str]:
        return [token.tag_ for token in pipeline(spacy.tokens.Doc(pipeline.vocab, words=words))]

    return tags


def _nltk_tagger() -> Tagger | None:
    nltk = _imported("nltk")
    if nltk is None:
        return None
    try:
        nltk.pos_tag(["a"])
    except LookupError:  # its model is not there
        return None
    except Exception as error:
        _warned("NLTK's tagger", f"cannot be used ({error})")
        return None
    return lambda words: [tag for _, tag in nltk.pos_tag(words)]


def _imported(name: str) -> Any:
    """A package, or None if it is not installed or cannot be imported."""
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.import_module(name)
    except Exception as error:
        _warned(f"the package {name}", f"cannot be imported ({error})")
        return None


def _warned(what: str, why: str) -> None:
    """Say that a tagger is left out."""
    warnings.warn(
        f"{what} {why}; words of several pronunciations are read without it. Install it again, or give a tagger",
        stacklevel=2,
    )
