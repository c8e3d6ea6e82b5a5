"""The sign-flip test against hand-computed p-values and the laws it obeys, and Holm's correction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.evaluation.analysis.paired_test import holm, sign_flip_p


def test_hand_computed():
    # 8 assignments of signs; only + + + and - - - are as far from 0.
    assert sign_flip_p(np.array([1.0, 2.0, 3.0])) == 2 / 8
    # 1 + 2 - 3 = 0: every assignment is as far from 0.
    assert sign_flip_p(np.array([1.0, 2.0, -3.0])) == 1
    # The sign test: 8 of 10 wins, P(at least 8 or at most 2 of 10) = 2 (45 + 10 + 1) / 1024.
    assert sign_flip_p(np.array([1.0] * 8 + [-1.0] * 2)) == 112 / 1024


def test_methods_that_agree_on_every_prompt():
    assert sign_flip_p(np.zeros(5)) == sign_flip_p(np.zeros(100)) == 1


def test_drawn_signs_agree_with_the_sign_test():
    # 40 prompts, 28 wins: P(at least 28 or at most 12 of 40 fair coins) = .016591.
    assert sign_flip_p(np.array([1.0] * 28 + [-1.0] * 12)) == pytest.approx(0.016591, abs=0.003)


def test_a_clear_difference_is_never_impossible():
    assert 0 < sign_flip_p(np.ones(200)) < 1e-3


def test_seeded():
    values = np.random.default_rng(0).normal(0.2, size=50)
    assert sign_flip_p(values) == sign_flip_p(values) != sign_flip_p(values, seed=1)


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
def test_laws(values):
    p = sign_flip_p(np.array(values))
    assert 2 ** (1 - len(values)) <= p + 1e-12 and p <= 1
    assert sign_flip_p(-np.array(values)) == p == sign_flip_p(np.array(values[::-1]))


def test_level_holds_where_there_is_no_difference():
    """At most 5 % of 600 draws without a difference have p <= .05, and about half have p <= .5."""
    rng = np.random.default_rng(1)
    p = np.array([sign_flip_p(rng.normal(size=10)) for _ in range(600)])
    assert (p <= 0.05).mean() < 0.075 and 0.43 < (p <= 0.5).mean() < 0.57


def test_holm_by_hand():
    # In order: 4 * .01, 3 * .02 = .06, 2 * .04 = .08, 1 * .05 raised to the one before.
    assert holm([0.04, 0.01, 0.05, 0.02]) == pytest.approx([0.08, 0.04, 0.08, 0.06])
    assert holm([]) == [] and holm([0.3]) == [0.3] and holm([0.9, 0.8]) == [1.0, 1.0]


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_only_raises_and_keeps_the_order(values):
    corrected = holm(values)
    assert all(before <= after <= 1 for before, after in zip(values, corrected, strict=True))
    assert [corrected[i] for i in np.argsort(values)] == sorted(corrected)
