"""Batches of examples of similar length, counted in tokens."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler


class LengthBatchSampler(Sampler[list[int]]):
    """Batches of row numbers, at most ``batch_tokens`` tokens each, in a new order every epoch.

    Rows are sorted by source length, then target length, equals in random order; cut into batches; and the batches
    shuffled. A longer source starts a new batch if the open one is at least half full, so that most batches have no
    padding in the source and few are small. The tokens of a batch are its rows times its longest side.

    Args:
        lengths: (source, target) length of every row
        batch_tokens: the most tokens in a batch
        seed: of the order, together with the number of the epoch
        multiple_of: drop as many batches at the end of an epoch, others in each, as leave a multiple of this: with
            processes times accumulation steps, no optimiser step is shared by two epochs and no process waits

    Raises:
        ValueError: there are no rows, too few for ``multiple_of`` batches, or a row is longer than ``batch_tokens``.
    """

    def __init__(
        self,
        lengths: Sequence[tuple[int, int]],
        batch_tokens: int,
        seed: int,
        multiple_of: int = 1,
    ) -> None:
        if not len(lengths):
            raise ValueError("there are no examples to train on")
        self.lengths = np.asarray(lengths)
        if self.lengths.max() > batch_tokens:
            row = int(self.lengths.max(axis=1).argmax())
            raise ValueError(
                f"example {row} has {self.lengths[row].max()} tokens, more than batch_tokens={batch_tokens}; "
                "raise it or drop the row"
            )
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.multiple_of = multiple_of
        self.epoch = self.skipped = 0
        num_batches = len(self._batches())  # the same in every epoch: it depends on the lengths alone
        self.batches_per_epoch = num_batches - num_batches % multiple_of
        if not self.batches_per_epoch:
            raise ValueError(
                f"{len(self.lengths)} examples make {num_batches} batches of at most {batch_tokens} tokens, fewer than "
                f"the {multiple_of} of one optimiser step; lower batch_tokens or accumulation_steps"
            )

    def start_at(self, epoch: int, skipped: int = 0) -> None:
        """Choose the order: epoch n has the same one in every run, and begins after the ``skipped`` first batches.

        Not called set_epoch, or Accelerate's loaders would call it with a count of their own.
        """
        self.epoch, self.skipped = epoch, skipped

    def __len__(self) -> int:
        return self.batches_per_epoch - self.skipped

    def __iter__(self) -> Iterator[list[int]]:
        yield from self._batches()[self.skipped : self.batches_per_epoch]

    def _batches(self) -> list[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = np.lexsort((random.random(len(self.lengths)), self.lengths[:, 1], self.lengths[:, 0]))
        batches: list[list[int]] = []
        batch: list[int] = []
        longest = source_length = 0
        for row in order.tolist():
            source, target = self.lengths[row]
            longest = max(longest, source, target)
            is_full = (len(batch) + 1) * longest > self.batch_tokens
            is_next_length = source > source_length and 2 * len(batch) * longest >= self.batch_tokens
            if batch and (is_full or is_next_length):
                batches.append(batch)
                batch, longest = [], max(source, target)
            batch.append(row)
            source_length = source
        batches.append(batch)
        random.shuffle(batches)
        return batches
