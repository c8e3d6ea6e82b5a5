"""Bootstrap intervals, sign-flip tests and Holm's correction, by hand and against scipy."""

import numpy as np
import pytest
from scipy import stats

from rl.evaluation.analysis.paired_test import PairedTest, holm, sign_flip_p
from rl.metrics.bootstrap import RESAMPLES, mean_interval


def test_sign_flips_by_hand():
    # 8 sign assignments; only + + + and - - - are as far from 0.
    assert sign_flip_p(np.array([1.0, 2.0, 3.0])) == 2 / 8
    # 1 + 2 - 3 = 0: every assignment is as far from 0.
    assert sign_flip_p(np.array([1.0, 2.0, -3.0])) == 1
    # The sign test: 8 of 10 wins, P(at least 8 or at most 2 of 10) = 2 (45 + 10 + 1) / 1024.
    assert sign_flip_p(np.array([1.0] * 8 + [-1.0] * 2)) == 112 / 1024
    # 40 prompts, 28 wins: P(at least 28 or at most 12 of 40 fair coins) = .016591.
    assert sign_flip_p(np.array([1.0] * 28 + [-1.0] * 12)) == pytest.approx(0.016591, abs=0.003)
    assert sign_flip_p(np.zeros(5)) == sign_flip_p(np.zeros(100)) == 1
    assert 0 < sign_flip_p(np.ones(200)) < 1e-3  # never impossible


def test_sign_flips_agree_with_scipy():
    for size, tolerance in ((9, 1e-12), (60, 0.01)):
        values = np.random.default_rng(size).normal(0.3, size=size)
        expected = stats.permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(1)
        )
        assert sign_flip_p(values) == pytest.approx(expected.pvalue, abs=tolerance)
    assert sign_flip_p(values) == sign_flip_p(values)


def test_holm_by_hand():
    # In order: 4 * .01, 3 * .02 = .06, 2 * .04 = .08, 1 * .05 raised to the one before.
    assert holm([0.04, 0.01, 0.05, 0.02]) == pytest.approx([0.08, 0.04, 0.08, 0.06])
    assert holm([]) == [] and holm([0.3]) == [0.3] and holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("difference", "p_holm", "verdict"),
    [
        ([0.1, 0.01, 0.2], 0.05, "higher"),
        ([-0.1, -0.2, -0.01], 0.05, "lower"),
        # A fall whose interval excludes 0 is not called chance.
        ([-0.1, -0.2, -0.01], 0.06, "lower before correction"),
        ([0.1, 0.01, 0.2], 0.06, "higher before correction"),
        ([0.1, 0.0, 0.2], 0.01, "inconclusive"),
    ],
)
def test_verdicts(difference, p_holm, verdict):
    test = PairedTest("bird", "grpo", "base", "pass@8", 20, difference, 0.01, p_holm)
    assert test.verdict == test.as_json()["verdict"] == verdict


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
