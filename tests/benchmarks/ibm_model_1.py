"""IBM Model 1, for comparison with translation models: ``python -m tests.benchmarks.ibm_model_1 WHEEL``.

The verses, words and links are those of ``python -m attnzoo.training.studies.alignment_error``. The model (Brown et
al., 1993, section 4.1) is fitted to all verses without their links, and measured on those that are not for development.
A second row has the diagonal, which links words only by their place in the verse.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from attnzoo.training.commands.exits import exit_on_user_error
from attnzoo.training.data.verses import Verse, read_verses

from attnzoo.alignment import Links, alignment_error_rate

NULL = 0  # the number of the empty source word


def main() -> None:
    """Print both error rates."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ibm_model_1", description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path, help="bible_alignments-0.4.2-py3-none-any.whl")
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args()
    with exit_on_user_error():
        verses = read_verses(options.wheel)
        links = ibm_model_1([(verse.source_words, verse.target_words) for verse in verses], options.iterations)
        for name, predicted in (("IBM Model 1", links), ("diagonal", [diagonal(verse) for verse in verses])):
            scored = [
                (p, verse.links) for p, verse in zip(predicted, verses, strict=True) if not verse.is_for_development
            ]
            error_rate = alignment_error_rate(*zip(*scored, strict=True))
            print(f"{name}, test, {len(scored):,} verses: AER {100 * error_rate:.1f} %")


def diagonal(verse: Verse) -> Links:
    """Every target word linked to the source word at its place, in proportion to the two lengths."""
    sources, targets = len(verse.source_words), len(verse.target_words)
    return {(round(target * (sources - 1) / max(1, targets - 1)), target) for target in range(targets)}


def ibm_model_1(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], iterations: int = 10) -> list[Links]:
    r"""The most likely links of every (source, target): for each target word one source word, or the empty word.

    .. math::
        t(f | e) \propto \sum_{\mathrm{pairs}} \sum_{j: f_j = f} \sum_{i: e_i = e}
        \frac{t(f_j | e_i)}{\sum_{i'} t(f_j | e_{i'})}

    Symbols: :math:`e` is a source word (every sentence has the empty word, too), :math:`f` is a target word. At the
    start all translations are equally likely.
    """
    sources = _numbers([source for source, _ in pairs], first=NULL + 1)
    targets = _numbers([target for _, target in pairs], first=0)
    blocks = [  # (target words, source words and the empty one), as the numbers of their two words together
        np.add.outer(target * 2**32, np.concatenate([[NULL], source]))
        for source, target in zip(sources, targets, strict=True)
    ]
    _, cells = np.unique(np.concatenate([block.ravel() for block in blocks]), return_inverse=True)
    source_of = np.concatenate([block.ravel() for block in blocks]) % 2**32  # of every cell
    row_of = np.repeat(  # of every cell, the target word that it belongs to
        np.arange(sum(map(len, targets))), np.concatenate([np.full(len(b), b.shape[1]) for b in blocks])
    )
    probability = np.ones(len(cells))
    for _ in range(iterations):
        posterior = probability / np.bincount(row_of, weights=probability)[row_of]
        counts = np.bincount(cells, weights=posterior)[cells]
        totals = np.bincount(source_of, weights=posterior)[source_of]
        probability = counts / totals
    links, start = [], 0
    for block in blocks:
        best = probability[start : start + block.size].reshape(block.shape).argmax(axis=1)
        links.append({(int(source) - 1, target) for target, source in enumerate(best) if source > 0})
        start += block.size
    return links


def _numbers(sentences: list[Sequence[str]], first: int) -> list[np.ndarray]:
    vocabulary: dict[str, int] = {}
    return [
        np.array([vocabulary.setdefault(word, first + len(vocabulary)) for word in sentence], dtype=np.int64)
        for sentence in sentences
    ]


if __name__ == "__main__":
    main()
