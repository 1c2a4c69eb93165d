"""Parts of speech of the pronunciations that the CMU dictionary lists for one word, and the most common one first.

The CMU dictionary does not say which of its pronunciations is the noun and which the verb, and its first one is often
the rarer. misaki's dictionary has parts of speech of its own, so this table is for ARPABET alone.
"""

from collections.abc import Sequence

from ..phone_sets import Phones

# A word, and its pronunciations with the parts of speech of misaki's dictionary, the most common pronunciation first.
TABLE = """
abuse: AH0 B Y UW1 S = NOUN; AH0 B Y UW1 Z = VERB
abuses: AH0 B Y UW1 S IH0 Z = NOUN; AH0 B Y UW1 Z IH0 Z = VERB
attribute: AE1 T R AH0 B Y UW2 T = NOUN; AH0 T R IH1 B Y UW2 T = VERB
august: AO1 G AH0 S T = NOUN
bass: B EY1 S = NOUN; B AE1 S =
bow: B OW1 = NOUN; B AW1 = VERB
bows: B OW1 Z = NOUN; B AW1 Z = VERB
close: K L OW1 S = ADJ ADV NOUN; K L OW1 Z = VERB
content: K AA1 N T EH0 N T = NOUN; K AH0 N T EH1 N T = ADJ VERB
desert: D EH1 Z ER0 T = NOUN ADJ; D IH0 Z ER1 T = VERB
diffuse: D IH0 F Y UW1 S = ADJ; D IH0 F Y UW1 Z = VERB
dove: D AH1 V = NOUN; D OW1 V = VERB
excuse: IH0 K S K Y UW1 Z = VERB; IH0 K S K Y UW1 S = NOUN
excuses: IH0 K S K Y UW1 S IH0 Z = NOUN; IH0 K S K Y UW1 Z IH0 Z = VERB
invalid: IH2 N V AE1 L AH0 D = ADJ; IH1 N V AH0 L AH0 D = NOUN
lead: L IY1 D = VERB NOUN ADJ; L EH1 D =
learned: L ER1 N D = VERB; L ER1 N IH0 D = ADJ
live: L IH1 V = VERB; L AY1 V = ADJ ADV
lives: L IH1 V Z = VERB; L AY1 V Z = NOUN
minute: M IH1 N AH0 T = NOUN; M AY0 N UW1 T = ADJ
polish: P AA1 L IH0 SH = NOUN VERB; P OW1 L IH0 SH = ADJ
putting: P UH1 T IH0 NG = VERB; P AH1 T IH0 NG = NOUN
read: R IY1 D = VERB NOUN; R EH1 D = VBD VBN
refuse: R IH0 F Y UW1 Z = VERB; R EH1 F Y UW2 Z = NOUN
resume: R IH0 Z UW1 M = VERB; R EH1 Z AH0 M EY2 = NOUN
sow: S OW1 = VERB; S AW1 = NOUN
tear: T EH1 R = VERB; T IH1 R = NOUN
tears: T IH1 R Z = NOUN; T EH1 R Z = VERB
use: Y UW1 Z = VERB; Y UW1 S = NOUN
uses: Y UW1 Z IH0 Z = VERB; Y UW1 S IH0 Z = NOUN
wind: W IH1 N D = NOUN; W AY1 N D = VERB
winds: W IH1 N D Z = NOUN; W AY1 N D Z = VERB
wound: W UW1 N D = NOUN VB VBP; W AW1 N D = VBD VBN
"""
# As a noun or an adjective these are stressed on the first syllable, as a verb on a later one.
MORE_OFTEN_NOUNS = """
addict ally combat compound compress conduct conflict console construct contest contract contrast convict decrease
discount escort import imports impact incline increase increases insert insult object objects perfect present presents
progress project projects protest protests rebel rebels record records refund refunds reject research subject subjects
survey surveys torment transport update upgrade
"""
MORE_OFTEN_VERBS = "combine convert extract permit permits produce suspect transfer transfers"


def in_order(word: str, listed: Sequence[Phones]) -> list[tuple[Phones, tuple[str, ...]]]:
    """The pronunciations of a word, the most common first, each with its parts of speech; empty for any."""
    if word in _TABLE:
        first = [entry for entry in _TABLE[word] if entry[0] in listed]
        return first + [(phones, ()) for phones in listed if phones not in dict(first)]
    if word in _STRESSED:
        nouns = [phones for phones in listed if next(phone for phone in phones if phone[-1].isdigit())[-1] == "1"]
        entries = [(phones, ("NOUN", "ADJ") if phones in nouns else ("VERB",)) for phones in listed]
        if 0 < len(nouns) < len(listed):
            return sorted(entries, key=lambda entry: (entry[0] in nouns) != _STRESSED[word])
    if word.endswith("ate") and len({phones[-2:] for phones in listed}) > 1:  # estimate
        return [(phones, ("VERB",) if phones[-2].startswith("EY") else ("NOUN", "ADJ")) for phones in listed]
    return [(phones, ()) for phones in listed]


def _read(table: str) -> dict[str, list[tuple[Phones, tuple[str, ...]]]]:
    found = {}
    for line in table.strip().splitlines():
        word, _, entries = line.partition(": ")
        pairs = (entry.partition(" =") for entry in entries.split("; "))
        found[word] = [(tuple(phones.split()), tuple(parts.split())) for phones, _, parts in pairs]
    return found


_TABLE = _read(TABLE)
_STRESSED = {word: True for word in MORE_OFTEN_NOUNS.split()} | {word: False for word in MORE_OFTEN_VERBS.split()}
