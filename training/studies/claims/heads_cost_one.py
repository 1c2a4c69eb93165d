"""Multiplications, parameters and memory of attention, by the number of heads."""

from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from attnzoo import SmallTransformerConfig
from attnzoo.transformer_layers import MultiHeadAttention

from .frame import Budget, Claim, Measurements, Verdict, decide, never_above, saved_bytes
from .style import lines

WIDTH = 256
HEADS = (1, 2, 4, 8, 16)


def run(budget: Budget) -> Measurements:
    """Each cost divided by that of one head, for each number of heads; a value for each length of the sequence."""
    lengths = budget.choose((64, 128), (64, 128, 256), (64, 128, 256, 512, 1024))
    found: Measurements = {"multiplications": [], "parameters": [], "bytes kept": []}
    for heads in HEADS:
        config = SmallTransformerConfig(hidden_size=WIDTH, num_attention_heads=heads)
        config._attn_implementation = "eager"
        attention = MultiHeadAttention(config, 0)
        flops, kept = [], []
        for length in lengths:
            states = torch.randn(1, length, WIDTH, requires_grad=True)
            with FlopCounterMode(display=False) as counter:
                attention(states)
            flops.append(float(counter.get_total_flops()))
            kept.append(float(saved_bytes(partial(attention, states))))
        found["multiplications"].append(flops)
        found["bytes kept"].append(kept)
        found["parameters"].append([float(sum(p.numel() for p in attention.parameters()))] * len(lengths))
    for costs in found.values():
        costs[:] = [[cost / one for cost, one in zip(row, costs[0], strict=True)] for row in costs[1:]]
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    checks = {
        name: never_above(f"{name} of 16 heads / of one, longest sequence", [costs[-1][-1]], 1.05)
        for name, costs in found.items()  # exact counts: the intervals have no width
    }
    arithmetic = [checks["multiplications"], checks["parameters"]]
    return decide([*arithmetic, checks["bytes kept"]], "memory for the attention weights is left out", arithmetic)


def draw(found: Measurements, figure: Any) -> None:
    """The ratios against the number of heads."""
    axis = figure.subplots()
    lines(axis, HEADS[1:], found, xlabel="heads", ylabel="cost / cost of one head")
    axis.set_xscale("log", base=2)
    axis.set_ylim(0)


CLAIM = Claim(
    name="heads-cost-one",
    claim="h heads of width d_model / h cost about what one head of full width costs.",
    source="Vaswani et al. (2017), section 3.2.2",
    tutorials="More heads are free, since each head is smaller.",
    of_wording="not supported for memory: eager attention keeps the weights of every head. Time is not measured.",
    experiment=f"Exact counts for MultiHeadAttention of width {WIDTH} with 1 to 16 heads (eager), at several "
    "lengths: floating-point operations of the matrix products, parameters, and the bytes kept for the gradient. "
    "Each count is divided by that of one head. The table has the longest sequence, of 1,024 tokens; bands are over "
    "lengths.",
    rule="Holds if operations, parameters and bytes kept of 16 heads are at most 1.05 times those of one "
    "head, on the longest sequence. 'Only when memory for the attention weights is left out' if all bounds are met "
    "but that of the bytes kept.",
    intervals_over="lengths; the counts are exact",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {name: [[1.0, 1.0]] for name in ("multiplications", "parameters", "bytes kept")},
        "only when": {"multiplications": [[1.0, 1.0]], "parameters": [[1.0, 1.0]], "bytes kept": [[4.0, 8.0]]},
        "does not hold here": {"multiplications": [[4.0, 4.0]], "parameters": [[1.0, 1.0]], "bytes kept": [[1.0, 1.0]]},
    },
)
