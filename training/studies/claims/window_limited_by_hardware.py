"""What runs at any length, and what is right at lengths beyond training."""

from functools import partial
from typing import Any

import torch

from ..synthetic import Batch, copy, logits_of
from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, never_below, saved_bytes
from .small_models import compare, recurrent, transformer
from .style import lines, reference

MODELS: dict[str, Any] = {"Luong's RNN": partial(recurrent, score="general"), "Transformer": transformer}
TRAINED, LENGTHS = (2, 20), (10, 20, 30, 40)


def run(budget: Budget) -> Measurements:
    """The share of finite outputs at long sources, the bytes kept there, and the accuracy after training."""
    sources = budget.choose((32, 64), (256, 512, 1024, 2048), (256, 512, 1024, 2048, 4096))
    found: Measurements = {"sources": list(sources), "finite": {}, "mebibytes": {}}
    for name, build in MODELS.items():
        model, finite, kept = build().eval(), [], []
        for length in sources:
            torch.manual_seed(length)
            source = copy(1, length, torch.Generator().manual_seed(length)).source
            batch = Batch(source, source[:, :8], source[:, :8])
            with torch.no_grad():
                finite.append(float(logits_of(model, batch).isfinite().all()))
            kept.append(saved_bytes(partial(logits_of, model, batch)) / 2**20)
        found["finite"][name], found["mebibytes"][name] = finite, kept
    steps = budget.choose(2, 250, 1500)
    return found | {"accuracy": compare(budget, MODELS, copy, TRAINED, LENGTHS, steps, 2e-3)}


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    runs = [
        never_below(f"{name}: share of long sources with finite outputs", f, 1.0) for name, f in found["finite"].items()
    ]
    right = [at_least(f"{name}: accuracy at 40 tokens", of[-1], 0.9) for name, of in found["accuracy"].items()]
    return decide([*runs, *right], "finite outputs suffice: accuracy falls beyond the lengths of training", runs)


def draw(found: Measurements, figure: Any) -> None:
    """Memory against length, and accuracy against length."""
    left, right = figure.subplots(1, 2)
    memory = {name: [[value, value] for value in values] for name, values in found["mebibytes"].items()}
    lines(left, found["sources"], memory, xlabel="source tokens", ylabel="MiB kept for the gradient (8 targets)")
    left.set_xscale("log", base=2)
    left.set_yscale("log")
    lines(right, LENGTHS, found["accuracy"], xlabel="tokens", ylabel="accuracy in copying", ylim=(0, 1.02))
    reference(right, TRAINED[1], "the longest in training")


def _example(accuracy: float, finite: float = 1.0) -> Measurements:
    return {"finite": {"a": [finite, finite]}, "accuracy": {"a": [[accuracy, accuracy]]}}


CLAIM = Claim(
    name="window-limited-by-hardware",
    claim="The reference window of attention is limited only by the hardware.",
    source="Bahdanau et al. (2014), section 5.2.2, whose model does not deteriorate with length",
    tutorials="Attention has, in theory, an infinite window to reference from, given enough compute.",
    of_wording="supported as far as outputs are finite. In copying, accuracy falls from 20 to 40 tokens.",
    experiment="Luong's RNN and the Transformer (sinusoidal positions) read sources of up to 4,096 tokens. Measured "
    "are whether the outputs are finite, and the bytes kept. Then both learn to copy 2 to 20 tokens in 1,500 "
    "steps and are tested at up to 40.",
    rule="Holds if all outputs are finite (a share of 1), and the accuracy at 40 tokens is at least 0.9 for "
    "both. 'Only when finite outputs suffice' if the first bound alone is met.",
    intervals_over="lengths, and for the accuracy over seeds {}",
    run=run,
    judge=judge,
    draw=draw,
    examples={"holds": _example(0.95), "only when": _example(0.3), "does not hold here": _example(0.95, 0.0)},
)
