"""Percentile bootstrap over prompts: the unit of resampling is the prompt, with all its samples."""

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0  # the same number of prompts gives the same resamples

Interval = list[float]  # [mean, low, high]


def mean_interval(values: np.ndarray) -> Interval | None:
    """Mean over the prompts that define the metric, with its confidence interval.

    Args:
        values: [P] float, one value per prompt; NaN where the metric is undefined (such as the keep rate on a prompt
            that the base did not solve). Those prompts are dropped before resampling.

    Returns:
        [mean, low, high] at LEVEL, or None if no value is defined.
    """
    defined = values[~np.isnan(values)]
    if defined.size == 0:
        return None
    rng = np.random.default_rng(SEED)
    chosen = rng.integers(defined.size, size=(RESAMPLES, defined.size), dtype=np.int32)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(defined[chosen].mean(axis=1), [tail, 1 - tail])
    return [float(defined.mean()), float(low), float(high)]


def paired_difference(first: np.ndarray, second: np.ndarray) -> Interval | None:
    """[mean, low, high] of first - second over the prompts that define both, resampled as pairs; None if there is none.

    Args:
        first: [P] float, one value per prompt, NaN where undefined.
        second: [P] float, the same prompts in the same order.
    """
    if first.shape != second.shape:
        raise ValueError(f"Paired methods need the same prompts, but there are {first.size} and {second.size}.")
    return mean_interval(first - second)
