"""Batches of similar length, counted in tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.batching import LengthBatchSampler

lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=200)


@given(lengths, st.integers(20, 100), st.integers(0, 3))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_every_row_once_within_the_budget(lengths: list[tuple[int, int]], budget: int, epoch: int) -> None:
    sampler = LengthBatchSampler(lengths, budget, seed=0)
    sampler.start_at(epoch)
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(max(lengths[row]) for row in batch) <= budget


def test_order_is_fixed_by_seed_and_epoch() -> None:
    lengths = [(row % 7 + 1, row % 5 + 1) for row in range(300)]
    first, again, other_seed = (LengthBatchSampler(lengths, 40, seed) for seed in (1, 1, 2))
    assert list(first) == list(again)
    assert list(first) != list(other_seed)
    again.start_at(1)
    assert list(first) != list(again)


def test_rows_of_one_source_length_share_batches() -> None:
    # 60 rows of each length and room for 10: almost every batch can do without padding in the source.
    lengths = [(length, length) for length in (4, 5, 6) for _ in range(60)]
    batches = list(LengthBatchSampler(lengths, 60, seed=0))
    unpadded = [batch for batch in batches if len({lengths[row][0] for row in batch}) == 1]
    assert len(unpadded) >= len(batches) - 2


def test_nothing_to_train_on() -> None:
    with pytest.raises(ValueError, match="no examples"):
        LengthBatchSampler([], 10, seed=0)


def test_a_row_longer_than_a_batch_is_named() -> None:
    with pytest.raises(ValueError, match="example 1 has 30 tokens, more than batch_tokens=20"):
        LengthBatchSampler([(3, 4), (5, 30)], 20, seed=0)
