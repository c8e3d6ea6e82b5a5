"""Bootstrap intervals: exact cases, coverage on a known distribution, pairing."""

import numpy as np
import pytest

from rl.metrics.bootstrap import mean_interval, paired_difference


def test_one_value_has_no_width():
    assert mean_interval(np.full(7, 0.25)) == [0.25, 0.25, 0.25]


def test_undefined_prompts_are_left_out():
    values = np.array([1.0, np.nan, 0.0, np.nan])
    assert mean_interval(values)[0] == 0.5
    assert mean_interval(values) == mean_interval(np.array([1.0, 0.0]))


def test_no_defined_prompt_gives_none():
    assert mean_interval(np.full(3, np.nan)) is None
    assert mean_interval(np.empty(0)) is None


def test_interval_has_the_width_of_the_standard_error():
    values = np.random.default_rng(1).normal(size=400)
    value, low, high = mean_interval(values)
    assert low < value < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)


def test_coverage_on_a_known_mean():
    """95 % intervals of 60 coin flips with mean .4 hold .4 in about 95 % of 400 draws."""
    rng = np.random.default_rng(2)
    intervals = [mean_interval((rng.random(60) < 0.4).astype(float)) for _ in range(400)]
    covered = np.mean([low <= 0.4 <= high for _, low, high in intervals])
    assert 0.91 < covered < 0.98


def test_seeded():
    values = np.random.default_rng(3).random(30)
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval(values) != mean_interval(values, seed=1)


def test_pairing_removes_what_prompts_share():
    rng = np.random.default_rng(4)
    easy_or_hard = rng.normal(scale=10, size=50)
    first, second = easy_or_hard + 0.5 + 0.1 * rng.normal(size=50), easy_or_hard
    value, low, high = paired_difference(first, second)
    assert 0.4 < low < value < high < 0.6


def test_difference_is_over_prompts_that_both_define():
    assert paired_difference(np.array([1.0, np.nan, 1.0]), np.array([0.0, 1.0, np.nan])) == [1.0, 1.0, 1.0]


def test_pairs_need_the_same_prompts():
    with pytest.raises(ValueError, match="same prompts"):
        paired_difference(np.zeros(3), np.zeros(4))
