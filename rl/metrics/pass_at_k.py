"""The unbiased estimator of Pass@k (Chen et al. 2021, arXiv 2107.03374, section 2.1)."""

import numpy as np

# The base solves a prompt if one of its first SOLVED_IN samples is correct. Pass@SOLVED_IN measures retention.
SOLVED_IN = 8


def pass_at_k(correct: np.ndarray, n: int, k: int) -> np.ndarray:
    """Probability that k of a prompt's n samples, drawn without replacement, contain a correct one.

    1 - C(n-c, k) / C(n, k) = 1 - prod_{j<c} (1 - k / (n-j)), in log space: no overflow for large n, and small
    probabilities keep their relative accuracy.

    Args:
        correct: [...] int, number of correct samples c per prompt, 0 <= c <= n.
        n: samples per prompt.
        k: 1 <= k <= n; a larger k would be an extrapolation and raises ValueError.

    Returns:
        [...] float64, in [0, 1].
    """
    if not 1 <= k <= n:
        raise ValueError(
            f"Pass@{k} needs 1 <= k <= n, but there are n = {n} samples per prompt: sample more, or lower k."
        )
    correct = np.asarray(correct)
    if correct.size and (correct.min() < 0 or correct.max() > n):
        raise ValueError(f"A prompt has {correct.min()} to {correct.max()} correct samples, outside 0..{n}.")
    return _pass_by_correct_count(n, k)[correct]


def _pass_by_correct_count(n: int, k: int) -> np.ndarray:
    """[n + 1] float64: Pass@k of a prompt with c correct samples at index c."""
    miss = np.minimum(k / (n - np.arange(n)), 1.0)
    with np.errstate(divide="ignore"):  # log 0 where fewer than k samples are wrong: Pass@k is 1 there
        log_all_wrong = np.cumsum(np.log1p(-miss))
    return np.concatenate([[0.0], -np.expm1(log_all_wrong)])


def k_values(n: int) -> list[int]:
    """The k that a report lists: powers of two up to n, and n itself."""
    return sorted({1 << i for i in range(n.bit_length())} | {n})
