"""Means with their confidence intervals, and what a rule says about them in one sentence."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SAMPLES = 1000


class Interval(NamedTuple):
    """A mean over examples with its 95 % confidence interval, by bootstrap."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """The mean of the values that are not NaN, and the 2.5th and 97.5th percentile of the means of bootstrap samples.

    Raises:
        ValueError: there is no value.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        raise ValueError("there is not a single example on which this can be measured; take more of them")
    chosen = np.random.default_rng(0).integers(len(known), size=(SAMPLES, len(known)))
    low, high = np.percentile(known[chosen].mean(axis=1), [2.5, 97.5])
    return Interval(float(known.mean()), float(low), float(high))


class Rule(NamedTuple):
    """A sentence for an interval that is wholly above one bound, one for wholly below another, one for all others."""

    above: float
    below: float
    is_above: str
    is_between: str
    is_below: str

    def verdict(self, found: Interval) -> str:
        """The sentence for this interval."""
        if found.low > self.above:
            return self.is_above
        return self.is_below if found.high < self.below else self.is_between
