"""Methods compared over training seeds: means with intervals, differences paired by seed, and the files of both.

Intervals are 95 % intervals of Student's t over training seeds: they say how far another seed may move a mean. With
three seeds they are wide (4.3 standard errors). Differences have paired t-tests. Those that were named before the runs
are corrected by Holm together; the others are corrected over the columns of a pair of methods.

The base's value is the mean of its two draws, if every seed has two. Each seed of the study draws the base with its own
random numbers, so that the spread over seeds shows the error of these draws too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import stats
from tqdm import tqdm

from rl.data.sample_file import SampleMetadata, read_metadata
from rl.evaluation.analysis.comparison import COMMON_SETTINGS
from rl.evaluation.analysis.paired_test import holm
from rl.evaluation.analysis.trade_off import trade_offs_over_seeds
from rl.evaluation.measures import OVER_SEEDS, in_words, interval_of, measure_of, metrics_for
from rl.evaluation.report.pareto_figure import pareto_files, write_with_pictures
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS, ReportSpec
from rl.evaluation.table import Cell, Row, Table, markdown, p_in_words, plain_columns
from rl.evaluation.tables import of_groups
from rl.metrics.bootstrap import LEVEL

SIGNIFICANT = 0.05
# Columns that are not compared: the entropy of styles is compared in place of their number.
NOT_COMPARED = ("styles",)
# Smaller differences of shares are rounding errors.
EQUAL = 1e-12
# Keys of the values that are computed.
COMPARED = ("bases", "methods", "differences", "primary")

# {method or base: {column: value} of each seed}.
SeedValues = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True)
class OverSeeds:
    """One value per seed, their mean and its 95 % interval over seeds (None with one seed)."""

    values: list[float]
    mean: float
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, values: list[float]) -> "OverSeeds":
        found = Difference.tested(values)
        return cls(values, found.mean, found.interval)


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
    def tested(cls, values: list[float]) -> "Difference":
        """The difference with its p, not yet corrected."""
        number, mean = len(values), float(np.mean(values))
        if number < 2:
            return cls(values, mean, None)
        if np.ptp(values) < EQUAL:  # the t-test is undefined
            return cls(values, mean, (mean, mean), 1.0 if abs(mean) < EQUAL else 2 / 2**number)
        error, freedom = (float(np.var(values, ddof=1)) / number) ** 0.5, number - 1
        half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
        return cls(values, mean, (mean - half, mean + half), 2 * float(stats.t.sf(abs(mean) / error, freedom)))

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT


# {"first - second": {column: difference}}
OfPairs = dict[str, dict[str, Difference]]
Pairs = Mapping[tuple[str, str], Sequence[str]]  # {(method, other method or base): columns}


def write_seeds(
    out: Path,
    name: str,
    specs: Mapping[int, ReportSpec],
    baselines: Sequence[str],
    facts: Mapping | None = None,
    primary: Pairs | None = None,
) -> Path:
    """Write the table and the values as out/<name>.md and .json, the trade-offs as out/pareto.svg (pareto_figure.py),
    and each seed's report into out/seed_<n>/.

    Args:
        specs: {seed: specification of its report}; all have the same methods and splits.
        baselines: the methods that every other one is compared with; names of other methods are ignored.
        facts: further entries of the values.
        primary: the comparisons that were named before the runs.

    Returns:
        The path of the table.
    """
    reports = []
    for seed, spec in tqdm(specs.items(), "Comparing the methods", unit="seed"):
        spec.write(out / f"spec_seed_{seed}.json")
        reports.append(write_report(spec, out / f"seed_{seed}"))
    first = next(iter(specs.values()))
    labels = {method: first.methods[method].label for method in first.trained}
    asked = {split: read_metadata(files.samples) for split, files in first.methods[BASE].splits.items()}
    about = {
        "seeds": list(specs),
        "labels": labels,
        "columns": list(columns_of(reports[0][first.trained[0]], first.solved_in)),
        "splits": first.splits,
        "solved_in": first.solved_in,
        "roles": {method: role for method in labels if (role := first.methods[method].role)},
        "sampling": {name: getattr(_of_base(first), name) for name in COMMON_SETTINGS},
        # What the random numbers of each seed's base came from.
        "drawn_with": [_of_base(spec).seed for spec in specs.values()],
        "questions": {
            split: {"prompts": of.rows, "sha256": sorted(of.data_files.values())} for split, of in asked.items()
        },
    } | dict(facts or {})
    shared = [method for method in first.methods if all(method in report for report in reports)]
    values = {method: [values_of(report[method], first.solved_in) for report in reports] for method in shared}
    content = compared(values, about, baselines, primary) | about
    text = json.dumps(content, indent=1, allow_nan=False, default=asdict) + "\n"
    pictures = pareto_files(trade_offs_over_seeds(json.loads(text)))
    write_with_pictures(out, {f"{name}.json": text, f"{name}.md": seeds_page(content)} | pictures)
    return out / f"{name}.md"


def _of_base(spec: ReportSpec) -> SampleMetadata:
    return read_metadata(spec.methods[BASE].splits[spec.splits[0]].samples)


def compared(values: SeedValues, about: Mapping, baselines: Sequence[str], primary: Pairs | None = None) -> dict:
    """COMPARED: the values of bases and methods over seeds, and the differences.

    Args:
        about: see write_seeds.
    """
    labels, columns = about["labels"], about["columns"]
    methods = _over_seeds({name: values[name] for name in labels})
    pairs = [(name, other) for name in labels if name not in baselines for other in baselines if other in labels]
    tested: OfPairs = {}
    for pair in pairs:
        shown = [column for column in methods[pair[0]] if column in columns and column not in NOT_COMPARED]
        tested |= differences(values, {pair: shown})
    # Each base alone: the second draw can have a keep rate where the first has none.
    bases = {name: _over_seeds({name: values[name]})[name] for name in values if name not in labels}
    found = differences(values, primary or {})
    return dict(zip(COMPARED, (bases, methods, tested, found), strict=True))


def _over_seeds(values: SeedValues) -> dict[str, dict[str, OverSeeds]]:
    """The columns that have a value in every run."""
    everywhere = set.intersection(*(set(of_seed) for of_seed in chain.from_iterable(values.values()))) if values else ()
    return {
        name: {c: OverSeeds.of([of_seed[c] for of_seed in seeds]) for c in seeds[0] if c in everywhere}
        for name, seeds in values.items()
    }


def differences(values: SeedValues, pairs: Pairs) -> OfPairs:
    """The differences, with p corrected by Holm over all of them.

    Args:
        pairs: with the columns to compare.
    """

    def of(name: str, column: str) -> list[float]:
        return [of_seed[column] for of_seed in values[name]]

    tested: list[tuple[str, str, Difference]] = []
    for (first, second), column in ((pair, column) for pair, columns in pairs.items() for column in columns):
        if second == BASE:
            other = np.mean([of(name, column) for name in (BASE, BASE_AGAIN) if name in values], axis=0).tolist()
        else:
            other = of(second, column)
        found = Difference.tested(np.subtract(of(first, column), other).tolist())
        tested.append((f"{first} - {second}", column, found))
    p = [found.p for *_, found in tested if found.p is not None]
    corrected = holm(p) if len(p) == len(tested) else [None] * len(tested)
    result: OfPairs = {}
    for (pair, column, found), p_holm in zip(tested, corrected, strict=True):
        result.setdefault(pair, {})[column] = replace(found, p_holm=p_holm)
    return result


def columns_of(of_splits: dict, solved_in: int) -> dict[str, tuple[str, str]]:
    """{column: (split, metric)}. Columns of the first split do not name it, and only the first split has styles."""
    found = {}
    for number, (split, summary) in enumerate(of_splits.items()):
        of_split = f", {split.replace('_', ' ')}" if number else ""
        for metric in metrics_for(OVER_SEEDS, summary["n"], solved_in):
            if not (number and measure_of(metric).of_styles):
                found[in_words(metric) + of_split] = (split, metric)
    return found


def values_of(of_splits: dict, solved_in: int) -> dict[str, float]:
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


def seeds_page(content: Mapping) -> str:
    """Markdown: one table with a row per method and, below these, one per difference.

    Args:
        content: the values, as compared() returns them and with what is known about them (write_seeds).
    """
    labels, seeds, several = content["labels"], content["seeds"], len(content["seeds"]) > 1
    shown = [column for column in content["columns"] if all(column in of for of in content["methods"].values())]
    what = f"Mean over seeds {', '.join(map(str, seeds))} ± half of the 95 % interval over seeds (Student's t), then "
    what += f"differences with p of paired t-tests, corrected by Holm; bold: p at most {SIGNIFICANT}."
    what = what if several else f"Seed {seeds[0]} alone, which cannot test a difference."
    rows = [
        Row(LABELS[name].lower(), "", [Cell(of[c].mean, digits=3) if c in of else None for c in shown])
        for name, of in content["bases"].items()
    ]
    rows += [Row(labels[name], "", [_cell(of[c]) for c in shown]) for name, of in content["methods"].items()]
    headings = {
        "primary": "Differences that were named before the runs, corrected over all of them",
        "differences": "Other differences, corrected over the columns of a pair",
    }
    for key, heading in headings.items():
        rows += [Row(heading, "", ())] if content[key] else []
        for pair, of in content[key].items():
            names = " minus ".join(labels.get(name) or LABELS[name].lower() for name in pair.split(" - "))
            rows.append(Row(names, "", [_cell(of[column]) if column in of else None for column in shown]))
    table = markdown(Table("", plain_columns(*shown), rows, head=""))
    return f"{what} Columns that name no split: {content['splits'][0].replace('_', ' ')}.\n\n{table}"


def _cell(value: OverSeeds) -> Cell:
    note = f"± {(value.interval[1] - value.interval[0]) / 2:.3f}" if value.interval else ""
    if isinstance(value, Difference) and value.p_holm is not None:
        note = f"{note}, {p_in_words(value.p_holm)}"
        return Cell(value.mean, digits=3, note=note, strong=value.significant)
    return Cell(value.mean, digits=3, note=note)
