"""The results of a pronouncer, and the records that they are made from."""

import html
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..alignment import AlignedPair
from ..messages import shown_each
from ..phone_sets import Phones
from .taggers import parts_of_speech
from .text import Token

WordSource = Literal["lexicon", "rules", "dictionary", "model", "punctuation", "unknown"]
SOURCES: tuple[WordSource, ...] = ("lexicon", "rules", "dictionary", "model")  # the surest first


class Variant(NamedTuple):
    """One pronunciation of a word.

    Attributes:
        phonemes: the pronunciation as the pronouncer writes it
        confidence: for a model, the probability of this pronunciation among those that the beam search found, see
            :func:`~attnzoo.pronunciation.confidences`; None after a greedy search. 1 if it is listed. For a reading
            that the classifier of sentences chose, its probability among the readings of the word; None for a
            pronunciation that is none of them
        parts_of_speech: those that it is listed for: "NOUN", "VERB", "ADJ", "ADV" or Penn Treebank tags; empty for any
        phones: its phones in ARPABET or Kokoro's set, one by one; empty for a user's lexicon
    """

    phonemes: str
    confidence: float | None
    parts_of_speech: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()


class Word(NamedTuple):
    """A word of a text, or its punctuation, with its pronunciation.

    Attributes:
        text: as it is written
        phonemes: its pronunciation; for punctuation the text, without HTML's entities; None if it has none. Between the
            spoken words of a number there are spaces
        source: where the pronunciation comes from; for several spoken words the least sure source. "rules": names of
            letters
        confidence: that of ``phonemes``, see :class:`Variant`; for several spoken words the product
        variants: the listed pronunciations, or the model's n best, with the chosen one first; empty for several spoken
            words, punctuation and unknown words
        alignments: on request, for every spoken word the alignment of its letters and its phones; None for one that the
            model cannot read
        space: the white space after it
        phones: the phones of every spoken word, one by one, see :class:`Variant`
    """

    text: str
    phonemes: str | None
    source: WordSource
    confidence: float | None = None
    variants: tuple[Variant, ...] = ()
    alignments: tuple[AlignedPair | None, ...] = ()
    space: str = ""
    phones: tuple[Phones, ...] = ()


class SpokenWord(NamedTuple):
    """A spoken word with its pronunciations, the best first."""

    word: str
    source: WordSource
    variants: tuple[Variant, ...]


class SpokenToken(NamedTuple):
    """A token of a text and its spoken words, from which a :class:`Word` is made. A word without a pronunciation is
    None.
    """

    text: str
    kind: str
    spoken: list[Any]
    space: str = ""


def kind_of(tokens: Sequence[Token]) -> str:
    """The kind of several tokens together: unknown if one of them is."""
    kinds = {token.kind for token in tokens}
    return "unknown" if "unknown" in kinds or not kinds else "punctuation" if kinds == {"punctuation"} else "word"


def as_tagged(spoken: SpokenWord | None, tag: str) -> SpokenWord | None:
    """A spoken word with the variant of this Penn Treebank tag first."""
    if spoken is None:
        return None
    for name in parts_of_speech(tag):
        if any(name in one.parts_of_speech for one in spoken.variants):
            ordered = sorted(spoken.variants, key=lambda one: name not in one.parts_of_speech)
            return spoken._replace(variants=tuple(ordered))
    return spoken


def as_read(spoken: SpokenWord, readings: Mapping[str, str], probability: Mapping[str, float]) -> SpokenWord:
    """A spoken word with the variant of its most probable reading first; ``readings`` has the phonemes of each.

    It stays as it is if it has no such variant: misaki lists "Polish" apart from "polish".
    """
    confidence: dict[str, float] = {}
    for name, phonemes in readings.items():  # two readings may be written alike
        confidence[phonemes] = confidence.get(phonemes, 0.0) + probability[name]
    if max(confidence, key=lambda one: confidence[one]) not in {one.phonemes for one in spoken.variants}:
        return spoken
    variants = [one._replace(confidence=confidence.get(one.phonemes)) for one in spoken.variants]
    return spoken._replace(variants=tuple(sorted(variants, key=lambda one: one.confidence or 0.0, reverse=True)))


def word_of(token: SpokenToken, alignments: Mapping[tuple[str, Phones], AlignedPair | None] | None) -> Word:
    """The word that a token of a text makes."""
    text, kind, spoken, space = token
    if kind == "punctuation":
        return Word(text, html.unescape(text), "punctuation", space=space)
    if kind == "unknown" or not spoken or None in spoken:
        return Word(text, None, "unknown", space=space)
    best = [one.variants[0] for one in spoken]
    certain = [variant.confidence for variant in best if variant.confidence is not None]
    return Word(
        text,
        " ".join(variant.phonemes for variant in best),
        max((one.source for one in spoken), key=SOURCES.index),
        math.prod(certain) if len(certain) == len(best) else None,
        spoken[0].variants if len(spoken) == 1 else (),
        () if alignments is None else tuple(alignments.get((one.word, one.variants[0].phones)) for one in spoken),
        space,
        tuple(variant.phones for variant in best),
    )


def warn_of_unknown(words: Iterable[Word]) -> None:
    """Warn the caller's caller of words without a pronunciation, which it leaves out."""
    unknown = dict.fromkeys(word.text for word in words if word.source == "unknown")
    if unknown:
        warnings.warn(f"left out, since they have no pronunciation: {shown_each(unknown)}", stacklevel=3)
