"""Tokens as a reader wants to see them, and which of them belong to one word."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ..phonemes import token_names

WORD_STARTS = ("▁", "Ġ")  # of SentencePiece, and of byte-level BPE
CONTINUES = "##"  # of WordPiece


def shown_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The tokens of these ids without the marks of a word's start, and bytes as the characters that they are."""
    raw = token_names(tokenizer, list(ids))
    is_byte_level = any("Ġ" in token for token in raw)
    shown, special = [], {*tokenizer.all_special_ids}
    for number, token in zip(ids, raw, strict=True):
        if is_byte_level and number not in special:
            decoded = tokenizer.decode([number]).strip()
            token = decoded if decoded and "\ufffd" not in decoded else token
        shown.append(token.removeprefix("▁").removeprefix("Ġ") or token)
    return shown


def word_numbers(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The number of the word that each token belongs to, by the marks of SentencePiece, byte-level BPE and WordPiece.

    Special tokens and punctuation marks are words of their own. Without any mark every token is a word.
    """
    raw = token_names(tokenizer, list(ids))
    special = {*tokenizer.all_special_ids}  # made anew by every call
    is_special = [number in special for number in ids]
    continues = [token.startswith(CONTINUES) for token in raw]
    if not any(continues) and any(token.startswith(WORD_STARTS) for token in raw):
        continues = [not token.startswith(WORD_STARTS) and any(map(str.isalnum, token)) for token in raw]
    after_special = [True, *is_special]  # the first token starts a word, too
    starts = [not part[0] or part[1] or part[2] for part in zip(continues, is_special, after_special, strict=False)]
    return [number - 1 for number in accumulate(starts)]
