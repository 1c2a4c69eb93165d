"""Compare decoding with the small Transformer, Marian, BART and T5 of the same size, and CTranslate2 if installed.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.transformers_decoding

Ours decodes with ``search()`` and with ``generate()`` alone, the others with ``generate()``. CTranslate2 is an
inference engine in C++ (``pip install ctranslate2==4.8.5``); it has our weights and must give the same tokens. All run
in one process and take turns; each round begins with another system. They decode 25 steps with the end token forbidden,
from sources of about 21 words. Figures are medians of processor time.
"""

import argparse
import gc
import importlib.util
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from attnzoo import search
from tests.benchmarks.ctranslate2_model import translate, translator
from tests.benchmarks.speeds import STORE, store
from tests.benchmarks.transformer_models import BOS, EOS, build
from tests.benchmarks.transformer_models import batch_of as batch_of_pairs
from tests.benchmarks.workload import batches

OURS, GENERATE, ENGINE, STEPS = "attnzoo search()", "attnzoo generate()", "CTranslate2", 25
PEERS = ("Marian", "BART", "T5")
ROWS = [(64, 1), (64, 5), (1, 1), (1, 5)]  # sources at once, beams

Decode = Callable[[], list[list[int]]]


def decoders(size: int, beams: int) -> dict[str, Decode]:
    """A function for every system that decodes the same sources to the start token and the tokens after it."""
    (pairs,) = batches(1, size, 21)
    batch = batch_of_pairs(pairs)
    ours = build("attnzoo").eval()

    def generate(model: nn.Module, **extra: object) -> Decode:
        return lambda: model.generate(  # type: ignore[operator]
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            num_beams=beams,
            do_sample=False,
            max_new_tokens=STEPS,
            suppress_tokens=[EOS],
            **extra,
        ).tolist()

    systems = {OURS: generate(ours, custom_generate=search), GENERATE: generate(ours)}
    systems |= {name: generate(build(name).eval()) for name in PEERS}
    if importlib.util.find_spec("ctranslate2"):
        engine = translator(ours)  # type: ignore[arg-type]
        systems[ENGINE] = lambda: [[BOS, *row] for row in translate(engine, batch["input_ids"], beams, STEPS)]
    return systems


@torch.no_grad()
def measure(rounds: int, size: int, beams: int) -> dict[str, float]:
    """Median tokens per second of every system; the tokens are those of the best result of each source."""
    systems = decoders(size, beams)
    names = list(systems)
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-1, rounds):  # one round to warm up
        first = turn % len(names)
        found = {}
        for name in names[first:] + names[:first]:
            gc.collect()
            start = time.process_time()
            found[name] = systems[name]()
            seconds = time.process_time() - start
            if any(len(row) != STEPS + 1 for row in found[name]):
                raise RuntimeError(f"{name} did not take {STEPS} steps")
            if turn >= 0:
                speeds[name].append(STEPS * size / seconds)
        if any(found[name] != found[OURS] for name in found if name not in PEERS):
            raise RuntimeError("the systems with our weights do not agree on the tokens")
    return {name: statistics.median(of_rounds) for name, of_rounds in speeds.items()}


def main() -> None:
    """Print a table of every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--store", action="store_true", help=STORE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, dict[str, float]] = {}
    for size, beams in ROWS:
        speeds = measure(arguments.rounds if size > 1 else 3 * arguments.rounds, size, beams)
        best = max(speeds[name] for name in PEERS)
        row = (
            f"{'greedy' if beams == 1 else f'beam {beams}'}, {'one source' if size == 1 else f'{size} sources at once'}"
        )
        print(row)
        for name, speed in sorted(speeds.items(), key=lambda item: -item[1]):
            print(f"  {name:18} {speed:6.0f} tokens/s   attnzoo is {speeds[OURS] / speed:.2f} times as fast")
        print(f"  against the best of Marian, BART and T5: {speeds[OURS] / best:.2f}", flush=True)
        columns = {OURS: "attnzoo", GENERATE: "`generate()` of attnzoo"}
        rows[row] = {columns.get(name, name): round(speed) for name, speed in speeds.items()}
        rows[row]["attnzoo / best of Marian, BART and T5"] = speeds[OURS] / best
    if arguments.store:
        store("transformers_decoding", arguments.rounds, rows)


if __name__ == "__main__":
    main()
