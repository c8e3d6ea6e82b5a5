"""The answer grid: a panel per model, a row per question, a cell per sample.

A correct sample has the colour of its style, or is green in a task without styles; a wrong one is grey. Rows have the
same order in all panels: group by group, and within a group the questions that the base answers most often come first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

import numpy as np
from markupsafe import Markup

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.report.theme import (
    COLOURS,
    CORRECT_FILL,
    ENVIRONMENT,
    WRONG,
    Look,
    method_looks,
    style_fills,
)
from rl.evaluation.spec import BASE, BASE_AGAIN, GOLD
from rl.metrics.bootstrap import SEED

KINDS = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_SHOWN = 3  # trained methods that are shown at once
# From a larger split, this many questions are drawn with a fixed seed.
MOST_QUESTIONS = 120
# Of a picture without the page; its key has the colours.
CAPTION = "A row is a question, a cell is one of a model’s answers. Wrong answers are grey."
# In pixels: the height of all rows together, and the limits of one.
HEIGHT, LEAST_ROW, MOST_ROW = 460, 3.6, 16
# The pictures: {name of a file: its width in pixels and the panels beside each other}.
PICTURES = {"answers.svg": (1000, 4), "answers_narrow.svg": (360, 2)}
MARGIN, GAP, LINE = 16, 24, 22
HEAD, BLOCK_HEAD = 64, 26  # above all blocks of a panel, and above each
KEY_GLYPH, KEY_LETTER = 44, 8.5  # of an entry of the key: colour and gaps, and a letter of its name
CAPTION_LETTER = 8


@dataclass(frozen=True)
class Block:
    """The rows of one group of questions."""

    name: str  # "" if the questions are not grouped
    start: int  # of its first row among all rows
    rows: int
    drawing: Markup
    height: int  # pixels


@dataclass(frozen=True)
class Panel:
    look: Look
    figures: str  # under the name
    blocks: list[Block]
    description: str


@dataclass(frozen=True)
class AnswerGrid:
    """The grid of one split."""

    split: str
    fills: dict[str, str]  # {kind of a sample: CSS colour}
    order: np.ndarray  # [R] int, the questions of the rows, as positions in the samples' ids
    of: int  # questions of the split
    kinds: dict[str, np.ndarray]  # {method: [P, n] int, positions in `fills`}
    blocks: list[tuple[str, int]]  # name and number of rows

    @classmethod
    def of_split(cls, comparison: Comparison, split: str) -> "AnswerGrid":
        base = comparison.samples[BASE][split]
        names = [name for name in comparison.spec.methods if name != BASE_AGAIN]
        right = style_fills(base.style_names) if base.style_names else {"correct": CORRECT_FILL}
        fills = right | {"wrong": WRONG.css}
        drawn = {name: comparison.samples[name][split] for name in names}
        kinds = {
            name: np.where(of.correct, of.style if base.style_names else 0, len(right)) for name, of in drawn.items()
        }
        shown = np.arange(base.prompts)
        if base.prompts > MOST_QUESTIONS:
            shown = np.sort(np.random.default_rng(SEED).choice(base.prompts, MOST_QUESTIONS, replace=False))
        grouped = comparison.questions[split].few_valued() if split in comparison.questions else {}
        groups = next(iter(grouped.values()), {"": np.ones(base.prompts, dtype=bool)})
        # The largest numbers come first; ties go by what the trained methods answer, then by id.
        solved = [-of.correct.sum(axis=1)[shown] for of in drawn.values()]
        group = np.argmax([members[shown] for members in groups.values()], axis=0)
        order = shown[np.lexsort((sum(solved), solved[0], group))]
        blocks = [(name, rows) for name, members in groups.items() if (rows := int(members[shown].sum()))]
        return cls(split, fills, order, base.prompts, kinds, blocks)

    def cells(self, method: str) -> np.ndarray:
        """[R, n] int, positions in `fills`: the rows as they are drawn, correct answers first."""
        return np.sort(self.kinds[method][self.order], axis=1)

    def panel(self, comparison: Comparison, method: str, look: Look) -> Panel:
        summary, n = comparison.summaries[method][self.split], comparison.samples[method][self.split].n
        k = comparison.spec.solved_in
        figures = f"Pass@1 {100 * summary['mean@k'][str(n)][0]:.0f} · Pass@{k} {100 * summary['pass@k'][str(k)][0]:.0f}"
        if summary["styles"]:
            figures += f" · {summary['styles'][0]:.1f} styles"
        blocks = _blocks(self.cells(method), self.blocks, [*self.fills.values()])
        return Panel(look, figures, blocks, f"{look.label}, {len(self.order)} questions × {n} samples: {figures}")


def _blocks(cells: np.ndarray, groups: Iterable[tuple[str, int]], fills: Sequence[str]) -> list[Block]:
    """
    Args:
        cells: [R, n] int, positions in `fills`.
        groups: name and number of rows.
    """
    blocks, start, height = [], 0, min(max(HEIGHT / len(cells), LEAST_ROW), MOST_ROW)
    for name, rows in groups:
        drawing = _drawing(cells[start : start + rows], fills)
        blocks.append(Block(name, start, rows, drawing, round(rows * height)))
        start += rows
    return blocks


def _drawing(cells: np.ndarray, fills: Sequence[str]) -> Markup:
    """One path per colour; runs of equal cells are one rectangle, and thin lines cut them into cells."""
    rows, n = cells.shape
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(cells):
        x = 0
        for kind, run in groupby(row.tolist()):
            width = len(list(run))
            paths.setdefault(kind, []).append(f"M{x} {y}h{width}v.9h-{width}z")
            x += width
    drawn = "".join(f'<path fill="{fills[kind]}" d="{"".join(of)}"/>' for kind, of in sorted(paths.items()))
    lines = "".join(f"M{x} 0V{rows}" for x in range(1, n))
    return Markup(
        f'<svg viewBox="0 0 {n} {rows}" preserveAspectRatio="none">{drawn}<path class="cuts" d="{lines}"/></svg>'
    )


def shown_methods(comparison: Comparison) -> list[str]:
    """The base and MOST_SHOWN trained methods: the first, and the best others by Pass@solved_in on the first split.

    A method that learns from gold answers is not among the best.
    """
    spec, (first, *others) = comparison.spec, [*comparison.spec.trained, ""]
    candidates = [name for name in others if name and spec.methods[name].role != GOLD]
    solved = {name: comparison.metrics[name][spec.splits[0]][f"pass@{spec.solved_in}"].mean() for name in candidates}
    best = sorted(candidates, key=lambda name: -solved[name])[: MOST_SHOWN - 1]
    return [BASE, *(name for name in spec.trained if name == first or name in best)]


def answers_content(comparison: Comparison) -> dict[str, Any]:
    """What the pictures show: the methods of `shown_methods` on the first split. It is report.json's "_answers".

    A row is a text with a character of KINDS per cell.
    """
    spec = comparison.spec
    grid, looks = AnswerGrid.of_split(comparison, spec.splits[0]), method_looks(spec.labels)
    panels = []
    for name in shown_methods(comparison):
        rows = ["".join(KINDS[kind] for kind in row) for row in grid.cells(name).tolist()]
        figures = grid.panel(comparison, name, looks[name]).figures
        panels.append({"label": looks[name].label, "colour": looks[name].colour.css, "figures": figures, "rows": rows})
    return {
        "caption": CAPTION,
        "fills": grid.fills,
        "blocks": [[*block] for block in grid.blocks],
        "panels": panels,
    }


def answer_files(content: Mapping[str, Any]) -> dict[str, str]:
    """{name of a file: the grid as SVG}, for pages that cannot hold the report. They follow the reader's dark scheme.

    Args:
        content: what answers_content returns.
    """
    return {name: _answer_figure(content, *layout) for name, layout in PICTURES.items()}


def _answer_figure(content: Mapping[str, Any], width: int, columns: int) -> str:
    panels, fills = [], list(content["fills"].values())
    for panel in content["panels"]:
        cells = np.array([[KINDS.index(kind) for kind in row] for row in panel["rows"]])
        blocks = _blocks(cells, content["blocks"], fills)
        panels.append(panel | {"blocks": blocks})
    occurring = {KINDS.index(kind) for panel in content["panels"] for row in panel["rows"] for kind in row}
    columns = min(columns, len(panels))
    caption = wrap(content["caption"], round(width / CAPTION_LETTER))
    rows = sum(block.height + (BLOCK_HEAD if block.name else 0) for block in panels[0]["blocks"])
    key: list[tuple[float, float, str, str]] = []
    x, y = float(MARGIN), float(MARGIN + LINE * len(caption))
    for name, fill in ((name, fill) for i, (name, fill) in enumerate(content["fills"].items()) if i in occurring):
        entry = KEY_GLYPH + KEY_LETTER * len(name)
        if x > MARGIN and x + entry > width:
            x, y = float(MARGIN), y + LINE
        key.append((x, y, name, fill))
        x += entry
    top, panel_width = y + LINE + GAP, (width - 2 * MARGIN - (columns - 1) * GAP) / columns
    panel_height = HEAD + rows + GAP
    placed = [
        (MARGIN + i % columns * (panel_width + GAP), top + i // columns * panel_height, panel)
        for i, panel in enumerate(panels)
    ]
    return ENVIRONMENT.get_template("answers.svg").render(
        width=width,
        height=round(placed[-1][1] + panel_height - GAP + MARGIN),
        margin=MARGIN,
        line=LINE,
        head=HEAD,
        block_head=BLOCK_HEAD,
        panel_width=panel_width,
        colours=COLOURS,
        key=key,
        panels=placed,
        caption=caption,
        description=f"{', '.join(panel['label'] for panel in panels)}. {content['caption']}",
    )
