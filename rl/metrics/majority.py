"""maj@k: probability that the most frequent of k answers is correct (self-consistency, arXiv 2203.11171).

It is the exact expectation over all subsets of k of a prompt's n samples, without resampling noise, and unbiased for
every k <= n, like pass_at_k. Samples without an answer do not vote. Of t answers that tie for first place, each wins
with probability 1/t. If no sample votes, no answer wins.
"""

from collections import Counter
from functools import lru_cache
from math import comb

import numpy as np

from rl.metrics.distinct_answers import NO_VOTE
from rl.metrics.pass_at_k import k_values

# The time of a prompt grows with the cube of n: .4 s at 256, and above 1,029 the counts are too large for floats.
MOST_SAMPLES = 256


def ks_of_majority(n: int) -> list[int]:
    """k_values(n); none above MOST_SAMPLES."""
    return k_values(n) if n <= MOST_SAMPLES else []


def majority_at_k(answer: np.ndarray, correct: np.ndarray, ks: list[int]) -> dict[int, np.ndarray]:
    """{k: [P] float64 in [0, 1]}: probability that a vote among k of a prompt's samples elects a correct answer.

    An answer's correctness is the mean over its samples: 0 or 1 if equal answers are judged alike.

    Args:
        answer: [P, n] int, equal answers of a prompt have equal numbers; NO_VOTE for none.
        correct: [P, n] bool.
        ks: each 1 <= k <= n, else ValueError.
    """
    n = answer.shape[1]
    if not all(1 <= k <= n for k in ks):
        raise ValueError(f"maj@k needs 1 <= k <= n, but there are n = {n} samples per prompt and k is {ks}.")
    if not ks:
        return {}
    chances = [_chances(*_votes(row, right)) for row, right in zip(answer, correct, strict=True)]
    return {k: np.array([of_prompt[k] for of_prompt in chances]) for k in ks}


def _votes(answer: np.ndarray, correct: np.ndarray) -> tuple[tuple[tuple[int, float], ...], int]:
    """((samples, share correct) per answer, ...), sorted for the cache; number of samples without an answer."""
    votes = Counter(answer.tolist())
    silent = votes.pop(NO_VOTE, 0)
    return tuple(sorted((count, float(correct[answer == number].mean())) for number, count in votes.items())), silent


@lru_cache(maxsize=100_000)
def _chances(votes: tuple[tuple[int, float], ...], silent: int) -> tuple[float, ...]:
    """The probability at index k, 0 <= k <= n.

    For each number of votes a that can win: the subsets in which every answer has at most a votes and t >= 1 answers
    have a, each weighted with the mean correctness of these t answers. 1/t is the integral of y^(t-1) over [0, 1],
    which Gauss-Legendre computes exactly. At a node y, the coefficient of x^k in a product of one polynomial per answer
    counts the subsets of k. If a tied answer has the factor y z^correctness, the product's derivative in z at z = 1
    also weights them.
    """
    n = silent + sum(count for count, _ in votes)
    wins = np.zeros(n + 1)
    for a in range(1, max((count for count, _ in votes), default=0) + 1):
        can_tie = sum(count >= a for count, _ in votes)
        points, weights = np.polynomial.legendre.leggauss(can_tie // 2 + 1)
        y = (points + 1) / 2
        value = np.zeros((len(y), n + 1))
        value[:, : silent + 1] = [comb(silent, c) for c in range(silent + 1)]
        derivative = np.zeros_like(value)
        for count, right in votes:
            below = [comb(count, c) for c in range(min(count, a - 1) + 1)]
            next_value, next_derivative = _times(value, below), _times(derivative, below)
            if count >= a:
                ties = comb(count, a)
                next_value[:, a:] += ties * y[:, None] * value[:, : n + 1 - a]
                # y^t / y: the integral is over y^(t-1).
                next_derivative[:, a:] += ties * (
                    y[:, None] * derivative[:, : n + 1 - a] + right * value[:, : n + 1 - a]
                )
            value, derivative = next_value, next_derivative
        wins += weights / 2 @ derivative
    return tuple(min(1.0, float(wins[k]) / comb(n, k)) for k in range(n + 1))


def _times(rows: np.ndarray, factor: list[int]) -> np.ndarray:
    """Each row (a polynomial's coefficients) times another polynomial, truncated to the rows' length."""
    return np.stack([np.convolve(row, np.array(factor, dtype=float))[: row.size] for row in rows])
