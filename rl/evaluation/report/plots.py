"""The page's plots: lines against k, the training step or eta, and rows, one per method or style with its name above.

Every plot takes looks {method: how it is drawn}. Values are shares, shown in per cent.
"""

from collections.abc import Collection
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.canvas import FONT_SIZE, canvas, shorten
from rl.evaluation.report.theme import DARK_FILLS, INK, ON_DARK_FILL, ON_LIGHT_FILL, PAGE, Look
from rl.evaluation.spec import ReportSpec
from rl.metrics.bootstrap import Interval

LINE_HEIGHT = 250
TRAINING_HEIGHT = 210
LEAST_TICK_RATIO = 1.4  # between the last k and a labelled one: closer labels would overlap
MOST_DISTINCT_BANDS = 4  # more bands would hide the lines, and become fainter
SMOOTHED_STEPS = 5
FEW_VALUES = 12  # lines with at most this many values have markers
# Families are drawn beside each other at the same eta, so that their intervals do not overlap.
ETA_SHIFT = 0.07
REFERENCE = {"linewidth": 1.3, "linestyle": (0, (4, 3))}

ROW = 40  # points: a method's name and, below it, its bar
NAME_AT, BAR_AT, BAR_HEIGHT = 0.27, 0.72, 0.42  # in rows
AXIS_HEIGHT = 28  # points
LEAST_NAMED_SHARE = 0.08  # the number of a smaller piece would not fit into it
LONGEST_NAME = 46  # characters that fit into a plot's width

Curves = dict[str, dict[int, Interval]]
Families = dict[str, dict[float, list[str]]]  # {family: {eta, ascending: methods}}


def pass_at_k_plot(curves: Curves, looks: dict[str, Look]) -> Figure:
    """Pass@k against k; curves: {method: {k: [value, low, high]}}, the same k for all."""
    figure, axes = _interval_lines(curves, looks, "k, samples per prompt")
    ks = list(next(iter(curves.values())))
    axes.set_xscale("log", base=2)
    # The last k is n, which may be just above a power of two.
    ticks = [k for k in ks if k == ks[-1] or ks[-1] / k >= LEAST_TICK_RATIO]
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xlim(ks[0] / 1.1, ks[-1] * 1.1)
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def checkpoints_plot(curves: Curves, looks: dict[str, Look]) -> Figure:
    """A share against the training step; curves: {method: {step: [value, low, high]}}."""
    figure, axes = _interval_lines(curves, looks, "training step")
    axes.margins(x=0.02)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    return figure


def _interval_lines(curves: Curves, looks: dict[str, Look], xlabel: str) -> tuple[Figure, Axes]:
    figure, axes = _line_canvas(LINE_HEIGHT, xlabel)
    opacity = 0.12 if len(curves) <= MOST_DISTINCT_BANDS else 0.05
    for name, curve in curves.items():
        value, low, high = 100 * np.array(list(curve.values())).T
        colour = looks[name].colour.light
        axes.fill_between(list(curve), low, high, color=colour, alpha=opacity, linewidth=0)
        axes.plot(list(curve), value, color=colour, linewidth=1.8, marker=looks[name].marker, markersize=4)
    _limit_to_percent(axes)
    return figure, axes


def _line_canvas(height: float, xlabel: str) -> tuple[Figure, Axes]:
    figure, axes = canvas(height, left=48, right=8, bottom=38)
    axes.set_xlabel(xlabel)
    axes.grid(axis="y")
    return figure, axes


def _limit_to_percent(axes: Axes) -> None:
    """Limit the vertical axis to 0 to 100 per cent and half a marker."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.8), min(high, 100.8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))


def eta_families(spec: ReportSpec, methods: Collection[str]) -> Families:
    """The lines against eta: families with at least two etas whose methods are all in `methods`."""
    found: Families = {}
    for name, method in spec.methods.items():
        if method.family is not None and method.eta is not None:  # both or neither
            found.setdefault(method.family, {}).setdefault(method.eta, []).append(name)
    return {
        family: dict(sorted(etas.items()))
        for family, etas in found.items()
        if len(etas) > 1 and set(chain(*etas.values())) <= set(methods)
    }


def eta_plot(families: Families, references: list[str], values: dict[str, Interval], looks: dict[str, Look]) -> Figure:
    """A share against eta; lines go through the mean of the runs with equal eta.

    The etas are equally spaced, because they are few, span decades, and may include 0.

    Args:
        families: as eta_families returns them; a family has the look of its first method.
        references: methods without an eta, drawn as horizontal lines.
        values: {method: [value, low, high]}.
    """
    figure, axes = _line_canvas(LINE_HEIGHT, "eta (equally spaced)")
    etas = sorted(set(chain(*families.values())))
    for name in references:
        axes.axhline(100 * values[name][0], color=looks[name].colour.light, **REFERENCE)
    for i, of in enumerate(families.values()):
        look = looks[next(iter(of.values()))[0]]
        colour, shift = look.colour.light, ETA_SHIFT * (i - (len(families) - 1) / 2)
        at = [etas.index(eta) + shift for eta in of]
        axes.plot(at, [100 * np.mean([values[name][0] for name in names]) for names in of.values()], color=colour)
        for x, name in ((x, name) for x, names in zip(at, of.values(), strict=True) for name in names):
            value, low, high = (100 * v for v in values[name])
            axes.plot([x, x], [low, high], color=colour, linewidth=1.2)
            axes.plot([x], [value], color=colour, marker=look.marker, markersize=5)
    axes.set_xticks(range(len(etas)), [f"{eta:g}" for eta in etas])
    axes.margins(x=0.08)
    _limit_to_percent(axes)
    return figure


def training_plot(metric: str, smoothed_steps: int, logs: dict[str, TrainingLog], looks: dict[str, Look]) -> Figure:
    """A metric against the step: a faint line as logged, and a strong line with the mean of the last smoothed_steps."""
    figure, axes = _line_canvas(TRAINING_HEIGHT, "step")
    for name in (name for name, log in logs.items() if metric in log):
        steps, values = np.array(list(logs[name][metric].items())).T
        colour, marker = looks[name].colour.light, looks[name].marker if len(values) <= FEW_VALUES else ""
        if smoothed_steps > 1:
            axes.plot(steps, values, color=colour, linewidth=0.8, alpha=0.35)
        smooth = running_mean(values, smoothed_steps)
        axes.plot(steps, smooth, color=colour, linewidth=1.8, marker=marker, markersize=4)
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    return figure


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """[S] float: the mean of the last `width` values at each step, of all so far at the first steps."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - width, 0)
    return (total[end] - total[start]) / (end - start)


def stacked_plot(shares: dict[str, dict[str, float]], fills: dict[str, str], looks: dict[str, Look]) -> Figure:
    """A bar of 100 per cent per method; pieces that are wide enough show their number.

    Args:
        shares: {method: {piece: share}}, pieces in the order of drawing.
        fills: {piece: fill}.
    """
    figure, axes = _row_canvas([looks[name].label for name in shares], right=24)
    for row, share in enumerate(shares.values()):
        start = 0.0
        for piece, part in share.items():
            colours = {"color": fills[piece], "edgecolor": PAGE.light}
            bar = axes.barh(row + BAR_AT, part, left=start, height=BAR_HEIGHT, linewidth=1, **colours)
            if part >= LEAST_NAMED_SHARE:
                ink = ON_DARK_FILL if fills[piece] in DARK_FILLS else ON_LIGHT_FILL
                axes.bar_label(bar, [f"{100 * part:.0f}"], label_type="center", color=ink, fontsize=FONT_SIZE)
            start += part
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    return figure


def difference_plot(intervals: dict[str, Interval], looks: dict[str, Look]) -> Figure:
    """A difference of shares with its interval per row, and its number on the right; {row: [value, low, high]}."""
    figure, axes = _row_canvas([looks[name].label for name in intervals], right=46)
    for row, (name, interval) in enumerate(intervals.items()):
        at, colour = row + BAR_AT, looks[name].colour.light
        value, low, high = (100 * v for v in interval)
        axes.plot([0, 0], [at - BAR_HEIGHT / 2, at + BAR_HEIGHT / 2], color=INK.light, linewidth=1)
        axes.plot([low, high], [at, at], color=colour, linewidth=2.4, solid_capstyle="round")
        axes.plot([value], [at], color=colour, marker="o", markersize=7)
        _write(axes, 1.03, at, f"{value:+.1f}".replace("-", "−"), fontweight="bold")
    axes.grid(axis="x")
    axes.margins(x=0.06)
    axes.xaxis.get_major_locator().set_params(nbins=5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    return figure


def _row_canvas(names: list[str], right: float) -> tuple[Figure, Axes]:
    figure, axes = canvas(ROW * len(names) + AXIS_HEIGHT, left=6, right=right, top=2)
    for row, name in enumerate(names):
        _write(axes, 0, row + NAME_AT, shorten(name, LONGEST_NAME))
    axes.set_yticks([])
    axes.set_ylim(len(names), 0)
    axes.spines[:].set_visible(False)
    return figure, axes


def _write(axes: Axes, x: float, y: float, text: str, **how) -> None:
    """Write a text; x is a share of the axes' width. A dollar sign in it does not start a formula."""
    how |= {"color": INK.light, "fontsize": FONT_SIZE, "parse_math": False}
    axes.text(x, y, text, va="center", transform=axes.get_yaxis_transform(), **how)
