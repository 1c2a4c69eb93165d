"""Tags of a source in its translation: around the right words, and always well formed."""

import random
import re
import xml.etree.ElementTree as ElementTree

import pytest

from attnzoo import transfer_markup
from attnzoo.alignment import Links


def linked(*pairs: tuple[int, int]) -> object:
    return lambda source, target: set(pairs)


ONE_TO_ONE = lambda source, target: {(n, n) for n in range(min(len(source), len(target)))}  # noqa: E731


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("A <b>red</b> car", "Ein rotes Auto", ONE_TO_ONE, "Ein <b>rotes</b> Auto"),
        ("A <b>red</b> car.", "Coche rojo.", linked((1, 1), (2, 0), (3, 2)), "Coche <b>rojo</b>."),
        ("<p>A <b>red</b> car</p>", "Ein Auto, rot!", linked((0, 0), (2, 1), (1, 3)), "<p>Ein Auto, <b>rot</b>!</p>"),
        # The words are apart: two pieces.
        (
            "I <i>gave up</i> now",
            "gab ich nun auf",
            linked((1, 0), (0, 1), (3, 2), (2, 3)),
            "<i>gab</i> ich nun <i>auf</i>",
        ),
        # A word without a link between two words of one element, and one at its edge.
        ("<i>a b</i> c", "x y z w", linked((0, 0), (1, 2), (2, 3)), "<i>x y z</i> w"),
        ("<i>a</i> b", "x y z", linked((0, 0), (1, 2)), "<i>x</i> y z"),
        # Nested, and attributes in quotes.
        ('<a href="x>y"><b>a</b> b</a>', "y x", linked((0, 1), (1, 0)), '<a href="x>y">y <b>x</b></a>'),
        # Without a word.
        ("a<br>b", "x y", ONE_TO_ONE, "x <br>y"),
        ('a <img src="i"/> b', "y x", linked((0, 1), (1, 0)), '<img src="i"/>y x'),
        ('<p>a</p><p><img src="i">b</p>', "x y", ONE_TO_ONE, '<p>x</p> <p><img src="i">y</p>'),
        ("<a><b></b></a> c", "z", ONE_TO_ONE, "<a><b></b></a>z"),
        ("a <b>b</b> c", "x z", linked((0, 0), (2, 1)), "x <b></b>z"),
        # Comments, declarations and instructions are no words, and stay whole.
        (
            "a <!-- no <b>word</b>\n-- here > --><i>b</i>",
            "y x",
            linked((0, 1), (1, 0)),
            "<!-- no <b>word</b>\n-- here > --><i>y</i> x",
        ),
        ("<!DOCTYPE html><p>a<?x y > z?> b</p>", "x y", ONE_TO_ONE, "<!DOCTYPE html><p>x <?x y > z?>y</p>"),
        ("<b><!-- a --></b>b <!---->", "x", ONE_TO_ONE, "<b><!-- a --></b>x<!---->"),
        # Most links decide; a part of a word is the whole word; entities are words.
        ("<i>a b</i> c", "x", linked((0, 0), (1, 0), (2, 0)), "<i>x</i>"),
        ("<u>un</u>sure", "unsicher x", linked((0, 0), (1, 0)), "<u>unsicher</u> x"),
        ("R&amp;D <b>now</b>", "F&amp;E jetzt", ONE_TO_ONE, "F&amp;E <b>jetzt</b>"),
        ("<b>שלום</b> עולם", "world <x>".replace(" <x>", " hello"), linked((0, 1), (1, 0)), "world <b>hello</b>"),
        ("<b></b>", "", ONE_TO_ONE, "<b></b>"),
        ("1 < 2 and <b>3</b>", "1 < 2 und 3", ONE_TO_ONE, "1 < 2 und <b>3</b>"),
        ("a", "x", ONE_TO_ONE, "x"),
    ],
)
def test_tags_by_hand(source: str, target: str, links: object, expected: str) -> None:
    assert transfer_markup(source, target, links) == expected  # type: ignore[arg-type]


def test_any_markup_under_any_links_is_well_formed_and_nothing_is_lost() -> None:
    generator = random.Random(0)
    for _ in range(500):
        number = 0
        depth, parts, opened = 0, ["<p>"], []
        for word in range(generator.randrange(1, 8)):
            if generator.random() < 0.4:
                parts.append(f'<e n="{number}">')
                opened.append(number)
                number += 1
            if generator.random() < 0.2:
                parts.append(f'<x n="{number}"/>')
                number += 1
            if generator.random() < 0.8:
                parts.append(f" w{word} ")
            while opened and generator.random() < 0.4:
                parts.append("</e>")
                opened.pop()
        parts += ["</e>"] * len(opened) + ["</p>"]
        target = " ".join(f"t{n}" for n in range(generator.randrange(1, 8)))
        links: Links = set()

        def align(source_words: list[str], target_words: list[str], links: Links = links) -> Links:
            for _ in range(generator.randrange(10)):
                links.add((generator.randrange(len(source_words)), generator.randrange(len(target_words))))
            return links

        found = transfer_markup("".join(parts), target, align)
        tree = ElementTree.fromstring(f"<root>{found}</root>")
        assert "".join(tree.itertext()) == target
        numbers = {int(element.get("n", -1)) for element in tree.iter() if element.tag in "ex"}
        assert numbers == set(range(number))
        del depth


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a <b>c", "<b> has no end tag"),
        ("a <!-- b", "a comment, <!--, has no end"),
        ("a</b>", "</b> at character 1 is inside no element"),
        ("<b><i>a</b></i>", "</b> at character 7 is inside <i>"),
    ],
)
def test_a_source_that_is_not_well_formed_is_refused(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        transfer_markup(source, "x", ONE_TO_ONE)


def test_a_target_with_tags_is_refused() -> None:
    with pytest.raises(ValueError, match="target must have no tags"):
        transfer_markup("a", "<b>x</b>", ONE_TO_ONE)
    with pytest.raises(ValueError, match="target must have no tags"):
        transfer_markup("a", "x <!-- y -->", ONE_TO_ONE)


@pytest.mark.parametrize("link", [(1, 7), (2, 0), (-1, 0)])
def test_a_link_of_a_word_that_is_not_there_is_refused(link: tuple[int, int]) -> None:
    message = f"the aligner gave the link {link} for 2 source words and 2 target words"
    with pytest.raises(ValueError, match=re.escape(message)):
        transfer_markup("A <br>cat", "Eine Katze", lambda source, target: {(0, 0), link})
