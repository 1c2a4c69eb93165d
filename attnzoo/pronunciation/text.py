"""Splits English text into tokens (words, numbers, initialisms, punctuation) and gives the spoken words of each."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from .abbreviations import DIVISIONS, abbreviation, ends_sentence, roman_numeral
from .capitals import Kind, parts_of_name, reading
from .markup import ADDRESS, IN_ADDRESS, IN_ADDRESSES, MARKUP, reading_at, spelled_code
from .numbers import AMOUNT, CURRENCIES, HYPHENS, MINUS, ORDINALS, TIME, TRAILING, number_words
from .symbols import FRACTIONS, MARKS, SUPERSCRIPTS, SYMBOLS, normalised

# Words that begin with an apostrophe ('em, 'tis), without it.
CLITICS = frozenset(
    ("bout", "cause", "cept", "em", "fore", "n", "neath", "round", "scuse", "til", "tis", "twas", "twere")
)
# Words with omitted last letters that dictionaries lack.
SHORTENED = {"th'": "the", "an'": "and", "wi'": "with"}
# Before the decades of a century or a life: in the 80s, her 20s and 30s, the '90s.
DECADE = re.compile(
    r"(?:(?i:\b(?:the|his|her|their|my|your|our|its|in|late|early|mid))[ -]|')(?:\d0s(?:,| and| or| to|-) ?)*\Z"
)
# After an uppercase A these words show that it is the letter: A is for apple, from A to Z.
AFTER_LETTER_A = frozenset(["and", "as", "equals", "for", "has", "in", "is", "minus", "of", "or", "plus", "to", "was"])
MOST_HYPHENS = 4  # of a compound with a listed word
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
# A word and its ending: a possessive, a contraction, or the plural of a word in é. Only 've follows another ending.
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


class Token(NamedTuple):
    """A piece of a text.

    Attributes:
        text: as it is written, in Unicode's NFC
        parts: its spoken words; for an initialism its letters. In a plural or a possessive the last letter ends in "'s"
        kind: a number is a "word", too. An "initialism" is spelled out unless the user's lexicon lists it, an "acronym"
            unless the lexicon or the dictionary lists it. "capitals" is an acronym if there is a dictionary, else a
            word
        space: the white space after it
    """

    text: str
    parts: tuple[str, ...]
    kind: Kind
    space: str = ""


# The pattern of every kind of token, over the classes of the characters (``_class_of``).
TOKENS = re.compile(
    r"(?P<name>[aA0]+(?:_+[aA0]+)+)"
    r"|(?P<dotted>(?:[aA]\.){2,}(?:[aA](?![aA]))?)"  # U.S.A., e.g.
    r"|(?P<number>(?:\$[-m]?)?0+(?:[.,]0+)*|\$[-m]?\.0+|(?<![aA0.,])\.0+)"
    r"|(?P<minus>(?<![^ p])-(?=\$?\.?0))"
    r"|(?P<word>[aA]+(?:'[aA]+)*(?:-[aA]+(?:'[aA]+)*)*)"
    r"|(?P<clitic>'[aA]+)"
    r"|(?P<symbol>[%m$])"
    r"|(?P<punctuation>[-'.,p_]+?(?=['aA0$%mx ]|(?<=p)\.0|(?<=p)-\$?\.?0|$))"
    r"|(?P<space> +)"
    r"|(?P<unknown>x+)"
)


def tokenize(text: str) -> list[Token]:
    """The tokens of a text. Their texts and spaces together are the text, without white space at its beginning."""
    text = unicodedata.normalize("NFC", text)
    plainly, places = normalised(text)
    tokens = _tokens(plainly)
    return tokens if plainly is text else _as_written(tokens, text, plainly, places)


def _as_written(tokens: list[Token], text: str, plainly: str, places: Sequence[int]) -> list[Token]:
    """The tokens of the plain text, with the characters and the spaces that they have in ``text``."""
    found = list[Token]()
    place = len(plainly) - sum(len(token.text) + len(token.space) for token in tokens)
    if first := text[: places[place]].lstrip():  # an entity of white space
        found.append(Token(first, (), "punctuation"))
    for token in tokens:
        end = place + len(token.text)
        after = end + len(token.space)
        written, space = text[places[place] : places[end]], text[places[end] : places[after]]
        if written or not found:
            found.append(token._replace(text=written, space=space))
        else:  # one character that makes several tokens
            found[-1] = Token(found[-1].text, (), "unknown", space)
        place = after
    return found


def _tokens(text: str) -> list[Token]:
    """The tokens of a normalised text."""
    # The marks of an emoji belong to the character before them, also if it is a digit. Elsewhere they count as letters.
    classes = re.sub("([xp0])e+", lambda found: found[1] * len(found[0]), "".join(map(_class_of, text)))
    classes = classes.replace("e", "a")
    is_mixed = text.upper() != text
    alone = text.strip(" .,:;!?")
    tokens: list[Token] = []
    place = 0
    others = MARKUP.finditer(text)
    other = next(others, None)
    while place < len(text):
        while other and other.start() < place:
            other = next(others, None)
        if other and other.start() == place and _append_markup(other, tokens):
            place = other.end()
            continue
        found: Any = TOKENS.match(classes, place)  # every class begins some token
        kind, end = found.lastgroup, found.end()
        if kind == "number":
            end = _end_of_number(text, classes, place, end)
        if kind in ("number", "dotted") and POSSESSIVE.match(text, end):  # the 1990's, the F.B.I.'s
            end += len("'s")
        elif kind == "dotted" and text[end - 1] == "." and ends_sentence(text, end):
            end -= 1  # the period ends the sentence too, and stays a token
        if kind in ("word", "number", "dotted", "name") and (address := ADDRESS.match(text, place)):
            tokens += _address_tokens(address[0])
            place = address.end()
            continue
        spoken = SYMBOLS[MINUS] if kind == "minus" else None
        if kind == "word":
            kind, end, spoken = _word_in_context(text, place, end, tokens, is_mixed)
        elif kind in ("punctuation", "unknown") and other and place < other.start() < end:
            end = other.start()  # another piece begins there
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


def _append_markup(found: re.Match[str], tokens: list[Token]) -> bool:
    """Append the token of a match of ``MARKUP``; False if it has no special reading in its place."""
    before = tokens[-1] if tokens else None
    if found.lastgroup == "ending":  # of `name`'s
        if before and before.parts and not before.space:
            parts = (*before.parts[:-1], f"{before.parts[-1]}'s")
            tokens[-1] = before._replace(text=before.text + found[0], parts=parts)
            return True
        return False
    said = reading_at(found, _number_before(tokens), before.text if before and before.space == " " else "")
    if said:
        tokens.append(Token(found[0], *said))
    return said is not None


def joined(tokens: list[Token], is_listed: Callable[[str], Any], longest: int) -> list[Token]:
    """The tokens; up to ``longest`` neighbours are joined if they form a listed word (C#) or a compound of one."""
    tokens, found, place = split_punctuation(tokens), list[Token](), 0
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
    """The listed word of this text, or the two words of a compound of one with a hyphen (3D-printed, non-New York);
    else empty.
    """
    if is_listed(text):
        return (text,)
    hyphens = list(re.finditer(f"[{HYPHENS}]", text))
    for hyphen in hyphens if len(hyphens) <= MOST_HYPHENS else ():
        both = text[: hyphen.start()], text[hyphen.end() :]
        known = [is_listed(one) for one in both]
        if any(known) and all(known[i] or re.sub(f"[{HYPHENS}'{APOSTROPHES}]", "", both[i]).isalpha() for i in (0, 1)):
            return both
    return ()


def with_apostrophes(tokens: list[Token], is_listed: Callable[[str], Any]) -> list[Token]:
    """The tokens; an apostrophe that ends or begins a listed word (goin', 'frisco) belongs to it.

    An apostrophe that can only close or open a quotation does not.
    """
    found, is_open = list[Token](), False
    closing = {
        place
        for place in range(1, len(tokens))
        if straight(tokens[place].text[0]) == "'"
        and tokens[place].kind == "punctuation"
        and tokens[place - 1].kind not in ("punctuation", "unknown")
        and not tokens[place - 1].space
    }
    last_closing = max(closing, default=0)
    for place, token in enumerate(tokens):
        before = found[-1] if found else None
        if place in closing and before:
            word = f"{straight(before.text)}'"
            spoken = SHORTENED.get(word.lower(), word)
            if (spoken != word or is_listed(word)) and not (is_open and place == last_closing):
                found[-1] = Token(before.text + token.text[0], (spoken,), "word", "" if token.text[1:] else token.space)
                token = token._replace(text=token.text[1:])
                if not token.text:
                    continue
            else:
                is_open = False
        elif before and before.kind == "punctuation" and not before.space and straight(before.text[-1]) == "'":
            is_quoted = place + 1 in closing
            word = f"'{straight(token.text)}"
            if token.kind != "punctuation" and not is_quoted and len(token.text) > 1 and is_listed(word):
                rest = before.text[:-1]
                found[-1:] = [before._replace(text=rest)] if rest else []
                token = token._replace(text=before.text[-1] + token.text, parts=(word,), kind="word")
            else:
                is_open = True
        found.append(token)
    return found


def split_punctuation(tokens: list[Token]) -> list[Token]:
    """The tokens, with each punctuation mark as a token of its own: in "C#." the first may belong to a listed word."""
    found = []
    for token in tokens:
        if token.kind == "punctuation":
            found += [token._replace(text=sign, space="") for sign in token.text[:-1]]
            token = token._replace(text=token.text[-1:])
        found.append(token)
    return found


def _address_tokens(address: str) -> list[Token]:
    """The tokens of an address: its words, numbers, codes and signs. A word without a vowel is an acronym."""
    tokens = []
    for piece in IN_ADDRESSES.findall(address):
        sign = chr(int(piece[1:], 16)) if len(piece) > 1 and piece[0] == "%" else piece
        if spoken := IN_ADDRESS.get(sign) or SYMBOLS.get(sign):
            tokens.append(Token(piece, tuple(spoken.split()), "word"))
        elif piece.isascii() and piece.isalpha() and not set(piece.lower()) & set("aeiouy"):
            tokens.append(Token(piece, tuple(piece.upper()), "acronym"))
        elif piece.isalnum() and not piece.isalpha() and not piece.isdecimal():
            tokens.append(Token(piece, *spelled_code(piece)))
        else:
            is_word = piece.isalnum()
            tokens.append(_token("number" if piece.isdecimal() else "word" if is_word else "punctuation", piece, True))
    return tokens


def _word_in_context(
    text: str, place: int, end: int, tokens: list[Token], is_mixed: bool
) -> tuple[str, int, str | None]:
    """The kind of a word, its end, and its spoken words, which are None if the context does not change them."""
    before = tokens[-1] if tokens else None
    is_glued = len(tokens) > 1 and not tokens[-2].space and bool(tokens[-2].parts) and tokens[-2].text.isalpha()  # K8s
    number = None if is_glued else _number_before(tokens)
    word = text[place:end]
    if before and before.text == "#" and before.parts:
        return "word", end, " ".join(re.findall("[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+", word))
    after_article = number is not None and len(tokens) > 1 and tokens[-2].text.lower() in ("a", "an")
    word_before = before.text if before and before.space == " " else ""
    if word_before == "." and len(tokens) > 1 and tokens[-2].text.lower() in DIVISIONS and not tokens[-2].space:
        word_before = tokens[-2].text  # vol. iii
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
        text[end : end + 1].isdigit() or "&" in text[end : end + 1] + text[max(place - 1, 0) : place]
    ):
        return "dotted", end, None  # CO2, AT&T
    return "word", end, "a" if _is_article(text, place, end, tokens, is_mixed) else None


def straight(word: str) -> str:
    """A word with straight apostrophes, and with hyphens as on a keyboard."""
    return word if word.isascii() else word.translate(STRAIGHT)  # as most of a dictionary's words are


def plain(word: str) -> str:
    """A word in the letters of English: without accents, with straight apostrophes.

    The combining signs of Indian scripts stay. They are not accents: they mark a vowel or the lack of one.
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
        is_mixed: whether the whole text has lowercase letters, so that uppercase letters can mark an acronym
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
    if kind == "name":
        return Token(written, parts_of_name(written), "compound")
    parts, read = reading(written, is_mixed, is_alone)
    if read == "word":
        spoken = SYMBOLS.get(written) or written.replace("-n-", "-and-")
        parts = tuple(spoken.split(" "))
    return Token(written, parts, read)


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
    """Whether a word is an uppercase A that is the article.

    It is if a word or a number follows, and if it begins a sentence or the whole text is uppercase.
    """
    following = re.compile(r"\s+(\w\w+|\d)").match(text, end)
    if text[start:end] != "A" or not following or following[1].lower() in AFTER_LETTER_A:
        return False
    before = tokens[-1] if tokens else None
    is_first = before is None or "\n" in before.space or (before.kind == "punctuation" and before.text not in "/-&")
    return is_first or not is_mixed


def _end_of_number(text: str, classes: str, start: int, end: int) -> int:
    """The end of a number with its ending (3rd, 1990s), or with the scale or the currency of an amount."""
    amount = TIME.match(text, start) or AMOUNT.match(text, start) or TRAILING.match(text, start)
    if amount:
        return amount.end()
    if text[start] in CURRENCIES:
        return end
    letters = re.compile("[aA]*").match(classes, end).end()  # type: ignore[union-attr]  # it always matches
    is_whole = "." not in text[start:end]
    ending = text[end:letters].lower() if is_whole else ""
    return letters if ending in ORDINALS or (ending == "s" and _is_plural(text, start, end)) else end


def _is_plural(text: str, start: int, end: int) -> bool:
    """Whether a number with an s is a plural, as 1990s, in the 80s or 0s and 1s, and not a number of seconds."""
    number, after = text[start:end], text[end + 1 : end + 9]
    is_bit = number == "0" or text.startswith("0s and ", start - 7) or after.startswith(" and 0s")
    is_decade = (
        len(number) == 2 and number >= "20" and number[1] == "0" and DECADE.search(text[max(0, start - 30) : start])
    )
    return bool(len(number) == 4 or is_bit or is_decade or after.startswith(" of "))


@cache
def _class_of(character: str) -> str:
    """The class of a character in ``TOKENS``.

    "A": an uppercase letter; "a": another letter, a mark or a format character; "0": a digit; " ": white space; "$":
    the sign of a currency; "m": the minus sign; "%": another symbol that is spoken; "'": an apostrophe; "-": a hyphen;
    ".": a period; ",": a comma; "_": an underscore; "p": other punctuation; "e": one of ``EMOJI_MARKS``; "x": anything
    else.
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
    if character == "_":
        return "_"
    if MARKS.match(character):
        return "p"
    if character in SUPERSCRIPTS:
        return "x"
    if category[0] in "LM" or category == "Cf":
        return "A" if category == "Lu" else "a"
    return "p" if category[0] == "P" else "x"
