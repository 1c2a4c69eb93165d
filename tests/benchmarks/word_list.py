"""Compare the pipeline on a list of words with ``search()`` on batches that were encoded before.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.word_list

2,000 words of CMUdict, greedy, one thread, in batches of 64. The pipeline reads the words, and computes their
pronunciations and log p; ``search()`` has the encoded batches, in the order of the list and by length, as the pipeline
sorts them. They take turns in every round. Figures are median times.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import pipeline

import attnzoo
from attnzoo.pipelines import BATCH_SIZE

from .export import MODELS, sources_of
from .speeds import STORE, store

MODEL = "attentional-rnn-g2p-cmudict"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--store", action="store_true", help=STORE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pronounce: Any = pipeline("grapheme-to-phoneme", attnzoo.model_path(MODEL))
    words = sources_of(MODELS[0], 2000)

    def bare(words: list[str]) -> Callable[[], None]:
        batches = [
            pronounce.tokenizer(words[start : start + BATCH_SIZE], padding=True, return_tensors="pt")
            for start in range(0, len(words), BATCH_SIZE)
        ]

        @torch.inference_mode()
        def search() -> None:
            for batch in batches:
                pronounce.model.generate(**batch, custom_generate=attnzoo.search, num_beams=1)

        return search

    systems: dict[str, Callable[[], Any]] = {
        "pipeline": lambda: pronounce(words, num_beams=1),
        "`search()`, batches in the order of the list": bare(words),
        "`search()`, batches of similar length": bare(sorted(words, key=len, reverse=True)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for turn in range(-1, options.rounds):  # one round to warm up
        for name, system in systems.items():
            start = time.perf_counter()
            system()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in middle.items():
        print(f"{name:46} {value:.2f} s   the pipeline is {value / middle['pipeline']:.2f} times as fast")
    if options.store:
        relative = {name: value / middle["pipeline"] for name, value in middle.items()}
        rows = {
            name: {"seconds": value, "time relative to the pipeline": relative[name]} for name, value in middle.items()
        }
        store("word_list", options.rounds, rows)


if __name__ == "__main__":
    main()
