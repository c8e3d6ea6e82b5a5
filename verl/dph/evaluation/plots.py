"""Plots of the evaluation, one panel a split: Pass@k, style shares, and values of methods beside each other."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from verl.dph.evaluation.bootstrap import Interval
from verl.dph.evaluation.svg import FONT_SIZE, panel, spread, text_width
from verl.dph.evaluation.theme import INK, MUTED, PAGE, STYLE_INK, Colour, style_fills

LABEL_GAP = 15  # points between two labels, one below the other
ROW = 30  # points of one method's row
LINE_END = 14  # points from a line's end to its name
LEAST_LABELLED_SHARE = 0.13  # a narrower piece of a bar holds no name and figure


def pass_at_k_plot(
    curves: dict[str, dict[str, Interval]], labels: dict[str, str], colours: dict[str, Colour]
) -> Figure:
    """Pass@k in percent against k, with interval bands and each method's name at the end of its line.

    Args:
        curves: {method: {k as text: [value, low, high]}}, the "pass@k" objects of report.json.
        labels: {method: name to show}.
        colours: {method: colour}.
    """
    ends = {name: 100 * list(curve.values())[-1][0] for name, curve in curves.items()}
    texts = {name: f"{labels[name]} {end:.1f}" for name, end in ends.items()}
    height, top, bottom = 300, 12, 42
    right = LINE_END + text_width(list(texts.values()))
    figure, axes = panel(height, left=36, right=right, top=top, bottom=bottom)
    for name, curve in curves.items():
        ks = [int(k) for k in curve]
        value, low, high = ([100 * interval[i] for interval in curve.values()] for i in range(3))
        axes.fill_between(ks, low, high, color=colours[name].stand_in, alpha=0.13, linewidth=0)
        axes.plot(ks, value, color=colours[name].stand_in, linewidth=2, marker="o", markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set_xlim(ks[0] / 1.1, ks[-1] * 1.1)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(False, axis="x")
    axes.set_ylim(top=100.8)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f}"))
    axes.set_xlabel("k, samples a prompt")
    label_line_ends(axes, ends, texts, colours, height - top - bottom)
    return figure


def style_share_plot(shares: dict[str, dict[str, float]], labels: dict[str, str]) -> Figure:
    """Share of each style over all samples: a stacked bar a method, the pieces named where they are wide enough.

    Args:
        shares: {method: {style: share}}, the "style_share" objects of report.json.
        labels: {method: name to show}.
    """
    height = ROW * len(shares) + 34
    figure, axes = panel(height, left=_name_margin(labels, shares), right=20, top=4, bottom=28)
    fills = style_fills(tuple(next(iter(shares.values()))))
    for row, share in enumerate(shares.values()):
        start = 0.0
        for style, part in share.items():
            axes.barh(row, part, left=start, height=0.74, color=fills[style], edgecolor=PAGE.stand_in, linewidth=1.2)
            if part >= LEAST_LABELLED_SHARE:
                text = f"{style} {100 * part:.0f}" if part >= 1.8 * LEAST_LABELLED_SHARE else f"{100 * part:.0f}"
                axes.text(
                    start + part / 2, row, text, ha="center", va="center", color=STYLE_INK, fontsize=FONT_SIZE - 1
                )
            start += part
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    _name_rows(axes, [labels[name] for name in shares])
    axes.grid(False)
    axes.spines[:].set_visible(False)
    return figure


def interval_plot(
    intervals: dict[str, Interval],
    labels: dict[str, str],
    colours: dict[str, Colour],
    percent: bool,
    floor: Interval = None,
) -> Figure:
    """One value a method with its interval, the figure at the right; optionally a noise floor as a line with a band.

    Args:
        intervals: {method: [value, low, high] or None}; a method without a value keeps an empty row.
        labels: {method: name to show}.
        colours: {method: colour}.
        percent: values are shares, shown in percent.
        floor: [value, low, high] of the noise floor.
    """
    scale, digits = (100, 1) if percent else (1, 2)
    height = ROW * len(intervals) + 34
    figure, axes = panel(height, left=_name_margin(labels, intervals), right=54, top=4, bottom=28)
    if floor is not None:
        value, low, high = (scale * v for v in floor)
        axes.axvspan(low, high, color=MUTED.stand_in, alpha=0.12, linewidth=0)
        axes.axvline(value, color=MUTED.stand_in, linewidth=1.4, linestyle=(0, (4, 3)))
    for row, (name, interval) in enumerate(intervals.items()):
        if interval is not None:
            value, low, high = (scale * v for v in interval)
            axes.plot([low, high], [row, row], color=colours[name].stand_in, linewidth=2.4, solid_capstyle="round")
            axes.plot([value], [row], color=colours[name].stand_in, marker="o", markersize=7)
        text = "–" if interval is None else f"{value:.{digits}f}"
        place = axes.get_yaxis_transform()
        axes.text(1.04, row, text, transform=place, va="center", color=INK.stand_in, fontweight="bold", clip_on=False)
    if not percent:
        axes.set_xlim(left=0)
    axes.margins(x=0.06)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    _name_rows(axes, [labels[name] for name in intervals])
    axes.grid(False, axis="y")
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def _name_margin(labels: dict[str, str], methods: Iterable[str]) -> float:
    return 6 + text_width([labels[name] for name in methods])


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=INK.stand_in)
    axes.set_ylim(len(names) - 0.5, -0.5)


def label_line_ends(
    axes: Axes, ends: dict[str, float], texts: dict[str, str], colours: dict[str, Colour], height: float
) -> None:
    """Writes each text right of the axes at its line's end, moved apart where they would overlap.

    Args:
        ends: {method: y in data units}.
        height: of the axes in points.
    """
    low, high = axes.get_ylim()
    fractions = [(y - low) / (high - low) for y in ends.values()]
    half = LABEL_GAP / height / 2
    for name, placed, end in zip(ends, spread(fractions, 2 * half, half, 1 - half), fractions, strict=True):
        beside = {"transform": axes.transAxes, "color": colours[name].stand_in, "clip_on": False}
        axes.plot([1.005, 1.035], [end, placed], linewidth=1, **beside)
        axes.text(1.045, placed, texts[name], va="center", fontweight="bold", **beside)
    axes.spines["left"].set_visible(False)
