"""The top of a page: a sentence with the solved questions of each shown model, and tiles with a metric each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rl.common.text import listed
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.measures import in_display_unit, in_words, interval_of
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import BASE, ReportSpec
from rl.evaluation.table import NO_VALUE, p_in_words
from rl.evaluation.tables import interval_cell
from rl.metrics.styles import BY_OPENING


@dataclass(frozen=True)
class Bar:
    """A model's value; share, low and high in per cent of the full width."""

    look: Look
    value: str
    share: float = 0
    low: float = 0
    high: float = 0
    difference: str = ""  # from the base, with its interval and the verdict


@dataclass(frozen=True)
class Tile:
    title: str
    about: str
    bars: list[Bar]


def headline(comparison: Comparison, shown: Sequence[str], looks: Mapping[str, Look]) -> str:
    """What share of the first split's questions each model solves."""
    spec, [split, *_] = comparison.spec, comparison.spec.splits
    k = spec.solved_in
    solved = {name: comparison.summaries[name][split]["pass@k"][str(k)][0] for name in shown}
    found = listed(f"{looks[name].label} {100 * value:.0f} %" for name, value in solved.items())
    return f"Questions solved in {k} tries: {found}"


def tiles(
    comparison: Comparison, tests: Sequence[PairedTest], shown: Sequence[str], looks: Mapping[str, Look]
) -> list[Tile]:
    """Pass@1, Pass@solved_in, and styles or else the keep rate, on the first split."""
    spec, [split, *_] = comparison.spec, comparison.spec.splits
    samples = comparison.samples[BASE][split]
    found = {
        (test.first, test.metric): test
        for test in tests
        if test.split == split and test.second in (BASE, spec.noise_floor)
    }
    metrics = (f"mean@{samples.n}", f"pass@{spec.solved_in}", "styles" if samples.style_names else "keep_rate")
    made = []
    for metric in metrics:
        most, tested = (len(samples.style_names) - 1, "style_diversity") if metric == "styles" else (1, metric)
        bars = [
            _bar(comparison.summaries[name][split], metric, most, looks[name], found.get((name, tested)))
            for name in shown
        ]
        title = in_words(metric)
        made.append(Tile(title[:1].upper() + title[1:], _about(spec, metric, most), bars))
    return made


def _bar(summary: dict, metric: str, most: int, look: Look, test: PairedTest | None) -> Bar:
    interval = interval_of(summary, metric)
    if interval is None:
        return Bar(look, NO_VALUE)
    value, digits = in_display_unit(metric, interval[0])
    share, low, high = (min(100 * v / most, 100) for v in interval)
    shown = Bar(look, f"{value:.{1 if metric == 'styles' else digits}f}", share, low, high)
    if test is None:
        return shown
    cell = interval_cell(test.metric, test.difference, signed=True)
    what = "" if metric == test.metric else f"{in_words(test.metric)} "
    return replace(shown, difference=f"{what}{cell.text} {cell.behind}: {test.verdict}, {p_in_words(test.p_holm)}")


def _about(spec: ReportSpec, metric: str, most: int) -> str:
    k = spec.solved_in
    styles = "ways of writing" if spec.styles_by == BY_OPENING else "forms of SQL"
    return {
        "mean": "right at the first try, per cent",
        "pass": f"right at least once in {k} tries, per cent",
        "keep_rate": f"Pass@{k} on what the base solved in {k} samples, per cent",
        "styles": f"{styles} among a question’s right answers, of {most}",
    }[metric.partition("@")[0]]
