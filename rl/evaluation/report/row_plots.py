"""Plots of rows, one a method, its name above its bar: shares as stacked bars, and values with intervals."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rl.evaluation.report.svg import WIDTH, panel, text_width, write
from rl.evaluation.report.theme import INK, MUTED, PAGE, STYLE_INK, Look
from rl.metrics.bootstrap import Interval

ROW = 40  # points of one method's row: its name, below it its bar
NAME_AT, BAR_AT, BAR_HEIGHT, FLOOR_HEIGHT = 0.27, 0.72, 0.42, 0.5  # in rows
TOP, BOTTOM = 2, 26
EDGE = 5  # points beside the axes: half of a tick's figure
VALUE_WIDTH = 46
LONGEST_NAME = 46  # characters that fit into WIDTH; the tables have the whole name


def stacked_plot(shares: dict[str, dict[str, float]], fills: dict[str, str], looks: dict[str, Look]) -> Figure:
    """A bar of 100 per cent a method, its pieces named where they are wide enough.

    Args:
        shares: {method: {piece: share}}, the pieces in the order of drawing.
        fills: {piece: fill}.
        looks: {method: how it is drawn}.
    """
    right = 24
    figure, axes = panel(ROW * len(shares) + TOP + BOTTOM, left=EDGE, right=right, top=TOP, bottom=BOTTOM)
    for row, share in enumerate(shares.values()):
        start = 0.0
        for piece, part in share.items():
            place = {"left": start, "height": BAR_HEIGHT, "color": fills[piece]}
            axes.barh(row + BAR_AT, part, edgecolor=PAGE.stand_in, linewidth=1, **place)
            text = _fitting([f"{piece} {100 * part:.0f}", f"{100 * part:.0f}"], part * (WIDTH - EDGE - right))
            write(axes, start + part / 2, row + BAR_AT, text, STYLE_INK, ha="center")
            start += part
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    _name_rows(axes, [looks[name].label for name in shares])
    axes.grid(False)
    return figure


def interval_plot(
    intervals: dict[str, Interval], looks: dict[str, Look], percent: bool, floor: Interval = None
) -> Figure:
    """One value a method with its interval, the figure at the right; optionally a noise floor as a line with a band.

    Args:
        intervals: {method: [value, low, high] or None}; a method without a value keeps an empty row.
        looks: {method: how it is drawn}.
        percent: values are shares, shown in per cent.
        floor: [value, low, high] of the noise floor.
    """
    scale, digits = (100, 1) if percent else (1, 2)
    height = ROW * len(intervals) + TOP + BOTTOM
    figure, axes = panel(height, left=EDGE, right=VALUE_WIDTH, top=TOP, bottom=BOTTOM)
    for row, (name, interval) in enumerate(intervals.items()):
        if floor is not None:
            value, low, high = (scale * v for v in floor)
            axes.barh(row + BAR_AT, high - low, FLOOR_HEIGHT, low, color=MUTED.stand_in, alpha=0.14, linewidth=0)
            ends = row + BAR_AT - FLOOR_HEIGHT / 2, row + BAR_AT + FLOOR_HEIGHT / 2
            axes.vlines(value, *ends, color=MUTED.stand_in, linewidth=1.4, linestyle=(0, (3, 2)))
        if interval is not None:
            value, low, high = (scale * v for v in interval)
            colour, at = looks[name].colour.stand_in, row + BAR_AT
            axes.plot([low, high], [at, at], color=colour, linewidth=2.4, solid_capstyle="round")
            axes.plot([value], [at], color=colour, marker="o", markersize=7)
        text = "–" if interval is None else f"{value:.{digits}f}"
        write(axes, 1.03, row + BAR_AT, text, INK.stand_in, fontweight="bold", transform=axes.get_yaxis_transform())
    if not percent:
        axes.set_xlim(left=0)
    axes.margins(x=0.06)
    axes.xaxis.get_major_locator().set_params(nbins=5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    _name_rows(axes, [looks[name].label for name in intervals])
    return figure


def _fitting(texts: list[str], width: float) -> str:
    """The first text that fits into so many points, or none."""
    return next((text for text in texts if text_width([text]) + 2 <= width), "")


def _name_rows(axes: Axes, names: list[str]) -> None:
    for row, name in enumerate(names):
        shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"
        write(axes, 0, row + NAME_AT, shown, INK.stand_in, transform=axes.get_yaxis_transform())
    axes.set_yticks([])
    axes.set_ylim(len(names), 0)
    axes.grid(False, axis="y")
    axes.spines[:].set_visible(False)
