"""Splits English text into tokens (words, numbers, initialisms, punctuation) and gives the spoken words of each."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

from .abbreviations import abbreviation, ends_sentence, roman_numeral
from .numbers import AMOUNT, CURRENCIES, HYPHENS, MINUS, ORDINALS, TIME, TRAILING, number_words

SYMBOLS = {"%": "percent", "&": "and", "+": "plus", "@": "at", "=": "equals", "\u00d7": "times", "°": "degrees"}
SYMBOLS |= {"№": "number", "²": "squared", "³": "cubed", "½": "one half", "¼": "one quarter", "¾": "three quarters"}
SYMBOLS |= {"$": "dollars", "£": "pounds", "€": "euros", "¢": "cents"}  # after an amount, or alone
SYMBOLS[MINUS] = "minus"  # also for a hyphen before a number, after white space or punctuation
FRACTIONS = {"½": "and a half", "¼": "and a quarter", "¾": "and three quarters"}  # after a whole number
# Words that begin with an apostrophe ('em, 'tis), without it.
CLITICS = frozenset(
    ("bout", "cause", "cept", "em", "fore", "n", "neath", "round", "scuse", "til", "tis", "twas", "twere")
)
# Initialisms that dictionaries also list as words (it, us). In capitals they are spelled out.
INITIALISMS = frozenset(["AI", "EU", "ID", "IT", "PM", "UK", "UN", "US"])
# After a capital A these words show that it is the letter: A is for apple, from A to Z.
AFTER_LETTER_A = frozenset(["and", "as", "equals", "for", "has", "in", "is", "minus", "of", "or", "plus", "to", "was"])
# Small letters without a vowel are spelled (www), but for sounds (shh) and abbreviations that are read as words (mr).
WITHOUT_VOWELS = re.compile(
    r"(?!(?:br+|gr+|hm+|hmph|m+|pff+t?|ps+t|s+h+|tsk|z+|dr|ft|hrs?|jr|lbs?|ltd|mrs?|ms|mt|nth|sr|st|vs)\Z)[b-df-hj-np-tv-xz]{2,5}"
)
WORD_AND_INITIALISM = re.compile("([A-Z]?[a-z]+)([A-Z]{2,5})((?:'?s)?)")  # ChatGPT, OpenAI's
PLURAL_LETTER = re.compile("(?!Ms|Vs)[B-DF-HJ-NP-TV-Z]s")  # your Ps and Qs
MOST_HYPHENS = 4  # of a compound with a listed word
LONGEST_ACRONYM = 3  # letters; a longer word in capitals is more often a word
LONGEST_INITIALISM = 5  # letters, if it begins or ends as no English word does: GPU, HDMI, IBM
ONSETS = (
    "bl br ch chl chr cl cr cz dr dw fl fr gh gl gn gr gw kh kl kn kr ll pf ph phl phr pl pn pr ps pt rh "
    "sc sch schl schm schn schr schw scl scr sh shr sk sl sm sn sp sph spl spr sq st str sv sw sz th thr "
    "thw tr ts tw vl vr wh wr zh zw"
).replace(" ", "|")
UNLIKE_WORDS = re.compile(
    rf"(?!mc|(?:{ONSETS})[aeiouy])[^aeiouy]{{2}}"
    r"|.*(?:(?!ck|(.)\1)[bcdfjkpqtvxz][bcdfgjklmnqrvwx]|s[bdfgjlnrvwxz])\Z",
    re.IGNORECASE,
)
# Letters that Unicode does not decompose into an English letter and an accent.
LETTERS = str.maketrans(dict(zip("æœøłđðþß\u0131", ["ae", "oe", "o", "l", "d", "th", "th", "ss", "i"], strict=True)))
APOSTROPHES = "\u2018\u2019\u02bc\uff07"
STRAIGHT = str.maketrans(dict.fromkeys(APOSTROPHES, "'") | dict.fromkeys(HYPHENS, "-"))
# An accented e that is pronounced: at the end of a word, or before the ending of a plural, a possessive or a past
# tense. Without the accent it would be silent there, or sound as in "bee".
SOUNDED_E = re.compile(r"ée?(?='?s?'?$)|ée(?=d$)|[èê](?=(?:'s)?$)|è(?=d$)", re.IGNORECASE)
RESPELLED_E = re.compile(r"ay(?='?s?'?$)")  # as `respelled` writes it
# An é between consonants, where an e without an accent may be silent: Pokémon is not Poke-mon.
INNER_E = re.compile(r"(?<=[aeiouy][^\Waeiouy])é(?=[^\Waeiouy]\w)", re.IGNORECASE)
# SOUNDED_E or an é before a vowel (séance), with the letters before it whose sound depends on an e.
WITH_CONSONANT = re.compile(rf"(ch|c|g|qu)?(?:{SOUNDED_E.pattern}|é(?=[aiou]))", re.IGNORECASE)
AS_BEFORE_E = {"ch": "sh", "c": "s", "g": "j", "qu": "k"}  # how French loanwords sound there
# A word and its ending: of a possessive, of a contraction, or of the plural of a word in é. Only 've follows another.
STEM = re.compile(
    r"(.+)(?:(?<!'[sdm])(?<!'(?:ll|ve|re))|(?<='d)(?='ve)|(?<='ll)(?='ve))('s|'d|'ll|'ve|'re|'m|(?<=s)'|(?<=é)s|(?<=ée)s)",
    re.IGNORECASE | re.DOTALL,
)
POSSESSIVE = re.compile(rf"['{APOSTROPHES}][sS](?!\w)")
# Combining signs of Indian scripts have classes below this one. Most accents and vowel points have higher ones.
SIGNS = 10
VARIATIONS = frozenset(["\u034f", *map(chr, range(0xFE00, 0xFE10))])
# In an emoji, after its first character: selectors of its form, joiners, the frame of a keycap, and tags.
EMOJI_MARKS = re.compile("[\ufe00-\ufe0f\u200d\u20e3\U000e0020-\U000e007f]")


# Addresses of e-mail and web pages. Their punctuation is spoken.
ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s<>\"\u201d\u2019]*[\w/]|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"
    r"|(?:[\w-]{1,63}\.){1,6}(?:com|org|net|edu|gov|io|uk)\b"
)
IN_ADDRESS = {".": "dot", "/": "slash", ":": "colon", "-": "dash", "_": "underscore", "?": "question mark", "#": "hash"}


class Token(NamedTuple):
    """A piece of a text.

    Attributes:
        text: as it is written, in Unicode's NFC
        parts: the words that are spoken for it; of an initialism its letters. In a plural or a possessive the last
            letter ends in "'s"
        kind: "word" also for a number. An "initialism" is spelled out unless the user's lexicon lists it, an "acronym"
            unless the lexicon or the dictionary lists it. "capitals" are an acronym if there is a dictionary, else a
            word
        space: the white space after it
    """

    text: str
    parts: tuple[str, ...]
    kind: Literal["word", "capitals", "acronym", "initialism", "punctuation", "unknown"]
    space: str = ""


# The pattern of every kind of token, over the classes of the characters (``_class_of``).
TOKENS = re.compile(
    r"(?P<dotted>(?:[aA]\.){2,}(?:[aA](?![aA]))?)"  # U.S.A., e.g.
    r"|(?P<number>(?:\$[-m]?)?0+(?:[.,]0+)*|\$[-m]?\.0+|(?<![aA0.,])\.0+)"
    r"|(?P<minus>(?<![^ p])-(?=\$?\.?0))"
    r"|(?P<word>[aA]+(?:'[aA]+)*(?:-[aA]+(?:'[aA]+)*)*)"
    r"|(?P<clitic>'[aA]+)"
    r"|(?P<symbol>[%m$])"
    r"|(?P<punctuation>[-'.,p]+?(?=['aA0$%mx ]|(?<=p)\.0|(?<=p)-\$?\.?0|$))"
    r"|(?P<space> +)"
    r"|(?P<unknown>x+)"
)


def tokenize(text: str) -> list[Token]:
    """The tokens of a text. All their texts and spaces together are the text, without white space at its beginning."""
    text = unicodedata.normalize("NFC", text)
    # The marks of an emoji belong to the character before them, also if it is a digit. Elsewhere they count as letters.
    classes = re.sub("([xp0])e+", lambda found: found[1] * len(found[0]), "".join(map(_class_of, text)))
    classes = classes.replace("e", "a")
    is_mixed = text.upper() != text
    alone = text.strip(" .,:;!?")
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        found: Any = TOKENS.match(classes, place)  # every class begins some token
        kind, end = found.lastgroup, found.end()
        if kind == "number":
            end = _end_of_number(text, classes, place, end)
        if kind in ("number", "dotted") and POSSESSIVE.match(text, end):  # the 1990's, the F.B.I.'s
            end += len("'s")
        elif kind == "dotted" and text[end - 1] == "." and ends_sentence(text, end):
            end -= 1  # the period ends the sentence too, and stays a token
        if kind in ("word", "number", "dotted") and (address := ADDRESS.match(text, place)):
            tokens += _address_tokens(address[0])
            place = address.end()
            continue
        spoken = SYMBOLS[MINUS] if kind == "minus" else None
        if kind == "word":
            kind, end, spoken = _word_in_context(text, place, end, tokens, is_mixed)
        elif kind == "punctuation" and text[end - 1] == "#" and text[end : end + 1].isalnum():
            if end - place > 1:
                end -= 1  # the punctuation before it is another token
            elif not (place and text[place - 1].isalnum()):  # not C#
                spoken = "number" if text[end].isdigit() else "hashtag"
        written = text[place:end]
        if written in FRACTIONS and classes[place - 1 : place] == "0":  # 1½
            spoken = FRACTIONS[written]
        if kind == "clitic" and written[1:].lower() not in CLITICS:
            kind, written = "punctuation", written[0]
        place += len(written)
        if kind != "space":
            parts = tuple(spoken.split()) if spoken else ()
            tokens.append(Token(written, parts, "word") if parts else _token(kind, written, is_mixed, written == alone))
        elif tokens:
            tokens[-1] = tokens[-1]._replace(space=written)
    return tokens


def joined(tokens: list[Token], is_listed: Callable[[str], Any], longest: int) -> list[Token]:
    """The tokens; up to ``longest`` in a row are joined if they form a listed word (C#) or a compound of one."""
    tokens, found, place = pieces(tokens), list[Token](), 0
    while place < len(tokens):
        for end in range(min(place + longest, len(tokens)), place + 1, -1):
            text = "".join(token.text + token.space for token in tokens[place:end]).strip()
            if parts := _listed_parts(" ".join(text.split()), is_listed):
                found.append(Token(text, parts, "word", tokens[end - 1].space))
                break
        else:
            end, token = place + 1, tokens[place]
            if found and found[-1].kind == token.kind == "punctuation" and not found[-1].space:
                token = token._replace(text=found.pop().text + token.text)
            found.append(token)
        place = end
    return found


def _listed_parts(text: str, is_listed: Callable[[str], Any]) -> tuple[str, ...]:
    """A listed word, or the two words of its compound with a hyphen (3D-printed, non-New York); empty if it is none."""
    if is_listed(text):
        return (text,)
    hyphens = list(re.finditer(f"[{HYPHENS}]", text))
    for hyphen in hyphens if len(hyphens) <= MOST_HYPHENS else ():
        both = text[: hyphen.start()], text[hyphen.end() :]
        known = [is_listed(one) for one in both]
        if any(known) and all(known[i] or re.sub(f"[{HYPHENS}'{APOSTROPHES}]", "", both[i]).isalpha() for i in (0, 1)):
            return both
    return ()


def pieces(tokens: list[Token]) -> list[Token]:
    """The tokens, with each sign of punctuation by itself: in "C#." the first may belong to a listed word."""
    found = []
    for token in tokens:
        if token.kind == "punctuation":
            found += [token._replace(text=sign, space="") for sign in token.text[:-1]]
            token = token._replace(text=token.text[-1:])
        found.append(token)
    return found


def _address_tokens(address: str) -> list[Token]:
    """The tokens of an address: its words, numbers and signs. A word without a vowel is an acronym."""
    tokens = []
    for piece in re.findall(r"[^\W\d_]+|\d+|[\W_]", address):
        if spoken := IN_ADDRESS.get(piece):
            tokens.append(Token(piece, tuple(spoken.split()), "word"))
        elif piece.isascii() and piece.isalpha() and not set(piece.lower()) & set("aeiouy"):
            tokens.append(Token(piece, tuple(piece.upper()), "acronym"))
        else:
            is_word = piece.isalnum() or piece in SYMBOLS
            tokens.append(_token("number" if piece.isdecimal() else "word" if is_word else "punctuation", piece, True))
    return tokens


def _word_in_context(
    text: str, place: int, end: int, tokens: list[Token], is_mixed: bool
) -> tuple[str, int, str | None]:
    """The kind of a word, its end, and what is spoken for it, or None if the context does not change that."""
    before = tokens[-1] if tokens else None
    number = _number_before(tokens)
    word = text[place:end]
    if before and before.text == "#" and before.parts:
        return "word", end, " ".join(re.findall("[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+", word))
    after_article = number is not None and len(tokens) > 1 and tokens[-2].text.lower() in ("a", "an")
    word_before = before.text if before and before.space == " " else ""
    if abbreviated := abbreviation(text, place, end, word_before, f"{number}-" if after_article else number):
        end, spoken = abbreviated
        after_period = end + text.startswith(".", end)
        if POSSESSIVE.match(text, after_period):  # Inc.'s
            return "word", after_period + len("'s"), spoken if spoken.endswith("s") else f"{spoken}'s"
        return "word", end, spoken
    if before and number and number[-1].isdigit() and word.lower() in ("am", "pm"):
        time = before.text.replace(".", ":")  # 10.30 am
        parts = number_words(time) if TIME.fullmatch(time) else before.parts
        tokens[-1] = before._replace(parts=tuple(part for part in parts if part != "o'clock"))
        return "dotted", end, None
    is_initial = len(word) == 1 and text.startswith(".", end) and not ends_sentence(text, end + 1)  # John V. Lindsay
    if not is_initial and (numeral := roman_numeral(word, word_before)):
        return "word", end, numeral
    if re.fullmatch("[A-Z]{2}", word) and (
        text[end : end + 1].isdigit() or "&" in text[end : end + 1] + text[place - 1]
    ):
        return "dotted", end, None  # CO2, AT&T
    return "word", end, "a" if _is_article(text, place, end, tokens, is_mixed) else None


def straight(word: str) -> str:
    """A word with straight apostrophes, and with hyphens as on a keyboard."""
    return word.translate(STRAIGHT)


def plain(word: str) -> str:
    """A word in the letters of English: without accents, with straight apostrophes.

    The combining signs of Indian scripts stay. They are no accents: they stand for a vowel or the lack of one.
    """
    decomposed = unicodedata.normalize("NFKD", straight(word.lower()).translate(LETTERS))
    return "".join(character for character in decomposed if not _is_accent(character))


def respelled(word: str) -> str:
    """A word with accented letters respelled, if they would be silent or sound differently without their accents.

    rosé becomes "rosay", cliché "clishay", Zoë "Zoey", façade "fasade" and piñata "pinyata". Other accents stay.
    """
    word = unicodedata.normalize("NFC", straight(word))
    word = re.sub("[èÈ](?=[dD]$)", "i", word)  # learnèd
    word = WITH_CONSONANT.sub(lambda found: AS_BEFORE_E.get((found[1] or "").lower(), found[1] or "") + "ay", word)
    word = INNER_E.sub("i", word)
    for letter, spelling in (("[ëË](?='?s?'?$)", "ey"), ("[çÇ]", "s"), ("[ñÑ]", "ny")):
        word = re.sub(letter, spelling, word)
    return word


def _is_accent(character: str) -> bool:
    """Whether a character is an accent, a variation selector or an invisible format character."""
    category = unicodedata.category(character)
    is_sign = unicodedata.combining(character) < SIGNS and character not in VARIATIONS
    return category in ("Me", "Cf") or (category == "Mn" and not is_sign)


def _token(kind: str, written: str, is_mixed: bool, is_alone: bool = False) -> Token:
    """A token of this kind.

    Args:
        kind: the group of ``TOKENS`` that matched
        written: its text
        is_mixed: whether the whole text has lower-case letters, so that capitals can mark an acronym
        is_alone: whether the whole text has no other word
    """
    if kind in ("punctuation", "unknown"):
        return Token(written, (), kind)  # type: ignore[arg-type]  # one of the two
    if kind == "dotted":
        letters = straight(written).replace(".", "")
        parts = (*letters[:-3], letters[-3:]) if letters.endswith(("'s", "'S")) else tuple(letters)
        return Token(written, parts, "initialism")
    if kind == "number":
        is_possessive = straight(written).endswith(("'s", "'S"))
        number = EMOJI_MARKS.sub("", written)
        *first, last = number_words(number[:-2] if is_possessive else number)
        return Token(written, (*first, f"{last}'s" if is_possessive and last[-1] != "s" else last), "word")
    if PLURAL_LETTER.fullmatch(written):
        return Token(written, (f"{written[0]}'s",), "initialism")
    capitals = re.fullmatch(r"([A-Z]{2,})((?:['\u2019]?s)?)", written)
    if capitals:
        letters, plural = capitals.groups()
        parts = (*letters[:-1], letters[-1] + ("'s" if plural else ""))
        if not set(letters) & set("AEIOUY") or (is_mixed and letters in INITIALISMS):
            return Token(written, parts, "initialism")
        is_unlike = len(letters) <= LONGEST_INITIALISM and UNLIKE_WORDS.match(letters)
        if plural == "s" or is_unlike or (is_mixed and len(letters) <= LONGEST_ACRONYM):
            return Token(written, parts, "acronym")
        if is_alone and len(letters) <= LONGEST_ACRONYM:
            return Token(written, parts, "capitals")
    spoken = SYMBOLS.get(written) or written.replace("-n-", "-and-")
    return Token(written, tuple(spoken.split(" ")), "word")


def _number_before(tokens: list[Token]) -> str | None:
    """The number directly before a word, with a hyphen if one is between them; None if there is no number."""
    for token, hyphen in ((tokens[-1:], ""), (tokens[-2:-1], "-")):
        is_near = token and (token[0].space in ("", " ", "\u00a0", "\u202f") if not hyphen else not token[0].space)
        if hyphen and (not tokens or tokens[-1].text not in HYPHENS or tokens[-1].space):
            return None
        if is_near and ((token[0].text[0].isdigit() and token[0].text[-1].isdigit()) or token[0].text in FRACTIONS):
            return token[0].text + hyphen
    return None


def _is_article(text: str, start: int, end: int, tokens: list[Token], is_mixed: bool) -> bool:
    """Whether a word is a capital A that is the article.

    It is if a word or a number follows, and if it begins a sentence or the whole text is in capitals.
    """
    following = re.compile(r"\s+(\w\w+|\d)").match(text, end)
    if text[start:end] != "A" or not following or following[1].lower() in AFTER_LETTER_A:
        return False
    before = tokens[-1] if tokens else None
    is_first = before is None or "\n" in before.space or (before.kind == "punctuation" and before.text not in "/-&")
    return is_first or not is_mixed


def _end_of_number(text: str, classes: str, start: int, end: int) -> int:
    """Where a number ends, with its ending (3rd, 1990s), or with the scale or the currency of an amount."""
    amount = TIME.match(text, start) or AMOUNT.match(text, start) or TRAILING.match(text, start)
    if amount:
        return amount.end()
    if text[start] in CURRENCIES:
        return end
    letters = re.compile("[aA]*").match(classes, end).end()  # type: ignore[union-attr]  # it always matches
    is_whole = "." not in text[start:end]
    return letters if is_whole and text[end:letters].lower() in (*ORDINALS, "s") else end


@cache
def _class_of(character: str) -> str:
    """The class of a character in ``TOKENS``.

    "A": a capital; "a": another letter, a mark or a format character; "0": a digit; " ": white space; "$": the sign of
    a currency; "m": the minus sign; "%": another symbol that is spoken; "'": an apostrophe; "-": a hyphen; ".": a
    period; ",": a comma; "p": other punctuation; "e": one of ``EMOJI_MARKS``; "x": anything else.
    """
    if straight(character) == "'":
        return "'"
    if character in HYPHENS:
        return "-"
    if character in ".,":
        return character
    if character in CURRENCIES:
        return "$"
    if character == MINUS:
        return "m"
    if character in SYMBOLS:
        return "%"
    if EMOJI_MARKS.match(character):
        return "e"
    category = unicodedata.category(character)
    if character.isspace():
        return " "
    if category == "Nd":
        return "0"
    if category[0] in "LM" or category == "Cf":
        return "A" if category == "Lu" else "a"
    return "p" if category[0] == "P" else "x"
