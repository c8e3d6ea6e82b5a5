"""The answer grid: a panel per model, a row per question, a cell per sample.

A correct sample has the colour of its style, a wrong one is grey. In a task without styles a correct sample is green,
and two greys tell the model's most frequent wrong answer to the question from other wrong answers. Rows have the same
order in all panels: group by group, and within a group the questions that the base answers most often come first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

import numpy as np
from markupsafe import Markup

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.samples import SampleSet
from rl.evaluation.report.environment import ENVIRONMENT
from rl.evaluation.report.theme import (
    COLOURS,
    CORRECT_FILL,
    NO_ANSWER,
    WRONG,
    WRONG_MOST,
    Look,
    method_looks,
    style_fills,
)
from rl.evaluation.spec import BASE, BASE_AGAIN, GOLD
from rl.metrics.bootstrap import SEED
from rl.metrics.distinct_answers import NO_VOTE

KINDS = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_SHOWN = 3  # trained methods that are shown at once
# From a larger split, this many questions are drawn with a fixed seed.
MOST_QUESTIONS = 120
WITHOUT_STYLES = {
    "correct": CORRECT_FILL,
    "its most frequent wrong answer": WRONG_MOST.css,
    "another wrong answer": WRONG.css,
    "no answer": NO_ANSWER.css,
}
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

    @classmethod
    def of(cls, name: str, start: int, cells: np.ndarray, fills: Sequence[str], questions: int) -> "Block":
        """
        Args:
            cells: [rows, n] int, positions in `fills`.
            questions: of all blocks together.
        """
        height = round(len(cells) * min(max(HEIGHT / questions, LEAST_ROW), MOST_ROW))
        return cls(name, start, len(cells), _drawing(cells, fills), height)


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

    @property
    def key(self) -> dict[str, str]:
        """The fills that occur."""
        occurring = set(np.concatenate([kinds[self.order].ravel() for kinds in self.kinds.values()]).tolist())
        return {kind: fill for number, (kind, fill) in enumerate(self.fills.items()) if number in occurring}

    @property
    def colours(self) -> str:
        """What they mean."""
        if "wrong" in self.fills:
            return "The colour of a correct answer is its style; wrong answers are grey."
        return "Correct answers are green, wrong ones are grey."

    @property
    def caption(self) -> str:
        """What a row, a cell and the colours are, for a picture without the page."""
        return f"A row is a question, a cell is one of a model’s answers. {self.colours}"

    @classmethod
    def of_split(cls, comparison: Comparison, split: str) -> "AnswerGrid":
        base = comparison.samples[BASE][split]
        names = [name for name in comparison.spec.methods if name != BASE_AGAIN]
        fills = style_fills(base.style_names) | {"wrong": WRONG.css} if base.style_names else WITHOUT_STYLES
        kinds = {name: _kinds(comparison.samples[name][split]) for name in names}
        shown = np.arange(base.prompts)
        if base.prompts > MOST_QUESTIONS:
            shown = np.sort(np.random.default_rng(SEED).choice(base.prompts, MOST_QUESTIONS, replace=False))
        grouped = comparison.questions[split].few_valued() if split in comparison.questions else {}
        groups = next(iter(grouped.values()), {"": np.ones(base.prompts, dtype=bool)})
        # The largest numbers come first; ties go by what the trained methods answer, then by id.
        solved = [-comparison.samples[name][split].correct.sum(axis=1)[shown] for name in names]
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
        shares = np.bincount(self.kinds[method][self.order].ravel(), minlength=len(self.fills)) / (len(self.order) * n)
        parts = ", ".join(
            f"{kind} {100 * share:.0f} %" for kind, share in zip(self.fills, shares, strict=True) if share >= 0.005
        )
        blocks, start = [], 0
        for of_group, rows in self.blocks:
            cells = self.cells(method)[start : start + rows]
            blocks.append(Block.of(of_group, start, cells, [*self.fills.values()], len(self.order)))
            start += rows
        description = f"{look.label}, {len(self.order)} questions × {n} samples: {parts}"
        return Panel(look, figures, blocks, description)


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


def _kinds(samples: SampleSet) -> np.ndarray:
    """[P, n] int: positions in the grid's fills."""
    if samples.style_names:
        return np.where(samples.correct, samples.style, len(samples.style_names))
    kinds = np.where(samples.correct, 0, 2)
    votes = samples.answer if samples.result is None else samples.result
    for row, answers, correct in zip(kinds, votes, samples.correct, strict=True):
        wrong = answers[~correct & (answers != NO_VOTE)]
        if wrong.size:
            row[(answers == np.bincount(wrong).argmax()) & ~correct] = 1
    kinds[~samples.correct & ~samples.answered] = 3
    return kinds


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
    grid, looks = AnswerGrid.of_split(comparison, spec.splits[0]), method_looks(spec.short_names)
    panels = []
    for name in shown_methods(comparison):
        rows = ["".join(KINDS[kind] for kind in row) for row in grid.cells(name).tolist()]
        figures = grid.panel(comparison, name, looks[name]).figures
        panels.append({"label": looks[name].label, "colour": looks[name].colour.css, "figures": figures, "rows": rows})
    return {
        "caption": grid.caption,
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
        cells, start, blocks = np.array([[KINDS.index(kind) for kind in row] for row in panel["rows"]]), 0, []
        for name, rows in content["blocks"]:
            blocks.append(Block.of(name, start, cells[start : start + rows], fills, len(cells)))
            start += rows
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
