"""Time and memory of self-attention and of an LSTM against the length of the sequence."""

from functools import partial
from typing import Any

import numpy as np
import torch

from attnzoo import SmallTransformerConfig
from attnzoo.transformer_layers import MultiHeadAttention

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide, saved_bytes, seconds_of
from .style import lines

WIDTH = 64
SPLIT = 512  # below this length the projections count, too: 4 n d^2 beside 2 n^2 d multiplications


def run(budget: Budget) -> Measurements:
    """Seconds of a forward pass, and bytes kept for the gradient, for each length and repetition."""
    lengths = budget.choose((32, 64, 512, 1024), (32, 64, 128, 256, 512, 1024, 2048), (32, 64, 128, 256, 512, 1024))
    lengths = budget.choose(lengths, lengths, (*lengths, 2048, 4096))
    repeats = budget.choose(1, 5, 9)
    config = SmallTransformerConfig(hidden_size=WIDTH, num_attention_heads=4)
    config._attn_implementation = "eager"
    models: dict[str, Any] = {
        "attention": MultiHeadAttention(config, 0).eval(),
        "LSTM": torch.nn.LSTM(WIDTH, WIDTH, batch_first=True),
    }
    found: Measurements = {"lengths": list(lengths), "bytes": {}, "seconds": {}}
    for name, model in models.items():
        found["seconds"][name] = []
        for length in lengths:
            with torch.no_grad():
                states = torch.randn(1, length, WIDTH)
                of_length = [seconds_of(partial(model, states), repeats) for _ in budget.seeds]
            found["seconds"][name].append(of_length)
        found["bytes"][name] = [
            saved_bytes(partial(model, torch.randn(1, length, WIDTH, requires_grad=True))) for length in lengths
        ]
    return found


def slopes(found: Measurements, name: str, is_long: bool) -> list[float]:
    """The log-log slope of the time, a value for each repetition, over the lengths on one side of ``SPLIT``."""
    chosen = [i for i, n in enumerate(found["lengths"]) if (n >= SPLIT if is_long else n <= SPLIT)]
    logs = np.log([found["lengths"][i] for i in chosen])
    times = np.log(np.array(found["seconds"][name])[chosen])  # (lengths, repetitions)
    return np.polyfit(logs, times, 1)[0].tolist()


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    long = at_least(f"slope of attention from {SPLIT} tokens on", slopes(found, "attention", True), 1.7)
    short = at_least(f"slope of attention up to {SPLIT} tokens", slopes(found, "attention", False), 1.7)
    linear = at_most(f"slope of the LSTM from {SPLIT} tokens on", slopes(found, "LSTM", True), 1.3)
    condition = f"the sequence is long ({SPLIT} tokens and more at width {WIDTH})"
    return decide([short, long, linear], condition, [long, linear])


def draw(found: Measurements, figure: Any) -> None:
    """Time and memory against length, both axes logarithmic."""
    time, memory = figure.subplots(1, 2)
    milliseconds = {
        name: [[1e3 * second for second in of_length] for of_length in values]
        for name, values in found["seconds"].items()
    }
    lines(time, found["lengths"], milliseconds, xlabel="tokens", ylabel="milliseconds, forward")
    mebibytes = {name: [[n / 2**20] * 2 for n in values] for name, values in found["bytes"].items()}
    lines(memory, found["lengths"], mebibytes, xlabel="tokens", ylabel="MiB kept for the gradient")
    for axis in (time, memory):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
    attention, lstm = (np.mean(found["seconds"][name], axis=1) for name in ("attention", "LSTM"))
    slower = [n for n, a, b in zip(found["lengths"], attention, lstm, strict=True) if a > b]
    if slower:
        time.axvline(slower[0], color="gray", linewidth=1, linestyle=":")
        time.set_title(f"attention slower from {slower[0]} tokens on", fontsize=9)


def _times(slope: float) -> list[list[float]]:
    return [[n**slope, 1.01 * n**slope] for n in (64, 512, 4096)]


CLAIM = Claim(
    name="quadratic-cost",
    claim="The cost of self-attention grows with the square of the length, that of recurrence linearly.",
    source="Vaswani et al. (2017), section 4 and table 1",
    tutorials="Self-attention is quadratic in the sequence length.",
    of_wording="supported for long sequences. Up to 512 tokens the time grows more slowly.",
    experiment=f"The forward time of one layer of attention (eager, width {WIDTH}, 4 heads) and of one LSTM on one "
    "sequence, and the bytes kept for the gradient. The slope is that of a line through the logarithms of "
    "length and time.",
    rule=f"Holds if the slope of attention is at least 1.7 both up to and from {SPLIT} tokens, and that of the "
    "LSTM at most 1.3. 'Only when the sequence is long' if all bounds are met but "
    f"that up to {SPLIT} tokens.",
    intervals_over="repeated timings",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"lengths": [64, 512, 4096], "seconds": {"attention": _times(2.0), "LSTM": _times(1.0)}},
        "only when": {
            "lengths": [64, 512, 4096],
            "seconds": {"attention": [[0.2, 0.2], [1.0, 1.0], [60.0, 61.0]], "LSTM": _times(1.0)},
        },
        "does not hold here": {"lengths": [64, 512, 4096], "seconds": {"attention": _times(1.2), "LSTM": _times(1.0)}},
    },
    uses_clock=True,
)
