"""Pass@k against the enumeration of all subsets, and by hand."""

from itertools import combinations

import numpy as np
import pytest

from rl.metrics.majority import majority_at_k
from rl.metrics.pass_at_k import k_values, pass_at_k


@pytest.mark.parametrize("n", [1, 5, 8])
def test_pass_at_k_equals_enumeration_of_subsets(n):
    for correct in range(n + 1):
        for k in range(1, n + 1):
            subsets = list(combinations([True] * correct + [False] * (n - correct), k))
            expected = sum(map(any, subsets)) / len(subsets)
            assert pass_at_k(np.array(correct), n, k) == pytest.approx(expected, abs=1e-14)


def test_pass_at_k_by_hand():
    # n = 4, c = 1: k/4; c = 2, k = 2: 1 - C(2,2)/C(4,2) = 5/6.
    np.testing.assert_allclose(pass_at_k(np.array([0, 1, 2, 3]), 4, 2), [0, 0.5, 5 / 6, 1])
    # Where binomials overflow.
    n = 100_000
    assert pass_at_k(np.array(1), n, 7) == pytest.approx(7 / n, rel=1e-12)
    assert pass_at_k(np.array(n // 2), n, 2) == pytest.approx(1 - 0.5 * (n / 2 - 1) / (n - 1), rel=1e-9)
    assert [k_values(n) for n in (32, 12, 1)] == [[1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 12], [1]]


def test_nothing_is_extrapolated():
    for k in (0, 9):
        with pytest.raises(ValueError, match=f"Pass@{k}"):
            pass_at_k(np.array([3]), 8, k)
    with pytest.raises(ValueError, match="outside 0..8"):
        pass_at_k(np.array([9]), 8, 2)
    with pytest.raises(ValueError, match="1 <= k <= n"):
        majority_at_k(np.zeros((1, 4), dtype=int), np.ones((1, 4), dtype=bool), [5])
