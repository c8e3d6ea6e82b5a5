"""Pass@k against the enumeration of all subsets, and the laws it obeys."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.metrics.pass_at_k import k_values, pass_at_k


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_equals_enumeration_of_subsets(n):
    for correct in range(n + 1):
        answers = [True] * correct + [False] * (n - correct)
        for k in range(1, n + 1):
            subsets = list(combinations(answers, k))
            expected = sum(any(subset) for subset in subsets) / len(subsets)
            assert pass_at_k(np.array(correct), n, k) == pytest.approx(expected, abs=1e-14)


def test_hand_computed():
    # n = 4, c = 1: k/4; c = 2, k = 2: 1 - C(2,2)/C(4,2) = 5/6.
    np.testing.assert_allclose(pass_at_k(np.array([0, 1, 2, 3]), 4, 2), [0, 0.5, 5 / 6, 1])


def test_estimate_is_unbiased():
    """Mean over all outcomes of n = 6 samples of a prompt with success rate .3, against 1 - .7^k."""
    n, rate = 6, 0.3
    weights = np.array([len(list(combinations(range(n), c))) * rate**c * (1 - rate) ** (n - c) for c in range(n + 1)])
    for k in range(1, n + 1):
        assert weights @ pass_at_k(np.arange(n + 1), n, k) == pytest.approx(1 - (1 - rate) ** k)


counts = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@settings(deadline=None)
@given(counts)
def test_laws(case):
    n, correct, k = case
    value = pass_at_k(np.array(correct), n, k)
    assert 0 <= value <= 1
    assert pass_at_k(np.array(correct), n, 1) == pytest.approx(correct / n)
    assert pass_at_k(np.array(n), n, k) == 1
    assert pass_at_k(np.array(0), n, k) == 0
    assert pass_at_k(np.array(correct), n, n) == (correct > 0)
    if k < n:
        assert pass_at_k(np.array(correct), n, k + 1) >= value


def test_stable_where_binomials_overflow():
    n = 100_000
    assert pass_at_k(np.array(1), n, 7) == pytest.approx(7 / n, rel=1e-12)
    assert pass_at_k(np.array(n // 2), n, 2) == pytest.approx(1 - 0.5 * (n / 2 - 1) / (n - 1), rel=1e-9)


@pytest.mark.parametrize("k", [0, 9])
def test_never_extrapolates(k):
    with pytest.raises(ValueError, match=f"Pass@{k}"):
        pass_at_k(np.array([3]), 8, k)


def test_refuses_impossible_counts():
    with pytest.raises(ValueError, match="outside 0..8"):
        pass_at_k(np.array([9]), 8, 2)


def test_k_values_end_at_n():
    assert k_values(32) == [1, 2, 4, 8, 16, 32]
    assert k_values(12) == [1, 2, 4, 8, 12]
    assert k_values(1) == [1]
