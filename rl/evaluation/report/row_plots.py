"""Row plots, one row per method or style with its name above its bar: stacked shares, and values with intervals."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rl.evaluation.report.canvas import FONT_SIZE, canvas
from rl.evaluation.report.theme import INK, PAGE, STYLE_INK, Look
from rl.metrics.bootstrap import Interval

ROW = 40  # points: a method's name, below it its bar
NAME_AT, BAR_AT, BAR_HEIGHT = 0.27, 0.72, 0.42  # in rows
AXIS_HEIGHT = 28  # points
LEAST_NAMED_SHARE = 0.08  # the figure of a smaller piece would not fit into it
LONGEST_NAME = 46  # characters that fit into a plot's width; the tables have the whole name


def stacked_plot(
    page: str, shares: dict[str, dict[str, float]], fills: dict[str, str], looks: dict[str, Look]
) -> Figure:
    """A bar of 100 per cent per method; pieces that are wide enough show their per cent.

    Args:
        page: light or dark.
        shares: {method: {piece: share}}, the pieces in the order of drawing.
        fills: {piece: fill}.
        looks: {method: how it is drawn}.
    """
    figure, axes = _row_canvas(page, [looks[name].label for name in shares], right=24)
    for row, share in enumerate(shares.values()):
        start = 0.0
        for piece, part in share.items():
            colours = {"color": fills[piece], "edgecolor": PAGE.on(page)}
            bar = axes.barh(row + BAR_AT, part, left=start, height=BAR_HEIGHT, linewidth=1, **colours)
            if part >= LEAST_NAMED_SHARE:
                axes.bar_label(bar, [f"{100 * part:.0f}"], label_type="center", color=STYLE_INK, fontsize=FONT_SIZE)
            start += part
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    return figure


def interval_plot(page: str, intervals: dict[str, Interval], looks: dict[str, Look]) -> Figure:
    """One share per row with its interval, in per cent, and its figure on the right.

    Args:
        page: light or dark.
        intervals: {row: [value, low, high]}.
        looks: {row: how it is drawn}.
    """
    figure, axes = _row_canvas(page, [looks[name].label for name in intervals], right=46)
    for row, (name, interval) in enumerate(intervals.items()):
        at, colour = row + BAR_AT, looks[name].colour.on(page)
        value, low, high = (100 * v for v in interval)
        axes.plot([low, high], [at, at], color=colour, linewidth=2.4, solid_capstyle="round")
        axes.plot([value], [at], color=colour, marker="o", markersize=7)
        _write(axes, page, 1.03, at, f"{value:.1f}", fontweight="bold")
    axes.grid(axis="x")
    axes.margins(x=0.06)
    axes.xaxis.get_major_locator().set_params(nbins=5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    return figure


def _row_canvas(page: str, names: list[str], right: float) -> tuple[Figure, Axes]:
    figure, axes = canvas(page, ROW * len(names) + AXIS_HEIGHT, left=6, right=right, top=2)
    for row, name in enumerate(names):
        shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"
        _write(axes, page, 0, row + NAME_AT, shown)
    axes.set_yticks([])
    axes.set_ylim(len(names), 0)
    axes.spines[:].set_visible(False)
    return figure, axes


def _write(axes: Axes, page: str, x: float, y: float, text: str, **how) -> None:
    """A text at x in the width of the axes; a dollar sign in it starts no formula."""
    how |= {"color": INK.on(page), "fontsize": FONT_SIZE, "parse_math": False}
    axes.text(x, y, text, va="center", transform=axes.get_yaxis_transform(), **how)
