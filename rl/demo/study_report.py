"""The study's comparison over seeds: study.json, study.md and study.svg, and each seed's own report.

Intervals are 95 % intervals of Student's t over training seeds: how far another seed may move a mean. With three seeds
they are wide (4.3 standard errors). Each seed's report.html has intervals over prompts.
"""

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from rl.common import atomic_write
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import BASE, BASE_AGAIN, read_spec

LEVEL = 0.95
# Column: split and the path to a value in a split's summary (rl/evaluation/analysis/summary.py).
COLUMNS = {
    "greedy": ("in_domain", "greedy"),
    "Pass@1": ("in_domain", "pass@k", "1"),
    "Pass@8": ("in_domain", "pass@k", "8"),
    "Pass@32": ("in_domain", "pass@k", "32"),
    "keep rate": ("in_domain", "keep_rate"),
    "styles": ("in_domain", "styles"),
    "style entropy": ("in_domain", "style_entropy"),
    "Pass@8, out of domain": ("out_of_domain", "pass@k", "8"),
    "Pass@32, out of domain": ("out_of_domain", "pass@k", "32"),
}
# Methods trained with the divergence are compared with these, seed by seed.
BASELINES = ("grpo", "dapo", "dapo_exp")
COMPARED = ("Pass@1", "Pass@8", "Pass@32", "style entropy", "Pass@32, out of domain")
PANELS = ("Pass@1", "Pass@8", "style entropy")


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
    reports = {seed: _seed_report(out, seed, spec) for seed, spec in specs.items()}
    bases = {name: _values(next(iter(reports.values()))[name]) for name in (BASE, BASE_AGAIN)}
    methods = {
        name: {
            column: OverSeeds.of([_values(report[name])[column] for report in reports.values()]) for column in COLUMNS
        }
        for name in labels
    }
    differences = {
        f"{name} - {baseline}": {
            column: OverSeeds.of(np.subtract(methods[name][column].values, methods[baseline][column].values).tolist())
            for column in COMPARED
        }
        for name in labels
        if name.startswith("dph")
        for baseline in BASELINES
        if baseline in labels
    }
    content = {
        "bases": bases,
        "methods": {name: {c: asdict(v) for c, v in of.items()} for name, of in methods.items()},
        "differences": {name: {c: asdict(v) for c, v in of.items()} for name, of in differences.items()},
        "labels": labels,
    } | facts
    atomic_write.write_text(out / "study.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
    atomic_write.write_text(out / "study.svg", study_figure(bases[BASE], methods, labels))
    atomic_write.write_text(out / "study.md", _tables(bases, methods, differences, labels, list(specs)))
    return out / "study.md"


def _seed_report(out: Path, seed: int, spec: dict) -> dict:
    path = out / f"spec_seed_{seed}.json"
    atomic_write.write_text(path, json.dumps(spec, indent=2) + "\n")
    return write_report(read_spec(path), out / f"seed_{seed}")


def _values(of_splits: dict) -> dict[str, float]:
    """{column: value} of a method, without intervals."""
    found = {}
    for column, (split, *keys) in COLUMNS.items():
        entry = of_splits[split]
        for key in keys:
            entry = entry[key]
        found[column] = float("nan") if entry is None else float(entry[0])
    return found


def _tables(bases: dict, methods: dict, differences: dict, labels: dict[str, str], seeds: list[int]) -> str:
    """Markdown: a row per method, then a row per difference."""
    names = {BASE: "base", BASE_AGAIN: "base, second draw"}
    lines = [f"Mean over seeds {', '.join(map(str, seeds))} ± half of the 95 % interval over seeds (Student's t).", ""]
    lines += _header(["", *COLUMNS])
    lines += [_row([names[name], *(f"{values[c]:.3f}" for c in COLUMNS)]) for name, values in bases.items()]
    lines += [_row([labels[name], *(str(values[c]) for c in COLUMNS)]) for name, values in methods.items()]
    if differences:
        lines += ["", "Differences, seed by seed:", "", *_header(["", *COMPARED])]
        for pair, values in differences.items():
            name, baseline = (labels[part] for part in pair.split(" - "))
            lines.append(_row([f"{name} minus {baseline}", *(str(values[c]) for c in COMPARED)]))
    return "\n".join(lines) + "\n"


def _header(cells: list[str]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_SEED = {"color": "#1f4e79", "marker": "o", "linestyle": "none", "markersize": 4}
_INTERVAL = {"color": "#9bb8d3", "linewidth": 5, "solid_capstyle": "round"}
_BASE = {"color": "#777777", "linestyle": (0, (4, 3)), "linewidth": 1}


def study_figure(base: dict[str, float], methods: dict[str, dict[str, OverSeeds]], labels: dict[str, str]) -> str:
    """SVG with a panel per metric: a dot per seed, a bar for the interval over seeds, a dashed line for the base."""
    with matplotlib.rc_context({"svg.hashsalt": "study", "font.size": 9}):
        figure = Figure(figsize=(9, 1.0 + 0.32 * len(methods)), layout="constrained", facecolor="white")
        all_axes = figure.subplots(1, len(PANELS), sharey=True)
        for axes, column in zip(all_axes, PANELS, strict=True):
            for row, of_method in enumerate(methods.values()):
                found = of_method[column]
                if found.interval:
                    axes.plot(found.interval, [row, row], **_INTERVAL)
                axes.plot(found.values, [row] * len(found.values), **_SEED)
            axes.axvline(base[column], **_BASE)
            axes.set_title(column, fontsize=9)
            axes.grid(axis="x", color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(length=0)
        all_axes[0].set_yticks(range(len(methods)), [labels[name] for name in methods])
        all_axes[0].set_ylim(len(methods) - 0.5, -0.5)
        named = {"a seed": _SEED, "95 % interval over seeds": _INTERVAL, "base": _BASE}
        keys = [Line2D([], [], label=name, **look) for name, look in named.items()]
        figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
