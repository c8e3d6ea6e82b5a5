"""Methods compared over training seeds: means with intervals, and differences paired by seed.

Intervals are 95 % intervals of Student's t over training seeds: they say how far another seed may move a mean. With
three seeds they are wide (4.3 standard errors). Differences have paired t-tests. Those that were named before the runs
are corrected by Holm together; the others are corrected over the columns of a pair of methods. Groups of questions are
shown but not compared.

The base's value is the mean of its two draws, if it has two. A difference from the base also has the error of these
draws (BaseError).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import stats

from rl.common.errors import UserError
from rl.evaluation.analysis.paired_test import holm
from rl.evaluation.measures import OVER_SEEDS, in_words, interval_of, measure_of, metrics_for
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.evaluation.tables import of_groups
from rl.metrics.bootstrap import LEVEL

SIGNIFICANT = 0.05
# Columns that are not compared: the entropy of styles is compared in place of their number.
NOT_COMPARED = ("styles",)
# Smaller differences of shares are rounding errors.
EQUAL = 1e-12
# What a file of values says about its methods and columns.
ABOUT = ("labels", "columns", "splits", "solved_in", "roles", "leading")


@dataclass(frozen=True)
class OverSeeds:
    """One value per seed, their mean and its 95 % interval over seeds (None with one seed)."""

    values: list[float]
    mean: float
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, values: list[float]) -> "OverSeeds":
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(values, mean, None)
        half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * stats.sem(values))
        return cls(values, mean, (mean - half, mean + half))


@dataclass(frozen=True)
class Difference(OverSeeds):
    """The difference of two methods, paired by seed.

    Attributes:
        p: of Student's t-test, or of the sign test if all values are equal; None with one seed.
        p_holm: p after the correction that the module's docstring names.
    """

    p: float | None = None
    p_holm: float | None = None

    @classmethod
    def tested(cls, values: list[float], of_base: "BaseError") -> "Difference":
        """The difference with its p, not yet corrected.

        The variances of both errors add up, with the degrees of freedom of Welch (1947) and Satterthwaite (1946), or
        of the seeds if these are fewer: the base's error never makes an interval narrower.
        """
        number, mean = len(values), float(np.mean(values))
        if number < 2:
            return cls(values, mean, None)
        if np.ptp(values) < EQUAL and of_base.variance < EQUAL**2:  # the t-test is undefined
            return cls(values, mean, (mean, mean), 1.0 if abs(mean) < EQUAL else 2 / 2**number)
        of_seeds = float(np.var(values, ddof=1)) / number
        variance = of_seeds + of_base.variance
        freedom = variance**2 / (of_seeds**2 / (number - 1) + of_base.variance**2 / of_base.freedom)
        freedom, error = min(freedom, number - 1), variance**0.5
        half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
        return cls(values, mean, (mean - half, mean + half), 2 * float(stats.t.sf(abs(mean) / error, freedom)))

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT


@dataclass(frozen=True)
class BaseError:
    """What the sampling of the base adds to the variance of a mean difference from it.

    Seeds whose base was drawn with the same random numbers share the error of these draws, so that more seeds do not
    reduce it. Where each seed has its own, the spread of the differences already shows this error.

    Attributes:
        variance: of the mean of the differences, as far as their spread does not show it.
        freedom: its degrees of freedom.
    """

    variance: float = 0.0
    freedom: int = 1

    @classmethod
    def of(cls, draws: Sequence[Sequence[float]], drawn_with: Sequence[object]) -> "BaseError":
        """From the difference of two draws, whose variance is twice the variance of one draw.

        With share w of n seeds for each pair of draws and variance v of their mean, the mean difference has the
        variance v sum(w^2). The spread of the differences already shows v (1 - sum(w^2)) / (n - 1).

        Args:
            draws: of the base, a value per seed each; one draw alone does not show its error.
            drawn_with: what names the random numbers of each seed's draws. They are one pair of draws even if machines
                or base models differ, because the values then move together.
        """
        number = len(drawn_with)
        if len(draws) < 2 or number < 2:
            return cls()
        apart, of_seeds = np.subtract(*draws), np.array([*map(str, drawn_with)])
        pairs = sorted({*of_seeds})
        shares = np.array([np.mean(of_seeds == pair) for pair in pairs])
        of_one_draw = np.mean([apart[of_seeds == pair].mean() ** 2 / 2 for pair in pairs])
        shared = (number * np.sum(shares**2) - 1) / (number - 1)
        return cls(max(0.0, float(shared * of_one_draw / len(draws))), len(pairs))


OfColumns = dict[str, OverSeeds]
OfPairs = dict[str, dict[str, Difference]]
# {method or base: {column: value} of each seed}.
SeedValues = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True)
class SeedComparison:
    """
    Attributes:
        bases: {base or base_again: {column: values over seeds}}; seeds may share a base, or have one each.
        methods: {method: {column: values over seeds}}.
        columns: those that are compared; the other columns are of groups of questions.
        differences: {"first - second": {column: difference}}.
        primary: the same for the comparisons that were named before the runs.
    """

    bases: dict[str, OfColumns]
    methods: dict[str, OfColumns]
    columns: list[str]
    differences: OfPairs
    primary: OfPairs = field(default_factory=dict)


def seed_values(reports: Sequence[dict], names: Sequence[str], solved_in: int) -> SeedValues:
    """The values of these methods and bases in the report of each seed.

    Args:
        reports: the content of each seed's report.json, with the same methods and splits.
        solved_in: see the report's specification.
    """
    return {name: [_values(report[name], solved_in) for report in reports] for name in names}


def read_values(path: Path) -> dict:
    """The values that rl/evaluation/report/seeds.py has written.

    Raises:
        UserError: the file is missing or has another content.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        seeds, rows = len(content["seeds"]), [*content["bases"].values(), *content["methods"].values()]
        if not all(len(found["values"]) == seeds for of in rows for found in of.values()):
            raise ValueError("a value is missing")
        if missing := [key for key in ABOUT if key not in content]:
            raise ValueError(f"it has no {', '.join(missing)}")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is not the .json file of a study ({type(error).__name__}: {error}).") from None
    return content


def base_values(content: Mapping, column: str) -> list[float]:
    """The base's value in each seed, with which methods are compared, from a file of values."""
    return _mean_of_draws([of[column]["values"] for of in content["bases"].values() if column in of])


def _mean_of_draws(draws: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the base's draws in each seed: one draw alone may lie above or below it by chance."""
    return np.mean(draws, axis=0).tolist()


def compare_seeds(
    values: SeedValues,
    methods: Sequence[str],
    baselines: Sequence[str],
    columns: Sequence[str],
    primary: Mapping[tuple[str, str], Sequence[str]] = {},
    drawn_with: Sequence[object] | None = None,
) -> SeedComparison:
    """Compare methods over seeds.

    Args:
        methods: names in `values`; the others are bases.
        baselines: the methods that every other one is compared with; names that are not in `methods` are ignored.
        columns: those that are compared (columns_of).
        primary: {(method, other method or base): columns} of the comparisons that were named before the runs.
        drawn_with: see BaseError.of; None: all seeds have the same.
    """
    bases = [name for name in values if name not in methods]
    found = _over_seeds({name: values[name] for name in methods})
    return SeedComparison(
        # Each base alone: the second draw can have a keep rate where the first has none.
        {name: _over_seeds({name: values[name]})[name] for name in bases},
        found,
        list(columns),
        compare_methods(found, baselines, columns),
        compare_primary(values, primary, drawn_with),
    )


def _over_seeds(values: SeedValues) -> dict[str, OfColumns]:
    """The columns that have a value in every run."""
    everywhere = set.intersection(*(set(of_seed) for of_seed in chain.from_iterable(values.values()))) if values else ()
    return {
        name: {c: OverSeeds.of([of_seed[c] for of_seed in seeds]) for c in seeds[0] if c in everywhere}
        for name, seeds in values.items()
    }


def columns_of(of_splits: dict, solved_in: int) -> dict[str, tuple[str, str]]:
    """{column: (split, metric)}. Columns of the first split do not name it, and only the first split has styles."""
    found = {}
    for number, (split, summary) in enumerate(of_splits.items()):
        of_split = f", {split.replace('_', ' ')}" if number else ""
        for metric in metrics_for(OVER_SEEDS, summary["n"], solved_in):
            if not (number and measure_of(metric).of_styles):
                found[in_words(metric) + of_split] = (split, metric)
    return found


def _values(of_splits: dict, solved_in: int) -> dict[str, float]:
    """{column: value} of a method, for all questions and then for each group of the first split's questions."""
    found = {
        c: interval_of(of_splits[split], metric) for c, (split, metric) in columns_of(of_splits, solved_in).items()
    }
    first = next(iter(of_splits.values()))
    metrics = [m for m in metrics_for(OVER_SEEDS, first["n"], solved_in) if m == "greedy" or "@" in m]
    for words, group in of_groups({"": first}).items():
        of_group = {f"{in_words(metric)}, {words}": interval_of(group[""], metric) for metric in metrics}
        if of_group.keys() & found.keys():  # another split has the group's name
            of_group = {f"{in_words(metric)}, group {words}": interval_of(group[""], metric) for metric in metrics}
        found |= of_group
    return {column: float(interval[0]) for column, interval in found.items() if interval is not None}


def compare_primary(
    values: SeedValues,
    primary: Mapping[tuple[str, str], Sequence[str]],
    drawn_with: Sequence[object] | None = None,
) -> OfPairs:
    """The primary differences (see compare_seeds), corrected by Holm over all of them."""

    def of(name: str, column: str) -> list[float]:
        return [of_seed[column] for of_seed in values[name]]

    tested = {}
    for (first, second), column in ((pair, column) for pair, columns in primary.items() for column in columns):
        if second == BASE:
            draws = [of(name, column) for name in (BASE, BASE_AGAIN) if name in values]
            error = BaseError.of(draws, drawn_with or [0] * len(values[BASE]))
            other = _mean_of_draws(draws)
        else:
            error, other = BaseError(), of(second, column)
        difference = np.subtract(of(first, column), other).tolist()
        tested[f"{first} - {second}", column] = Difference.tested(difference, error)
    found: OfPairs = {}
    for (pair, column), value in zip(tested, _corrected([*tested.values()]), strict=True):
        found.setdefault(pair, {})[column] = value
    return found


def compare_methods(methods: dict[str, OfColumns], baselines: Sequence[str], columns: Sequence[str]) -> OfPairs:
    """{"first - second": {column: difference}}: each method that is not a baseline against each baseline."""
    pairs = [(name, other) for name in methods if name not in baselines for other in baselines if other in methods]
    return {f"{name} - {other}": _compare(methods[name], methods[other], columns) for name, other in pairs}


def _compare(first: OfColumns, second: OfColumns, columns: Sequence[str]) -> dict[str, Difference]:
    shown = [column for column in first if column in columns and column not in NOT_COMPARED]
    tested = [Difference.tested(np.subtract(first[c].values, second[c].values).tolist(), BaseError()) for c in shown]
    return dict(zip(shown, _corrected(tested), strict=True))


def _corrected(tested: Sequence[Difference]) -> list[Difference]:
    """These differences with p corrected by Holm over all of them."""
    p = [value.p for value in tested if value.p is not None]
    if len(p) < len(tested):
        return [*tested]
    return [replace(value, p_holm=p_holm) for value, p_holm in zip(tested, holm(p), strict=True)]
