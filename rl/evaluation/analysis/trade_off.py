"""Right answers (Pass@1) against solved questions (Pass@k): a point per method and the base, and the best methods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.spec import BASE, GOLD, Role
from rl.metrics.bootstrap import Interval

LEAST_METHODS = 2
ROUNDING = 1e-9  # of means in per cent


@dataclass(frozen=True)
class Point:
    """A method's Pass@1 (x) and Pass@k (y), in per cent.

    Attributes:
        values: one (x, y) per training seed.
        intervals: of x and of y over questions, for a single seed.
    """

    label: str
    role: Role | None
    values: list[tuple[float, float]]
    intervals: tuple[Interval, Interval] | None = None

    @property
    def mean(self) -> tuple[float, float]:
        x, y = np.mean(self.values, axis=0).tolist()
        return x, y


@dataclass(frozen=True)
class TradeOff:
    """The methods of one split; {method: its point}.

    Attributes:
        base: the mean over seeds, and over its draws if there are seeds.
    """

    split: str
    k: int
    base: tuple[float, float]
    points: dict[str, Point]

    @property
    def frontier(self) -> list[str]:
        """The methods on the Pareto frontier of both means, by ascending Pass@1; none that learns from gold answers."""
        means = {name: point.mean for name, point in self.points.items() if point.role != GOLD}
        best = [name for name, mean in means.items() if not any(_beats(other, mean) for other in means.values())]
        return sorted(best, key=means.__getitem__)


def base_values(content: Mapping, column: str) -> list[float]:
    """The base's value in each seed, from a file of values: the mean of its draws, because one draw alone may lie above
    or below it by chance."""
    return np.mean([of[column]["values"] for of in content["bases"].values() if column in of], axis=0).tolist()


def trade_offs_over_seeds(content: Mapping) -> list[TradeOff]:
    """The trade-off on every split, from the values that rl/evaluation/over_seeds.py writes."""
    k, found = content["solved_in"], []
    for number, split in enumerate(content["splits"]):
        of_split = f", {split.replace('_', ' ')}" if number else ""
        columns = (f"Pass@1{of_split}", f"Pass@{k}{of_split}")
        points = {}
        for name, of in content["methods"].items():
            if not all(column in of for column in columns):
                continue
            pairs = zip(*(of[column]["values"] for column in columns), strict=True)
            values = [(100 * x, 100 * y) for x, y in pairs]
            points[name] = Point(content["labels"][name], content["roles"].get(name), values)
        x, y = (100 * float(np.mean(base_values(content, column))) for column in columns)
        found.append(TradeOff(split, k, (x, y), points))
    return _worth_drawing(found)


def trade_offs(comparison: Comparison) -> list[TradeOff]:
    """The trade-off on every split of a report, with intervals over questions."""
    spec, found = comparison.spec, []
    for split in spec.splits:
        points = {}
        for name in (BASE, *spec.trained):
            passed, method = comparison.summaries[name][split]["pass@k"], spec.methods[name]
            x, y = ([100 * value for value in passed[str(k)]] for k in (1, spec.solved_in))
            points[name] = Point(method.label, method.role, [(x[0], y[0])], (x, y))
        found.append(TradeOff(split, spec.solved_in, points.pop(BASE).values[0], points))
    return _worth_drawing(found)


def _beats(other: tuple[float, float], mean: tuple[float, float]) -> bool:
    """Whether a method has at least as much of both as another one, and more of one. Equal means may differ in their
    last digits."""
    ahead = np.subtract(other, mean)
    return bool((ahead > ROUNDING).any() and (ahead >= -ROUNDING).all())


def _worth_drawing(found: Iterable[TradeOff]) -> list[TradeOff]:
    return [of for of in found if of.k > 1 and len(of.points) >= LEAST_METHODS]
