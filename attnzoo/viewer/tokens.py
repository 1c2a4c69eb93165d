"""Tokens as a reader wants to see them, and which of them belong to one word."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..phonemes import token_names

MOST_PARTS = 4  # bytes of a character in UTF-8, and so tokens that it can be split over
CONTINUES = "##"  # of WordPiece
SPACES = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "⏎"})


class Tokens(NamedTuple):
    """The tokens of one side.

    Attributes:
        ids: their ids; empty for hops
        names: their texts, without the marks of a word's start. A character that is split over n tokens is shown with
            each of them, as "é 1/2" and "é 2/2"
        words: the number of the word that each belongs to
        word_names: the text of every word; None for tokens that are words
        special: the places of special tokens, such as the end
    """

    ids: list[int]
    names: list[str]
    words: list[int]
    word_names: list[str] | None = None
    special: frozenset[int] = frozenset()


def tokens_of(tokenizer: Any, ids: Sequence[int]) -> Tokens:
    """The tokens of these ids.

    The tokenizer decodes the texts, so a mark of a word's start or of a byte is read as one only where the tokenizer
    writes such marks: the Ġ of a tokenizer of whole words is a letter.

    Words are found by the marks of SentencePiece, byte-level BPE and WordPiece. Special tokens and punctuation marks
    are words of their own. Without marks every token is a word.
    """
    ids, raw = list(ids), token_names(tokenizer, list(ids))
    all_special = {*tokenizer.all_special_ids}  # made anew by every call
    is_special = [number in all_special for number in ids]
    texts, parts = _texts(tokenizer, ids, raw, is_special)
    names = [text if count == 1 else f"{text} {part}/{count}" for text, (part, count) in zip(texts, parts, strict=True)]
    kind, continues = _marks(tokenizer, raw), [False] * len(ids)
    if kind == CONTINUES:
        continues = [token.startswith(CONTINUES) for token in raw]
    elif kind is not None:
        has_letters = [any(map(str.isalnum, text)) for text in texts]
        after_letters = [False, *(found or token == kind for found, token in zip(has_letters, raw, strict=True))]
        facts = zip(raw, has_letters, after_letters, strict=False)
        continues = [not token.startswith(kind) and found and before for token, found, before in facts]
    after_special = [True, *is_special]  # the first token starts a word, too
    starts = [
        part == 1 and (not joined or here or before)
        for joined, here, before, (part, _) in zip(continues, is_special, after_special, parts, strict=False)
    ]
    words = [number - 1 for number in accumulate(starts)]
    of_words: list[list[int]] = [[] for _ in range(words[-1] + 1 if words else 0)]
    for place, word in enumerate(words):
        of_words[word].append(place)
    word_names = [
        names[places[0]] if len(places) == 1 else _decoded(tokenizer, [ids[place] for place in places]).strip()
        for places in of_words
    ]
    return Tokens(ids, names, words, word_names, frozenset(place for place, here in enumerate(is_special) if here))


def _texts(
    tokenizer: Any, ids: list[int], raw: list[str], is_special: list[bool]
) -> tuple[list[str], list[tuple[int, int]]]:
    """The text of every token, with which part of the text it is, from 1, and the number of parts."""
    vocabulary = tokenizer.get_added_vocab()
    is_kept = [here or token in vocabulary for here, token in zip(is_special, raw, strict=True)]
    alone = [token if kept else _decoded(tokenizer, [one]) for kept, token, one in zip(is_kept, raw, ids, strict=True)]
    # Some tokenizers decode a byte that is not a whole character as U+FFFD, others as nothing.
    is_part = [
        not kept and ("\ufffd" in text or not (text or token.startswith("▁")))
        for kept, text, token in zip(is_kept, alone, raw, strict=True)
    ]
    texts: list[str] = []
    parts: list[tuple[int, int]] = []
    while (place := len(texts)) < len(ids):
        text, count = alone[place], 1
        for size in range(2, MOST_PARTS + 1):
            if len(ids) < place + size or not all(is_part[place : place + size]):
                break
            decoded = _decoded(tokenizer, ids[place : place + size])
            if decoded and "\ufffd" not in decoded:
                text, count = decoded, size
                break
        text = text.strip() or text.translate(SPACES) or raw[place].replace("▁", "␣")
        texts += [text] * count
        parts += [(part, count) for part in range(1, count + 1)]
    return texts, parts


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _marks(tokenizer: Any, raw: list[str]) -> str | None:
    """The mark at the beginning of tokens that start a word, or for WordPiece continue one; None if there is none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # a tokenizer in Python: those with marks are of SentencePiece
        return "▁" if any(token.startswith("▁") for token in raw) else None
    steps = [backend.normalizer, backend.pre_tokenizer, backend.decoder]
    written = b"".join(step.__getstate__() for step in steps if step is not None).decode()
    if '"ByteLevel"' in written:
        return "Ġ"
    if "▁" in written:
        return "▁"
    return CONTINUES if type(backend.model).__name__ == "WordPiece" or '"WordPiece"' in written else None
