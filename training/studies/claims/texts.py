"""Texts for the shipped models: captions and sentences of speeches, put together from words at random."""

import random

# English words of photographs' captions, and German words that translate them (stems).
NOUNS = {
    "man": "mann", "woman": "frau", "boy": "junge", "girl": "mädchen", "dog": "hund", "child": "kind",
}  # fmt: skip
COLOURS = {"red": "rot", "blue": "blau", "green": "grün", "white": "weiß", "black": "schwarz", "yellow": "gelb"}
CLOTHES = {"shirt": "hemd", "jacket": "jacke", "hat": "hut"}
ACTIONS = {
    "is playing the guitar": {"guitar": "gitarre"},
    "is riding a bike": {"bike": "fahrrad"},
    "is throwing a ball": {"ball": "ball"},
    "is reading a book": {"book": "buch"},
    "is holding a camera": {"camera": "kamera"},
    "is climbing a tree": {"tree": "baum"},
}
PLACES = {
    "on the beach": {"beach": "strand"},
    "on the street": {"street": "straße"},
    "in the water": {"water": "wasser"},
    "in the snow": {"snow": "schnee"},
    "in the park": {"park": "park"},
    "in a kitchen": {"kitchen": "küche"},
}

SUBJECTS = (
    "The Congress", "The people of the United States", "The Secretary of the Treasury", "Our Government",
    "The House of Representatives", "The American people", "The President", "The Department of State",
)  # fmt: skip
VERBS = ("has the power to improve", "will consider", "must protect", "has increased", "will not abandon", "has given")
OBJECTS = (
    "the public debt", "the commerce of our country", "the rights of our citizens", "the peace of the world",
    "the revenue of the nation", "the laws of the land", "the public lands", "the interests of labor",
)  # fmt: skip
ENDS = ("during the last year", "in time of war", "for the benefit of all", "under the Constitution", "with great care")


def captions(seed: int, count: int) -> list[tuple[str, dict[str, str]]]:
    """Captions such as *A man in a red shirt is riding a bike in the park.*, with German words that translate some."""
    random_ = random.Random(seed)
    found = []
    for _ in range(count):
        noun, colour, clothes = (random_.choice([*words]) for words in (NOUNS, COLOURS, CLOTHES))
        action, place = (random_.choice([*words]) for words in (ACTIONS, PLACES))
        known = {noun: NOUNS[noun], colour: COLOURS[colour], clothes: CLOTHES[clothes]}
        text = f"A {noun} in a {colour} {clothes} {action} {place} ."
        found.append((text, known | ACTIONS[action] | PLACES[place]))
    return found


def speeches(seed: int, count: int) -> list[str]:
    """Sentences such as *The Congress will consider the public debt in time of war.*"""
    random_ = random.Random(seed)
    parts = (SUBJECTS, VERBS, OBJECTS, ENDS)
    return [" ".join(random_.choice(part) for part in parts) + "." for _ in range(count)]
