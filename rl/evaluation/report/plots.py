"""The page's plots: lines against k, the training step or eta, and rows, one per method or style with its name above.

Every plot takes looks {method: how it is drawn}. Values are shares, shown in per cent.
"""

from collections.abc import Collection
from itertools import chain

import numpy as np
import pandas as pd
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
SMOOTHED_STEPS = 5

ROW = 40  # points: a method's name and, below it, its bar
NAME_AT, BAR_AT, BAR_HEIGHT = 0.27, 0.72, 0.42  # in rows
AXIS_HEIGHT = 28  # points
LEAST_NAMED_SHARE = 0.08  # the number of a smaller piece would not fit into it
LONGEST_NAME = 46  # characters that fit into a plot's width

Curves = dict[str, dict[int, Interval]]


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
    for name, curve in curves.items():
        value, low, high = 100 * np.array(list(curve.values())).T
        colour = looks[name].colour.light
        axes.fill_between(list(curve), low, high, color=colour, alpha=0.1, linewidth=0)
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


def eta_families(spec: ReportSpec, methods: Collection[str]) -> dict[str, dict[float, str]]:
    """{family: {eta, ascending: method}} of the families with at least two etas whose methods are all in `methods`.

    Of several methods of a family with one eta, the first counts.
    """
    found: dict[str, dict[float, str]] = {}
    for name, method in spec.methods.items():
        if method.family is not None and method.eta is not None:  # both or neither
            found.setdefault(method.family, {}).setdefault(method.eta, name)
    return {
        family: dict(sorted(etas.items()))
        for family, etas in found.items()
        if len(etas) > 1 and {*etas.values()} <= {*methods}
    }


def eta_plot(curves: dict[str, dict[float, Interval]], looks: dict[str, Look]) -> Figure:
    """A share against eta; curves: {family: {eta: [value, low, high]}}.

    The etas are equally spaced, because they are few, span decades, and may include 0.
    """
    etas = sorted(set(chain(*curves.values())))
    at = {family: {etas.index(eta): of for eta, of in curve.items()} for family, curve in curves.items()}
    figure, axes = _interval_lines(at, looks, "eta (equally spaced)")
    axes.set_xticks(range(len(etas)), [f"{eta:g}" for eta in etas])
    return figure


def training_plot(metric: str, logs: dict[str, TrainingLog], looks: dict[str, Look]) -> Figure:
    """A metric against the step: a faint line as logged, and a strong line with the mean of the last SMOOTHED_STEPS."""
    figure, axes = _line_canvas(TRAINING_HEIGHT, "step")
    for name in (name for name, log in logs.items() if metric in log):
        steps, values = np.array(list(logs[name][metric].items())).T
        colour = looks[name].colour.light
        axes.plot(steps, values, color=colour, linewidth=0.8, alpha=0.35)
        smooth = pd.Series(values).rolling(SMOOTHED_STEPS, min_periods=1).mean()
        axes.plot(steps, smooth, color=colour, linewidth=1.8)
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    return figure


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
