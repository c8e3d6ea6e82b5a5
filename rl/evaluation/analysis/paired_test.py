"""Do two methods differ on the same prompts? Sign-flip permutation tests with Holm's correction.

scipy.stats.permutation_test gives the same p-values (tests/evaluation), but takes ten times as long on a benchmark of
1,500 prompts.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.measures import TESTED, metrics_for
from rl.evaluation.spec import BASE
from rl.metrics.bootstrap import LEVEL, SEED, Interval, mean_interval

HIGHER, LOWER, INCONCLUSIVE = "higher", "lower", "inconclusive"
# The interval excludes 0, but p is too large after the correction.
UNCORRECTED = {HIGHER: "higher before correction", LOWER: "lower before correction"}
SIGNIFICANT = 1 - LEVEL
PERMUTATIONS = 20_000
# Up to this number of prompts all 2^P assignments of signs are enumerated, so that the p-value is exact.
_ENUMERATED_PROMPTS = 14
_BATCH = 1_000  # assignments in memory at a time


@dataclass(frozen=True)
class PairedTest:
    """The difference first - second of a metric on one split.

    Attributes:
        prompts: number of prompts for which both methods define the metric.
        p_holm: corrected over all metrics of this pair and split.
    """

    split: str
    first: str
    second: str
    metric: str
    prompts: int
    difference: Interval
    p: float
    p_holm: float

    @property
    def verdict(self) -> str:
        """HIGHER or LOWER, one of UNCORRECTED, or INCONCLUSIVE if the interval includes 0."""
        _, low, high = self.difference
        if low <= 0 <= high:
            return INCONCLUSIVE
        side = HIGHER if low > 0 else LOWER
        return side if self.p_holm <= SIGNIFICANT else UNCORRECTED[side]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}


def paired_tests(comparison: Comparison) -> list[PairedTest]:
    """Test each trained method against the base and against each one before it, in every metric that both have."""
    spec = comparison.spec
    trained = spec.trained
    pairs = [(name, BASE) for name in trained]
    pairs += [(second, first) for i, first in enumerate(trained) for second in trained[i + 1 :]]
    return [test for split in spec.splits for pair in pairs for test in _tests_of_pair(comparison, split, *pair)]


def _tests_of_pair(comparison: Comparison, split: str, first: str, second: str) -> list[PairedTest]:
    found = []
    for metric in metrics_for(TESTED, comparison.samples[BASE][split].n, comparison.spec.solved_in):
        against_floor = second == BASE and metric in ("keep_rate", "newly_solved")
        other = comparison.spec.noise_floor if against_floor else second
        of_first, of_other = (comparison.metrics[name][split].get(metric) for name in (first, other))
        if of_first is None or of_other is None:
            continue
        differences = of_first - of_other  # NaN unless both define it
        differences = differences[~np.isnan(differences)]
        if interval := mean_interval(differences):
            found.append((other, metric, differences.size, interval, sign_flip_p(differences)))
    corrected = holm([p for *_, p in found])
    return [PairedTest(split, first, *of_test, p_holm) for of_test, p_holm in zip(found, corrected, strict=True)]


def sign_flip_p(differences: np.ndarray) -> float:
    """Two-sided p-value of the hypothesis that the differences are symmetric about 0: neither method is better.

    It is the share of sign assignments whose mean is at least as far from 0 as the observed mean: among all 2^P if P is
    small, else among PERMUTATIONS - 1 random assignments and the observed one, so that it is never 0.

    Args:
        differences: [P] float, P >= 1, first - second per prompt, without NaN.
    """
    size, total = differences.size, differences.sum()
    # Sums that differ only by the order of additions count as equal.
    bound = abs(total) - 1e-9 * max(1.0, np.abs(differences).sum())

    def extreme(flips: np.ndarray) -> int:
        return int(np.count_nonzero(np.abs(total - 2 * (flips @ differences)) >= bound))

    if size <= _ENUMERATED_PROMPTS:
        return extreme((np.arange(2**size)[:, None] >> np.arange(size)) & 1) / 2**size
    rng = np.random.default_rng(SEED)
    sizes = [min(_BATCH, PERMUTATIONS - start) for start in range(1, PERMUTATIONS, _BATCH)]
    return (1 + sum(extreme(rng.integers(2, size=(rows, size), dtype=np.int8)) for rows in sizes)) / PERMUTATIONS


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction (1979), which controls the family-wise error rate."""
    order = np.argsort(p_values, kind="stable")
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected
