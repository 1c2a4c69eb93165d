"""IBM Model 1 beside the translators' alignments: ``python -m tests.benchmarks.ibm_model_1 WHEEL``.

The same verses, words and links as ``python -m attnzoo.training.studies.alignment_error`` has: it learns
from all of them, links
unseen, and is scored on those that are not for development. The diagonal, which links words by their place in the
verse alone, stands beside it.
"""

import argparse
from pathlib import Path

from attnzoo.training.data.verses import Verse, read_verses
from attnzoo.training.loop.stopping import exit_on_user_error

from attnzoo.alignment import Links, alignment_error_rate
from tests.reference.ibm_model_1 import ibm_model_1


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


if __name__ == "__main__":
    main()
