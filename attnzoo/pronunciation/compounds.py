"""Technical compounds: "dateutil" is read as "date" and "util", "httpcore" as HTTP and "core".

Only a word that no lexicon or dictionary lists is taken apart. Its parts are frequent words or technical terms, or one
technical term and one longer word that is listed. Letters before a word are spelled if no English word begins with
them: "fstype" is F, S, "type".
"""

from collections.abc import Callable
from functools import cache
from importlib.resources import files

from .capitals import TERMS, UNLIKE_WORDS

SHORTEST = 4  # letters of a frequent word in a compound; shorter ones are too often a part of another word
LONG = 5  # letters of a listed word next to a technical part
MOST_IN_CAPITALS = 5  # letters of an uppercase word that is more often an initialism
MOST_SPELLED = 4  # letters of a word without a known part
MOST_LETTERS = 200  # of a compound; the time grows with their square
ENDINGS = frozenset(["able", "less"])  # frequent words that are more often endings
# Other parts of technical compounds, and their spoken words. An initialism is uppercase.
SPELLED = (
    "aio api aws cli cpu dns dt fs gpu gui hdfs html http io irq js ml rst sql ssh ssl tcp tls tz ui uri url ws xml"
)
PARTS = {name: name.upper() for name in SPELLED.split()} | {
    "addr": "adder",
    "arg": "arg",
    "args": "args",
    "attr": "atter",
    "auth": "auth",
    "avg": "average",
    "cmd": "command",
    "conn": "con",
    "dev": "dev",
    "err": "err",
    "func": "funk",
    "get": "get",
    "has": "has",
    "init": "in it",
    "iter": "itter",
    "lan": "lan",
    "lib": "lib",
    "libs": "libs",
    "mem": "mem",
    "my": "my",
    "obj": "object",
    "per": "per",
    "py": "pie",
    "recv": "receive",
    "repo": "ree poe",
    "set": "set",
    "str": "string",
    "sub": "sub",
    "sync": "sink",
    "sys": "sis",
    "temp": "temp",
    "util": "you till",
    "utils": "you tills",
    "yaml": "yammel",
}
WORDS = """
amazon array arrow base bench big block board book box browser bucket byte bytes cache call chain check class client
cloud code color column command compress config content contents core count data date disk docs download edit error
event file files filter fine flow folder font format frame graph group handle hash head hook host hub image import
index info input install intro item join key kit label layer lazy level limit line link list load lock log logger main
maker map mark mask match matrix message meta mode model module month mount name net node note number object order
output pack package page parse parser path pattern plot plugin point pool port print process profile project proxy
python query queue random range read reader regex request requests rule runner schema science scope screen script
search server set sheet shell site size snap soft sort source space spec split stack stamp start state stats status
step storage store stream style symbol table tag task template tensor test tests text thread tick time timer token
tool tools tracker tree type types unicode unit update user users value vector version versions view warning watch web
week width window work worker wrapper write writer year zip zone
"""


def parts_of_compound(word: str, is_listed: Callable[[str], object]) -> tuple[str, ...]:
    """The spoken words of a compound's parts; empty for another word.

    Args:
        word: one that is not listed; lowercase, uppercase, or with an uppercase first letter
        is_listed: whether a lexicon or a dictionary has a word
    """
    if PARTS.get(word, word) != word:
        return tuple(PARTS[word].split())
    if len(word) > MOST_LETTERS:
        return ()
    small = word.lower()
    is_plain = word[1:].islower() or (word.isupper() and len(word) > MOST_IN_CAPITALS)
    parts = (_parts(small) or _with_listed(small, is_listed)) if is_plain else ()
    if parts or not (word.islower() and word.isalpha() and UNLIKE_WORDS.match(word)):
        return parts
    if set(word).isdisjoint("aeiouy"):  # hmm
        return ()
    for end in range(1, min(MOST_SPELLED, len(word) - 2)):
        rest = word[end:]
        if not set(word[:end]).isdisjoint("aeiouy"):
            break
        is_word = rest in _known_parts() or (len(rest) >= SHORTEST and is_listed(rest))
        if rest_parts := (rest,) if is_word else _parts(rest):
            return (word[:end].upper(), *rest_parts)
    return (word.upper(),) if len(word) <= MOST_SPELLED else ()


def _with_listed(word: str, is_listed: Callable[[str], object]) -> tuple[str, ...]:
    """The spoken words of a technical part and a longer listed word; empty if a word does not consist of two such
    parts.
    """
    for end in range(2, len(word) - 1):
        first, last = word[:end], word[end:]
        for part, other in ((first, last), (last, first)):
            if part in _technical_parts() and len(other) >= LONG and is_listed(other):
                said = {part: _technical_parts()[part], other: other}
                return tuple(f"{said[first]} {said[last]}".split())
    return ()


def _parts(word: str) -> tuple[str, ...]:
    """The spoken words of the known parts that make up a word; of several ways to divide it, the fewest parts."""
    found: dict[int, tuple[str, ...]] = {len(word): ()}  # by the place in the word where its rest begins
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
    """The parts of compounds, and their spoken words."""
    rows = (files(__package__) / "frequent_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    words = {row.partition("\t")[0] for row in rows}
    frequent = {word for word in words - ENDINGS if len(word) >= SHORTEST and word.isalpha() and word.islower()}
    return {word: word for word in sorted(frequent)} | _technical_parts()


@cache
def _technical_parts() -> dict[str, str]:
    """The known parts that are frequent in technical texts."""
    own = {form: form for word in WORDS.split() for form in (word, f"{word}s")}
    return own | TERMS | PARTS
