"""Tokens as a reader wants to see them, and which of them belong to one word."""

from collections.abc import Sequence
from typing import Any

from ..phonemes import token_names

WORD_STARTS = ("▁", "Ġ")  # of SentencePiece, and of byte-level BPE
CONTINUES = "##"  # of WordPiece


def shown_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The tokens of these ids without the marks of a word's start, and bytes as the characters that they are."""
    raw = token_names(tokenizer, list(ids))
    is_byte_level = any("Ġ" in token for token in raw)
    shown = []
    for number, token in zip(ids, raw, strict=True):
        if is_byte_level and number not in tokenizer.all_special_ids:
            decoded = tokenizer.decode([number]).strip()
            token = decoded if decoded and "\ufffd" not in decoded else token
        shown.append(token.removeprefix("▁").removeprefix("Ġ") or token)
    return shown


def word_numbers(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The number of the word that each token belongs to, by the marks of SentencePiece, byte-level BPE and WordPiece.

    Special tokens and punctuation marks are words of their own. Without any mark every token is a word.
    """
    special = set(tokenizer.all_special_ids)
    raw = token_names(tokenizer, list(ids))
    has_starts = any(token.startswith(WORD_STARTS) for token in raw)
    has_continuations = any(token.startswith(CONTINUES) for token in raw)
    numbers: list[int] = []
    joins = False  # whether a token may continue the word before it
    for number, token in zip(ids, raw, strict=True):
        if has_continuations:
            continues = token.startswith(CONTINUES)
        else:
            continues = has_starts and not token.startswith(WORD_STARTS) and any(map(str.isalnum, token))
        is_special = number in special
        numbers.append((numbers[-1] if numbers else -1) + (not (continues and joins and not is_special)))
        joins = not is_special
    return numbers
