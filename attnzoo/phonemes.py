"""Phonemes as tokens: ``K AE T`` is written ``⟦K⟧⟦AE⟧⟦T⟧`` for a tokenizer of letters and phonemes.

One tokenizer encodes words and pronunciations. The brackets keep the two apart: the ``B`` of ``Bob`` is a letter, and
``⟦B⟧`` is a phoneme. No keyboard has these brackets. Decoding removes them.
"""

import re
from typing import Any

from .messages import shown

OPEN, CLOSE = "⟦", "⟧"
DEFAULT_ACCENT = f"{OPEN}us{CLOSE}"  # for a model of several accents
ACCENT_AND_SPELLING = re.compile(rf"({OPEN}[a-z]{{2,}}(?:_[a-z]+)*{CLOSE})?(.*)", re.DOTALL)


def accent_and_spelling(word: str) -> tuple[str, str]:
    """The token of the accent or language that a word begins with, such as ⟦us⟧ (or an empty text), and the rest."""
    accent, spelling = ACCENT_AND_SPELLING.fullmatch(word).groups("")  # type: ignore[union-attr]  # any text matches
    return accent, spelling


def bracketed(pronunciation: str) -> str:
    """``K AE T`` as ``⟦K⟧⟦AE⟧⟦T⟧``, for ``tokenizer(word, text_target=...)``. Phonemes in brackets stay as they are."""
    return "".join(
        phoneme if phoneme.startswith(OPEN) else f"{OPEN}{phoneme}{CLOSE}" for phoneme in pronunciation.split()
    )


def require_phonemes(tokenizer: Any, pronunciation: str, name: str) -> None:
    """Check that a tokenizer of phonemes has every phoneme of a pronunciation; ``name`` is its name in the error.

    Raises:
        ValueError: a phoneme is missing; the message names those that differ from it by their stress alone.
    """
    known = known_phonemes(tokenizer)
    for phoneme in pronunciation.split():
        bare = phoneme.removeprefix(OPEN).removesuffix(CLOSE)
        if bare not in known:
            alike = sorted(one for one in known if one.strip("012\u02c8\u02cc") == bare.strip("012\u02c8\u02cc"))
            remedy = f"; it has {', '.join(alike)}" if alike else ""
            raise ValueError(f"{name} has the phoneme {shown(bare)}, which the model does not know{remedy}")


def known_phonemes(tokenizer: Any) -> set[str]:
    """The phonemes of a tokenizer, without their brackets; empty if it has no phonemes."""
    return {token[1:-1] for token in tokenizer.get_added_vocab() if _is_phoneme(token)}


def token_names(tokenizer: Any, ids: Any) -> list[str]:
    """The tokens of these ids, phonemes without their brackets."""
    return [token[1:-1] if _is_phoneme(token) else token for token in tokenizer.convert_ids_to_tokens(ids)]


def unknown_parts(tokenizer: Any, encoded: Any, row: int, *texts: str | list[str]) -> list[str]:
    """The parts of a text, or of two, that the tokenizer reads as its unknown token, in the row of what it returned.

    A tokenizer that is not fast does not tell them: then its unknown token stands for each.
    """
    unknown, parts = tokenizer.unk_token_id, list[str]()
    for place, number in enumerate(encoded["input_ids"][row]):
        if unknown is None or number != unknown:
            continue
        if not tokenizer.is_fast:
            parts.append(tokenizer.unk_token)
        elif span := encoded.token_to_chars(row, place):  # None for a special token
            text = texts[encoded.token_to_sequence(row, place)]
            whole = text if isinstance(text, str) else text[encoded.token_to_word(row, place)]
            parts.append(whole[span.start : span.end])
    return [part for part in parts if part != tokenizer.unk_token or not tokenizer.is_fast]


def _is_phoneme(token: str) -> bool:
    return token.startswith(OPEN) and token.endswith(CLOSE)
