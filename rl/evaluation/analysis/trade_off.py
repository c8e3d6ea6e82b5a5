"""Right answers (Pass@1) against solved questions (Pass@k): a point per method and one for the base, the best
trade-offs, and a sentence with the methods that are above the base in both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rl.common.text import listed
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.measures import interval_of
from rl.evaluation.spec import BASE, GOLD, REHEARSES, Role, split_name
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
    rehearses: bool
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
        """The methods of `own` whose means are above the base's in both, with the seeds in which they are."""
        ahead = [point for point in self.own.values() if _above_in_both(point.mean, self.base)]
        names = listed([self._described(point) for point in ahead]) if ahead else "no method"
        return f"{split_name(self.split)}, above the base in Pass@1 and Pass@{self.k}: {names}."

    def _described(self, point: Point) -> str:
        of = len(point.values)
        pairs = zip(point.values, self.bases or [self.base] * of, strict=True)
        both = sum(_above_in_both(value, of_base) for value, of_base in pairs)
        return point.label if of == 1 else f"{point.label} (in {both} of {of} seeds)"


def base_values(content: Mapping, column: str) -> list[float]:
    """The base's value in each seed, from a file of values: the mean of its draws, because one draw alone may lie above
    or below it by chance."""
    return np.mean([of[column]["values"] for of in content["bases"].values() if column in of], axis=0).tolist()


def trade_offs_over_seeds(content: Mapping) -> list[TradeOff]:
    """The trade-off on every split, from the values that rl/evaluation/over_seeds.py writes."""
    k, found = content["solved_in"], []
    rehearse = content.get("rehearse")  # older files lack it
    for number, split in enumerate(content["splits"]):
        of_split = f", {split.replace('_', ' ')}" if number else ""
        columns = (f"Pass@1{of_split}", f"Pass@{k}{of_split}")
        points = {}
        for name, of in content["methods"].items():
            if not all(column in of for column in columns):
                continue
            pairs = zip(*(of[column]["values"] for column in columns), strict=True)
            rehearses = name.startswith(REHEARSES) if rehearse is None else name in rehearse
            description = content["labels"][name], content["roles"].get(name), rehearses
            points[name] = Point(*description, [(100 * x, 100 * y) for x, y in pairs])
        bases = [(100 * x, 100 * y) for x, y in zip(*(base_values(content, column) for column in columns), strict=True)]
        x, y = np.mean(bases, axis=0).tolist()
        found.append(TradeOff(split, k, (x, y), points, bases))
    return _worth_drawing(found)


def trade_offs(comparison: Comparison) -> list[TradeOff]:
    """The trade-off on every split of a report, with intervals over questions."""
    spec, found = comparison.spec, []
    for split in spec.splits:
        values = {}
        for name in (BASE, *spec.trained):
            x, y = (interval_of(comparison.summaries[name][split], f"pass@{k}") for k in (1, spec.solved_in))
            if x and y:
                values[name] = ([100 * v for v in x], [100 * v for v in y])
        if not values:  # no Pass@k with this k
            continue
        x, y = values.pop(BASE)
        points = {}
        for name, of in values.items():
            method, label = spec.methods[name], spec.short_names[name]
            points[name] = Point(label, method.role, bool(method.rehearses), [(of[0][0], of[1][0])], of)
        found.append(TradeOff(split, spec.solved_in, (x[0], y[0]), points))
    return _worth_drawing(found)


def _above(value: float, other: float) -> bool:
    """Whether one mean is above another; equal ones may differ in their last digits."""
    return value - other > ROUNDING


def _above_in_both(value: tuple[float, float], other: tuple[float, float]) -> bool:
    return _above(value[0], other[0]) and _above(value[1], other[1])


def _beats(other: tuple[float, float], mean: tuple[float, float]) -> bool:
    """Whether a method has at least as much of both as another one, and more of one."""
    pairs = [*zip(other, mean, strict=True)]
    return any(_above(a, b) for a, b in pairs) and not any(_above(b, a) for a, b in pairs)


def _worth_drawing(found: Iterable[TradeOff]) -> list[TradeOff]:
    return [of for of in found if of.k > 1 and len(of.points) >= LEAST_METHODS]
