"""Matplotlib figures as inline SVG that takes its colours and its font from the page and needs nothing from outside."""

import io
import re
from html import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rl.evaluation.report.theme import COLOURS, GRID, MUTED

# Width of a plot in its own units (points): that of a phone's screen less the page's margins, so that a point is a
# pixel there and no text gets smaller than FONT_SIZE. On a wider screen the page enlarges it a little (page.css).
WIDTH = 328
POINTS_PER_INCH = 72
FONT_SIZE = 11.5
BOLD_CHARACTER_WIDTH = 7.6

_STYLE = {
    "svg.fonttype": "none",
    "font.size": FONT_SIZE,
    "axes.edgecolor": GRID.stand_in,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID.stand_in,
    "grid.linewidth": 0.8,
    "xtick.color": GRID.stand_in,
    "ytick.color": GRID.stand_in,
    "xtick.labelcolor": MUTED.stand_in,
    "ytick.labelcolor": MUTED.stand_in,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "text.color": MUTED.stand_in,
    "axes.labelcolor": MUTED.stand_in,
}


def panel(height: float, left: float, right: float, top: float = 12, bottom: float = 26) -> tuple[Figure, Axes]:
    """A figure of WIDTH x height points with one axes inside the given margins (points)."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH / POINTS_PER_INCH, height / POINTS_PER_INCH))
        box = (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - top - bottom) / height)
        axes = figure.add_axes(box)
    return figure, axes


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an <svg> element for an HTML page.

    Args:
        figure: drawn in the stand-in colours of theme.py.
        name: unique on the page; keeps the ids of two figures apart.
        description: what the figure says, for a reader who does not see it.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    view_box = re.search(r'viewBox="[^"]+"', drawing).group()
    opening = f'<svg class="plot" role="img" aria-label="{escape(description)}" {view_box}>'
    drawing = opening + drawing[drawing.index(">") + 1 :]
    drawing = drawing.replace("xlink:href", "href")
    drawing = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r"(font: [^\"']*?px) [^;\"]*", r"\1 var(--font)", drawing)
    for colour in COLOURS:
        drawing = drawing.replace(colour.stand_in, f"var(--{colour.variable})")
    return re.sub(r"\n\s*", "\n", drawing).strip()


def write(axes: Axes, x: float, y: float, text: str, colour: str, **how) -> None:
    """A text in a plot, vertically centred at y. What stands between two dollar signs is no mathematics."""
    axes.text(x, y, text.replace("$", r"\$"), color=colour, fontsize=FONT_SIZE, va="center", clip_on=False, **how)


def text_width(texts: list[str]) -> float:
    """Points that the longest of the texts takes in bold, whatever the page's font: a margin to leave for it."""
    return BOLD_CHARACTER_WIDTH * max(map(len, texts))


def spread(positions: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions moved as little as order allows until neighbours are `gap` apart, within [low, high] if they fit."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    placed = [0.0] * len(positions)
    floor = low
    for i in order:
        placed[i] = floor = max(positions[i], floor)
        floor += gap
    ceiling = high
    for i in reversed(order):
        placed[i] = ceiling = min(placed[i], ceiling)
        ceiling -= gap
    return placed
