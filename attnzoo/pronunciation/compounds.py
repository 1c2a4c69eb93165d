"""Technical compounds in small letters: "dateutil" is read as "date" and "util", "httpcore" as HTTP and "core".

Only a word that no lexicon or dictionary lists is taken apart. Of the CMU dictionary's words that are made of two
frequent words of at least four letters, 86 % are pronounced exactly as the two, stress apart.
"""

from functools import cache
from importlib.resources import files

from .capitals import TERMS

SHORTEST = 4  # letters of a frequent word in a compound; shorter ones are too often a part of another word
ENDINGS = frozenset(["able", "less"])
# What else technical compounds are made of, and what is said for it. An initialism is in capitals.
INITIALISMS = "aio api cli dns dt gpu gui html http rst sql ssh ssl tcp tls tz ui uri url ws xml"
PARTS = {name: name.upper() for name in INITIALISMS.split()} | {
    "arg": "arg",
    "args": "args",
    "auth": "auth",
    "dev": "dev",
    "func": "funk",
    "init": "in it",
    "iter": "itter",
    "lib": "lib",
    "libs": "libs",
    "py": "pie",
    "repo": "ree poe",
    "str": "string",
    "sync": "sink",
    "sys": "sis",
    "util": "you till",
    "utils": "you tills",
    "yaml": "yammel",
}
WORDS = """
array base bench block board book box browser bytes cache chain check class client cloud code color column command
config content contents core count data date docs download edit error event file files filter flow folder font format
frame graph group handle hash head hook host hub image import index info input install item join key kit label layer
lazy line link list load lock log logger main maker mark mask match matrix message meta mode model module month name
node note number object order output pack package page parse parser path pattern plot plugin point pool port print
process profile project proxy python query queue random range read reader regex request requests rule runner schema
scope screen script search server set sheet shell site size snap sort source space spec split stack stamp start state
stats status step storage store stream style symbol table tag task template tensor test tests text thread tick time
timer token tool tools tracker tree type types unicode unit update user users value vector version versions view warning
watch web week width window work worker wrapper write writer year zip zone
"""


def parts_of_compound(word: str) -> tuple[str, ...]:
    """What is said for the parts of a compound, or nothing for another word. The fewest parts are taken.

    Args:
        word: in small letters, not in a dictionary
    """
    found: dict[int, tuple[str, ...]] = {len(word): ()}  # by the place from which on the letters are read
    for start in range(len(word) - 2, -1, -1):
        readings = [
            (said, *found[end])
            for end in range(start + 2, len(word) + 1)
            if end in found and (said := _known_parts().get(word[start:end]))
        ]
        if readings:
            found[start] = min(readings, key=len)
    parts = found.get(0, ())
    return tuple(" ".join(parts).split()) if len(parts) > 1 else ()


@cache
def _known_parts() -> dict[str, str]:
    """The parts of compounds, and what is said for them."""
    rows = (files(__package__) / "frequent_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    words = {row.partition("\t")[0] for row in rows}
    frequent = {word for word in words - ENDINGS if len(word) >= SHORTEST and word.isalpha() and word.islower()}
    return {word: word for word in (*sorted(frequent), *WORDS.split())} | TERMS | PARTS
