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
    """Rows that are encoded already, with these lengths; the first label is the number of the row."""
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
    batches = LengthBatchStream(stream(lengths), dict, budget, seed=0)
    batches.start_at(epoch)
    seen = list(batches)
    assert sorted(row for batch in seen for row in numbers(batch)) == list(range(len(lengths)))
    for batch in seen:
        assert len(batch) * max(max(len(e["input_ids"]), len(e["labels"])) for e in batch) <= budget


def test_a_stream_has_nearly_as_few_batches_as_rows_that_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # buffers as they are
    many = MANY * 40
    held, streamed = LengthBatchSampler(many, 100, seed=0), LengthBatchStream(stream(many), dict, 100, seed=0)
    assert len(list(streamed)) < 1.1 * len(list(held))


@pytest.mark.parametrize("shards", [1, 3])
def test_the_order_of_a_stream_is_fixed_by_seed_and_epoch(shards: int) -> None:
    def order(seed: int, epoch: int, skipped: int = 0) -> list[list[int]]:
        batches = LengthBatchStream(stream(MANY, shards), dict, 40, seed)
        batches.start_at(epoch, skipped)
        return [numbers(batch) for batch in batches]

    first = order(1, 0)
    assert order(1, 0) == first
    assert order(1, 0, skipped=7) == first[7:]
    assert len({str(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1, 2)}) == 6
    # Not only the batches move: examples that are neighbours in the stream part.
    assert {tuple(sorted(batch)) for batch in first}.isdisjoint(tuple(sorted(batch)) for batch in order(1, 1))


def shared(num_processes: int, streamed: bool, multiple_of: int = 4, seed: int = 0) -> list[Batches]:
    """The batches of each of several processes, as row numbers."""
    shares: list[Any] = []
    for process in range(num_processes):
        if streamed:
            order: Any = LengthBatchStream(stream(MANY), dict, 40, seed, multiple_of)
            shares.append(Batches(order, numbers, process, num_processes))  # type: ignore[arg-type]
        else:
            order = LengthBatchSampler(MANY, 40, seed, multiple_of)
            shares.append(Batches(order, list, process, num_processes))  # type: ignore[arg-type]
    return shares


def steps(shares: list[Batches], number: int) -> list[list[Any]]:
    """The batches of each of the next steps of all processes, in the order of one process."""
    taken = []
    while len(taken) < number:
        of_processes = [share.take(share.order.multiple_of // len(shares)) for share in shares]
        if all(of_processes):
            taken.append([batch for together in zip(*of_processes, strict=True) for batch in together])
        else:
            for share in shares:
                share.end_epoch()
    return taken


@pytest.mark.parametrize("streamed", [False, True])
def test_processes_share_the_batches_and_go_on_from_any_place(streamed: bool) -> None:
    alone, two, four = (shared(number, streamed) for number in (1, 2, 4))
    first = steps(alone, 50)
    assert steps(two, 50) == steps(four, 50) == first
    assert {share.epoch for share in (*alone, *two, *four)} == {alone[0].epoch}
    assert alone[0].epoch >= 2
    state = alone[0].state_dict()
    following = steps(alone, 30)
    for shares in (alone, two, four):  # a state of one process, in each of several
        for share in shares:
            share.load_state_dict(state)
        assert steps(shares, 30) == following
    alone[0].load_state_dict(two[1].state_dict())  # and back
    assert steps(alone, 9) == steps(two, 9)


def test_an_epoch_of_a_stream_ends_when_a_lane_has_no_batch_left() -> None:
    """Then all processes have taken as many steps. No row came twice, and few did not come."""
    lanes = shared(4, streamed=True, seed=1)
    sizes = []
    for lane in lanes:
        while lane.take(1):
            pass
        sizes.append(lane.position)
    assert max(sizes) > min(sizes)
    for number in (1, 2, 4):
        shares = shared(number, streamed=True, seed=1)
        epoch = steps(shares, min(sizes))
        assert {share.epoch for share in shares} == {0}
        steps(shares, 1)
        assert {share.epoch for share in shares} == {1}
        rows = [row for batches in epoch for batch in batches for row in batch]
        assert len(rows) == len(set(rows)) > 0.9 * len(MANY)


def test_a_process_encodes_only_the_rows_of_its_lanes() -> None:
    lanes = []
    for process in range(2):
        rows: list[int] = []

        def encode(part: dict[str, list[Any]], rows: list[int] = rows) -> dict[str, list[Any]]:
            rows += [labels[0] for labels in part["labels"]]
            return part

        batches = LengthBatchStream(stream(MANY), encode, 40, seed=0, multiple_of=4)
        batches.start_at(0, process=process, num_processes=2)
        assert {row for batch in batches for row in numbers(batch)} <= set(rows)
        lanes.append(rows)
    assert [len(rows) for rows in lanes] == [len(MANY) // 2] * 2
    assert sorted(lanes[0] + lanes[1]) == list(range(len(MANY)))


def test_every_epoch_deals_the_rows_to_other_lanes() -> None:
    """Rows of two kinds that alternate are in all lanes, which so have about as many batches."""
    alternating = [(1, 1), (20, 20)] * 2000
    batches = LengthBatchStream(stream(alternating), dict, 40, seed=0, multiple_of=2)
    of_lane, counts = [], []
    for epoch in (0, 1):
        batches.start_at(epoch, process=0, num_processes=2)
        rows = [numbers(batch) for batch in batches]
        of_lane.append({row for batch in rows for row in batch})
        batches.start_at(epoch, process=1, num_processes=2)
        counts.append(len(rows) / len(list(batches)))
    assert of_lane[0] != of_lane[1]
    assert counts == pytest.approx([1, 1], abs=0.1)


def test_a_state_at_the_end_of_an_epoch_goes_on_with_the_next() -> None:
    (alone,), (again,) = (shared(1, streamed=True, multiple_of=1) for _ in range(2))
    steps([alone], len(list(LengthBatchStream(stream(MANY), dict, 40, seed=0))))
    assert alone.epoch == 0
    again.load_state_dict(alone.state_dict())
    assert steps([again], 1) == steps([alone], 1)
    assert again.epoch == alone.epoch == 1


def test_a_stream_that_cannot_be_trained_on() -> None:
    with pytest.raises(ValueError, match="no examples"):
        list(LengthBatchStream(stream([(1, 1)]).filter(lambda row: False), dict, 10, seed=0))
    with pytest.raises(ValueError, match=r"the training example .* has 30 tokens, more than batch_tokens=20"):
        list(LengthBatchStream(stream([(3, 4), (5, 30)]), dict, 20, seed=0))
    with pytest.raises(ValueError, match="the training example 'abc', 'B' has 30 tokens, more than batch_tokens=20"):
        LengthBatchStream(stream([(3, 4)]), dict, 20, seed=0, longest=("'abc', 'B'", 30))  # before it is read
    for process, rows in ((0, 1), (1, 3)):
        few = LengthBatchStream(stream([(3, 4)] * rows), dict, 20, seed=0, multiple_of=4)
        few.start_at(0, process=process, num_processes=2)
        with pytest.raises(ValueError, match=f"a stream of {rows} rows does not fill the 4 batches of one"):
            list(few)
