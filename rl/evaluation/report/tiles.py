"""The tiles at the top of a page: the values of a metric on the first split, of the base and the first methods."""

import re
from dataclasses import dataclass

from rl.evaluation.analysis.claims import INCONCLUSIVE, LOWER, NOT_MEASURED, SUPPORTED, claimed_metrics, metric_name
from rl.evaluation.analysis.findings import Findings
from rl.evaluation.measures import in_display_unit, interval_of
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import BASE, ReportSpec
from rl.evaluation.table import NO_VALUE
from rl.metrics.styles import BY_OPENING

MOST_BARS = 5
SIGNS = {SUPPORTED: "▲", LOWER: "▼", INCONCLUSIVE: "≈", NOT_MEASURED: ""}
IN_WORDS = {SUPPORTED: "higher than", LOWER: "lower than", INCONCLUSIVE: "not distinguishable from"}


@dataclass(frozen=True)
class Bar:
    look: Look
    value: str
    share: float = 0  # per cent of the full width, like low and high
    low: float = 0
    high: float = 0
    sign: str = ""  # whether the value differs from the base's
    in_words: str = ""  # the sign in words


@dataclass(frozen=True)
class Tile:
    title: str
    about: str
    bars: list[Bar]


def tiles(findings: Findings, looks: dict[str, Look], headline: str) -> list[Tile]:
    """Pass@1, Pass@n, styles or else the keep rate, and the other metrics that the headline names."""
    comparison, split = findings.comparison, findings.spec.splits[0]
    names = comparison.samples[BASE][split].style_names
    metrics = [*findings.plain(split), "styles" if names else "keep_rate"]
    others = [metric for metric in claimed_metrics(comparison, split) if metric not in metrics]
    metrics += [metric for metric in others if re.search(rf"\b{metric_name(metric)}\b", headline)]
    leading, trained = findings.leading, findings.spec.trained
    shown = [BASE, *leading, *(name for name in trained if name not in leading)][:MOST_BARS]
    found = []
    for metric in metrics:
        most = len(names) - 1 if metric == "styles" else 1
        title = metric_name(metric)
        bars = [_bar(findings, split, name, metric, most, looks[name]) for name in shown]
        found.append(Tile(title[:1].upper() + title[1:], _about(findings.spec, metric, most), bars))
    return found


def _bar(findings: Findings, split: str, name: str, metric: str, most: int, look: Look) -> Bar:
    interval = interval_of(findings.comparison.summaries[name][split], metric)
    if interval is None:
        return Bar(look, NO_VALUE)
    value, digits = in_display_unit(metric, interval[0])
    of_styles = metric == "styles"
    verdict = findings.of_styles(split, name, BASE) if of_styles else findings.against_base(split, name, metric)
    share, low, high = (min(100 * v / most, 100) for v in interval)
    words = f"{IN_WORDS[verdict]} the base" if verdict in IN_WORDS else ""
    return Bar(look, f"{value:.{1 if of_styles else digits}f}", share, low, high, SIGNS[verdict], words)


def _about(spec: ReportSpec, metric: str, most: int) -> str:
    family, _, k = metric.partition("@")
    styles = "ways of writing" if spec.styles_by == BY_OPENING else "forms of SQL"
    m = spec.solved_in
    return {
        "mean": "right at the first try, per cent",
        "pass": f"right at least once in {k} tries, per cent",
        "greedy": "right at temperature 0, per cent",
        "keep_rate": f"Pass@{m} on what the base solved in {m} samples, per cent",
        "styles": f"{styles} among a question’s right answers, of {most}",
    }[family]
