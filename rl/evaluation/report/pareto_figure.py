"""The picture of a trade-off: Pass@1 against Pass@k, a panel per split, with the base as a cross-hair."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

import numpy as np
from markupsafe import Markup

from rl.common import atomic_write
from rl.evaluation.analysis.trade_off import Point, TradeOff
from rl.evaluation.report.environment import ENVIRONMENT
from rl.evaluation.report.labels import LETTER, Box, Label, Mark, place, text_width
from rl.evaluation.report.theme import COLOURS, INK, METHOD_COLOURS, MUTED, Colour, Look
from rl.evaluation.spec import BASE, CONTROL, GOLD, LABELS, split_name

REHEARSES, SEES_GOLD, OTHER = METHOD_COLOURS["dph_js"], METHOD_COLOURS["rkl"], METHOD_COLOURS[BASE]
BETTER = MUTED
LARGE, SMALL = 6.5, 4.5  # radii of marks
MOST_TICKS = 6
# With this many methods or more, seeds have no area around them, and a method is named instead of drawn if an axis
# needs at most the share FAR without it.
MANY_METHODS, FAR = 8, 0.65
GAP = 14  # between a panel's parts and between entries of the key


@dataclass(frozen=True)
class Layout:
    """In pixels.

    Attributes:
        columns: number of panels in a row.
        height: a plot's.
        names: with at most this many methods, each has its name if it fits. With more, only those on the frontier, in
            the headline or trained on gold answers have names; the others have numbers.
    """

    width: int
    columns: int
    height: int
    font: int
    names: int

    @property
    def frame(self) -> Box:
        """The plot within its panel; title and axes are around it."""
        top, width = 3.2 * self.font, self.width / self.columns
        return Box(2.4 * self.font, top, width - (GAP if self.columns > 1 else 6), top + self.height)

    @property
    def panel_height(self) -> float:
        return self.frame.bottom + 3.2 * self.font + GAP


WIDE, NARROW = Layout(880, 2, 380, 13, 100), Layout(328, 1, 300, 12, 6)
FILES = {"pareto.svg": WIDE, "pareto_narrow.svg": NARROW}


@dataclass(frozen=True)
class DrawnMark:
    """A method or the base, in pixels."""

    words: str
    colour: Colour
    shape: str
    seeds: str
    dots: list[tuple[float, float]]
    open: bool
    bold: bool


class Panel:
    """
    Args:
        x, y: the upper left corner.
        numbers: {method: number}, the same in all panels.
        leading: the methods that the report's headline is about.
        looks: {method: its look in the report}; without looks a colour says what a method learns from.
    """

    def __init__(
        self,
        x: float,
        y: float,
        trade_off: TradeOff,
        layout: Layout,
        numbers: Mapping[str, int],
        leading: Sequence[str],
        looks: Mapping[str, Look] | None = None,
    ):
        self.x, self.y, self.trade_off, self.leading, self.looks = x, y, trade_off, leading, looks
        self.frame, self.font = layout.frame, layout.font
        far = {name: trade_off.points[name] for name in _far(trade_off, leading)}
        shown = {name: point for name, point in trade_off.points.items() if name not in far}
        pairs = [trade_off.base, *(pair for point in shown.values() for pair in _extent(point))]
        self.x_range, self.y_range = (_padded([pair[axis] for pair in pairs]) for axis in (0, 1))
        self.title = split_name(trade_off.split)
        self.far = [f"{point.label} at {point.mean[0]:.0f} and {point.mean[1]:.0f} %" for point in far.values()]
        frontier = [name for name in trade_off.frontier if name in shown]
        gold = [name for name, point in shown.items() if point.role == GOLD]
        named = list(dict.fromkeys(name for name in (*leading, *gold, *frontier) if name in shown))
        order = named + [name for name in shown if name not in named]
        self.marks = [self._base(), *(self._mark(name, shown[name]) for name in order)]
        self.frontier = _path([self.at(shown[name].mean) for name in frontier])
        x, y = self.at(trade_off.base)
        left, top, right, bottom = self.frame
        self.cross = f"M{x} {top}V{bottom}M{left} {y}H{right}"
        self.quadrant = f"M{x} {top}H{right}V{y}H{x}Z"
        self.x_ticks = [(self.at((tick, 0))[0], f"{tick:g}") for tick in _ticks(*self.x_range)]
        self.y_ticks = [(self.at((0, tick))[1], f"{tick:g}") for tick in _ticks(*self.y_range)]
        self.labels = self._labels(shown, order, order if len(trade_off.points) <= layout.names else named, numbers)
        texts = [label.text for _, label in self.labels[1:]]
        self.numbered = [name for name, text in zip(order, texts, strict=True) if text == str(numbers[name])]

    def _labels(
        self, shown: Mapping[str, Point], order: Sequence[str], named: Sequence[str], numbers: Mapping[str, int]
    ) -> list[tuple[DrawnMark, Label]]:
        """Labels of the base and of the methods in this order; a name that does not fit becomes a number."""
        to_label = [Mark(*self.at(self.trade_off.base), LARGE, [LABELS[BASE]], bold=True)]
        for name in order:
            texts = [*([shown[name].label] if name in named else []), str(numbers[name])]
            to_label.append(Mark(*self.at(shown[name].mean), self._radius(name), texts, bold=name in self.leading))
        dots = [Box(x - 2, y - 2, x + 2, y + 2) for mark in self.marks for x, y in mark.dots]
        return list(zip(self.marks, place(to_label, self.frame, self.font, dots), strict=True))

    def at(self, pair: tuple[float, float]) -> tuple[float, float]:
        """The place of a Pass@1 and a Pass@k, in pixels."""
        (x, y), (left, top, right, bottom) = pair, self.frame
        across = (x - self.x_range[0]) / (self.x_range[1] - self.x_range[0])
        up = (y - self.y_range[0]) / (self.y_range[1] - self.y_range[0])
        return round(left + across * (right - left), 1), round(bottom - up * (bottom - top), 1)

    def _radius(self, name: str) -> float:
        return LARGE if name in self.leading else SMALL

    def _base(self) -> DrawnMark:
        (x, y), r = self.at(self.trade_off.base), LARGE
        shape = f"M{x} {y - r}l{r} {r}l{-r} {r}l{-r} {-r}z"
        colour = self.looks[BASE].colour if self.looks else INK
        return DrawnMark(
            _words(LABELS[BASE], self.trade_off.base, self.trade_off.k), colour, shape, "", [], False, True
        )

    def _mark(self, name: str, point: Point) -> DrawnMark:
        (x, y), r = self.at(point.mean), self._radius(name)
        shape = f"M{x - r} {y}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
        dots = [self.at(pair) for pair in point.values] if len(point.values) > 1 else []
        if point.intervals:
            low, high = (self.at((point.intervals[0][i], point.intervals[1][i])) for i in (1, 2))
            area = f"M{low[0]} {y}H{high[0]}M{x} {low[1]}V{high[1]}"
        else:
            around = sorted(dots, key=lambda dot: math.atan2(dot[1] - y, dot[0] - x))
            few = len(self.trade_off.points) < MANY_METHODS  # the areas of many lie over each other
            area = _path(around) + "z" if around and few else ""
        words = _words(point.label, point.mean, self.trade_off.k)
        colour = self.looks[name].colour if self.looks else _colour(point)
        return DrawnMark(words, colour, shape, area, dots, point.role is not None, name in self.leading)


def _colour(point: Point) -> Colour:
    return SEES_GOLD if point.role == GOLD else REHEARSES if point.rehearses or point.role == CONTROL else OTHER


def pareto_figure(
    trade_offs: Sequence[TradeOff],
    leading: Sequence[str],
    layout: Layout,
    file: bool = True,
    looks: Mapping[str, Look] | None = None,
) -> Markup:
    """SVG of the trade-offs.

    Args:
        trade_offs: at least one.
        leading: the methods that the report's headline is about.
        file: a separate picture, which follows the reader's dark scheme; else an element with the page's colours.
        looks: see Panel.
    """
    names = list(dict.fromkeys(name for of in trade_offs for name in of.points))
    numbers = {name: number for number, name in enumerate(names, start=1)}
    layout = replace(layout, columns=min(layout.columns, len(trade_offs)))
    panels = []
    for i, trade_off in enumerate(trade_offs):
        row, column = divmod(i, layout.columns)
        x, y = column * layout.width / layout.columns, row * layout.panel_height
        panels.append(Panel(x, y, trade_off, layout, numbers, leading, looks))
    key, height = _flow(_key(panels, numbers, looks), layout, panels[-1].y + layout.panel_height)
    return Markup(
        ENVIRONMENT.get_template("pareto.svg").render(
            layout=layout,
            height=round(height + GAP),
            file=file,
            margin=GAP if file else 0,
            colours=COLOURS,
            panels=panels,
            better=BETTER,
            key=key,
            description=" ".join(of.sentence for of in trade_offs),
        )
    )


def pareto_files(
    trade_offs: Sequence[TradeOff], leading: Sequence[str], looks: Mapping[str, Look] | None = None
) -> dict[str, str]:
    """{name of a file: SVG}, for a wide and a narrow screen; empty without trade-offs."""
    drawn = FILES if trade_offs else {}
    return {name: pareto_figure(trade_offs, leading, layout, looks=looks) for name, layout in drawn.items()}


def write_with_pictures(out: Path, files: Mapping[str, str]) -> None:
    """Write {name: text}, and remove the pictures of an earlier report that had more methods."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        atomic_write.write_text(out / name, text)
    for name in FILES.keys() - files.keys():
        (out / name).unlink(missing_ok=True)


def _key(
    panels: Sequence[Panel], numbers: Mapping[str, int], looks: Mapping[str, Look] | None
) -> list[tuple[str, Colour, str]]:
    """(glyph, its colour, meaning) of what occurs, and the names of numbered methods."""
    points = {name: point for panel in panels for name, point in panel.trade_off.points.items()}
    seeds = max(len(point.values) for point in points.values())
    measured = f"mean of {seeds} seeds, small dots" if seeds > 1 else "95 % intervals over questions"
    controls = any(point.role == CONTROL for point in points.values())
    rehearse = any(point.rehearses for point in points.values())
    gold = any(point.role == GOLD for point in points.values())
    if looks:
        of_open = " or ".join(filter(None, ("control" if controls else "", "learns from gold answers" if gold else "")))
        entries = [
            ("◆", looks[BASE].colour, "base model"),
            ("●", INK, f"method ({measured})"),
            ("○", INK, of_open),
        ]
    else:
        entries = [
            ("◆", INK, "base model"),
            ("●", OTHER, f"method ({measured})"),
            ("●", REHEARSES, "with a divergence" if rehearse else ""),
            ("○", REHEARSES, "its control" if controls else ""),
            ("○", SEES_GOLD, "learns from gold answers" if gold else ""),
        ]
    entries += [
        ("━", MUTED, "best trade-offs"),
        ("■", BETTER, "better than the base in both"),
    ]
    numbered = {name for panel in panels for name in panel.numbered}
    entries += [(str(number), INK, points[name].label) for name, number in numbers.items() if name in numbered]
    entries += [("", INK, f"{panel.title}, not drawn: {text}") for panel in panels for text in panel.far]
    return [entry for entry in entries if entry[2]]


def _flow(
    entries: Sequence[tuple[str, Colour, str]], layout: Layout, y: float
) -> tuple[list[tuple[float, float, str, Colour, str]], float]:
    """The entries in lines from y on, each with its place, and the last line's y."""
    placed, x, y = [], layout.frame.left, y + layout.font
    most = int((layout.width - x) / (LETTER * layout.font)) - 2
    lines = [(glyph, colour, line) for glyph, colour, text in entries for line in wrap(text, most)]
    for glyph, colour, text in lines:
        width = text_width(f"{glyph} {text}", layout.font)
        if x > layout.frame.left and x + width > layout.width:
            x, y = layout.frame.left, y + 1.5 * layout.font
        placed.append((round(x, 1), round(y, 1), glyph, colour, text))
        x += width + GAP
    return placed, y


def _extent(point: Point) -> list[tuple[float, float]]:
    """The corners of what is drawn of a method."""
    if point.intervals is None:
        return point.values
    (_, *xs), (_, *ys) = point.intervals
    return [*zip(xs, ys, strict=True)]


def _far(trade_off: TradeOff, leading: Sequence[str]) -> list[str]:
    """Methods, except leading ones, without which an axis needs at most FAR of its range."""
    if len(trade_off.points) < MANY_METHODS:
        return []
    means = {name: point.mean for name, point in trade_off.points.items()}
    span = np.ptp([trade_off.base, *means.values()], axis=0)
    found = []
    for name in means.keys() - set(leading):
        others = np.ptp([trade_off.base, *(mean for other, mean in means.items() if other != name)], axis=0)
        found += [name] if np.any(others < FAR * span) else []
    return sorted(found)


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = max(0.06 * (high - low), 1)
    return low - pad, high + pad


def _ticks(low: float, high: float) -> list[float]:
    step = next(step for step in (1, 2, 5, 10, 20, 50) if (high - low) / step < MOST_TICKS)
    return [tick for tick in range(math.ceil(low / step) * step, math.floor(high) + 1, step) if 0 <= tick <= 100]


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in places) if places else ""


def _words(label: str, pair: tuple[float, float], k: int) -> str:
    return f"{label}: Pass@1 {pair[0]:.1f}, Pass@{k} {pair[1]:.1f}"
