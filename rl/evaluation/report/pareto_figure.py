"""The picture of a trade-off: Pass@1 against Pass@k, a panel per split, with the base as a cross-hair.

A mark holds its method's number, and the key below has the names.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from rl.common import atomic_write
from rl.evaluation.analysis.trade_off import Point, TradeOff
from rl.evaluation.report.environment import ENVIRONMENT
from rl.evaluation.report.theme import COLOURS, INK, METHOD_COLOURS, Colour, Look
from rl.evaluation.spec import BASE, CONTROL, GOLD, LABELS, split_name

REHEARSES, SEES_GOLD, OTHER = METHOD_COLOURS["dph_js"], METHOD_COLOURS["rkl"], METHOD_COLOURS[BASE]
RADIUS = 9  # of a mark
MOST_TICKS = 6
GAP, LINE = 14, 22  # between panels, and of a line of the key
LETTER = 0.6  # the width of a letter of a wide font, in font sizes


@dataclass(frozen=True)
class Layout:
    """In pixels; columns: panels in a row; height: a plot's."""

    width: int
    columns: int
    height: int
    font: int

    @property
    def panel_width(self) -> float:
        return self.width / self.columns

    @property
    def top(self) -> float:
        return 3.2 * self.font

    @property
    def left(self) -> float:
        return 2.4 * self.font

    @property
    def panel_height(self) -> float:
        return self.top + self.height + 3.2 * self.font + GAP


WIDE, NARROW = Layout(880, 2, 380, 13), Layout(328, 1, 300, 12)
FILES = {"pareto.svg": WIDE, "pareto_narrow.svg": NARROW}


@dataclass(frozen=True)
class Mark:
    """A method, in pixels; spread: the range over seeds, or the intervals."""

    x: float
    y: float
    number: int
    colour: Colour
    words: str
    open: bool
    spread: str


class Panel:
    """
    Args:
        x, y: the upper left corner.
        numbers: {method: number}, the same in all panels.
        colours: {method: colour}.
    """

    def __init__(
        self,
        x: float,
        y: float,
        trade_off: TradeOff,
        layout: Layout,
        numbers: Mapping[str, int],
        colours: Mapping[str, Colour],
    ):
        self.x, self.y, self.trade_off, self.title = x, y, trade_off, split_name(trade_off.split)
        self.left, self.top = layout.left, layout.top
        self.right, self.bottom = layout.panel_width - GAP, layout.top + layout.height
        ranges = {name: _ranges(point) for name, point in trade_off.points.items()}
        self.spans = [
            _padded([trade_off.base[axis], *(value for of in ranges.values() for value in of[axis])]) for axis in (0, 1)
        ]
        self.marks = []
        for name, point in trade_off.points.items():
            (x, y), (xs, ys) = self.at(point.mean), ranges[name]
            (x0, y0), (x1, y1) = self.at((xs[0], ys[0])), self.at((xs[-1], ys[-1]))
            words = _words(point.label, point.mean, trade_off.k)
            spread = f"M{x0} {y}H{x1}M{x} {y0}V{y1}"
            self.marks.append(Mark(x, y, numbers[name], colours[name], words, point.role is not None, spread))
        x, y = self.at(trade_off.base)
        self.base = f"M{x} {y - RADIUS}l{RADIUS} {RADIUS}l{-RADIUS} {RADIUS}l{-RADIUS} {-RADIUS}z"
        self.base_words = _words(LABELS[BASE], trade_off.base, trade_off.k)
        self.cross = f"M{x} {self.top}V{self.bottom}M{self.left} {y}H{self.right}"
        self.quadrant = f"M{x} {self.top}H{self.right}V{y}H{x}Z"
        corners = [self.at(trade_off.points[name].mean) for name in trade_off.frontier]
        self.frontier = "M" + "L".join(f"{x} {y}" for x, y in corners) if corners else ""
        self.x_ticks = [(self.at((tick, 0))[0], f"{tick:g}") for tick in _ticks(*self.spans[0])]
        self.y_ticks = [(self.at((0, tick))[1], f"{tick:g}") for tick in _ticks(*self.spans[1])]

    def at(self, pair: tuple[float, float]) -> tuple[float, float]:
        """The place of a Pass@1 and a Pass@k, in pixels."""
        across, up = ((value - low) / (high - low) for value, (low, high) in zip(pair, self.spans, strict=True))
        x, y = self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)
        return round(x, 1), round(y, 1)


def pareto_figure(
    trade_offs: Sequence[TradeOff], layout: Layout, file: bool = True, looks: Mapping[str, Look] | None = None
) -> Markup:
    """SVG of the trade-offs.

    Args:
        trade_offs: at least one.
        file: a separate picture, which follows the reader's dark scheme; else an element with the page's colours.
        looks: {method: its look in the report}; without looks a colour says what a method learns from.
    """
    points = {name: point for of in trade_offs for name, point in of.points.items()}
    numbers = {name: number for number, name in enumerate(points, start=1)}
    colours = {name: looks[name].colour if looks else _colour(point) for name, point in points.items()}
    panels = []
    for i, trade_off in enumerate(trade_offs):
        row, column = divmod(i, layout.columns)
        x, y = column * layout.panel_width, row * layout.panel_height
        panels.append(Panel(x, y, trade_off, layout, numbers, colours))
    seeds = max(len(point.values) for point in points.values())
    spread = f"range of {seeds} seeds" if seeds > 1 else "95 % intervals"
    key = [("◆", INK, "base model"), ("━", INK, "best trade-offs"), ("┼", INK, spread)]
    columns = max(1, round(layout.width / 290))
    most = int((layout.width / columns - layout.left) / (LETTER * layout.font)) - 3
    key += [(str(numbers[name]), colours[name], shorten(_named(point), most)) for name, point in points.items()]
    placed = [
        (
            layout.left + i % columns * layout.width / columns,
            panels[-1].y + layout.panel_height + i // columns * LINE,
            *e,
        )
        for i, e in enumerate(key)
    ]
    return Markup(
        ENVIRONMENT.get_template("pareto.svg").render(
            layout=layout,
            radius=RADIUS,
            height=round(placed[-1][1] + LINE),
            file=file,
            margin=GAP if file else 0,
            colours=COLOURS,
            panels=panels,
            key=placed,
            description=" ".join(of.sentence for of in trade_offs),
        )
    )


def pareto_files(trade_offs: Sequence[TradeOff], looks: Mapping[str, Look] | None = None) -> dict[str, str]:
    """{name of a file: SVG}, for a wide and a narrow screen; empty without trade-offs."""
    drawn = FILES if trade_offs else {}
    return {name: pareto_figure(trade_offs, layout, looks=looks) for name, layout in drawn.items()}


def write_with_pictures(out: Path, files: Mapping[str, str]) -> None:
    """Write {name: text}, and remove the pictures of an earlier report that had more methods."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        atomic_write.write_text(out / name, text)
    for name in FILES.keys() - files.keys():
        (out / name).unlink(missing_ok=True)


def _colour(point: Point) -> Colour:
    return SEES_GOLD if point.role == GOLD else REHEARSES if point.rehearses or point.role == CONTROL else OTHER


def _named(point: Point) -> str:
    return point.label + {CONTROL: " (control)", GOLD: " (learns from gold answers)"}.get(point.role or "", "")


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _ranges(point: Point) -> tuple[list[float], list[float]]:
    """The lowest and highest x, and y, that are drawn of a method."""
    of_both = [of[1:] for of in point.intervals] if point.intervals else zip(*point.values, strict=True)
    x, y = ([min(values), max(values)] for values in of_both)
    return x, y


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = max(0.06 * (high - low), 1)
    return low - pad, high + pad


def _ticks(low: float, high: float) -> list[float]:
    step = next(step for step in (1, 2, 5, 10, 20, 50) if (high - low) / step < MOST_TICKS)
    return [tick for tick in range(math.ceil(low / step) * step, math.floor(high) + 1, step) if 0 <= tick <= 100]


def _words(label: str, pair: tuple[float, float], k: int) -> str:
    return f"{label}: Pass@1 {pair[0]:.1f}, Pass@{k} {pair[1]:.1f}"
