"""What the top of a report states: which methods it is about, and where they differ significantly.

Two methods lead: one without the divergence (GRPO if it is there) and the first one with it. If there is no such pair,
the first two trained methods do.
"""

from collections.abc import Iterable, Sequence

from rl.evaluation.analysis.claims import (
    INCONCLUSIVE,
    LOWER,
    NOT_MEASURED,
    REWARD_ONLY,
    SUPPORTED,
    claimed_metrics,
    compared,
)
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.spec import BASE, ReportSpec

SIDES = (SUPPORTED, LOWER)  # higher, lower
Sides = dict[str, str]  # {metric: one of SIDES}


def leading_methods(spec: ReportSpec) -> list[str]:
    """The one or two methods that the headline is about."""
    reward_only = sorted(spec.without_divergence, key=lambda name: (name != "grpo", not name.startswith(REWARD_ONLY)))
    pair = [*reward_only[:1], *spec.with_divergence[:1]]
    return pair if len(pair) == 2 else spec.trained[:2]


class Findings:
    """
    Args:
        tests: as paired_tests() returns them.
    """

    def __init__(self, comparison: Comparison, tests: Sequence[PairedTest]):
        self.comparison, self.spec = comparison, comparison.spec
        self.leading = leading_methods(self.spec)
        self._tests = {(test.split, test.first, test.second, test.metric): test for test in tests}

    def verdict(self, split: str, name: str, other: str, metric: str) -> str:
        test = self._tests.get((split, name, other, metric))
        return compared(test.difference, test.p_holm) if test else NOT_MEASURED

    def against_base(self, split: str, name: str, metric: str) -> str:
        """The verdict against the base; in the keep rate, against what an unchanged base has."""
        return self.verdict(split, name, self.spec.noise_floor if metric == "keep_rate" else BASE, metric)

    def of_styles(self, split: str, name: str, other: str) -> str:
        """The verdict on their diversity, which is tested in place of their number.

        It is NOT_MEASURED if the numbers, as shown, do not differ in the direction of the diversity.
        """
        found = self.verdict(split, name, other, "style_diversity")
        if found not in SIDES:
            return found
        first, second = (self.comparison.summaries[model][split]["styles"] for model in (name, other))
        difference = round(first[0], 1) - round(second[0], 1) if first and second else 0
        return found if (difference > 0 if found == SUPPORTED else difference < 0) else NOT_MEASURED

    def plain(self, split: str) -> tuple[str, str]:
        """The two metrics that the headline states in words and the tiles show."""
        n = self.comparison.samples[BASE][split].n
        return f"mean@{n}", f"pass@{n}"

    def styles(self, split: str) -> list[str]:
        """The two methods if they differ in their styles, else the base and the methods that differ from it."""
        if len(self.leading) == 2 and self.of_styles(split, self.leading[1], self.leading[0]) in SIDES:
            return self.leading
        apart = [name for name in self.leading if self.of_styles(split, name, BASE) in SIDES]
        return [BASE, *apart] if apart else []

    def pair(self, split: str) -> Sides:
        """The second method against the first: the plain metrics, and others on a side that no plain one is on."""
        verdicts = self._of_pair(split, self._claimed(split))
        found = {metric: verdict for metric, verdict in verdicts.items() if verdict in SIDES}
        plain = {metric: found[metric] for metric in self.plain(split) if metric in found}
        return plain | {metric: side for metric, side in found.items() if side not in plain.values()}

    def to_base(self, split: str) -> dict[str, Sides]:
        """The sides of each leading method in the plain metrics.

        If no method has one there, the sides are those in the other metrics that claims are about.
        """
        plain = self.plain(split)
        others = [metric for metric in self._claimed(split) if metric not in plain]
        return self._to_base(split, plain) or self._to_base(split, others)

    def by_chance(self, split: str) -> list[str]:
        """The metrics in which the two methods may differ by chance; style_diversity for their number of styles."""
        tested = self._of_pair(split, [*self._claimed(split), "style_diversity"])
        return [metric for metric, verdict in tested.items() if verdict == INCONCLUSIVE]

    def anywhere(self, split: str) -> list[str]:
        """All tested metrics in which two of the base and the leading methods differ."""
        among = {BASE, self.spec.noise_floor, *self.leading}
        return [
            metric
            for where, name, other, metric in self._tests
            if where == split and {name, other} <= among and self.verdict(split, name, other, metric) in SIDES
        ]

    def _claimed(self, split: str) -> list[str]:
        return claimed_metrics(self.comparison, split)

    def _of_pair(self, split: str, metrics: Iterable[str]) -> dict[str, str]:
        """{metric: verdict} of the second method against the first."""
        if len(self.leading) < 2:
            return {}
        first, second = self.leading
        return {metric: self.verdict(split, second, first, metric) for metric in metrics}

    def _to_base(self, split: str, metrics: Iterable[str]) -> dict[str, Sides]:
        found = {
            name: {metric: side for metric in metrics if (side := self.against_base(split, name, metric)) in SIDES}
            for name in self.leading
        }
        return {name: sides for name, sides in found.items() if sides}
