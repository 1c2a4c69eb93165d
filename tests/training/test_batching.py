"""Batches of similar length, counted in tokens."""

from typing import Any

import datasets
import numpy as np
import pytest
from attnzoo.training.loop.batching import Example, LengthBatchSampler, LengthBatchStream, length_of, lengths_of
from attnzoo.training.loop.progress import Batches
from datasets.formatting import PythonFormatter
from hypothesis import given, settings
from hypothesis import strategies as st

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
    with pytest.raises(ValueError, match="the training example 1 has 30 tokens, more than batch_tokens=20"):
        LengthBatchSampler([(3, 4), (5, 30)], 20, seed=0)


@pytest.mark.parametrize("labels", [[[7, 7], [7], []], [1, 0, 1], None], ids=["tokens", "classes", "made later"])
def test_lengths_are_one_array_for_which_no_row_is_read(labels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"input_ids": [[1], [1, 2, 3], [1, 2]]} | ({} if labels is None else {"labels": labels})
    rows = datasets.Dataset.from_dict(columns)
    for examples in (rows, rows.select([2, 0]), datasets.concatenate_datasets([rows, rows])):
        expected = list(map(length_of, examples))
        with monkeypatch.context() as patch:
            patch.setattr(PythonFormatter, "__call__", None)  # which makes Python objects of rows
            lengths = lengths_of(examples)
        assert lengths.dtype == np.int32
        assert list(map(tuple, lengths.tolist())) == expected


# Streams --------------------------------------------------------------------------------------------------------------


def stream(lengths: list[tuple[int, int]], shards: int = 1) -> datasets.IterableDataset:
    """Examples of these lengths; the first label is the number of the row."""
    rows = [{"input_ids": [0] * source, "labels": [n] * target} for n, (source, target) in enumerate(lengths)]
    columns = datasets.Features({name: datasets.List(datasets.Value("int64")) for name in ("input_ids", "labels")})
    held = datasets.Dataset.from_list(rows, features=columns)
    return held.to_iterable_dataset(num_shards=shards).map(lambda row: row)


def numbers(batch: list[Example]) -> list[int]:
    return [example["labels"][0] for example in batch]


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LengthBatchStream, "SHUFFLED", 50)
    monkeypatch.setattr(LengthBatchStream, "POOLED", 5)


MANY = [(row % 7 + 1, row % 5 + 1) for row in range(300)]


@given(lengths, st.integers(20, 100), st.integers(0, 3))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_every_example_of_a_stream_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, epoch: int
) -> None:
    batches = LengthBatchStream(stream(lengths), budget, seed=0)
    batches.start_at(epoch)
    seen = list(batches)
    assert sorted(row for batch in seen for row in numbers(batch)) == list(range(len(lengths)))
    for batch in seen:
        assert len(batch) * max(max(len(e["input_ids"]), len(e["labels"])) for e in batch) <= budget


def test_a_stream_has_nearly_as_few_batches_as_rows_that_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # buffers as they are
    many = MANY * 40
    held, streamed = LengthBatchSampler(many, 100, seed=0), LengthBatchStream(stream(many), 100, seed=0)
    assert len(list(streamed)) < 1.1 * len(list(held))


@pytest.mark.parametrize("shards", [1, 3])
def test_the_order_of_a_stream_is_fixed_by_seed_and_epoch(shards: int) -> None:
    def order(seed: int, epoch: int, skipped: int = 0) -> list[list[int]]:
        batches = LengthBatchStream(stream(MANY, shards), 40, seed)
        batches.start_at(epoch, skipped)
        return [numbers(batch) for batch in batches]

    first = order(1, 0)
    assert order(1, 0) == first
    assert order(1, 0, skipped=7) == first[7:]
    assert len({str(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1, 2)}) == 6
    # Not only the batches move: examples that are neighbours in the stream part.
    assert {tuple(sorted(batch)) for batch in first}.isdisjoint(tuple(sorted(batch)) for batch in order(1, 1))


def test_a_stream_ends_an_epoch_after_whole_steps() -> None:
    every = [numbers(batch) for batch in LengthBatchStream(stream(MANY), 40, seed=0)]
    fours = [numbers(batch) for batch in LengthBatchStream(stream(MANY), 40, seed=0, multiple_of=4)]
    assert len(every) % 4
    assert fours == every[: len(every) - len(every) % 4]


@pytest.mark.parametrize("streamed", [False, True])
def test_processes_share_the_batches_and_go_on_from_any_place(streamed: bool) -> None:
    def of(process: int, num_processes: int) -> Batches:
        if streamed:
            batches: Any = LengthBatchStream(stream(MANY), 40, seed=0, multiple_of=2)
            return Batches(batches, numbers, process, num_processes)  # type: ignore[arg-type]
        return Batches(LengthBatchSampler(MANY, 40, 0, multiple_of=2), list, process, num_processes)  # type: ignore[arg-type]

    alone, first, second = of(0, 1), of(0, 2), of(1, 2)
    both = [next(process) for _ in range(50) for process in (first, second)]
    assert both == [next(alone) for _ in range(100)]
    assert alone.epoch == first.epoch == second.epoch >= 1
    state = alone.state_dict()
    following = [next(alone) for _ in range(60)]
    again = of(0, 1)
    again.load_state_dict(state)
    assert [next(again) for _ in range(60)] == following
    first.load_state_dict(state)  # of one process, in each of two
    second.load_state_dict(state)
    assert [next(process) for _ in range(30) for process in (first, second)] == following
    again.load_state_dict(second.state_dict())  # and back
    assert [next(again) for _ in range(9)] == [next(process) for _ in range(5) for process in (first, second)][:9]


def test_a_state_at_the_end_of_an_epoch_goes_on_with_the_next() -> None:
    alone = Batches(LengthBatchStream(stream(MANY), 40, seed=0), numbers)  # type: ignore[arg-type]
    for _ in LengthBatchStream(stream(MANY), 40, seed=0):
        next(alone)
    again = Batches(LengthBatchStream(stream(MANY), 40, seed=0), numbers)  # type: ignore[arg-type]
    again.load_state_dict(alone.state_dict())
    assert next(again) == next(alone)
    assert again.epoch == alone.epoch == 1


def test_a_stream_that_cannot_be_trained_on() -> None:
    with pytest.raises(ValueError, match="no examples"):
        list(LengthBatchStream(stream([(1, 1)]).filter(lambda row: False), 10, seed=0))
    with pytest.raises(ValueError, match=r"the training example .* has 30 tokens, more than batch_tokens=20"):
        list(LengthBatchStream(stream([(3, 4), (5, 30)]), 20, seed=0))
    with pytest.raises(ValueError, match="the training example 'abc', 'B' has 30 tokens, more than batch_tokens=20"):
        LengthBatchStream(stream([(3, 4)]), 20, seed=0, longest=("'abc', 'B'", 30))  # before it is read
    with pytest.raises(ValueError, match="2 examples make 1 batches of at most 20 tokens, fewer than the 2 of one"):
        list(LengthBatchStream(stream([(3, 4), (3, 4)]), 20, seed=0, multiple_of=2))
