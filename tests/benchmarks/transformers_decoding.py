"""Decoding with the small Transformer beside Marian, BART and T5 of the same size, by ``generate()``.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.transformers_decoding

All are in one process and take turns, each round beginning with another one. 25 steps with the end token forbidden,
from sources of about 21 words. Figures are medians of processor time.
"""

import argparse
import gc
import statistics
import time
from typing import Any

import torch

from .transformer_models import EOS, MODELS, batch_of, build
from .workload import batches

OURS, STEPS = "attnzoo", 25
ROWS = [(64, 1), (64, 5), (1, 1), (1, 5)]  # sources at once, beams


@torch.no_grad()
def measure(rounds: int, size: int, beams: int) -> dict[str, float]:
    """Median tokens per second, of the best result of each source, of every system."""
    (pairs,) = batches(1, size, 21)
    batch = batch_of(pairs)
    systems: dict[str, Any] = {name: build(name).eval() for name in MODELS if name != "torch.nn.Transformer"}
    names = list(systems)
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-1, rounds):  # one round to warm up
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            start = time.process_time()
            sequences = systems[name].generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                num_beams=beams,
                do_sample=False,
                max_new_tokens=STEPS,
                suppress_tokens=[EOS],
            )
            seconds = time.process_time() - start
            if sequences.shape[1] != STEPS + 1:
                raise RuntimeError(f"{name} took {sequences.shape[1] - 1} steps, not {STEPS}")
            if turn >= 0:
                speeds[name].append(STEPS * size / seconds)
    return {name: statistics.median(found) for name, found in speeds.items()}


def main() -> None:
    """Print a table of every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for size, beams in ROWS:
        speeds = measure(arguments.rounds if size > 1 else 3 * arguments.rounds, size, beams)
        best = max(speed for name, speed in speeds.items() if name != OURS)
        print(f"{size} sources at once, {'greedy' if beams == 1 else f'beam {beams}'}")
        for name, speed in sorted(speeds.items(), key=lambda item: -item[1]):
            print(f"  {name:10} {speed:6.0f} tokens/s   attnzoo is {speeds[OURS] / speed:.2f} times as fast")
        print(f"  against the best of the others: {speeds[OURS] / best:.2f}")


if __name__ == "__main__":
    main()
