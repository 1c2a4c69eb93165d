"""Parts of speech, which choose between the pronunciations of a heteronym such as "read" or "record"."""

import importlib.util
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
    if importlib.util.find_spec("spacy") is None or importlib.util.find_spec(SPACY_MODEL) is None:
        return None
    spacy: Any = importlib.import_module("spacy")
    pipeline = spacy.load(SPACY_MODEL, enable=["tok2vec", "tagger"])

    def tags(words: list[str]) -> list[str]:
        return [token.tag_ for token in pipeline(spacy.tokens.Doc(pipeline.vocab, words=words))]

    return tags


def _nltk_tagger() -> Tagger | None:
    if importlib.util.find_spec("nltk") is None:
        return None
    nltk: Any = importlib.import_module("nltk")
    try:
        nltk.pos_tag(["a"])
    except LookupError:  # its model is not there
        return None
    return lambda words: [tag for _, tag in nltk.pos_tag(words)]
