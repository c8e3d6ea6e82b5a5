"""Methods compared over training seeds: means with intervals, and differences paired by seed.

Intervals are 95 % intervals of Student's t over training seeds: they say how far another seed may move a mean. With
three seeds they are wide (4.3 standard errors). Differences have paired t-tests. Those that were named before the runs
are corrected by Holm together; the others are corrected over the columns of a pair of methods. Groups of questions are
shown but not compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import stats

from rl.common.errors import UserError
from rl.evaluation.analysis.paired_test import holm
from rl.evaluation.measures import OVER_SEEDS, in_words, interval_of, measure_of, metrics_for
from rl.evaluation.tables import of_groups
from rl.metrics.bootstrap import LEVEL

SIGNIFICANT = 0.05
# Columns that are not compared: the entropy of styles is compared in place of their number.
NOT_COMPARED = ("styles",)
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
        p: of Student's t-test; None with one seed.
        p_holm: p after the correction that the module's docstring names.
    """

    p: float | None = None
    p_holm: float | None = None

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT


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


def compare_seeds(
    values: SeedValues,
    methods: Sequence[str],
    baselines: Sequence[str],
    columns: Sequence[str],
    primary: Mapping[tuple[str, str], Sequence[str]] = {},
) -> SeedComparison:
    """Compare methods over seeds.

    Args:
        methods: names in `values`; the others are bases.
        baselines: the methods that every other one is compared with; names that are not in `methods` are ignored.
        columns: those that are compared (columns_of).
        primary: {(method, other method or base): columns} of the comparisons that were named before the runs.
    """
    bases = [name for name in values if name not in methods]
    found = _over_seeds({name: values[name] for name in methods})
    return SeedComparison(
        # Each base alone: the second draw can have a keep rate where the first has none.
        {name: _over_seeds({name: values[name]})[name] for name in bases},
        found,
        list(columns),
        compare_methods(found, baselines, columns),
        compare_primary(values, primary),
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


def compare_primary(values: SeedValues, primary: Mapping[tuple[str, str], Sequence[str]]) -> OfPairs:
    """The primary differences (see compare_seeds), corrected by Holm over all of them."""
    of = {
        (first, second, column): [a[column] - b[column] for a, b in zip(values[first], values[second], strict=True)]
        for (first, second), columns in primary.items()
        for column in columns
    }
    found: OfPairs = {}
    for (first, second, column), difference in zip(of, _tested(list(of.values())), strict=True):
        found.setdefault(f"{first} - {second}", {})[column] = difference
    return found


def compare_methods(methods: dict[str, OfColumns], baselines: Sequence[str], columns: Sequence[str]) -> OfPairs:
    """{"first - second": {column: difference}}: each method that is not a baseline against each baseline."""
    pairs = [(name, other) for name in methods if name not in baselines for other in baselines if other in methods]
    return {f"{name} - {other}": _compare(methods[name], methods[other], columns) for name, other in pairs}


def _compare(first: OfColumns, second: OfColumns, columns: Sequence[str]) -> dict[str, Difference]:
    shown = [column for column in first if column in columns and column not in NOT_COMPARED]
    differences = [np.subtract(first[c].values, second[c].values).tolist() for c in shown]
    return dict(zip(shown, _tested(differences), strict=True))


def _tested(differences: Sequence[list[float]]) -> list[Difference]:
    """Differences by seed with their tests, corrected by Holm over all these differences."""
    found = [OverSeeds.of(values) for values in differences]
    if any(of.interval is None for of in found):
        return [Difference(**vars(of)) for of in found]
    p = [_paired_p(of.values) for of in found]
    return [Difference(**vars(of), p=p, p_holm=p_holm) for of, p, p_holm in zip(found, p, holm(p), strict=True)]


def _paired_p(differences: list[float]) -> float:
    """p of the paired t-test. Where all differences are equal, which leaves it undefined: p of the sign test."""
    if np.ptp(differences) < 1e-12:
        return 1.0 if abs(differences[0]) < 1e-12 else 2 / 2 ** len(differences)
    return float(stats.ttest_1samp(differences, 0).pvalue)
