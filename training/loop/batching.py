"""Batches of examples of similar length, counted in tokens."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Example = dict[str, Any]


def length_of(example: Example) -> tuple[int, int]:
    """The number of tokens of source and target. The target counts as one if it is a number or made by the collator."""
    labels = example.get("labels")
    return len(example["input_ids"]), len(labels) if isinstance(labels, list) else 1


def lengths_of(examples: datasets.Dataset) -> np.ndarray:
    """The results of ``length_of`` for every example, from the offsets of its lists: the lists themselves are not read.

    Shape:
        - returns: (N, 2) int32
    """
    lengths = np.ones((len(examples), 2), dtype=np.int32)
    start = 0
    for table in examples.with_format("arrow").iter(10_000):
        for side, name in enumerate(("input_ids", "labels")):
            if name in table.column_names and pa.types.is_nested(table[name].type):
                lengths[start : start + len(table), side] = pc.list_value_length(table[name])
        start += len(table)
    return lengths


class LengthBatches:
    """Batches of an epoch, in an order that the seed and the number of the epoch choose."""

    batches_per_epoch: int | None = None  # if it is known

    def __init__(self, batch_tokens: int, seed: int, multiple_of: int, describe: Callable[[Any], str]) -> None:
        self.batch_tokens, self.seed, self.multiple_of, self.describe = batch_tokens, seed, multiple_of, describe
        self.epoch = self.skipped = 0

    def start_at(self, epoch: int, skipped: int = 0) -> None:
        """Choose the order, which is the same for epoch n in every run, and skip the first ``skipped`` batches."""
        self.epoch, self.skipped = epoch, skipped

    def _random(self) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.epoch))


class LengthBatchSampler(LengthBatches):
    """Batches of row numbers, at most ``batch_tokens`` tokens each, in a new order every epoch.

    Rows are sorted by source length, then by target length; rows of equal lengths come in random order. The sorted
    rows are cut into batches, and the batches are shuffled. A longer source starts a new batch if the current one is at
    least half full, so that most batches have no padding in the source and few are small. The tokens of a batch are its
    number of rows times its longest side.

    Args:
        lengths: (source, target) length of every row
        batch_tokens: the largest number of tokens in a batch
        seed: chooses the order, together with the number of the epoch
        multiple_of: drop batches at the end of an epoch so that a multiple of this is left. If it is the number of
            processes times the accumulation steps, no optimiser step spans two epochs and no process waits.
        describe: the name of a row in messages, by its number

    Raises:
        ValueError: there are no rows, too few for ``multiple_of`` batches, or a row is longer than ``batch_tokens``.
    """

    batches_per_epoch: int

    def __init__(
        self,
        lengths: Sequence[tuple[int, int]] | np.ndarray,
        batch_tokens: int,
        seed: int,
        multiple_of: int = 1,
        describe: Callable[[int], str] = str,
    ) -> None:
        if not len(lengths):
            raise ValueError("there are no examples to train on")
        self.lengths = np.asarray(lengths)
        if self.lengths.max() > batch_tokens:
            row = int(self.lengths.max(axis=1).argmax())
            raise _too_long(describe(row), self.lengths[row].max(), batch_tokens)
        super().__init__(batch_tokens, seed, multiple_of, describe)
        num_batches = len(self._batches())  # the same in every epoch: it depends on the lengths alone
        self.batches_per_epoch = num_batches - num_batches % multiple_of
        if not self.batches_per_epoch:
            raise _too_few(len(self.lengths), num_batches, batch_tokens, multiple_of)

    def __len__(self) -> int:
        return self.batches_per_epoch - self.skipped

    def __iter__(self) -> Iterator[list[int]]:
        yield from self._batches()[self.skipped : self.batches_per_epoch]

    def _batches(self) -> list[list[int]]:
        return _length_batches(self.lengths, self.batch_tokens, self._random())


class LengthBatchStream(LengthBatches):
    """Batches of similar length from a stream, of which only a part is in memory at a time.

    The stream is shuffled in every epoch through a buffer of ``SHUFFLED`` examples. The shuffled examples are collected
    until they fill ``POOLED`` batches; these are sorted, cut and shuffled as ``LengthBatchSampler`` does with all rows.
    To start in the middle of an epoch, the stream is read again from its beginning.

    Args:
        examples: ``input_ids`` and ``labels``
        batch_tokens: the largest number of tokens in a batch
        seed: chooses the order, together with the number of the epoch
        multiple_of: as for ``LengthBatchSampler``
        describe: the name of an example in messages
        longest: the longest example as a message shows it, and its number of tokens, if known; it is checked at once

    Raises:
        ValueError: the longest example has more than ``batch_tokens`` tokens. While it is read: there are no examples,
            too few for ``multiple_of`` batches, or one is longer than ``batch_tokens``.
    """

    SHUFFLED = 10_000
    POOLED = 100

    def __init__(
        self,
        examples: datasets.IterableDataset,
        batch_tokens: int,
        seed: int,
        multiple_of: int = 1,
        describe: Callable[[Example], str] = str,
        longest: tuple[str, int] | None = None,
    ) -> None:
        if longest is not None and longest[1] > batch_tokens:
            raise _too_long(longest[0], longest[1], batch_tokens)
        super().__init__(batch_tokens, seed, multiple_of, describe)
        self.examples = examples

    def __iter__(self) -> Iterator[list[Example]]:
        return itertools.islice(self._whole_steps(), self.skipped, None)

    def _whole_steps(self) -> Iterator[list[Example]]:
        """The batches up to the last multiple of ``multiple_of``."""
        num_batches = num_examples = 0
        step: list[list[Example]] = []
        for batch in self._batches():
            step.append(batch)
            num_batches += 1
            num_examples += len(batch)
            if len(step) == self.multiple_of:
                yield from step
                step = []
        if not num_examples:
            raise ValueError("there are no examples to train on")
        if num_batches < self.multiple_of:
            raise _too_few(num_examples, num_batches, self.batch_tokens, self.multiple_of)

    def _batches(self) -> Iterator[list[Example]]:
        random = self._random()
        pool: list[Example] = []
        lengths: list[tuple[int, int]] = []
        tokens = 0
        for example in self.examples.shuffle(generator=random, buffer_size=self.SHUFFLED):
            length = length_of(example)
            if max(length) > self.batch_tokens:
                raise _too_long(self.describe(example), max(length), self.batch_tokens)
            pool.append(example)
            lengths.append(length)
            tokens += max(length)
            if tokens >= self.POOLED * self.batch_tokens:
                yield from ([pool[i] for i in rows] for rows in _length_batches(lengths, self.batch_tokens, random))
                pool, lengths, tokens = [], [], 0
        if pool:
            yield from ([pool[i] for i in rows] for rows in _length_batches(lengths, self.batch_tokens, random))


def _length_batches(
    lengths: Sequence[tuple[int, int]] | np.ndarray, batch_tokens: int, random: np.random.Generator
) -> list[list[int]]:
    """Row numbers in batches; see ``LengthBatchSampler``."""
    lengths = np.asarray(lengths)
    order = np.lexsort((random.random(len(lengths)), lengths[:, 1], lengths[:, 0]))
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = source_length = 0
    for row, source, target in zip(order.tolist(), *lengths[order].T.tolist(), strict=True):
        longest = max(longest, source, target)
        is_full = (len(batch) + 1) * longest > batch_tokens
        is_next_length = source > source_length and 2 * len(batch) * longest >= batch_tokens
        if batch and (is_full or is_next_length):
            batches.append(batch)
            batch, longest = [], max(source, target)
        batch.append(row)
        source_length = source
    batches.append(batch)
    random.shuffle(batches)
    return batches


def check_lengths(
    examples: datasets.Dataset, split: str, batch_tokens: int, describe: Callable[[Example], str]
) -> None:
    """Raise a ValueError if an example of a held-out split is longer than a batch, as it does for training examples."""
    tokens = lengths_of(examples).max(axis=1)
    if (tokens > batch_tokens).any():
        row = int((tokens > batch_tokens).argmax())
        raise _too_long(describe(examples[row]), tokens[row], batch_tokens, split)


def _too_long(what: str, tokens: int, batch_tokens: int, split: str = "training") -> ValueError:
    return ValueError(
        f"the {split} example {what} has {tokens} tokens, more than batch_tokens={batch_tokens}; raise it, or "
        "drop the row"
    )


def _too_few(num_examples: int, num_batches: int, batch_tokens: int, multiple_of: int) -> ValueError:
    return ValueError(
        f"{num_examples} examples make {num_batches} batches of at most {batch_tokens} tokens, fewer than the "
        f"{multiple_of} of one optimiser step; lower batch_tokens or accumulation_steps"
    )
