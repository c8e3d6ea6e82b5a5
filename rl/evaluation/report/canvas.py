"""Empty plots, and finished plots as SVG that loads nothing from outside and follows a light or dark page."""

import io
import re

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rl.evaluation.report.theme import COLOURS, GRID, MUTED

# Width of a plot in points: a phone's screen without the page's margins. A point is therefore at least a pixel, and no
# text becomes smaller than FONT_SIZE. On a wider screen the page enlarges plots a little (page.css).
WIDTH = 328
POINTS_PER_INCH = 72
FONT_SIZE = 11.5
STYLE = {
    "font.size": FONT_SIZE,
    "axes.edgecolor": GRID.light,
    "axes.spines.left": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.labelcolor": MUTED.light,
    "grid.color": GRID.light,
    "xtick.labelcolor": MUTED.light,
    "ytick.labelcolor": MUTED.light,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
}
_VARIABLES = {colour.light: colour.css for colour in COLOURS}


def canvas(height: float, *, left: float, right: float, top: float = 10, bottom: float = 26) -> tuple[Figure, Axes]:
    """A figure of WIDTH x height points with one axes inside these margins, in the colours of a light page."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH / POINTS_PER_INCH, height / POINTS_PER_INCH))
        box = (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - top - bottom) / height)
        return figure, figure.add_axes(box)


def shorten(text: str, most: int) -> str:
    """At most so many characters; the tables have the whole name."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def inline_svg(figure: Figure, name: str) -> str:
    """The figure as an <svg> element; name: unique on the page, so that ids of two figures differ.

    Colours of the theme become its CSS variables, which change with the reader's scheme.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    width, height = figure.get_size_inches() * POINTS_PER_INCH
    drawing = buffer.getvalue()
    body = drawing[drawing.index(">", drawing.index("<svg")) + 1 :]
    # Elements that others refer to have a hash as id. The ids of groups (axes_1) would occur twice on the page.
    body = re.sub(r' id="[A-Za-z]+[\w.]*_\d+"', "", body)
    # The page's font.
    body = re.sub(r"font-family: [^;\"]+; ", "", body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda found: _VARIABLES.get(found[0], found[0]), body)
    return f'<svg viewBox="0 0 {width:g} {height:g}">{body}'.strip()
