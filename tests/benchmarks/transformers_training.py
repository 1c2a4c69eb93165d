"""Compare training of the small Transformer, Marian, BART, T5 and ``torch.nn.Transformer`` of the same size.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.transformers_training

All are in one process and take turns: in each round every system does one step on the same batch, and each round begins
with another system. A step is forward, loss, backward and an update by the same fused Adam. Figures are medians of
processor time. ``workload.py`` has the batches: 64 pairs of about 21 words, bucketed by length as a loader makes them,
or unsorted.
"""

import argparse
import gc
import statistics
import time

import torch

from tests.benchmarks.speeds import STORE, store
from tests.benchmarks.transformer_models import MODELS, batch_of, build, loss_of
from tests.benchmarks.workload import batches

OURS = "attnzoo"


def measure(rounds: int, is_bucketed: bool) -> tuple[dict[str, float], float]:
    """Median target tokens per second of every system, and the share of padding among the target's places."""
    pairs = batches(4, 64, 21, bucketed=is_bucketed)
    data = [(batch_of(batch), batch.tokens) for batch in pairs]
    systems = {name: build(name).train() for name in MODELS}
    updates = {name: torch.optim.Adam(model.parameters(), lr=1e-4, fused=True) for name, model in systems.items()}
    names = list(systems)
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-2, rounds):  # two rounds to warm up
        batch, tokens = data[turn % len(data)]
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            start = time.process_time()
            updates[name].zero_grad(set_to_none=True)
            loss_of(name, systems[name], batch).backward()
            updates[name].step()
            if turn >= 0:
                speeds[name].append(tokens / (time.process_time() - start))
    padding = statistics.mean(batch.target_padding for batch in pairs)
    return {name: statistics.median(found) for name, found in speeds.items()}, padding


def main() -> None:
    """Print a table for either kind of batches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--store", action="store_true", help=STORE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, dict[str, float]] = {}
    for is_bucketed in (True, False):
        speeds, padding = measure(arguments.rounds, is_bucketed)
        print(f"{'bucketed' if is_bucketed else 'unsorted'} batches, {padding:.0%} of the target is padding")
        best = max(speed for name, speed in speeds.items() if name != OURS)
        for name, speed in sorted(speeds.items(), key=lambda item: -item[1]):
            print(f"  {name:22} {speed:6.0f} tokens/s   attnzoo is {speeds[OURS] / speed:.2f} times as fast")
        print(f"  against the best of the others: {speeds[OURS] / best:.2f}")
        row = (
            "batches sorted by length" if is_bucketed else f"unsorted batches ({padding:.0%} of the target is padding)"
        )
        rows[row] = {name: round(speed) for name, speed in speeds.items()}
        rows[row]["attnzoo / best of the others"] = speeds[OURS] / best
    if arguments.store:
        store("transformers_training", arguments.rounds, rows)


if __name__ == "__main__":
    main()
