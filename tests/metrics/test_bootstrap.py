"""Bootstrap intervals against scipy's, and edge cases."""

import numpy as np
import pytest
from scipy import stats

from rl.metrics.bootstrap import RESAMPLES, mean_interval


def test_intervals_are_scipys_percentile_bootstrap():
    for size in (2, 30, 400):
        values = np.random.default_rng(size).normal(size=size)
        value, low, high = mean_interval(values)
        rng = np.random.default_rng(0)
        limits = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=rng)
        assert value == values.mean()
        assert (low, high) == pytest.approx(tuple(limits.confidence_interval), abs=1e-12)


def test_undefined_and_constant_values():
    nan = np.nan
    assert mean_interval(np.full(7, 0.25)) == [0.25, 0.25, 0.25]
    assert mean_interval(np.array([1.0, nan, 0.0, nan])) == mean_interval(np.array([1.0, 0.0]))
    assert mean_interval(np.full(3, nan)) is mean_interval(np.empty(0)) is None
