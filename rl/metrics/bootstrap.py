"""Percentile bootstrap over prompts: whole prompts are resampled, with all their samples."""

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0  # so that the resamples depend only on the number of prompts

Interval = list[float]  # [mean, low, high]


def mean_interval(values: np.ndarray) -> Interval | None:
    """Mean over the prompts that define the metric, with its confidence interval.

    Args:
        values: [P] float, one value per prompt; NaN if the prompt does not define the metric (such as the keep rate of
            a prompt that the base did not solve). Such prompts are dropped before resampling.

    Returns:
        [mean, low, high] at LEVEL, or None if no value is defined.
    """
    defined = values[~np.isnan(values)]
    if defined.size == 0:
        return None
    chosen = np.random.default_rng(SEED).integers(defined.size, size=(RESAMPLES, defined.size), dtype=np.int32)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(defined[chosen].mean(axis=1), [tail, 1 - tail])
    return [float(defined.mean()), float(low), float(high)]
