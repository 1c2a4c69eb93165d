"""The synthetic sentence pairs that every system trains on and decodes, the same for all.

Word ids only: a system adds its start, end and padding tokens. The first ``SPECIAL`` ids are free for these, so that no
word is one of them. Vocabulary 8,000 on each side.

Lengths are normally distributed about their mean with a standard deviation of a seventh of it, source and target
independently; a target has 21 words on average (and an end token) for any source, like a summary. Batches are made as
by a loader: a pool of a hundred batches is sorted by the source's length, in steps of a sixteenth of the mean, and
within a step by the target's, and then cut. ``bucketed=False`` cuts the pool unsorted.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

VOCABULARY = 8000
SPECIAL = 4
TARGET_LENGTH = 21
POOL = 100

# The sizes of every model: biLSTM with ENCODER units in each direction; dropout is 0.
EMBEDDING = 256
ENCODER = 256
DECODER = 512
ATTENTION = 512


@dataclass(frozen=True)
class Pairs:
    """A batch of sentence pairs as lists of word ids, the longest source first."""

    sources: list[list[int]]
    targets: list[list[int]]

    @cached_property
    def tokens(self) -> int:
        """The number of target tokens in the loss: the words, and one end token for each target."""
        return sum(len(target) + 1 for target in self.targets)

    @property
    def source_padding(self) -> float:
        """The share of padding in the padded sources."""
        return _padding(self.sources)

    @property
    def target_padding(self) -> float:
        """The share of padding in the padded targets, end tokens included."""
        return _padding([[*target, 0] for target in self.targets])


def batches(count: int, size: int, source_length: int, *, seed: int = 1, bucketed: bool = True) -> list[Pairs]:
    """``count`` batches of ``size`` pairs, from the middle of the pool, so that their lengths are near the mean."""
    if not 0 < count <= POOL:
        raise ValueError(f"a pool has {POOL} batches, got count={count}")
    generator = random.Random(seed)
    pool = [
        (_words(generator, source_length), _words(generator, TARGET_LENGTH))
        for _ in range(POOL * size)  # (source, target)
    ]
    if bucketed:
        width = max(1, source_length // 16)
        pool.sort(key=lambda pair: (-(-len(pair[0]) // width), len(pair[1])))
    first = (POOL - count) // 2
    cut = []
    for start in range(first * size, (first + count) * size, size):
        pairs = sorted(pool[start : start + size], key=lambda pair: -len(pair[0]))
        cut.append(Pairs([source for source, _ in pairs], [target for _, target in pairs]))
    return cut


def padded(rows: Sequence[Sequence[int]], padding: int, *, left: bool = False) -> Tensor:
    """The rows as one tensor (batch, longest), filled up with ``padding``."""
    longest = max(len(row) for row in rows)
    fill = [[padding] * (longest - len(row)) for row in rows]
    return torch.tensor([[*f, *row] if left else [*row, *f] for row, f in zip(rows, fill, strict=True)])


def _words(generator: random.Random, mean: int) -> list[int]:
    length = round(generator.normalvariate(mean, mean / 7))
    return [generator.randrange(SPECIAL, VOCABULARY) for _ in range(min(max(length, 1), 2 * mean))]


def _padding(rows: Sequence[Sequence[int]]) -> float:
    return 1 - sum(len(row) for row in rows) / (len(rows) * max(len(row) for row in rows))
