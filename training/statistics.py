"""Confidence intervals of 95 % for means and ratios, by bootstrap (Efron, 1979) or by Student's t.

A bootstrap sample draws as many examples as there are, with replacement. The interval goes from the 2.5th to the 97.5th
percentile of the samples' figures (the percentile interval). All draws have a fixed seed, so a figure always has the
same interval, and the difference of two figures is computed on the same samples.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

SEED, SAMPLES = 0, 1000


class Interval(NamedTuple):
    """A mean with its confidence interval of 95 %."""

    mean: float
    low: float
    high: float


def percentiles(sampled: np.ndarray) -> tuple[float, float]:
    """The interval of a figure, from its values in the bootstrap samples."""
    low, high = np.percentile(sampled, [2.5, 97.5])
    return float(low), float(high)


def bootstrap_mean(values: np.ndarray, samples: int = SAMPLES, rows: np.ndarray | None = None) -> Interval:
    """The mean of one value for each example, with its interval by bootstrap over the examples.

    Args:
        values: (N,)
        samples: number of bootstrap samples
        rows: (samples, N), the numbers of the examples in every sample; drawn if not given
    """
    random = np.random.default_rng(SEED)
    # One sample after the other: all together would take 1000 times the memory of the values.
    drawn = (random.integers(len(values), size=len(values)) for _ in range(samples)) if rows is None else rows
    return Interval(float(values.mean()), *percentiles(np.array([values[of_sample].mean() for of_sample in drawn])))


def bootstrap_ratios(numerators: np.ndarray, denominators: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """The ratio of two sums over the examples, in each of ``SAMPLES`` bootstrap samples, the same ones in every call.

    Args:
        numerators: (N,)
        denominators: (N,)
        counts: (N,), the number of examples with this numerator and denominator; one each if not given

    Shape:
        - returns: (samples,)
    """
    counts = np.ones(len(numerators), dtype=int) if counts is None else counts
    size = counts.sum()
    random = np.random.default_rng(SEED)
    drawn = (random.multinomial(size, counts / size) for _ in range(SAMPLES))  # how often each example, (N,)
    return np.array([(times @ numerators) / (times @ denominators) for times in drawn])


def student_mean(values: np.ndarray) -> Interval:
    """The mean of few values, two or more, with its interval by Student's t, which assumes a normal distribution."""
    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    return Interval(mean, mean - half, mean + half)
