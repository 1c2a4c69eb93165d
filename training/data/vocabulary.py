"""Shared parts of the tasks' tokenizers: special tokens, the Unicode form of letters, the vocabulary's size."""

from typing import Any

from tokenizers import normalizers

PAD, START, END, UNKNOWN, MASK = "<pad>", "<s>", "</s>", "<unk>", "<mask>"


def normalizer(normalization: str | None) -> list[Any]:
    """The steps of a tokenizer's normalizer for ``task.data.normalization``; an empty list for None."""
    if normalization == "strip_accents":
        return [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    forms: dict[str | None, list[Any]] = {None: [], "nfc": [normalizers.NFC()], "nfd": [normalizers.NFD()]}
    return forms[normalization]


def refuse_overfull(size: int, asked: int) -> None:
    """Raise a ValueError if the characters of the data, which all become tokens, are more than ``asked``."""
    if size > asked:
        raise ValueError(
            f"task.data.vocabulary_size is {asked:,}, and the characters of the training split are {size:,} tokens "
            f"with the special ones; set it above {size:,}, so that there is room for subwords"
        )
