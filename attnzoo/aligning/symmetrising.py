"""One alignment from the alignments of two directions: source to target, and target to source."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ..alignment import Links, align

PAIRS_IN_MEMORY = 1024
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def symmetrise(forward: Links, backward: Links, method: str = "grow-diag-final-and") -> Links:
    """The links of two directions as one alignment (Och and Ney, 2003, section 4; Koehn et al., 2003, section 4.5).

    - "intersection": the links of both, which are few and precise; "union": the links of either
    - "grow-diag": the intersection, and links of the union that touch a link, also diagonally, if one of their words
      has no link yet; repeated until nothing is added
    - "grow-diag-final": "grow-diag", and then every link of either direction if at least one of its words has no link
      yet, forward links first
    - "grow-diag-final-and": "grow-diag", and then every link of either direction if neither of its words has a link
      yet, forward links first

    Args:
        forward: links (source word, target word), such as those of :func:`attnzoo.alignment.align`
        backward: links of the other direction, in the same order: (source word, target word)
        method: one of the above

    Raises:
        ValueError: an unknown method.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    return METHODS[method](set(forward), set(backward))


def _grow_diag(forward: Links, backward: Links) -> Links:
    links, union = forward & backward, forward | backward
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    has_grown = True
    while has_grown:
        has_grown = False
        for s, t in sorted(links):
            for down, right in NEIGHBOURS:
                link = s + down, t + right
                is_new = link in union and link not in links
                if is_new and (link[0] not in sources or link[1] not in targets):
                    links.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
                    has_grown = True
    return links


def _final(forward: Links, backward: Links, needs_both: bool) -> Links:
    links = _grow_diag(forward, backward)
    for direction in (forward, backward):
        for s, t in sorted(direction):
            free = [all(s != other for other, _ in links), all(t != other for _, other in links)]
            if all(free) if needs_both else any(free):
                links.add((s, t))
    return links


METHODS: Mapping[str, Callable[[Links, Links], Links]] = {
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag": _grow_diag,
    "grow-diag-final": lambda forward, backward: _final(forward, backward, needs_both=False),
    "grow-diag-final-and": lambda forward, backward: _final(forward, backward, needs_both=True),
}


def align_both_ways(
    forward: tuple[Any, Any],
    backward: tuple[Any, Any],
    pairs: Iterable[tuple[str | Sequence[str], str | Sequence[str]]],
    method: str = "grow-diag-final-and",
    forward_options: Mapping[str, Any] | None = None,
    backward_options: Mapping[str, Any] | None = None,
) -> Iterator[Links]:
    """Align pairs with two models, one for each direction, and symmetrise their links pair by pair.

    The pairs may be any number: they are read in batches. Texts are split into words at white space, so that both
    tokenizers agree on the words.

    Args:
        forward: the model and tokenizer that read the source and predict the target
        backward: the model and tokenizer of the other direction
        pairs: texts or lists of words, (source, target)
        method: as in :func:`symmetrise`
        forward_options: arguments of :func:`attnzoo.alignment.align` for the first model, such as ``heads``
        backward_options: those for the second model

    Raises:
        ValueError: as :func:`symmetrise` and :func:`attnzoo.alignment.align`.
    """
    symmetrise(set(), set(), method)  # an unknown method is reported before the first forward pass

    remaining = iter(pairs)
    while some := list(islice(remaining, PAIRS_IN_MEMORY)):
        sources, targets = ([_words(text) for text in texts] for texts in zip(*some, strict=True))
        there = align(*forward, sources, targets, **(forward_options or {}))
        back = align(*backward, targets, sources, **(backward_options or {}))
        for one, other in zip(there, back, strict=True):
            yield symmetrise(one.links, {(s, t) for t, s in other.links}, method)


def _words(text: str | Sequence[str]) -> list[str]:
    return text.split() if isinstance(text, str) else list(text)
