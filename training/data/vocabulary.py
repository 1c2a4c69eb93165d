"""Shared parts of the tasks' tokenizers: special tokens, the Unicode form of letters, the vocabulary's size."""

import random
from collections.abc import Iterable
from typing import Any

import datasets
from tokenizers import Tokenizer, normalizers, processors
from transformers import PreTrainedTokenizerFast

from .row_checks import Rows

VOCABULARY_ROWS = 200_000  # more rows change a vocabulary little, and each million takes a minute
PAD, START, END, UNKNOWN, MASK = "<pad>", "<s>", "</s>", "<unk>", "<mask>"
ROLES = {PAD: "pad_token", START: "bos_token", END: "eos_token", UNKNOWN: "unk_token", MASK: "mask_token"}


def finished(
    tokenizer: Tokenizer, special_tokens: Iterable[str], template: str, pair: str | None = None, **options: Any
) -> PreTrainedTokenizerFast:
    """The tokenizer for Transformers, with the roles of its special tokens.

    Args:
        tokenizer: the tokenizer, which knows these tokens
        special_tokens: some of those above
        template: a text, ``$A``, with the special tokens that are added to it
        pair: the same for two texts, ``$A`` and ``$B``
        options: arguments of ``PreTrainedTokenizerFast``
    """
    added = [(token, tokenizer.token_to_id(token)) for token in special_tokens if token in template]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, pair=pair, special_tokens=added)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{ROLES[token]: token for token in special_tokens}, **options
    )


def normalizer(normalization: str | None) -> list[Any]:
    """The steps of a tokenizer's normalizer for ``task.data.normalization``; an empty list for None."""
    if normalization == "strip_accents":
        return [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    forms: dict[str | None, list[Any]] = {None: [], "nfc": [normalizers.NFC()], "nfd": [normalizers.NFD()]}
    return forms[normalization]


def vocabulary_rows(rows: Rows, most: int) -> Rows:
    """The training rows that a vocabulary is learned from; see ``task.data.vocabulary_rows``."""
    if isinstance(rows, datasets.IterableDataset):
        return rows.take(most)
    return rows if len(rows) <= most else rows.select(sorted(random.Random(1).sample(range(len(rows)), most)))


def refuse_no_rows(most: int) -> None:
    """Raise a ValueError if ``task.data.vocabulary_rows`` leaves no row."""
    if most < 1:
        raise ValueError(f"vocabulary_rows must be at least 1, got {most}")


def refuse_overfull(size: int, asked: int) -> None:
    """Raise a ValueError if the characters of the data, which all become tokens, are more than ``asked``."""
    if size > asked:
        raise ValueError(
            f"task.data.vocabulary_size is {asked:,}, and the characters of the training rows are {size:,} tokens "
            f"with the special ones; set it above {size:,}, so that there is room for subwords"
        )
