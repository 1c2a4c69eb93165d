"""Two directions as one alignment: compared with Moses' algorithm as loops over a matrix, and tested by invariants."""

import random

import pytest

from attnzoo.aligning import METHODS, symmetrise
from attnzoo.alignment import Links

AROUND = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def grow_diag_by_loops(forward: Links, backward: Links, final: str, size: int) -> Links:
    """Koehn et al. (2003), section 4.5, with a matrix of points: grow in all eight directions, then the rest."""
    point = [[(s, t) in forward and (s, t) in backward for t in range(size)] for s in range(size)]

    def is_free(s: int, t: int) -> tuple[bool, bool]:
        return not any(point[s]), not any(row[t] for row in point)

    grown = True
    while grown:
        grown = False
        before = [(s, t) for s in range(size) for t in range(size) if point[s][t]]
        for s, t in before:
            for u, v in [(s + a, t + b) for a, b in AROUND]:
                inside = 0 <= u < size and 0 <= v < size
                if inside and not point[u][v] and ((u, v) in forward or (u, v) in backward) and any(is_free(u, v)):
                    point[u][v] = grown = True
    if final:
        for direction in (forward, backward):
            for s, t in sorted(direction):
                free = is_free(s, t)
                if all(free) if final == "and" else any(free):
                    point[s][t] = True
    return {(s, t) for s in range(size) for t in range(size) if point[s][t]}


def random_links(generator: random.Random, size: int) -> Links:
    return {(generator.randrange(size), generator.randrange(size)) for _ in range(generator.randrange(12))}


@pytest.mark.parametrize(
    ("method", "final"), [("grow-diag", ""), ("grow-diag-final", "or"), ("grow-diag-final-and", "and")]
)
def test_growing_equals_the_loops(method: str, final: str) -> None:
    generator = random.Random(0)
    for _ in range(300):
        forward, backward = random_links(generator, 6), random_links(generator, 6)
        assert symmetrise(forward, backward, method) == grow_diag_by_loops(forward, backward, final, 6)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_between_the_intersection_and_the_union(method: str) -> None:
    generator = random.Random(1)
    for _ in range(100):
        forward, backward = random_links(generator, 5), random_links(generator, 5)
        copies = set(forward), set(backward)
        found = symmetrise(forward, backward, method)
        assert forward & backward <= found <= forward | backward
        assert (forward, backward) == copies
        assert symmetrise(forward, forward, method) == forward


def test_by_hand() -> None:
    forward, backward = {(0, 0), (1, 1), (3, 3)}, {(0, 0), (1, 0), (2, 1), (3, 4)}
    assert symmetrise(forward, backward, "intersection") == {(0, 0)}
    assert symmetrise(forward, backward, "union") == forward | backward
    assert symmetrise(forward, backward, "grow-diag") == {(0, 0), (1, 0), (1, 1), (2, 1)}
    assert symmetrise(forward, backward, "grow-diag-final-and") == {(0, 0), (1, 0), (1, 1), (2, 1), (3, 3)}
    assert symmetrise(forward, backward, "grow-diag-final") == {(0, 0), (1, 0), (1, 1), (2, 1), (3, 3), (3, 4)}


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"method must be one of intersection, union, grow-diag, .*got 'grow'"):
        symmetrise(set(), set(), "grow")
