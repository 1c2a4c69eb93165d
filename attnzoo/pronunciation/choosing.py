"""Which pronunciation a word has in its text: by its sentence, by the next word, or by its part of speech."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from .. import phone_sets
from ..phone_sets import Phones
from .lexicons import Entry
from .readings import ReadingModel, sentence_of
from .spoken import SpokenWord, Variant, as_read, as_tagged
from .taggers import Tagger, installed_tagger, tags_by_neighbours
from .text import Token

Parts = list[list[Any]]  # the spoken words of every token of a text; None for a word without a pronunciation


class Chooser:
    """Puts the variant of a spoken word first that it has in its text.

    The classifier of sentences decides for words of its own. "the" depends on the sound that follows. Words whose
    variants have parts of speech have the one of their tag.

    Args:
        readings: the words that the classifier knows, with the phones of every reading
        tagger: see :class:`~attnzoo.pronunciation.Pronouncer`
        phone_set: that of the dictionary
        lexicon_set: that of the user's lexicon
        variants: the variants of entries in a phone set, as the pronouncer writes them
    """

    def __init__(
        self,
        readings: Mapping[str, Mapping[str, Phones]],
        tagger: Tagger | None,
        phone_set: str,
        lexicon_set: str,
        variants: Callable[[Iterable[Entry], str], tuple[Variant, ...]],
    ) -> None:
        self.readings, self.tagger = readings, tagger
        self.phone_set, self.lexicon_set, self.variants = phone_set, lexicon_set, variants

    @cached_property
    def _reading_model(self) -> ReadingModel:
        return ReadingModel()

    def __call__(self, texts: Sequence[list[Token]], spoken: Sequence[Parts]) -> list[Parts]:
        """The spoken words of every text.

        Raises:
            ValueError: the tagger does not return a tag for each word.
        """
        in_sentences = self._in_sentences(texts, spoken)
        return [self._in_context(*of_text) for of_text in zip(texts, spoken, in_sentences, strict=True)]

    def _in_sentences(self, texts: Sequence[list[Token]], spoken: Sequence[Parts]) -> list[dict[int, SpokenWord]]:
        """The words of every text that the classifier knows, by their places, with the most probable variant first."""
        places = [
            (number, place)
            for number, parts in enumerate(spoken)
            if sum(token.kind != "punctuation" for token in texts[number]) > 1  # else there is no sentence
            for place, some in enumerate(parts)
            if len(some) == 1 and some[0] and some[0].source == "dictionary" and some[0].word.lower() in self.readings
        ]
        found: list[dict[int, SpokenWord]] = [{} for _ in texts]
        if not places:
            return found
        readings = [self.readings[spoken[number][place][0].word.lower()] for number, place in places]
        sentences = [sentence_of(texts[number], place) for number, place in places]
        probabilities = self._reading_model(sentences, readings)
        for (number, place), phones_of, probability in zip(places, readings, probabilities, strict=True):
            written = {
                name: self.variants([Entry(phones)], self.phone_set)[0].phonemes for name, phones in phones_of.items()
            }
            found[number][place] = as_read(spoken[number][place][0], written, probability)
        return found

    def _in_context(self, tokens: list[Token], parts: Parts, in_sentence: Mapping[int, SpokenWord]) -> Parts:
        """The parts, with the variant first that the word has in its sentence (``in_sentence``, by the word's place),
        before a vowel, or by its part of speech.
        """
        parts = [[in_sentence[place]] if place in in_sentence else some for place, some in enumerate(parts)]
        for place, some in enumerate(parts[:-1]):
            following = parts[place + 1]
            if tokens[place].text.lower() == "the" and some[0] and some[0].source == "dictionary" and any(following):
                parts[place] = [self._before(some[0], following[0])]
        of_several = [
            spoken
            for place, some in enumerate(parts)
            for spoken in some
            if place not in in_sentence and spoken and any(one.parts_of_speech for one in spoken.variants)
        ]
        if not of_several or len(tokens) == 1:
            return parts
        tagger = self.tagger or installed_tagger() or tags_by_neighbours
        tags = list(tagger([token.text for token in tokens]))
        if len(tags) != len(tokens) or not all(isinstance(tag, str) for tag in tags):
            raise ValueError(f"the tagger must return a tag for each of the {len(tokens)} words, got {tags!r}")
        for place, token in enumerate(tokens):
            if token.text.lower() == "used":  # misaki lists that of "used to" as the past tense
                is_habit = tags[place] in ("VBD", "JJ") and [one.text.lower() for one in tokens[place + 1 :][:1]] == [
                    "to"
                ]
                tags[place] = "VBD" if is_habit else "VBN"
        return [
            some if place in in_sentence else [as_tagged(spoken, tags[place]) for spoken in some]
            for place, some in enumerate(parts)
        ]

    def _before(self, the: SpokenWord, following: SpokenWord | None) -> SpokenWord:
        """The word "the" before another word."""
        phones = phone_sets.without_stress(following.variants[0].phones) if following else ()
        phone_set = self.lexicon_set if following and following.source == "lexicon" else self.phone_set
        starts_with_vowel = phones != () and phone_sets.is_vowel(phones[0], phone_set)
        weak = phone_sets.split(phone_sets.THE[self.phone_set][0 if starts_with_vowel else 1], self.phone_set)
        return the._replace(
            variants=self.variants([Entry(weak), *(Entry(one.phones) for one in the.variants)], self.phone_set)
        )
