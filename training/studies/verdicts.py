"""Means over examples with their confidence intervals, and what a rule says about them in one sentence."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..statistics import Interval, bootstrap_mean


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """The mean of the values that are not NaN, with its interval by bootstrap over the examples.

    Raises:
        ValueError: there is no value.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        raise ValueError("there is not a single example on which this can be measured; take more of them")
    return bootstrap_mean(known)


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
