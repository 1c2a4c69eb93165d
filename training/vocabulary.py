"""What the tokenizers of several tasks share: the normal form of letters, and a size that is kept."""

from typing import Any

from tokenizers import normalizers


def normalizer(normalization: str | None) -> list[Any]:
    """The steps of a tokenizer's normalizer for ``task.data.normalization``; none for None."""
    if normalization == "strip_accents":
        return [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    forms: dict[str | None, list[Any]] = {None: [], "nfc": [normalizers.NFC()], "nfd": [normalizers.NFD()]}
    return forms[normalization]


def refuse_overfull(size: int, asked: int) -> None:
    """Raise a ValueError if a vocabulary has more characters, all of which it keeps, than the tokens asked for."""
    if size > asked:
        raise ValueError(
            f"task.data.vocabulary_size is {asked:,}, and the characters of the training split are {size:,} tokens "
            f"with the special ones; set it above {size:,}, so that there is room for subwords"
        )
