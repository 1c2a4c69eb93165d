"""Held-out splits for data that has none: taken out of the training rows by a hash of their text."""

import hashlib

import datasets

from .sources import Rows


def with_held_out(splits: dict[str, Rows], column: str = "text") -> dict[str, Rows]:
    """All three splits: those given, the others taken out of the training split by a hash of a column of text.

    The SHA-1 of the text modulo 100: below 10 test, below 20 validation. Validation and test are held where the
    training split is a stream.
    """
    taken = [split for split in ("validation", "test") if split not in splits]

    def part(name: str) -> Rows:
        def is_in(texts: list[str]) -> list[bool]:
            splits_of_texts = (split_of(text) for text in texts)
            return [(split if split in taken else "train") == name for split in splits_of_texts]

        return splits["train"].filter(is_in, batched=True, input_columns=[column])

    if taken:
        splits = splits | {split: part(split) for split in ("train", *taken)}
    return {
        split: datasets.Dataset.from_list(list(rows))
        if split != "train" and isinstance(rows, datasets.IterableDataset)
        else rows
        for split, rows in splits.items()
    }


def split_of(text: str) -> str:
    """The split of a text in data that has all three taken out of it."""
    bucket = int(hashlib.sha1(text.encode()).hexdigest(), 16) % 100
    return "test" if bucket < 10 else "validation" if bucket < 20 else "train"
