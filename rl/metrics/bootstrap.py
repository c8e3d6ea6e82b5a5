"""Percentile bootstrap over prompts: the prompt is the unit that is resampled, its samples stay together."""

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0

# The mean and its confidence limits; None where no prompt defines the metric.
Interval = list[float] | None


def mean_interval(values: np.ndarray, seed: int = SEED) -> Interval:
    """Mean over the prompts for which the metric is defined, with its confidence interval.

    Args:
        values: [P] float, one value a prompt; NaN where the metric is not defined (for example the keep rate on a
            prompt that the base did not solve). Those prompts are left out before resampling.
        seed: of the resampling; the same seed and the same number of prompts give the same resamples.

    Returns:
        [mean, low, high] at LEVEL, or None when no value is defined.
    """
    defined = values[~np.isnan(values)]
    if defined.size == 0:
        return None
    rng = np.random.default_rng(seed)
    chosen = rng.integers(defined.size, size=(RESAMPLES, defined.size), dtype=np.int32)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(defined[chosen].mean(axis=1), [tail, 1 - tail])
    return [float(defined.mean()), float(low), float(high)]


def paired_difference(first: np.ndarray, second: np.ndarray, seed: int = SEED) -> Interval:
    """[mean, low, high] of first - second over the prompts for which both are defined, resampled as pairs.

    Args:
        first: [P] float, one value a prompt, NaN where not defined.
        second: [P] float, the same prompts in the same order.
    """
    if first.shape != second.shape:
        raise ValueError(f"Paired methods need the same prompts, but there are {first.size} and {second.size}.")
    return mean_interval(first - second, seed)
