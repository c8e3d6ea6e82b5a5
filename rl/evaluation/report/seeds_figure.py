"""The figure of a comparison over seeds: a panel per method with Pass@k, as wide as a phone, light and dark."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from rl.evaluation.report.canvas import FONT_SIZE, POINTS_PER_INCH, WIDTH
from rl.evaluation.report.theme import GRID, INK, METHOD_COLOURS, MUTED, PAGE
from rl.evaluation.spec import BASE
from rl.evaluation.tables import of_groups

# Colours of the first and the second group of questions.
COLOURS = (METHOD_COLOURS["grpo"], METHOD_COLOURS["dph_js"])
PANELS_PER_ROW = 2
PANEL_HEIGHT = 150
LEGEND_HEIGHT = 60
Look = dict[str, Any]  # of matplotlib's lines
SEED: Look = {"linewidth": 0.8, "alpha": 0.6}
MEAN: Look = {"linewidth": 2.2}
OF_BASE: Look = {"linewidth": 1.2, "linestyle": (0, (4, 3))}


def seeds_figure(reports: Sequence[dict], labels: dict[str, str], entropies: dict[str, float]) -> str:
    """SVG of Pass@k against k in the first split: a thin line per seed, their mean, and the base. If the split has two
    groups of questions, each has its own lines.

    Args:
        reports: the content of each seed's report.json.
        labels: {method: name to show}.
        entropies: {method: style entropy}, for the titles; empty for a task without styles.
    """
    rows = -(-len(labels) // PANELS_PER_ROW)
    size = WIDTH / POINTS_PER_INCH, (rows * PANEL_HEIGHT + LEGEND_HEIGHT) / POINTS_PER_INCH
    settings = {"font.size": FONT_SIZE, "text.color": INK.light, "svg.fonttype": "none", "svg.hashsalt": "study"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained", facecolor=PAGE.light)
        all_axes = figure.subplots(rows, PANELS_PER_ROW, sharex=True, sharey=True, squeeze=False).flat
        base = _curves(reports[0][BASE])
        for axes, name in zip(all_axes, labels, strict=False):
            of_seeds = [_curves(report[name]) for report in reports]
            for colour, kind in zip(COLOURS, base, strict=False):
                k = list(base[kind])
                values = np.array([list(curves[kind].values()) for curves in of_seeds])
                axes.plot(k, values.T, color=colour.light, **SEED)
                axes.plot(k, values.mean(axis=0), color=colour.light, **MEAN)
                axes.plot(k, list(base[kind].values()), color=colour.light, **OF_BASE)
            _style(axes, f"{labels[name]}\n", f"style entropy {entropies[name]:.2f}" if entropies else "", k)
        for axes in all_axes:  # without a method
            axes.set_visible(False)
        named: dict[str, Look] = {
            kind: {"color": colour.light} | MEAN for colour, kind in zip(COLOURS, base, strict=False)
        }
        named |= {"one seed": {"color": MUTED.light} | SEED, "base model": {"color": MUTED.light} | OF_BASE}
        keys = [Line2D([], [], label=name, **look) for name, look in named.items()]
        figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
        split = next(iter(reports[0][BASE])).replace("_", " ")
        figure.supylabel(f"Pass@k {split}, by k", fontsize=FONT_SIZE, color=MUTED.light)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _with_dark_colours(buffer.getvalue())


def _curves(of_splits: dict) -> dict[str, dict[int, float]]:
    """{kind of question: {k: Pass@k}} of a method in the first split: two groups of questions, else all questions."""
    whole = next(iter(of_splits.values()))
    groups = of_groups({"": whole})
    kinds = {f"{words} questions": found[""] for words, found in groups.items()}
    kinds = kinds if len(kinds) == len(COLOURS) else {"all questions": whole}
    return {kind: {int(k): found[0] for k, found in of["pass@k"].items()} for kind, of in kinds.items()}


def _style(axes: Axes, title: str, subtitle: str, k: list[int]) -> None:
    axes.set_title(title, fontsize=FONT_SIZE, loc="left", color=INK.light)
    axes.text(0, 1.05, subtitle, transform=axes.transAxes, color=MUTED.light)
    axes.set_xscale("log", base=2)
    shown = [k[0], k[len(k) // 2], k[-1]]
    axes.set_xticks(shown, map(str, shown))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="y", color=GRID.light, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=MUTED.light)


def _with_dark_colours(svg: str) -> str:
    """Add a rule per colour for dark pages, because matplotlib writes colours into each element's style."""
    rules = "".join(
        f'[style*="{part}: {colour.light}"] {{ {part}: {colour.dark} !important }}\n'
        for colour in (INK, MUTED, GRID, PAGE, *COLOURS)
        for part in ("fill", "stroke")
    )
    head, defs, rest = svg.partition("<defs>")
    return f"{head}<style>@media (prefers-color-scheme: dark) {{\n{rules}}}</style>\n{defs}{rest}"
