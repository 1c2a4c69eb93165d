"""Operations that must wait for each other, and time, of recurrence and of self-attention."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnzoo import SmallTransformerConfig
from attnzoo.recurrent_cells import ChoGRU
from attnzoo.transformer_layers import MultiHeadAttention

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, never_above, never_below, seconds_of
from .style import lines, reference

WIDTH, ROWS, SHORT = 256, 8, 256


def longest_chain(output: Tensor) -> int:
    """The number of operations on the longest path of a gradient's graph: none of them can start before the last."""
    depth: dict[Any, int] = {None: 0}
    waiting = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [parent for parent, _ in getattr(node, "next_functions", ())]
        missing = [parent for parent in before if parent not in depth]
        if missing:
            waiting.extend(missing)
        else:
            depth[node] = 1 + max((depth[parent] for parent in before), default=0)
            waiting.pop()
    return depth[output.grad_fn]


def run(budget: Budget) -> Measurements:
    """The longest chains at two lengths, and the time of an LSTM divided by that of attention."""
    lengths = budget.choose((16, 64, 512), (16, 64, 256, 512, 1024), (16, 64, 256, 512, 1024, 2048, 4096))
    config = SmallTransformerConfig(hidden_size=WIDTH, num_attention_heads=4)
    config._attn_implementation = "sdpa"
    attention, lstm = MultiHeadAttention(config, 0).eval(), nn.LSTM(WIDTH, WIDTH, batch_first=True)
    found: Measurements = {"lengths": list(lengths), "speed": [], "chain": {}}
    for name, module in (("attention", attention), ("recurrence", ChoGRU(WIDTH, WIDTH))):
        chains = [longest_chain(module(torch.randn(1, n, WIDTH, requires_grad=True))[0]) for n in (32, 128)]
        found["chain"][name] = chains
    for length in lengths:
        states = torch.randn(ROWS, length, WIDTH)
        ratios = []
        with torch.no_grad():
            for _ in budget.seeds:
                times = [seconds_of(partial(m, states), budget.choose(1, 3, 5)) for m in (lstm, attention)]
                ratios.append(times[0] / times[1])
        found["speed"].append(ratios)
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    growth = {name: chain[1] / chain[0] for name, chain in found["chain"].items()}
    chains = [
        never_above("attention: chain at 128 tokens / at 32", [growth["attention"]], 1.0),
        never_below("recurrence: chain at 128 tokens / at 32", [growth["recurrence"]], 3.0),
    ]
    faster = {
        length: at_least(f"time of the LSTM / of attention, {length} tokens", ratios, 1.0)
        for length, ratios in zip(found["lengths"], found["speed"], strict=True)
    }
    short = [check for length, check in faster.items() if length <= SHORT]
    condition = f"the sequence has at most {SHORT} tokens (at width {WIDTH}, on this machine)"
    return decide([*chains, *faster.values()], condition, [*chains, *short])


def draw(found: Measurements, figure: Any) -> None:
    """The ratio of the times against length, and the chains in the title."""
    axis = figure.subplots()
    lines(axis, found["lengths"], {"": found["speed"]}, xlabel="tokens", ylabel="time of the LSTM / of attention")
    reference(axis, 1, "equal times", horizontal=True)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    chains = ", ".join(f"{name} {a} and {b}" for name, (a, b) in found["chain"].items())
    axis.set_title(f"longest chain of operations at 32 and 128 tokens: {chains}", fontsize=9)


def _example(growth: float, long: float) -> Measurements:
    chain = {"attention": [10, 10 * growth], "recurrence": [100, 400]}
    return {"lengths": [16, 256, 4096], "speed": [[3.0, 3.1], [2.0, 2.1], [long, long]], "chain": chain}


CLAIM = Claim(
    name="parallel-not-sequential",
    claim="Self-attention computes all positions in parallel, and so it is faster than recurrence.",
    source="Vaswani et al. (2017), section 4 and table 1",
    tutorials="RNNs process tokens one by one, Transformers process them all at once.",
    of_wording="supported for the chain of operations. In time, on one thread, attention is ahead of the LSTM "
    "for short sequences only.",
    experiment="The longest chain of operations that wait for each other, counted in the graph of the gradient, for "
    f"attention and for a GRU. The forward times of torch's LSTM and of attention (sdpa), at width {WIDTH}, "
    f"for {ROWS} sequences.",
    rule="Holds if, from 32 to 128 tokens, the chain of attention does not grow and that of the GRU grows at "
    "least 3 times, and attention is not slower than the LSTM at any length. 'Only when the sequence has at "
    f"most {SHORT} tokens' if attention is not slower up to that length.",
    intervals_over="repeated timings",
    run=run,
    judge=judge,
    draw=draw,
    examples={"holds": _example(1, 1.5), "only when": _example(1, 0.5), "does not hold here": _example(4, 1.5)},
    uses_clock=True,
)
