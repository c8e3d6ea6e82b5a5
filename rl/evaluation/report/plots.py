"""Line plots: values with interval bands against k, the training step or eta."""

from collections.abc import Collection
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.canvas import canvas
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import ReportSpec
from rl.metrics.bootstrap import Interval

LINE_HEIGHT = 250
TRAINING_HEIGHT = 210
LEAST_TICK_RATIO = 1.4  # labels of two k that are closer would overlap
MOST_DISTINCT_BANDS = 4  # more bands hide the lines
SMOOTHED_STEPS = 5
FEW_VALUES = 12  # up to this many are marked one by one
# Families stand beside each other at the same eta, so that their intervals do not overlap.
ETA_SHIFT = 0.07
REFERENCE = {"linewidth": 1.3, "linestyle": (0, (4, 3))}

Curves = dict[str, dict[int, Interval]]
Families = dict[str, dict[float, list[str]]]  # {family: {eta, ascending: methods}}


def pass_at_k_plot(page: str, curves: Curves, looks: dict[str, Look]) -> Figure:
    """Pass@k in per cent against k.

    Args:
        page: light or dark.
        curves: {method: {k: [value, low, high]}}, the same k for all.
        looks: {method: how it is drawn}.
    """
    figure, axes = _interval_lines(page, curves, looks, "k, samples per prompt")
    ks = list(next(iter(curves.values())))
    axes.set_xscale("log", base=2)
    # The last k is n, which may be just above a power of two.
    ticks = [k for k in ks if k == ks[-1] or ks[-1] / k >= LEAST_TICK_RATIO]
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xlim(ks[0] / 1.1, ks[-1] * 1.1)
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def checkpoints_plot(page: str, curves: Curves, looks: dict[str, Look]) -> Figure:
    """A share in per cent against the training step; arguments as of pass_at_k_plot, with steps for k."""
    figure, axes = _interval_lines(page, curves, looks, "training step")
    axes.margins(x=0.02)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    return figure


def _interval_lines(page: str, curves: Curves, looks: dict[str, Look], xlabel: str) -> tuple[Figure, Axes]:
    figure, axes = _line_canvas(page, LINE_HEIGHT, xlabel)
    opacity = 0.12 if len(curves) <= MOST_DISTINCT_BANDS else 0.05
    for name, curve in curves.items():
        value, low, high = 100 * np.array(list(curve.values())).T
        colour = looks[name].colour.on(page)
        axes.fill_between(list(curve), low, high, color=colour, alpha=opacity, linewidth=0)
        axes.plot(list(curve), value, color=colour, linewidth=1.8, marker=looks[name].marker, markersize=4)
    _limit_to_percent(axes)
    return figure, axes


def _line_canvas(page: str, height: float, xlabel: str) -> tuple[Figure, Axes]:
    figure, axes = canvas(page, height, left=48, right=8, bottom=38)
    axes.set_xlabel(xlabel)
    axes.grid(axis="y")
    return figure, axes


def _limit_to_percent(axes: Axes) -> None:
    """No room below 0 and above 100 per cent on the vertical axis, except for half a marker."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.8), min(high, 100.8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))


def eta_families(spec: ReportSpec, methods: Collection[str]) -> Families:
    """The lines against eta: families with two etas or more, all of whose methods are among `methods`."""
    found: Families = {}
    for name, method in spec.methods.items():
        if method.family is not None and method.eta is not None:  # both or neither
            found.setdefault(method.family, {}).setdefault(method.eta, []).append(name)
    return {
        family: dict(sorted(etas.items()))
        for family, etas in found.items()
        if len(etas) > 1 and set(chain(*etas.values())) <= set(methods)
    }


def eta_plot(
    page: str, families: Families, references: list[str], values: dict[str, Interval], looks: dict[str, Look]
) -> Figure:
    """A share in per cent against eta; lines go through the mean of the runs with equal eta.

    The etas are spaced equally: they are few, span decades, and 0 may be one of them.

    Args:
        page: light or dark.
        families: as eta_families returns them; a family looks like its first method.
        references: methods without an eta, which are horizontal lines.
        values: {method: [value, low, high]}.
        looks: {method: how it is drawn}.
    """
    figure, axes = _line_canvas(page, LINE_HEIGHT, "eta (equally spaced)")
    etas = sorted(set(chain(*families.values())))
    for name in references:
        axes.axhline(100 * values[name][0], color=looks[name].colour.on(page), **REFERENCE)
    for i, of in enumerate(families.values()):
        look = looks[next(iter(of.values()))[0]]
        colour, shift = look.colour.on(page), ETA_SHIFT * (i - (len(families) - 1) / 2)
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


def training_plot(
    page: str, metric: str, smoothed_steps: int, logs: dict[str, TrainingLog], looks: dict[str, Look]
) -> Figure:
    """One metric against the step: a faint line as logged, a strong one as the mean of the last `smoothed_steps`."""
    figure, axes = _line_canvas(page, TRAINING_HEIGHT, "step")
    for name in (name for name, log in logs.items() if metric in log):
        steps, values = np.array(list(logs[name][metric].items())).T
        colour, marker = looks[name].colour.on(page), looks[name].marker if len(values) <= FEW_VALUES else ""
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
