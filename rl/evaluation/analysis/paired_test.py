"""Whether two methods differ on the same prompts: sign-flip permutation tests, with Holm's correction."""

from dataclasses import dataclass

import numpy as np

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.metrics.bootstrap import SEED, Interval

PERMUTATIONS = 20_000
# Up to here all 2^P assignments of signs are tried, and the p-value is exact.
_ENUMERATED_PROMPTS = 14
_AT_ONCE = 2_000_000  # signs in memory at a time


@dataclass(frozen=True)
class PairedTest:
    """first - second of a metric on one split; p_holm is corrected for all metrics of these two methods and split."""

    split: str
    first: str
    second: str
    metric: str
    prompts: int  # for which both define the metric
    difference: Interval
    p: float
    p_holm: float


def paired_tests(comparison: Comparison) -> list[PairedTest]:
    """Every trained method against the base, and every two trained methods, in every metric that both define."""
    spec = comparison.spec
    pairs = [(name, BASE) for name in spec.trained]
    pairs += [(second, first) for i, first in enumerate(spec.trained) for second in spec.trained[i + 1 :]]
    return [test for split in spec.splits for pair in pairs for test in _of_pair(comparison, split, *pair)]


def _of_pair(comparison: Comparison, split: str, first: str, second: str) -> list[PairedTest]:
    found = []
    for metric in _metrics(comparison, split):
        # The base's own keep rate is measured on fewer samples: its second draw takes its place.
        kept = second == BASE and metric in ("keep_rate", "newly_solved")
        other = BASE_AGAIN if kept and BASE_AGAIN in comparison.spec.methods else second
        values = [comparison.metrics[name][split].get(metric) for name in (first, other)]
        if any(of_method is None for of_method in values) or (kept and other == BASE):
            continue
        pairs = values[0] - values[1]
        pairs = pairs[~np.isnan(pairs)]
        if pairs.size:
            difference = comparison.difference(split, metric, first, other)
            found.append((other, metric, pairs.size, difference, sign_flip_p(pairs)))
    corrected = holm([p for *_, p in found])
    return [PairedTest(split, first, *of_test, p_holm) for of_test, p_holm in zip(found, corrected, strict=True)]


def _metrics(comparison: Comparison, split: str) -> list[str]:
    n, solved_in = comparison.samples[BASE][split].n, comparison.spec.solved_in
    names = ["greedy", f"mean@{n}", f"pass@{solved_in}", f"pass@{n}", f"maj@{n}", "keep_rate", "newly_solved"]
    return list(dict.fromkeys([*names, "distinct_correct", "distinct_results", "style_entropy"]))


def sign_flip_p(differences: np.ndarray, seed: int = SEED) -> float:
    """Two-sided p-value of the hypothesis that the differences are symmetric about 0: neither method is better.

    The share of assignments of signs whose mean is at least as far from 0 as the one that was found: all 2^P where P is
    small, else PERMUTATIONS drawn ones, the found one among them, so that it is never 0.

    Args:
        differences: [P] float, P >= 1, first - second of each prompt, none NaN.
        seed: of the drawn signs.
    """
    size = differences.size
    found = abs(differences.sum())
    # Sums that are equal but for the order of their additions count as equal.
    bound = found - 1e-9 * max(1.0, np.abs(differences).sum())
    if size <= _ENUMERATED_PROMPTS:
        signs = 1 - 2 * ((np.arange(2**size)[:, None] >> np.arange(size)) & 1)
        return float(np.mean(np.abs(signs @ differences) >= bound))
    rng = np.random.default_rng(seed)
    rows = max(1, _AT_ONCE // size)
    extreme = 1
    for start in range(1, PERMUTATIONS, rows):
        drawn = rng.integers(2, size=(min(rows, PERMUTATIONS - start), size), dtype=np.int8)
        extreme += int(np.sum(np.abs((1.0 - 2.0 * drawn) @ differences) >= bound))
    return extreme / PERMUTATIONS


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction (1979): the chance of one false finding among all is at most their level."""
    order = np.argsort(p_values, kind="stable")
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected
