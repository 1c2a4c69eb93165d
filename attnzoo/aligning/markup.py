"""Markup of a source text carried over to its translation, by the alignment of their words."""

import html
import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import takewhile
from typing import NamedTuple

from ..alignment import Links
from ..messages import described

# A comment, a processing instruction, a declaration such as <!DOCTYPE html>, or a tag. Only a tag has a name.
TAG = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<![A-Za-z][^<>]*>"
    r"|<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^<>\"'])*?)(?P<empty>/?)>",
    re.DOTALL,
)
# An entity, a word with its hyphens and apostrophes, or a single other character.
UNIT = re.compile(r"&(?:#\d+|#x[0-9A-Fa-f]+|\w+);|\w+(?:[-'\u2019]\w+)*|[^\w\s]")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}  # HTML's


class Element(NamedTuple):
    """An open element of the source: its number, which makes it unique, and its start tag."""

    number: int
    start: str
    name: str


Elements = tuple[Element, ...]  # around a word, the outermost first


class Alone(NamedTuple):
    """Tags without a word: the number of the source word that follows them, their text, the elements around them."""

    place: int
    text: str
    around: Elements


def transfer_markup(source: str, target: str, aligner: Callable[[list[str], list[str]], Links]) -> str:
    """The target with the tags of the source around the words that are translations of each other.

    ::

        def aligner(source_words, target_words):
            return align(model, tokenizer, [source_words], [target_words])[0].links

        transfer_markup("A <b>red</b> car", "Ein rotes Auto", aligner)  # 'Ein <b>rotes</b> Auto'

    Tags are those of HTML and XML. A target word gets the elements around the source word that it is linked with. If it
    has several links, it gets the elements that most of these source words have. A target word without a link gets the
    elements that both of its neighbours share. If the words of an element are not adjacent in the target, the element
    is split. The result is always well formed. An element around a part of a word is put around the whole word. An
    element without a word, such as ``<br>``, is put before the translation of the next word. So is an element whose
    words have no translation, without content. So are comments (``<!-- ... -->``), declarations and processing
    instructions, whole: their words are not aligned.

    Words, punctuation marks and entities (``&amp;``) are aligned one by one.

    Args:
        source: a text with tags
        target: its translation, without tags
        aligner: returns the links (source word, target word) of two lists of words

    Raises:
        ValueError: the tags of the source are not well formed, or the target has tags; or the aligner gave a link
            of a word that is not there.
        TypeError: an argument is of another type.
    """
    for name, text in (("source", source), ("target", target)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a text, got {described(text)}")
    if not callable(aligner):
        raise TypeError(f"aligner must be a function of two lists of words, got {described(aligner)}")
    if TAG.search(target):
        raise ValueError(f"target must have no tags, got {target!r}")
    words, around, alone = _read(source)
    units = list(UNIT.finditer(target))
    links: Links = set()
    if words and units:
        links = set(aligner(words, [html.unescape(unit[0]) for unit in units]))
        if outside := sorted((s, t) for s, t in links if not (0 <= s < len(words) and 0 <= t < len(units))):
            counts = f"{len(words)} source words and {len(units)} target words"
            raise ValueError(f"the aligner gave the link {outside[0]} for {counts}; words are counted from 0")
    around_units = _around_target(around, len(units), links)
    used = {element for elements in around_units for element in elements}
    seen: set[Element] = set()
    for place, elements in enumerate(around):  # elements whose words have no translation
        for depth, element in enumerate(elements):
            if element not in used and element not in seen:
                alone.append(Alone(place, f"{element.start}</{element.name}>", elements[:depth]))
                seen.add(element)
    before: dict[int, list[Alone]] = {}
    for one in sorted(alone, key=lambda one: one.place):
        linked = [s for s, _ in links if s >= one.place]
        place = min((t for s, t in links if s == min(linked)), default=len(units)) if linked else len(units)
        before.setdefault(place, []).append(one)
    return _written(target, units, around_units, before)


def _read(source: str) -> tuple[list[str], list[Elements], list[Alone]]:
    """The words of a source, the elements around each of them, and the tags without a word."""
    words: list[str] = []
    around: list[Elements] = []
    alone: list[Alone] = []
    opened: list[tuple[Element, int, int]] = []  # with the numbers of words and of tags without a word before each
    position = number = 0
    if "<!--" in TAG.sub("", source):
        raise ValueError("source is not well formed: a comment, <!--, has no end, -->")
    for tag in TAG.finditer(source):
        _add_words(source[position : tag.start()], words, around, opened)
        position, name = tag.end(), tag["name"]
        elements = tuple(element for element, _, _ in opened)
        if tag["end"]:
            if not opened or opened[-1][0].name != name:
                inside = f"{opened[-1][0].start}" if opened else "no element"
                raise ValueError(f"source is not well formed: {tag[0]} at character {tag.start()} is inside {inside}")
            element, words_before, alone_before = opened.pop()
            if words_before == len(words):
                inner = "".join(one.text for one in alone[alone_before:])
                alone[alone_before:] = [Alone(len(words), f"{element.start}{inner}{tag[0]}", elements[:-1])]
        elif not name or tag["empty"] or name.lower() in VOID:
            alone.append(Alone(len(words), tag[0], elements))
        else:
            opened.append((Element(number, tag[0], name), len(words), len(alone)))
            number += 1
    _add_words(source[position:], words, around, opened)
    if opened:
        raise ValueError(f"source is not well formed: {opened[-1][0].start} has no end tag")
    return words, around, alone


def _add_words(text: str, words: list[str], around: list[Elements], opened: Sequence[tuple[Element, int, int]]) -> None:
    for unit in UNIT.finditer(text):
        words.append(html.unescape(unit[0]))
        around.append(tuple(element for element, _, _ in opened))


def _around_target(around: list[Elements], count: int, links: Links) -> list[Elements]:
    """The elements around each of the target's words."""
    found: list[Elements | None] = []
    for target in range(count):
        of_links = [around[s] for s, t in sorted(links) if t == target]
        found.append(max(of_links, key=of_links.count) if of_links else None)  # the first of the most frequent ones
    everywhere = reduce(_shared, around) if around else ()
    filled: list[Elements] = []
    for target, elements in enumerate(found):
        if elements is None:
            left = next((one for one in reversed(found[:target]) if one is not None), everywhere)
            right = next((one for one in found[target:] if one is not None), everywhere)
            elements = _shared(left, right)
        filled.append(elements)
    return filled


def _shared(first: Elements, second: Elements) -> Elements:
    """The outer elements that both share."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return tuple(one for one, _ in pairs)


def _written(target: str, units: list[re.Match[str]], around: list[Elements], before: dict[int, list[Alone]]) -> str:
    """The target with its tags: the ends directly behind a word, the starts directly before one."""
    parts: list[str] = []
    current: Elements = ()
    position = 0
    for place in range(len(units) + 1):
        elements = around[place] if place < len(units) else ()
        shared = _shared(current, elements)
        parts += [f"</{element.name}>" for element in reversed(current[len(shared) :])]
        start = units[place].start() if place < len(units) else len(target)
        parts.append(target[position:start])
        waiting = before.get(place, [])
        for element in elements[len(shared) :]:
            parts += [one.text for one in waiting if element not in one.around]
            waiting = [one for one in waiting if element in one.around]
            parts.append(element.start)
        parts += [one.text for one in waiting]
        if place < len(units):
            parts.append(units[place][0])
            position = units[place].end()
        current = elements
    return "".join(parts)
