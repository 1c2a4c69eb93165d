"""Batches of rows of similar lengths."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")


def by_length(
    rows: Sequence[Row], length: Callable[[Row], int], batch_size: int, compute: Callable[[list[Row]], Iterable[Result]]
) -> list[Result]:
    """The result of every row, in the order of the rows. The rows of a batch have similar lengths, so that it has
    little padding.

    Args:
        rows: the rows
        length: the length of a row
        batch_size: rows at a time
        compute: a function from the rows of a batch, the longest last, to a result for each
    """
    order = sorted(range(len(rows)), key=lambda number: length(rows[number]))
    found: dict[int, Result] = {}
    for start in range(0, len(order), batch_size):
        numbers = order[start : start + batch_size]
        found.update(zip(numbers, compute([rows[number] for number in numbers]), strict=True))
    return [found[number] for number in range(len(rows))]
