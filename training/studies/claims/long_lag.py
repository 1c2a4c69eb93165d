"""Remembering the first token, by the recurrent cell and the lag."""

from statistics import fmean
from typing import Any

import torch

from ..synthetic import FIRST, START, SYMBOLS, Batch
from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide
from .small_models import RecurrentTagger, compare, transformer
from .style import lines, reference

WIDTH = 48
LAGS = (5, 10, 20, 40)
RATES_OF_TANH = (4e-3, 1e-3, 3e-4)  # the others learn with the first
MODELS = {
    "tanh": lambda: RecurrentTagger("tanh", WIDTH),
    "GRU": lambda: RecurrentTagger("GRU", WIDTH),
    "LSTM": lambda: RecurrentTagger("LSTM", WIDTH),
    "LSTM, forget bias 1": lambda: RecurrentTagger("LSTM", WIDTH, forget_bias=1.0),
    "attention": lambda: transformer(hidden_size=WIDTH, num_hidden_layers=1, attention_pattern="bidirectional"),
}


def first_token(rows: int, length: int, generator: torch.Generator) -> Batch:
    """A symbol, ``length`` others, and the question which was the first."""
    source = torch.randint(FIRST, FIRST + SYMBOLS, (rows, length + 1), generator=generator)
    return Batch(source, torch.full_like(source[:, :1], START), source[:, :1])


def run(budget: Budget) -> Measurements:
    """The accuracy of each model at each lag; of tanh with the learning rate that is best at the shortest one."""
    steps, lags = budget.choose(2, 300, 1500), (1, LAGS[-1])
    found = compare(budget, MODELS, first_token, lags, LAGS, steps, RATES_OF_TANH[0])
    tanh = {"tanh": MODELS["tanh"]}
    others = [compare(budget, tanh, first_token, lags, LAGS, steps, rate)["tanh"] for rate in RATES_OF_TANH[1:]]
    return found | {"tanh": max([found["tanh"], *others], key=lambda of_lags: fmean(of_lags[0]))}


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    plain, opened = (
        at_least(f"{name}: accuracy at lag {LAGS[-1]}", found[name][-1], 0.9)
        for name in ("LSTM", "LSTM, forget bias 1")
    )
    others = [
        at_least(f"GRU: accuracy at lag {LAGS[-1]}", found["GRU"][-1], 0.9),
        at_most(f"tanh: accuracy at lag {LAGS[-1]}", found["tanh"][-1], 0.5),
        at_least(f"attention: accuracy at lag {LAGS[-1]}", found["attention"][-1], 0.9),
    ]
    return decide([plain, opened, *others], "the forget gate of the LSTM starts open (bias 1)", [opened, *others])


def draw(found: Measurements, figure: Any) -> None:
    """The accuracy against the lag."""
    axis = figure.subplots()
    lines(axis, LAGS, found, xlabel="lag in tokens", ylabel="accuracy", ylim=(0, 1.02))
    reference(axis, 1 / SYMBOLS, "chance", horizontal=True)


def _example(tanh: float, lstm: float, opened: float) -> Measurements:
    ends = {"tanh": tanh, "GRU": 0.97, "LSTM": lstm, "LSTM, forget bias 1": opened, "attention": 1.0}
    return {name: [[end, end]] for name, end in ends.items()}


CLAIM = Claim(
    name="long-lag",
    claim="Trained on lags of 1 to 40 tokens, a plain recurrent network fails; GRU, LSTM and attention remember.",
    source="Hochreiter and Schmidhuber (1997), section 5; Bahdanau et al. (2014), appendix A.1.1",
    tutorials="LSTMs and GRUs remember longer than RNNs, but still forget.",
    of_wording="not supported at these lags: GRU and LSTM are always right. The tanh network fails at short "
    "lags too, so it hardly learned the task, and its memory is not measured.",
    experiment=f"One layer of width {WIDTH} reads 2 to {LAGS[-1] + 1} tokens out of {SYMBOLS} symbols, and has to "
    "name the first. All models see the same batches for 1,500 steps; tanh has the best of three learning "
    "rates. Chance is about 0.06.",
    rule=f"Holds if, at lag {LAGS[-1]}, tanh has an accuracy of at most 0.5, and GRU, LSTM with either forget "
    "bias, and attention have at least 0.9. 'Only when the forget gate of the LSTM starts open' if all bounds "
    "are met but that of the other LSTM.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.1, 1.0, 1.0),
        "only when": _example(0.1, 0.3, 1.0),
        "does not hold here": _example(1.0, 1.0, 1.0),
    },
)
