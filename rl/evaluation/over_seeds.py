"""Methods compared over training seeds: means with intervals, differences paired by seed, and the files of both.

Intervals are 95 % intervals of Student's t over training seeds: they say how far another seed may move a mean. With
three seeds they are wide (4.3 standard errors). Differences have paired t-tests. Those that were named before the runs
are corrected by Holm together; the others are corrected over the columns of a pair of methods.

The base's value is the mean of its two draws, if it has two. A difference from the base also has the error of these
draws (BaseError).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import stats
from tqdm import tqdm

from rl.common.errors import UserError
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
# What a file of values says about its methods and columns.
ABOUT = ("labels", "columns", "splits", "solved_in", "roles")
# Keys of the values: those that are computed, and those that belong to one part of a study or that older files have.
COMPARED = ("bases", "methods", "differences", "primary")
OF_A_PART = ("seconds_of_stages", "at_once", "rehearse")
# The seed of the study's base model; in parts that were joined and differ in it, a list with one for each seed.
BASE_SEED = "base_seed"
# What the random numbers of each seed's base came from. Older files lack it: they had the same ones for all seeds.
DRAWN_WITH = "drawn_with"
# {split: the number of its prompts and the SHA-256 of its data files}.
QUESTIONS = "questions"

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
        found = Difference.tested(values, BaseError())
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

    Raises:
        UserError: samples are missing or do not belong together.
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
        DRAWN_WITH: [_of_base(spec).seed for spec in specs.values()],
        QUESTIONS: {
            split: {"prompts": of.rows, "sha256": sorted(of.data_files.values())} for split, of in asked.items()
        },
    } | dict(facts or {})
    values = {method: [values_of(report[method], first.solved_in) for report in reports] for method in first.methods}
    return _write(out, name, values, about, baselines, primary)


def write_parts(
    out: Path, name: str, parts: Sequence[Path], baselines: Sequence[str], primary: Pairs | None = None
) -> Path:
    """Write the table and the trade-offs of several comparisons together: same methods, different seeds.

    The base model may be another one in each part; the table says so.

    Args:
        parts: files <name>.json of write_seeds.

    Raises:
        UserError: a file is not such a file, its methods, settings or questions differ from another one's, or two have
            a seed.
    """
    contents = [read_values(part) for part in parts]
    first, of_parts = contents[0], (*COMPARED, *OF_A_PART, "seeds", BASE_SEED, DRAWN_WITH)
    of_all = {key for content in contents for key in content} - {*of_parts}
    about = {key: value for key, value in first.items() if key in of_all}
    of_seeds: dict[str, list] = {"seeds": [], DRAWN_WITH: [], BASE_SEED: []}
    values: dict[str, list] = {method: [] for method in [*first["bases"], *first["methods"]]}
    for part, content in zip(parts, contents, strict=True):
        different = [key for key in sorted(of_all) if content.get(key) != first.get(key)]
        different += [key for key in ("bases", "methods") if content[key].keys() != first[key].keys()]
        if different:
            raise UserError(f"{part} and {parts[0]} differ in {', '.join(different)}: they are not of one study.")
        if twice := sorted({*of_seeds["seeds"]} & {*content["seeds"]}):
            raise UserError(f"{part} has seed {twice[0]}, which another part has too: leave one of them out.")
        number = len(content["seeds"])
        for key, found in of_seeds.items():
            of_part = content.get(key)
            found += of_part if isinstance(of_part, list) else [of_part] * number
        for method, of in (content["bases"] | content["methods"]).items():
            values[method] += [{column: found["values"][i] for column, found in of.items()} for i in range(number)]
    known = {key: found for key, found in of_seeds.items() if {*found} != {None}}
    if len({*known.get(BASE_SEED, ())}) == 1:
        known[BASE_SEED] = known[BASE_SEED][0]
    return _write(out, name, values, about | known, baselines, primary)


def _of_base(spec: ReportSpec) -> SampleMetadata:
    return read_metadata(spec.methods[BASE].splits[spec.splits[0]].samples)


def _write(
    out: Path, name: str, values: SeedValues, about: Mapping, baselines: Sequence[str], primary: Pairs | None
) -> Path:
    content = compared(values, about, baselines, primary) | dict(about)
    text = json.dumps(content, indent=1, allow_nan=False, default=asdict) + "\n"
    pictures = pareto_files(trade_offs_over_seeds(json.loads(text)))
    write_with_pictures(out, {f"{name}.json": text, f"{name}.md": seeds_page(content)} | pictures)
    return out / f"{name}.md"


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
    found = differences(values, primary or {}, about.get(DRAWN_WITH))
    return dict(zip(COMPARED, (bases, methods, tested, found), strict=True))


def _over_seeds(values: SeedValues) -> dict[str, dict[str, OverSeeds]]:
    """The columns that have a value in every run."""
    everywhere = set.intersection(*(set(of_seed) for of_seed in chain.from_iterable(values.values()))) if values else ()
    return {
        name: {c: OverSeeds.of([of_seed[c] for of_seed in seeds]) for c in seeds[0] if c in everywhere}
        for name, seeds in values.items()
    }


def differences(values: SeedValues, pairs: Pairs, drawn_with: Sequence[object] | None = None) -> OfPairs:
    """The differences, with p corrected by Holm over all of them.

    Args:
        pairs: with the columns to compare.
        drawn_with: see BaseError.of; None: all seeds have the same.
    """

    def of(name: str, column: str) -> list[float]:
        return [of_seed[column] for of_seed in values[name]]

    tested: list[tuple[str, str, Difference]] = []
    for (first, second), column in ((pair, column) for pair, columns in pairs.items() for column in columns):
        if second == BASE:
            draws = [of(name, column) for name in (BASE, BASE_AGAIN) if name in values]
            error = BaseError.of(draws, drawn_with or [0] * len(values[BASE]))
            other = np.mean(draws, axis=0).tolist()
        else:
            error, other = BaseError(), of(second, column)
        found = Difference.tested(np.subtract(of(first, column), other).tolist(), error)
        tested.append((f"{first} - {second}", column, found))
    p = [found.p for *_, found in tested if found.p is not None]
    corrected = holm(p) if len(p) == len(tested) else [None] * len(tested)
    result: OfPairs = {}
    for (pair, column, found), p_holm in zip(tested, corrected, strict=True):
        result.setdefault(pair, {})[column] = replace(found, p_holm=p_holm)
    return result


def read_values(path: Path) -> dict:
    """The values that write_seeds has written.

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
    methods = content["methods"].values()
    shown = [column for column in content["columns"] if all(column in of for of in methods)]
    what = f"Mean over seeds {', '.join(map(str, seeds))} ± half of the 95 % interval over seeds (Student's t), then "
    what += f"differences with p of paired t-tests, corrected by Holm; bold: p at most {SIGNIFICANT}."
    what = what if several else f"Seed {seeds[0]} alone, which cannot test a difference."
    lines = [f"{what} Columns that name no split: {content['splits'][0].replace('_', ' ')}."]
    if isinstance(content.get(BASE_SEED), list):
        lines.append(f"The seeds of their base models are {', '.join(map(str, content[BASE_SEED]))}.")
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
    return "\n".join(f"{text}\n" for text in lines) + f"\n{table}"


def _cell(value: OverSeeds) -> Cell:
    note = f"± {(value.interval[1] - value.interval[0]) / 2:.3f}" if value.interval else ""
    if isinstance(value, Difference) and value.p_holm is not None:
        note = f"{note}, {p_in_words(value.p_holm)}"
        return Cell(value.mean, digits=3, note=note, strong=value.significant)
    return Cell(value.mean, digits=3, note=note)
