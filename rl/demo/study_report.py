"""The study's comparison over seeds: study.json, study.md and study.svg, and each seed's own report.

Intervals are 95 % intervals of Student's t over training seeds: how far another seed may move a mean. With three seeds
they are wide (4.3 standard errors). Every other method is compared with GRPO, DAPO and DAPO on D_exp, seed by seed, by
paired t-tests with Holm's correction over the columns of a pair; groups of questions are shown, not compared. Each
seed's report.html has intervals over prompts.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import stats
from tqdm import tqdm

from rl.common import atomic_write
from rl.demo.experiment import GROUPED_BY
from rl.demo.study_figure import study_figure
from rl.evaluation.analysis.paired_test import holm
from rl.evaluation.analysis.summary import metric_of
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import BASE, BASE_AGAIN, read_spec

LEVEL = 0.95
SIGNIFICANT = 0.05
# Column: split and metric (summary.metric_of).
COLUMNS = {
    "greedy": ("in_domain", "greedy"),
    "Pass@1": ("in_domain", "pass@1"),
    "Pass@8": ("in_domain", "pass@8"),
    "Pass@32": ("in_domain", "pass@32"),
    "keep rate": ("in_domain", "keep_rate"),
    "styles": ("in_domain", "styles"),
    "style entropy": ("in_domain", "style_entropy"),
    "greedy, out of domain": ("out_of_domain", "greedy"),
    "Pass@1, out of domain": ("out_of_domain", "pass@1"),
    "Pass@8, out of domain": ("out_of_domain", "pass@8"),
    "Pass@32, out of domain": ("out_of_domain", "pass@32"),
    "keep rate, out of domain": ("out_of_domain", "keep_rate"),
}
# Of the groups of questions in domain.
GROUP_METRICS = {"greedy": "greedy", "Pass@1": "pass@1", "Pass@8": "pass@8", "Pass@32": "pass@32"}
# The other methods are compared with these in every column but the number of styles: their entropy says the same.
BASELINES = ("grpo", "dapo", "dapo_exp")
NOT_COMPARED = ("styles",)
SIDES = {"Higher": 1, "Lower": -1}


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

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + (f" ± {(self.interval[1] - self.interval[0]) / 2:.3f}" if self.interval else "")


@dataclass(frozen=True)
class Difference(OverSeeds):
    """Of two methods, paired by seed; p of Student's t-test, p_holm corrected over the columns of the pair."""

    p: float | None = None  # with one seed
    p_holm: float | None = None

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT

    def __str__(self) -> str:
        text = super().__str__() + ("" if self.p_holm is None else f", p {self.p_holm:.3f}")
        return f"**{text}**" if self.significant else text


OfColumns = dict[str, OverSeeds]


def write_study(out: Path, labels: dict[str, str], specs: dict[int, dict], facts: dict) -> Path:
    """Write each seed's report into out/seed_<n>/, and out/study.json, study.md and study.svg; returns study.md.

    Args:
        out: the study's folder; the specifications' paths are relative to it.
        labels: {method: name to show}, in the order of the table.
        specs: {seed: specification of a report}, with base, base_again and every method.
        facts: further entries of study.json.

    Raises:
        UserError: samples are missing or do not belong together.
    """
    seeds = tqdm(specs.items(), "Comparing the methods", unit="seed")
    reports = [_seed_report(out, seed, spec) for seed, spec in seeds]
    bases = {name: _values(reports[0][name]) for name in (BASE, BASE_AGAIN)}
    methods = {name: _over_seeds([_values(report[name]) for report in reports]) for name in labels}
    differences = compare_methods(methods)
    content = {
        "bases": bases,
        "methods": {name: {c: asdict(v) for c, v in of.items()} for name, of in methods.items()},
        "differences": {name: {c: asdict(v) for c, v in of.items()} for name, of in differences.items()},
        "labels": labels,
    } | facts
    atomic_write.write_text(out / "study.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
    entropies = {name: of["style entropy"].mean for name, of in methods.items()}
    atomic_write.write_text(out / "study.svg", study_figure(reports, labels, entropies))
    atomic_write.write_text(out / "study.md", study_tables(bases, methods, differences, labels, list(specs)))
    return out / "study.md"


def compare_methods(methods: dict[str, OfColumns]) -> dict[str, dict[str, Difference]]:
    """{"first - second": {column: difference}} of every method that is not one of BASELINES, and each of those."""
    pairs = [(name, other) for name in methods if name not in BASELINES for other in BASELINES if other in methods]
    return {f"{name} - {other}": _compare(methods[name], methods[other]) for name, other in pairs}


def _compare(first: OfColumns, second: OfColumns) -> dict[str, Difference]:
    columns = [column for column in first if column in COLUMNS and column not in NOT_COMPARED]
    found = {c: OverSeeds.of(np.subtract(first[c].values, second[c].values).tolist()) for c in columns}
    if any(of.interval is None for of in found.values()):
        return {column: Difference(**vars(of)) for column, of in found.items()}
    p = [_paired_p(of.values) for of in found.values()]
    corrected = zip(found.items(), p, holm(p), strict=True)
    return {column: Difference(**vars(of), p=p, p_holm=p_holm) for (column, of), p, p_holm in corrected}


def _paired_p(differences: list[float]) -> float:
    """Of the paired t-test; equal differences have no t."""
    if np.ptp(differences) < 1e-12:
        return 1.0
    return float(stats.ttest_1samp(differences, 0).pvalue)


def _seed_report(out: Path, seed: int, spec: dict) -> dict:
    path = out / f"spec_seed_{seed}.json"
    atomic_write.write_text(path, json.dumps(spec, indent=2) + "\n")
    return write_report(read_spec(path), out / f"seed_{seed}")


def _values(of_splits: dict) -> dict[str, float]:
    """{column: value} of a method, without intervals; after COLUMNS those of the groups of questions that it has."""
    found = {column: metric_of(of_splits[split], metric) for column, (split, metric) in COLUMNS.items()}
    for group, summary in of_splits["in_domain"].get("groups", {}).get(GROUPED_BY, {}).items():
        found |= {f"{column}, {group}": metric_of(summary, metric) for column, metric in GROUP_METRICS.items()}
    return {column: float("nan") if interval is None else float(interval[0]) for column, interval in found.items()}


def _over_seeds(values: list[dict[str, float]]) -> OfColumns:
    return {column: OverSeeds.of([of_seed[column] for of_seed in values]) for column in values[0]}


def study_tables(
    bases: dict[str, dict[str, float]],
    methods: dict[str, OfColumns],
    differences: dict[str, dict[str, Difference]],
    labels: dict[str, str],
    seeds: list[int],
) -> str:
    """Markdown: a row per method, the same for groups of questions, then which differences are significant in either
    direction, and a row for each."""
    columns = list(next(iter(methods.values())))
    names = {BASE: "base", BASE_AGAIN: "base, second draw"}
    over = f"Mean over seeds {', '.join(map(str, seeds))} ± half of the 95 % interval over seeds (Student's t)."
    lines = [over if len(seeds) > 1 else f"Seed {seeds[0]} alone."]
    for title, shown in {
        "": [column for column in columns if column in COLUMNS],
        "Groups of the questions in domain:": [column for column in columns if column not in COLUMNS],
    }.items():
        if shown:
            lines += ["", *([title, ""] if title else []), *_header(["", *shown])]
            lines += [_row([names[name], *(f"{values[c]:.3f}" for c in shown)]) for name, values in bases.items()]
            lines += [_row([labels[name], *(str(values[c]) for c in shown)]) for name, values in methods.items()]
    if differences:
        columns = list(next(iter(differences.values())))
        minus = {pair: " minus ".join(labels[name] for name in pair.split(" - ")) for pair in differences}
        lines += [
            "",
            "Differences, seed by seed; p of paired t-tests, corrected by Holm over the columns of a pair:",
            "",
        ]
        lines += [f"- {side} with p at most {SIGNIFICANT}: {_significant(differences, minus, side)}." for side in SIDES]
        lines += ["", *_header(["", *columns])]
        lines += [_row([minus[pair], *(str(of[c]) for c in columns)]) for pair, of in differences.items()]
    return "\n".join(lines) + "\n"


def _significant(differences: dict[str, dict[str, Difference]], minus: dict[str, str], side: str) -> str:
    """The columns in which a difference is significant on that side, and of which pairs."""
    found: dict[str, list[str]] = {}
    for pair, of in differences.items():
        for column in (column for column, value in of.items() if value.significant and SIDES[side] * value.mean > 0):
            found.setdefault(column, []).append(minus[pair])
    return ", ".join(f"{column} ({'; '.join(pairs)})" for column, pairs in found.items()) or "nothing"


def _header(cells: list[str]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
