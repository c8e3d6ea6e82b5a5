"""Right answers (Pass@1) against solved questions (Pass@k): a point per method and one for the base, the best
trade-offs, and a sentence on what they show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rl.common.text import listed
from rl.evaluation.analysis.claims import SUPPORTED, compared
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.over_seeds import base_values
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.measures import interval_of
from rl.evaluation.spec import BASE, GOLD, WITH_DIVERGENCE, Role, split_name
from rl.metrics.bootstrap import Interval

LEAST_METHODS = 2
ROUNDING = 1e-9  # of means in per cent
MOST_NAMED = 4  # methods in a sentence; the others are counted


@dataclass(frozen=True)
class Point:
    """A method's Pass@1 (x) and Pass@k (y), in per cent.

    Attributes:
        values: one (x, y) per training seed.
        intervals: of x and of y over questions, for a single seed.
        gains: for a single seed, whether x and y are above the base's beyond chance.
    """

    label: str
    role: Role | None
    rehearses: bool
    values: list[tuple[float, float]]
    intervals: tuple[Interval, Interval] | None = None
    gains: tuple[bool, bool] | None = None

    @property
    def mean(self) -> tuple[float, float]:
        x, y = np.mean(self.values, axis=0).tolist()
        return x, y


@dataclass(frozen=True)
class TradeOff:
    """The methods of one split; {method: its point}.

    Attributes:
        base: the mean over seeds, and over its draws if there are seeds.
        bases: of each seed, if there are several.
    """

    split: str
    k: int
    base: tuple[float, float]
    points: dict[str, Point]
    bases: Sequence[tuple[float, float]] = ()

    @property
    def own(self) -> dict[str, Point]:
        """The methods that learn from the model's own samples."""
        return {name: point for name, point in self.points.items() if point.role != GOLD}

    @property
    def frontier(self) -> list[str]:
        """Methods on the Pareto frontier of `own` in both means, by ascending Pass@1."""
        means = {name: point.mean for name, point in self.own.items()}
        best = [name for name, mean in means.items() if not any(_beats(other, mean) for other in means.values())]
        return sorted(best, key=means.__getitem__)

    @property
    def sentence(self) -> str:
        """The methods of `own` with more right answers and more solved questions than the base, or else the nearest."""
        where, (x, y) = split_name(self.split), self.base
        told = [point.label for point in self.points.values() if point.role == GOLD]
        not_counted = f" Learns from gold answers, so not counted: {listed(told)}." if told else ""
        ahead = {
            name: point for name, point in self.own.items() if _above(point.mean[0], x) and _above(point.mean[1], y)
        }
        if ahead:
            said = sorted((self._described(point) for point in ahead.values()), key=lambda found: -found[0])
            names = [text for _, text in said[:MOST_NAMED]]
            names += [f"{len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
            verb = "has" if len(said) == 1 else "have"
            return (
                f"{where}, {len(said)} of {len(self.own)} methods {verb} more right answers and more solved questions "
                f"than the base: {listed(names)}.{not_counted}"
            )
        text = f"{where}, no method has both more right answers and more solved questions than the base."
        right, solving = ([point for point in self.own.values() if self._gains(point, i)] for i in (0, 1))
        if right:
            nearest = max(right, key=lambda point: point.mean[1])
            gap = _below(y - nearest.mean[1], f"Pass@{self.k}")
            text += f" Of those with more right answers{_surely(nearest)} {nearest.label} comes nearest, {gap}."
        if solving:
            nearest = max(solving, key=lambda point: point.mean[0])
            gap = _below(x - nearest.mean[0], "Pass@1")
            text += f" Of those with more solved questions{_surely(nearest)} {nearest.label} comes nearest, {gap}."
        return text + not_counted

    def _gains(self, point: Point, axis: int) -> bool:
        """Whether a method is above the base in x or y, for a single seed beyond chance."""
        return point.gains[axis] if point.gains else _above(point.mean[axis], self.base[axis])

    def _described(self, point: Point) -> tuple[int, str]:
        """The number of seeds in which a method exceeds their base in both, and the method's name with this number."""
        of = len(point.values)
        pairs = zip(point.values, self.bases or [self.base] * of, strict=True)
        both = sum(_above(x, of_base[0]) and _above(y, of_base[1]) for (x, y), of_base in pairs)
        return both, point.label if of == 1 else f"{point.label} (in {both} of {of} seeds)"


def trade_offs_over_seeds(content: Mapping) -> list[TradeOff]:
    """The trade-off on every split, from the values that rl/evaluation/report/seeds.py writes."""
    k, found = content["solved_in"], []
    for number, split in enumerate(content["splits"]):
        of_split = f", {split.replace('_', ' ')}" if number else ""
        columns = (f"Pass@1{of_split}", f"Pass@{k}{of_split}")
        points = {}
        for name, of in content["methods"].items():
            if not all(column in of for column in columns):
                continue
            pairs = zip(*(of[column]["values"] for column in columns), strict=True)
            description = content["labels"][name], content["roles"].get(name), name.startswith(WITH_DIVERGENCE)
            points[name] = Point(*description, [(100 * x, 100 * y) for x, y in pairs])
        bases = [(100 * x, 100 * y) for x, y in zip(*(base_values(content, column) for column in columns), strict=True)]
        x, y = np.mean(bases, axis=0).tolist()
        if points:
            found.append(TradeOff(split, k, (x, y), points, bases))
    return _worth_drawing(found)


def trade_offs(comparison: Comparison, tests: Iterable[PairedTest]) -> list[TradeOff]:
    """The trade-off on every split of a report, with intervals over questions.

    Args:
        tests: as paired_tests returns them.
    """
    spec, found = comparison.spec, []
    above = {
        (test.split, test.first, test.metric)
        for test in tests
        if test.second == BASE and compared(test.difference, test.p_holm) == SUPPORTED
    }
    for split in spec.splits:
        values, right = {}, f"mean@{comparison.samples[BASE][split].n}"
        for name in (BASE, *spec.trained):
            x, y = (interval_of(comparison.summaries[name][split], f"pass@{k}") for k in (1, spec.solved_in))
            if x and y:
                values[name] = ([100 * v for v in x], [100 * v for v in y])
        if not values:  # no Pass@k with this k
            continue
        x, y = values.pop(BASE)
        points = {
            name: Point(
                *(spec.short_names[name], spec.methods[name].role, name in spec.with_divergence),
                [(of[0][0], of[1][0])],
                of,
                ((split, name, right) in above, (split, name, f"pass@{spec.solved_in}") in above),
            )
            for name, of in values.items()
        }
        found.append(TradeOff(split, spec.solved_in, (x[0], y[0]), points))
    return _worth_drawing(found)


def _above(value: float, other: float) -> bool:
    """Whether one mean is above another; equal ones may differ in their last digits."""
    return value - other > ROUNDING


def _below(points: float, metric: str) -> str:
    return f"{points:.1f} points of {metric} below the base" if points >= 0.05 else f"with the base's {metric}"


def _surely(point: Point) -> str:
    return " beyond chance" if point.gains else ""


def _beats(other: tuple[float, float], mean: tuple[float, float]) -> bool:
    """Whether a method has at least as much of both as another one, and more of one."""
    pairs = [*zip(other, mean, strict=True)]
    return any(_above(a, b) for a, b in pairs) and not any(_above(b, a) for a, b in pairs)


def _worth_drawing(found: Iterable[TradeOff]) -> list[TradeOff]:
    return [of for of in found if of.k > 1 and len(of.points) >= LEAST_METHODS]
