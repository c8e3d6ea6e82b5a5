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
    return _interval(float(defined.mean()), defined[_chosen(defined.size)].mean(axis=1))


def ratio_interval(counted: np.ndarray, total: np.ndarray) -> Interval | None:
    """[ratio, low, high] of sum(counted) / sum(total) over prompts; None if the total is 0.

    Args:
        counted: [P] int, such as each prompt's correct samples in a style.
        total: [P] int, such as all its samples in the style; prompts with 0 are dropped before resampling.
    """
    counted, total = counted[total > 0], total[total > 0]
    if total.size == 0:
        return None
    chosen = _chosen(total.size)
    ratios = counted[chosen].sum(axis=1) / total[chosen].sum(axis=1)
    return _interval(float(counted.sum() / total.sum()), ratios)


def _chosen(size: int) -> np.ndarray:
    return np.random.default_rng(SEED).integers(size, size=(RESAMPLES, size), dtype=np.int32)


def _interval(value: float, resampled: np.ndarray) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return [value, float(low), float(high)]
