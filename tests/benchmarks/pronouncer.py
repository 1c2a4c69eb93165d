"""Compare ``Pronouncer`` with the network of g2p-en: ``OMP_NUM_THREADS=1 python -m tests.benchmarks.pronouncer``.

Words per second of processor time, greedy, without the dictionary, one thread. The systems take turns in every round;
the median of the rounds. Once before: ``python -m tests.benchmarks.environments g2p-en``.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch

from attnzoo.phonemes import CLOSE, OPEN
from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.engines import EngineName

from .environments import interpreter
from .export import MODELS, sources_of
from .speeds import STORE, store

PEER = Path(__file__).with_name("pronunciation_systems") / "g2p_en.py"
WORDS = 2000
LISTS, ONE = "lists of 2,000 words", "one word at a time"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", action="store_true", help=STORE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    words = sources_of(MODELS[0], WORDS)
    alone = [[word] for word in words[:: len(words) // 100]]  # for the systems that then read one word at a time
    systems: dict[tuple[str, str], Callable[[], float]] = {}  # by row and column
    for engine in get_args(EngineName):
        pronouncer = Pronouncer(dictionary=False, engine=engine)
        if engine != "torch":
            model = pronouncer.word_model.engine.model
            model.threads = 1
            systems[f"`OnnxModel` alone, {'int8' if 'int8' in engine else 'float32'}", LISTS] = lambda own=model: rate(
                own, [words]
            )  # type: ignore[misc]
        row, read = f'`engine="{engine}"`', pronouncer.words
        systems[row, LISTS] = lambda read=read: rate(read, [words])  # type: ignore[misc]
        systems[row, ONE] = lambda read=read: rate(read, alone)  # type: ignore[misc]
    engine = Pronouncer(language="en-US", engine="onnx-int8").word_model.engine
    engine.model.threads = 1
    sources = [f"{OPEN}eng_latn_us{CLOSE}{word}" for word in words]
    systems["`OnnxModel` alone, int8, 135 languages", LISTS] = lambda: rate(engine.model, [sources])
    systems["g2p-en, its network", ONE] = lambda: of_peer(words)
    for system in systems.values():
        system()
    rates: dict[tuple[str, str], list[float]] = {cell: [] for cell in systems}
    for _ in range(options.rounds):
        for cell, system in systems.items():
            rates[cell].append(system())
    print(f"{len(words):,} words, words per processor second, median of {options.rounds} rounds")
    rows: dict[str, dict[str, float]] = {}
    for (row, column), values in rates.items():
        middle = statistics.median(values)
        rows.setdefault(row, {})[column] = round(middle)
        print(f"  {row}, {column}: {middle:.0f}  ({min(values):.0f} to {max(values):.0f})")
    if options.store:
        store("pronouncer", options.rounds, rows)


def rate(system: Callable[..., Any], calls: list[list[str]]) -> float:
    """Words per second of these calls."""
    begun = time.process_time()
    for words in calls:
        system(words, num_beams=1)
    return sum(map(len, calls)) / (time.process_time() - begun)


def of_peer(words: list[str]) -> float:
    """Words per second of the peer, which measures itself in its own environment."""
    command = [str(interpreter("g2p-en")), str(PEER), "--speed"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, input=json.dumps({"words": words}), capture_output=True, text=True, check=True, env=environment
    )
    return float(ended.stdout)


if __name__ == "__main__":
    main()
