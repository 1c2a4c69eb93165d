"""What recording one of twelve layers costs at 512 tokens, next to the fused kernel alone and to the eager backend.

``python -m tests.benchmarks.attention_recording``

A random BERT of the base size reads one text. Times are medians of rounds in which the ways take turns. The memory is
the highest of a process of its own, above what it had before the forward passes.
"""

import argparse
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from typing import Any

import torch
from transformers import BertConfig, BertModel

from attnzoo import record_attention

WAYS = ("sdpa", "recorded", "eager")
LENGTH, ROUNDS = 512, 7


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.attention_recording")
    parser.add_argument("--memory-of", choices=WAYS, help=argparse.SUPPRESS)
    way = parser.parse_args(arguments).memory_of
    if way is not None:
        model, ids = build(way)
        before = peak()
        for _ in range(2):
            forward(way, model, ids)
        print(peak() - before)
        return
    models = {way: build(way) for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(ROUNDS + 1):
        for way, (model, ids) in models.items():
            start = time.perf_counter()
            forward(way, model, ids)
            if turn:  # the first round warms up
                seconds[way].append(time.perf_counter() - start)
    medians = {way: sorted(of_way)[ROUNDS // 2] for way, of_way in seconds.items()}
    command = [sys.executable, "-m", "tests.benchmarks.attention_recording", "--memory-of"]
    memory = {way: int(subprocess.check_output([*command, way], text=True)) for way in WAYS}
    print("way       seconds  ratio   MB  ratio")
    for way in WAYS:
        ratios = medians[way] / medians["sdpa"], memory[way] / memory["sdpa"]
        print(f"{way:9} {medians[way]:7.3f} {ratios[0]:6.2f} {memory[way] / 1e6:4.0f} {ratios[1]:6.2f}")


def build(way: str) -> tuple[Any, torch.Tensor]:
    """The model with the backend of this way, and its text."""
    torch.manual_seed(0)
    backend = "eager" if way == "eager" else "sdpa"
    model = BertModel._from_config(BertConfig(), attn_implementation=backend).eval()
    return model, torch.randint(1000, 2000, (1, LENGTH))


@torch.no_grad()
def forward(way: str, model: Any, ids: torch.Tensor) -> None:
    """One forward pass: weights of layer 5, of all layers, or of none."""
    with record_attention(model, layers=[5]) if way == "recorded" else nullcontext():
        model(input_ids=ids, output_attentions=way == "eager")


def peak() -> int:
    """The highest memory of the process so far, in bytes (on Linux ``ru_maxrss`` has kilobytes)."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
