"""preview.png: the headline and the answer grid, which a link to the published report shows (og:image)."""

import io
from textwrap import wrap

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.report.answer_grid import AnswerGrid, shown_methods
from rl.evaluation.report.theme import COLOURS, INK, LIGHT, MUTED, PAGE, method_looks

FILE = "preview.png"
# The size that services show without cropping, in pixels.
WIDTH, HEIGHT = 1200, 630
MARGIN, GAP = 40, 28
TITLE, NAME, SMALL = 32, 25, 18  # font sizes, in pixels
LINE, LETTER = 1.25, 0.61  # the height of a line and the mean width of a letter, in font sizes
BOLD_LETTER = 0.7
MOST_LINES = 4  # of the title


def preview_image(comparison: Comparison, title: str) -> bytes:
    """PNG, WIDTH x HEIGHT, in the colours of a light page: the title, and the grid of the first split.

    Args:
        title: the page's; at most MOST_LINES lines of it are drawn.
    """
    spec = comparison.spec
    grid, looks = AnswerGrid.of_split(comparison, spec.splits[0]), method_looks(spec.short_names)
    hex_of = {colour.css: colour.on(LIGHT) for colour in COLOURS}
    palette = np.array([to_rgb(hex_of.get(fill, fill)) for fill in grid.fills.values()])
    methods = shown_methods(comparison)
    panels = [grid.panel(comparison, name, looks[name]) for name in methods]
    whole = WIDTH - 2 * MARGIN
    width = (whole - (len(methods) - 1) * GAP) / len(methods)
    lines = wrap(title, int(whole / (BOLD_LETTER * TITLE)), max_lines=MOST_LINES, placeholder=" …")
    figures = [wrap(panel.figures, int(width / (LETTER * SMALL))) for panel in panels]
    caption = wrap(grid.caption, int(whole / (LETTER * SMALL)))
    names = MARGIN + LINE * TITLE * len(lines) + SMALL / 2
    top = names + LINE * (NAME + SMALL * max(map(len, figures))) + SMALL / 2
    bottom = HEIGHT - MARGIN / 2 - LINE * SMALL * len(caption)
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=PAGE.on(LIGHT))

        def write(x: float, y: float, texts: list[str], size: float, colour: str, weight: str = "normal") -> None:
            """Lines of text; x and y of their upper left corner in pixels from the upper left of the picture."""
            for i, text in enumerate(texts):
                how = {"color": colour, "fontweight": weight, "fontsize": 0.72 * size, "va": "top"}
                figure.text(x / WIDTH, 1 - (y + i * LINE * size) / HEIGHT, text, **how)

        write(MARGIN, MARGIN, lines, TITLE, INK.on(LIGHT), "bold")
        for i, (name, panel) in enumerate(zip(methods, panels, strict=True)):
            x = MARGIN + i * (width + GAP)
            label = wrap(panel.look.label, int(width / (BOLD_LETTER * NAME)), max_lines=1, placeholder="…")
            write(x, names, label, NAME, panel.look.colour.on(LIGHT), "bold")
            write(x, names + LINE * NAME, figures[i], SMALL, MUTED.on(LIGHT))
            box = (x / WIDTH, 1 - (bottom - SMALL / 2) / HEIGHT, width / WIDTH, (bottom - SMALL / 2 - top) / HEIGHT)
            axes = figure.add_axes(box)
            axes.imshow(palette[grid.cells(name)], aspect="auto", interpolation="nearest")
            axes.set_axis_off()
        write(MARGIN, bottom, caption, SMALL, MUTED.on(LIGHT))
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
