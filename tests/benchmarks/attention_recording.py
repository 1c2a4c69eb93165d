"""The cost of recording one of twelve layers at 512 tokens, compared with the fused kernel alone and the eager backend.

``python -m tests.benchmarks.attention_recording``

A random BERT of the base size reads one text. Times are medians of rounds in which the ways take turns. The memory is
the peak of a separate process, and the part of it that the forward passes added; it needs Linux.
"""

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
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
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew: building a model needs more than it keeps
        before = memory_of_process("VmRSS")
        for _ in range(2):
            forward(way, model, ids)
        print(memory_of_process("VmHWM") - before, memory_of_process("VmHWM"))
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
    memory = {way: [int(n) for n in subprocess.check_output([*command, way], text=True).split()] for way in WAYS}
    print("way       seconds  ratio   MB above the model  ratio   MB of the process  ratio")
    for way in WAYS:
        above, whole = memory[way]
        ratios = medians[way] / medians["sdpa"], above / memory["sdpa"][0], whole / memory["sdpa"][1]
        print(f"{way:9} {medians[way]:7.3f} {ratios[0]:6.2f} {above / 1e6:20.0f} {ratios[1]:6.2f}", end="")
        print(f" {whole / 1e6:19.0f} {ratios[2]:6.2f}")


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


def memory_of_process(field: str) -> int:
    """The memory of a process in bytes, now (VmRSS) or at most (VmHWM); the file has kilobytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{field}:")]
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    main()
