"""Sinusoidal and learned positions at lengths beyond training."""

from .frame import Claim, Measurements, Verdict, at_least, decide
from .order_needs_positions import LENGTHS, draw, trained_on_order


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    gain = [sine - learned for sine, learned in zip(found["sinusoidal"][-1], found["learned"][-1], strict=True)]
    better = at_least(f"accuracy minus that of learned positions, {LENGTHS[-1]} tokens", gain, 0.05)
    good = [at_least(f"accuracy at {n} tokens", found["sinusoidal"][LENGTHS.index(n)], 0.9) for n in (24, 32)]
    return decide([better, *good], "compared with learned positions", [better])


def _example(sine: float, learned: float) -> Measurements:
    return {"sinusoidal": [[sine] * 3] * 4, "learned": [[learned] * 3] * 4}


CLAIM = Claim(
    name="sinusoids-extrapolate",
    claim="Sinusoidal positions let a model extrapolate to sequences longer than those of its training.",
    source="Vaswani et al. (2017), section 3.5",
    tutorials="Sine and cosine encodings generalise to longer sequences.",
    of_wording="not supported here.",
    experiment="The encoders of order-needs-positions, trained on 4 to 16 tokens, at 24 and 32 tokens. Learned "
    "positions from 17 on, counted from 0, are untrained.",
    rule="Holds if the accuracy with sinusoids is at least 0.9 at 24 and 32 tokens, and at least 0.05 above "
    "that with learned positions at 32. 'Only when compared with learned positions' if the last "
    "bound alone is met.",
    run=trained_on_order,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.95, 0.7),
        "only when": _example(0.8, 0.6),
        "does not hold here": _example(0.6, 0.6),
    },
)
