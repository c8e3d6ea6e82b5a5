"""The picture of a trade-off: Pass@1 against Pass@k, a panel per split, with the base as a cross-hair.

A mark holds its method's number, and the key below has the names.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rl.common import atomic_write
from rl.common.text import number_of
from rl.evaluation.analysis.trade_off import Point, TradeOff
from rl.evaluation.report.canvas import POINTS_PER_INCH, STYLE, inline_svg, shorten
from rl.evaluation.report.theme import COLOURS, ENVIRONMENT, INK, MUTED, PAGE, Colour, method_looks
from rl.evaluation.spec import CONTROL, GOLD, split_name

NUMBER = 11  # the size of a method's number, in points
LONGEST_NAME = 40  # characters in the key
LINE = 20  # of the key, in points


@dataclass(frozen=True)
class Layout:
    """In points; columns: panels in a row; height: a panel's; key: columns of names."""

    width: int
    columns: int
    height: int
    key: int


WIDE, NARROW = Layout(880, 2, 420, 3), Layout(328, 1, 330, 1)
FILES = {"pareto.svg": WIDE, "pareto_narrow.svg": NARROW}


def pareto_figure(trade_offs: Sequence[TradeOff], layout: Layout) -> Markup:
    """SVG of at least one trade-off, with the page's colours."""
    points = {name: point for of in trade_offs for name, point in of.points.items()}
    looks = method_looks({name: point.label for name, point in points.items()})
    colours = {name: look.colour for name, look in looks.items()}
    rows, lines = math.ceil(len(trade_offs) / layout.columns), math.ceil((len(points) + 2) / layout.key)
    size = (layout.width / POINTS_PER_INCH, (rows * layout.height + (lines + 1) * LINE) / POINTS_PER_INCH)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, layout.columns, squeeze=False)
        panels = grid.flat
        for axes, trade_off in zip(panels, trade_offs, strict=False):
            _draw(axes, trade_off, colours, {name: i for i, name in enumerate(points, start=1)})
        for axes in panels:
            axes.remove()
        point = next(iter(points.values()))
        spread = "95 % intervals" if point.intervals else f"range of {number_of(len(point.values), 'seed')}"
        key = [_mark("D", INK, "base model"), _mark("+", MUTED, f"{spread}; line: best trade-offs")]
        key += [_mark(f"${i}$", colours[name], _named(of)) for i, (name, of) in enumerate(points.items(), start=1)]
        figure.legend(
            handles=key,
            loc="outside lower left",
            ncols=layout.key,
            frameon=False,
            labelcolor=MUTED.light,
            handletextpad=0.2,
        )
    return Markup(inline_svg(figure, f"pareto-{layout.width}"))


def _draw(axes: Axes, trade_off: TradeOff, colours: Mapping[str, Colour], numbers: Mapping[str, int]) -> None:
    axes.set_title(split_name(trade_off.split), loc="left", fontweight="bold", color=INK.light)
    axes.set_xlabel("Pass@1: right at the first try, %")
    axes.set_ylabel(f"Pass@{trade_off.k}: solved within {trade_off.k} tries, %")
    axes.grid()
    x, y = trade_off.base
    axes.axvline(x, color=MUTED.light, linewidth=1)
    axes.axhline(y, color=MUTED.light, linewidth=1)
    axes.plot([x], [y], color=INK.light, marker="D", markersize=9)
    best = [trade_off.points[name].mean for name in trade_off.frontier]
    axes.plot(*zip(*best, strict=True), color=MUTED.light, alpha=0.25, linewidth=8, solid_capstyle="round")
    for name, point in reversed(trade_off.points.items()):
        (x, y), (xs, ys), colour = point.mean, _ranges(point), colours[name].light
        axes.plot(xs, [y, y], color=colour, alpha=0.4, linewidth=1)
        axes.plot([x, x], ys, color=colour, alpha=0.4, linewidth=1)
        face, ink = (PAGE.light, colour) if point.role else (colour, PAGE.light)
        circle = {"boxstyle": "circle,pad=0.25", "facecolor": face, "edgecolor": ink}
        axes.text(x, y, str(numbers[name]), ha="center", va="center", fontsize=NUMBER, color=ink, bbox=circle, zorder=2)
    axes.margins(0.08)


def _mark(marker: str, colour: Colour, label: str) -> Line2D:
    # A dollar sign in a label does not start a formula.
    label = shorten(label, LONGEST_NAME).replace("$", r"\$")
    size = (NUMBER - 2) * len(marker.strip("$")) ** 0.5
    return Line2D([], [], linestyle="", marker=marker, markersize=size, color=colour.light, label=label)


def pareto_files(trade_offs: Sequence[TradeOff]) -> dict[str, str]:
    """{name of a file: SVG}, for a wide and a narrow screen, which follows the reader's dark scheme; empty without
    trade-offs."""
    style = ENVIRONMENT.get_template("theme.css").render(colours=COLOURS)
    title = "<title>Right answers (Pass@1) against solved questions (Pass@k)</title>"
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img"'
    spaces += ' font-family="system-ui, sans-serif"'
    page = f'{title}<style>{style}</style><rect width="100%" height="100%" style="fill:var(--page)"/>'
    found = {}
    for name, layout in FILES.items() if trade_offs else ():
        head, _, body = str(pareto_figure(trade_offs, layout)).partition(">")
        found[name] = f'{head} width="{layout.width}" {spaces}>{page}{body}\n'
    return found


def write_with_pictures(out: Path, files: Mapping[str, str]) -> None:
    """Write {name: text}, and remove the pictures of an earlier report that had more methods."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        atomic_write.write_text(out / name, text)
    for name in FILES.keys() - files.keys():
        (out / name).unlink(missing_ok=True)


def _named(point: Point) -> str:
    notes = {None: "", CONTROL: " (control)", GOLD: " (learns from gold answers)"}
    return point.label + notes[point.role]


def _ranges(point: Point) -> tuple[list[float], list[float]]:
    """The lowest and highest x, and y, that are drawn of a method."""
    of_both = [of[1:] for of in point.intervals] if point.intervals else zip(*point.values, strict=True)
    x, y = ([min(values), max(values)] for values in of_both)
    return x, y
