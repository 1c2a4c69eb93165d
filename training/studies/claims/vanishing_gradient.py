"""How the gradient falls with distance, by the recurrent cell, before training."""

from typing import Any

import numpy as np
import torch
from torch import nn

from attnzoo import SmallTransformerConfig
from attnzoo.transformer_layers import MultiHeadAttention

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide, gradient_by_distance
from .style import lines

WIDTH = 64
DISTANCES = (1, 5, 10, 20, 30, 40, 50)
OPEN = 2.0  # the bias of open gates: sigmoid(2) = 0.88 of the state stays
CELLS = ("tanh", "GRU", "LSTM", "GRU, open", "LSTM, open", "attention")


def cell(name: str) -> nn.Module:
    """One layer as torch initialises it; "open" adds a bias to the gate that keeps the state."""
    if name == "attention":
        config = SmallTransformerConfig(hidden_size=WIDTH, num_attention_heads=4)
        return MultiHeadAttention(config, 0)
    kinds = {"tanh": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}
    module = kinds[name.removesuffix(", open")](WIDTH, WIDTH, batch_first=True)
    if name.endswith("open"):  # the second block of rows: the LSTM's forget gate, and the GRU's update gate
        with torch.no_grad():
            module.bias_hh_l0[WIDTH : 2 * WIDTH] += OPEN
    return module


def run(budget: Budget) -> Measurements:
    """log10 of the gradient at each distance, divided by that at distance 1, for each cell and seed."""
    found: Measurements = {name: [[] for _ in DISTANCES] for name in CELLS}
    for name in CELLS:
        for seed in budget.seeds:
            torch.manual_seed(seed)
            module = cell(name).double()
            rows = budget.choose(4, 16, 64)
            inputs = torch.randn(rows, DISTANCES[-1] + 1, WIDTH, dtype=torch.float64, requires_grad=True)
            gradient = gradient_by_distance(module(inputs)[0], inputs)
            for place, distance in enumerate(DISTANCES):
                found[name][place].append(float(np.log10(gradient[distance] / gradient[1])))
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""

    def gained(one: str, other: str) -> list[float]:
        return [a - b for a, b in zip(found[one][-1], found[other][-1], strict=True)]

    vanishes = at_least("tanh: orders of magnitude lost at 50", [-value for value in found["tanh"][-1]], 6.0)
    gates = [at_least(f"{n}: orders of magnitude kept beyond tanh's", gained(n, "tanh"), 1.0) for n in ("GRU", "LSTM")]
    opened = [
        at_least(f"{n}: orders of magnitude kept beyond tanh's", gained(n, "tanh"), 1.0)
        for n in ("GRU, open", "LSTM, open")
    ]
    flat = at_most("attention: orders lost at 50", [-value for value in found["attention"][-1]], 1.0)
    condition = f"the gates start open (a bias of {OPEN:g})"
    return decide([vanishes, *gates, *opened, flat], condition, [vanishes, *opened, flat])


def draw(found: Measurements, figure: Any) -> None:
    """The gradient against the distance."""
    label = "gradient / gradient at distance 1, log10"
    lines(figure.subplots(), DISTANCES, {n: found[n] for n in CELLS}, xlabel="distance in tokens", ylabel=label)


def _ends(tanh: float, gru: float, lstm: float, opened: float) -> Measurements:
    ends = zip(CELLS, (tanh, gru, lstm, opened, opened, 0.0), strict=True)
    return {name: [[end, end - 0.1]] for name, end in ends}


CLAIM = Claim(
    name="vanishing-gradient",
    claim="In a recurrent network the gradient vanishes with distance; GRU and LSTM help to some extent, and "
    "attention has no such loss.",
    source="Bengio et al. (1994); Hochreiter and Schmidhuber (1997), section 3; Bahdanau et al. (2014), appendix A.1.1",
    tutorials="RNNs forget: gradients vanish over long sequences. LSTMs and GRUs help to some extent.",
    of_wording="supported, for gradients at the start of training. long-lag trains such networks.",
    experiment="The gradient of the last output with respect to each input, in double precision, for one untrained "
    f"layer of width {WIDTH} as torch initialises it, and with a bias of {OPEN:g} on the gate that keeps the state, "
    "which then starts open.",
    rule="Holds if, at distance 50, tanh loses at least 6 orders of magnitude, GRU and LSTM each keep at least 1 "
    "order more than tanh, both as torch initialises them and with open gates, and attention loses at most 1. 'Only "
    "when the gates start open' if all bounds are met but those of torch's initialisation.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _ends(-10, -5, -5, -2),
        "only when": _ends(-10, -9.9, -15, -2),
        "does not hold here": _ends(-10, -15, -15, -12),
    },
)
