"""Parts of speech. They choose between the pronunciations of a heteronym such as "read" or "record"."""

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Tagger = Callable[[list[str]], Sequence[str]]  # the words of a text to their Penn Treebank tags
SPACY_MODEL = "en_core_web_sm"
# The parts of speech of misaki's dictionary, by the beginnings of Penn Treebank tags.
PARTS_OF_SPEECH = {"VB": "VERB", "NN": "NOUN", "RB": "ADV", "JJ": "ADJ"}
INSTEAD = {"JJ": "NOUN", "NN": "ADJ"}  # both come before a noun, and a word may be listed as only one of them


# Words that show the part of speech of their neighbours, for :func:`tags_by_neighbours`.
FUNCTION_WORDS = {
    "determiner": "a all an another any each every her his its my no our some the their these this those your",
    "preposition": "about at between by for from in into of on over per under with within without",
    "object": "him it me them us",
    "before a verb": "can can't cannot could couldn't did didn't do does doesn't don't i let's may might must never "
    "not please shall should shouldn't they to we who will won't would wouldn't you",
    "have": "had has have having",
    "be": "am are be been being is was were",
    "adverb": "already also always just never not often only",
    "other": "and as but if or than",
    "participle": "misread read reread wound",  # participles that do not end in d
}
DETERMINERS, PREPOSITIONS, PRONOUNS, BEFORE_VERB, HAVE, BE, ADVERBS, OTHERS, PAST = (
    frozenset(words.split()) for words in FUNCTION_WORDS.values()
)
OBJECTS = DETERMINERS | PRONOUNS
NO_NOUNS = DETERMINERS | PREPOSITIONS | BEFORE_VERB | HAVE | BE | ADVERBS | OTHERS


def tags_by_neighbours(words: list[str]) -> list[str]:
    """Penn Treebank tags by the words before and after, without a model; "" where these do not decide.

    A determiner or a preposition is before a noun or an adjective; "to", an auxiliary or a pronoun before a verb; a
    form of "have" or "be" before a participle or an adjective. A verb is before a determiner.
    """
    small = [word.lower().replace("\u2019", "'") for word in words]
    return [
        "" if word[:1].isupper() and place and words[place - 1].isalnum() else _tag_by_neighbours(small, place)
        for place, word in enumerate(words)
    ]


def _tag_by_neighbours(words: list[str], place: int) -> str:
    """The tag of the word at this place, in lowercase, or ""."""
    before, word, after = (words[i] if 0 <= i < len(words) else "." for i in (place - 1, place, place + 1))
    two_before = words[place - 2] if place > 1 else "."
    auxiliary = two_before if before in ADVERBS else before
    if auxiliary in BE or auxiliary in HAVE:
        is_participle = word in PAST or word.endswith("ed")
        return "VBN" if is_participle else "JJ" if auxiliary in BE else ""
    if after in ("of", "case", "cases"):  # the use cases
        return "NN"
    if before in BEFORE_VERB:
        return "VB"
    is_after_noun = two_before in DETERMINERS and before.isalpha() and before not in NO_NOUNS
    if before in DETERMINERS or before in PREPOSITIONS:
        return "JJ" if word.isalpha() and after.isalpha() and after not in NO_NOUNS else "NN"
    if is_after_noun and after not in OBJECTS:
        return "NN"
    return "VB" if after in OBJECTS else ""


@cache
def installed_tagger() -> Tagger | None:
    """SpaCy's tagger or NLTK's, if it is installed with its model; nothing is downloaded."""
    return _spacy_tagger() or _nltk_tagger()


def parts_of_speech(tag: str) -> tuple[str, ...]:
    """The names that misaki's dictionary may have for a Penn Treebank tag, the narrowest first."""
    names = tag, PARTS_OF_SPEECH.get(tag[:2], tag)
    return (*names, INSTEAD[tag]) if tag in INSTEAD else names


def _spacy_tagger() -> Tagger | None:
    spacy = _imported("spacy")
    if spacy is None or importlib.util.find_spec(SPACY_MODEL) is None:
        return None
    try:
        pipeline = spacy.load(SPACY_MODEL, enable=["tok2vec", "tagger"])
        tag = pipeline(spacy.tokens.Doc(pipeline.vocab, words=["a"]))[0].tag_
    except Exception as error:  # any package may be installed under this name
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
    except LookupError:  # its model is not installed
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
    """Warn that a tagger is not used."""
    warnings.warn(
        f"{what} {why}; words of several pronunciations are read without it. Install it again, or give a tagger",
        stacklevel=2,
    )
