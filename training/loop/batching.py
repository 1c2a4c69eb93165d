"""Batches of examples of similar length, counted in tokens."""

import copy
import itertools
from collections import deque
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
        self.epoch = self.skipped = self.process = 0
        self.num_processes = 1

    def start_at(self, epoch: int, skipped: int = 0, process: int = 0, num_processes: int = 1) -> None:
        """Choose the epoch, whose order is the same in every run, and this process's share of its batches.

        A process makes every ``num_processes``-th one, from number ``process`` on, without its first ``skipped``.
        """
        self.epoch, self.skipped, self.process, self.num_processes = epoch, skipped, process, num_processes

    def _random(self, lane: int = 0) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.epoch, lane))


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

    def __iter__(self) -> Iterator[list[int]]:
        own = self._batches()[self.process : self.batches_per_epoch : self.num_processes]
        yield from own[self.skipped :]

    def _batches(self) -> list[list[int]]:
        return _length_batches(self.lengths, self.batch_tokens, self._random())


class LengthBatchStream(LengthBatches):
    """Batches of similar length from a stream, of which only a part is in memory at a time.

    An optimiser step has ``multiple_of`` batches, and the rows are dealt to as many *lanes*, at random and anew in
    every epoch. Batch i of a step is always of lane i. A process encodes only the rows of its own lanes. So the batches
    do not depend on the number of processes. An epoch ends when a lane has no batch left; the rest of the other lanes
    is left out.

    The examples of a lane are shuffled through a buffer of ``SHUFFLED`` examples and then collected until they fill
    ``POOLED`` batches; these are sorted, cut and shuffled as ``LengthBatchSampler`` does with all rows. To start in the
    middle of an epoch, the stream is read again from its beginning.

    Args:
        rows: the training rows
        encode: a function from a batch of rows to the columns of their examples: ``input_ids``, ``labels``
        batch_tokens: the largest number of tokens in a batch
        seed: chooses the order, together with the number of the epoch
        multiple_of: the number of batches in an optimiser step
        describe: the name of an example in messages
        longest: the longest example as a message shows it, and its number of tokens, if known; it is checked at once

    Raises:
        ValueError: the longest example has more than ``batch_tokens`` tokens. While it is read: there are no rows, too
            few for ``multiple_of`` batches, or an example of this process is longer than ``batch_tokens``.
    """

    READ = 1000  # rows that are dealt together
    SHUFFLED = 10_000
    POOLED = 100

    def __init__(
        self,
        rows: datasets.IterableDataset,
        encode: Callable[[dict[str, list[Any]]], dict[str, list[Any]]],
        batch_tokens: int,
        seed: int,
        multiple_of: int = 1,
        describe: Callable[[Example], str] = str,
        longest: tuple[str, int] | None = None,
    ) -> None:
        if longest is not None and longest[1] > batch_tokens:
            raise _too_long(longest[0], longest[1], batch_tokens)
        super().__init__(batch_tokens, seed, multiple_of, describe)
        self.rows, self.encode = rows, encode

    def __iter__(self) -> Iterator[list[Example]]:
        """The batches of the process, one of each of its lanes in turn, while all of these have one."""
        waiting: dict[int, deque[Example]] = {
            lane: deque() for lane in range(self.process, self.multiple_of, self.num_processes)
        }
        reading = self._read(waiting)
        lanes = [self._batches(lane, _taken(examples, reading)) for lane, examples in waiting.items()]
        return itertools.islice(itertools.chain.from_iterable(zip(*lanes, strict=False)), self.skipped, None)

    def _read(self, waiting: dict[int, deque[Example]]) -> Iterator[None]:
        """Read the stream part by part, and add the examples of each part to those that wait in their lanes."""
        rows, dealing, num_rows = self.rows, self._random(self.multiple_of), 0
        if rows.num_shards > 1:  # shuffles the shards; the buffer of one row does nothing
            rows = rows.shuffle(generator=self._random(), buffer_size=1)
        filled = set[int]()
        for part in rows.iter(self.multiple_of * max(1, self.READ // self.multiple_of)):
            length = len(next(iter(part.values())))
            num_rows += length
            lane_of_row = dealing.permutation(length) % self.multiple_of
            for lane, examples in waiting.items():
                own = np.flatnonzero(lane_of_row == lane).tolist()
                if own:
                    encoded = self.encode({name: [values[row] for row in own] for name, values in part.items()})
                    of_rows = zip(*encoded.values(), strict=True)
                    examples.extend(dict(zip(encoded, values, strict=True)) for values in of_rows)
                if examples:
                    filled.add(lane)
            yield
        if not num_rows:
            raise ValueError("there are no examples to train on")
        if filled != waiting.keys():
            raise ValueError(
                f"a stream of {num_rows} rows does not fill the {self.multiple_of} batches of one optimiser step; give "
                "more rows, or lower accumulation_steps or the number of processes"
            )

    def _batches(self, lane: int, examples: Iterator[Example]) -> Iterator[list[Example]]:
        random = self._random(lane)
        pool: list[Example] = []
        lengths: list[tuple[int, int]] = []
        tokens = 0
        for example in _shuffled(examples, self.SHUFFLED, copy.deepcopy(random)):
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


def _taken(waiting: deque[Example], reading: Iterator[None]) -> Iterator[Example]:
    """The examples of a lane; the stream is read when none waits."""
    while waiting or next(reading, reading) is None:
        while waiting:
            yield waiting.popleft()


def _shuffled(examples: Iterator[Example], size: int, random: np.random.Generator) -> Iterator[Example]:
    """The examples in random order: when ``size`` of them wait, a random half is yielded, and the others stay."""
    held: list[Example] = []
    for example in examples:
        held.append(example)
        if len(held) >= size:
            order = random.permutation(len(held))
            half = len(held) - size // 2
            yield from (held[i] for i in order[:half])
            held = [held[i] for i in order[half:]]
    yield from (held[i] for i in random.permutation(len(held)))


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
