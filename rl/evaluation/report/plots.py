"""Plots of lines: values against k or the training step, with interval bands and names at the lines' ends."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from rl.evaluation.report.svg import POINTS_PER_INCH, panel, spread, text_width, write
from rl.evaluation.report.theme import Look
from rl.metrics.bootstrap import Interval

LABEL_GAP = 14  # points between two labels, one below the other
LINE_END = 12  # points from a line's end to its name
LINE_HEIGHT = 250
TOP, BOTTOM = 10, 38
LEAST_TICK_RATIO = 1.4  # two k that are closer would have their figures run into each other
MOST_DISTINCT_BANDS = 4  # more lie over each other and hide the lines

Curves = dict[str, dict[int, Interval]]


def line_panel(
    texts: dict[str, str], xlabel: str, height: float = LINE_HEIGHT, left: float = 36
) -> tuple[Figure, Axes, float]:
    """A panel with room for a text at the end of each line, high enough for all: (figure, axes, height of the axes)."""
    height = max(height, LABEL_GAP * len(texts) + TOP + BOTTOM)
    right = LINE_END + text_width(list(texts.values()))
    figure, axes = panel(height, left, right, top=TOP, bottom=BOTTOM)
    axes.set_xlabel(xlabel)
    axes.grid(False, axis="x")
    return figure, axes, height - TOP - BOTTOM


def pass_at_k_plot(curves: Curves, looks: dict[str, Look]) -> Figure:
    """Pass@k in per cent against k.

    Args:
        curves: {method: {k: [value, low, high]}}, the same k for all.
        looks: {method: how it is drawn}.
    """
    ks = list(next(iter(curves.values())))
    figure, axes = _interval_lines(curves, looks, "k, samples a prompt")
    axes.set_xscale("log", base=2)
    # The last k is n, which may stand just beyond a power of two.
    ticks = [k for k in ks if k == ks[-1] or ks[-1] / k >= LEAST_TICK_RATIO]
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xlim(ks[0] / 1.1, ks[-1] * 1.1)
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def progress_plot(curves: Curves, looks: dict[str, Look]) -> Figure:
    """A share in per cent against the training step; arguments as of pass_at_k_plot, with steps for k."""
    figure, axes = _interval_lines(curves, looks, "training step")
    axes.margins(x=0.02)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    return figure


def _interval_lines(curves: Curves, looks: dict[str, Look], xlabel: str) -> tuple[Figure, Axes]:
    ends = {name: 100 * list(curve.values())[-1][0] for name, curve in curves.items()}
    texts = {name: f"{looks[name].tag} {end:.1f}" for name, end in ends.items()}
    figure, axes, height = line_panel(texts, xlabel)
    opacity = 0.12 if len(curves) <= MOST_DISTINCT_BANDS else 0.05
    for name, curve in curves.items():
        look = looks[name]
        value, low, high = ([100 * interval[i] for interval in curve.values()] for i in range(3))
        axes.fill_between(list(curve), low, high, color=look.colour.stand_in, alpha=opacity, linewidth=0)
        axes.plot(list(curve), value, color=look.colour.stand_in, linewidth=1.8, marker=look.marker, markersize=4)
    limit_to_percent(axes)
    label_line_ends(axes, ends, texts, looks, height)
    return figure, axes


def limit_to_percent(axes: Axes) -> None:
    """No room below 0 and above 100 per cent on the vertical axis, but for half a marker."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.8), min(high, 100.8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))


def label_line_ends(
    axes: Axes, ends: dict[str, float], texts: dict[str, str], looks: dict[str, Look], height: float
) -> None:
    """Writes each text right of the axes at its line's end, moved apart where they would overlap.

    Args:
        ends: {method: y in data units}.
        height: of the axes in points.
    """
    low, high = axes.get_ylim()
    fractions = [(y - low) / (high - low) for y in ends.values()]
    half = LABEL_GAP / height / 2
    width = axes.get_position().width * axes.figure.get_figwidth() * POINTS_PER_INCH
    for name, placed, end in zip(ends, spread(fractions, 2 * half, half, 1 - half), fractions, strict=True):
        colour, beside = looks[name].colour.stand_in, {"transform": axes.transAxes}
        axes.plot([1 + 1 / width, 1 + 8 / width], [end, placed], linewidth=1, color=colour, clip_on=False, **beside)
        write(axes, 1 + 11 / width, placed, texts[name], colour, fontweight="bold", **beside)
    axes.spines["left"].set_visible(False)
