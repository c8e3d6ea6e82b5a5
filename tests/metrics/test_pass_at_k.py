"""Pass@k and maj@k against the enumeration of all subsets, and by hand."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.metrics.distinct_answers import NO_VOTE
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


def majority_by_enumeration(answer: list[int], correct: list[bool], k: int) -> float:
    """The mean over all subsets of the probability that a most frequent answer, drawn among ties, is correct."""
    shares = {a: np.mean([c for b, c in zip(answer, correct, strict=True) if a == b]) for a in answer}
    won = []
    for subset in combinations(answer, k):
        votes = Counter(a for a in subset if a != NO_VOTE)
        first = [a for a, count in votes.items() if count == max(votes.values())]
        won.append(np.mean([shares[a] for a in first]) if first else 0.0)
    return float(np.mean(won))


samples = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(NO_VOTE, 3), min_size=n, max_size=n), st.lists(st.booleans(), min_size=n, max_size=n)
    )
)


@given(samples)
def test_majority_equals_enumeration_of_subsets(case):
    answer, correct = case
    ks = list(range(1, len(answer) + 1))
    found = majority_at_k(np.array([answer]), np.array([correct]), ks)
    for k in ks:
        assert found[k][0] == pytest.approx(majority_by_enumeration(answer, correct, k), abs=1e-12)


def test_majority_by_hand():
    # Votes 3 (correct), 2, 1; all six vote: 3 wins. Two votes each of two answers, one correct: a tie, 1/2.
    answer = np.array([[0, 0, 0, 1, 1, 2], [0, 0, 1, 1, NO_VOTE, NO_VOTE], [NO_VOTE] * 6])
    correct = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0] * 6], dtype=bool)
    np.testing.assert_allclose(majority_at_k(answer, correct, [6])[6], [1, 0.5, 0])
    # Of two of the second prompt's: both right 1/15, one right and one silent 4/15, one of each 4/15 (a half).
    np.testing.assert_allclose(majority_at_k(answer[1:2], correct[1:2], [2])[2], [(1 + 4 + 2) / 15])
    # 64 samples in two answers of 40 and 24: the larger wins a vote of 64; for k = 1 it has 40 in 64.
    answer = np.array([[0] * 40 + [1] * 24])
    found = majority_at_k(answer, answer == 0, [1, 33, 64])
    assert found[64][0] == pytest.approx(1, abs=1e-12) and found[1][0] == pytest.approx(40 / 64, abs=1e-12)
    assert 0.9 < found[33][0] < 1
