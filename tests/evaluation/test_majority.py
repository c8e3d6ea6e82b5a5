"""maj@k against the enumeration of all subsets, and the laws it obeys."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.metrics.distinct_answers import NO_VOTE
from rl.metrics.majority import majority_at_k


def by_enumeration(answer: list[int], correct: list[bool], k: int) -> float:
    """The mean over all subsets of the chance that its most frequent answer, drawn among those that tie, is correct."""
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


@settings(deadline=None)
@given(samples)
def test_equals_enumeration_of_subsets(case):
    answer, correct = case
    ks = list(range(1, len(answer) + 1))
    found = majority_at_k(np.array([answer]), np.array([correct]), ks)
    for k in ks:
        assert found[k][0] == pytest.approx(by_enumeration(answer, correct, k), abs=1e-12)


def test_hand_computed():
    # Votes 3 (correct), 2, 1; all six vote: 3 wins. Two votes each of two answers, one correct: a tie, 1/2.
    answer = np.array([[0, 0, 0, 1, 1, 2], [0, 0, 1, 1, NO_VOTE, NO_VOTE], [NO_VOTE] * 6])
    correct = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0] * 6], dtype=bool)
    np.testing.assert_allclose(majority_at_k(answer, correct, [6])[6], [1, 0.5, 0])
    # Of two of the second prompt's: both right 1/15, one right and one silent 4/15, one of each 4/15 (a half).
    np.testing.assert_allclose(majority_at_k(answer[1:2], correct[1:2], [2])[2], [(1 + 4 + 2) / 15])


@settings(deadline=None)
@given(samples)
def test_one_vote_is_the_mean_where_every_correct_sample_answers(case):
    answer, correct = np.array([case[0]]), np.array([case[1]]) & (np.array([case[0]]) != NO_VOTE)
    assert majority_at_k(answer, correct, [1])[1][0] == pytest.approx(correct.mean())


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(0, 64))
def test_answers_that_are_all_different_win_as_often_as_one_alone(n, right):
    correct = np.array([[i < right for i in range(n)]])
    found = majority_at_k(np.arange(n)[None], correct, [1, n])
    assert found[n][0] == pytest.approx(min(right, n) / n)


def test_many_samples_keep_their_accuracy():
    """64 samples in two answers of 40 and 24: the larger wins a vote of 64; of k = 1 it has 40 in 64."""
    answer = np.array([[0] * 40 + [1] * 24])
    found = majority_at_k(answer, answer == 0, [1, 33, 64])
    assert found[64][0] == pytest.approx(1, abs=1e-12) and found[1][0] == pytest.approx(40 / 64, abs=1e-12)
    assert 0.9 < found[33][0] < 1


def test_never_extrapolates():
    with pytest.raises(ValueError, match="1 <= k <= n"):
        majority_at_k(np.zeros((1, 4), dtype=int), np.ones((1, 4), dtype=bool), [5])
