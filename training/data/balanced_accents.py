"""Training words by accent: more turns for the accents, or languages, that have few words."""

from collections import Counter
from collections.abc import Sequence


def balanced(accents: Sequence[str], exponent: float) -> list[int]:
    """Row numbers, some several times, such that an accent has a number of rows in proportion to count ** ``exponent``.

    The largest accent keeps its number. With 1 all do; with 0 all have as many as the largest. This is the sampling of
    multilingual models (Devlin et al., 2019; Arivazhagan et al., 2019, arXiv:1907.05019, section 4), where 1/exponent
    is called the temperature.

    Args:
        accents: the accent of every row.
        exponent: from 0 to 1.
    """
    counts = Counter(accents)
    largest = max(counts.values())
    seen, rows = Counter[str](), list[int]()
    for row, accent in enumerate(accents):
        times = (counts[accent] / largest) ** (exponent - 1)
        # The number of turns before and after this row; rows between two whole numbers get one turn more or less.
        before, after = (int(times * number) for number in (seen[accent], seen[accent] + 1))
        rows += [row] * (after - before)
        seen[accent] += 1
    return rows
