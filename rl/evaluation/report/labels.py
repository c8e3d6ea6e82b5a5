"""Labels of marks in a plot, placed so that they hide neither each other nor a mark."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

# Positions around a mark, the preferred ones first: right or left of it, and below or above.
SIDES = (
    *((1.0, 0.0), (-1.0, 0.0), (1.0, -1.0), (-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (0.0, -1.0), (0.0, 1.0)),
    *((1.0, -0.5), (-1.0, -0.5), (1.0, 0.5), (-1.0, 0.5), (0.5, -1.0), (-0.5, -1.0), (0.5, 1.0), (-0.5, 1.0)),
)
# From the mark's edge, in pixels. A label that is not next to its mark has a line to it; a short one may be far away.
DISTANCES = (4, 9, 14, 20, 27, 35, 44, 54, 66, 80)
NEAR, LONG_TEXTS = DISTANCES[0], DISTANCES[:6]
# In font sizes, for a wide font: the widths of a letter and of a capital, and the height of a line. Bold is wider.
LETTER, CAPITAL, LINE = 0.6, 0.75, 1.15
BOLD = 1.12
STEPS = np.linspace(0, 1, 17)[:, None]  # the points along a line that are checked
# The cost of hiding a pixel of a mark or label, of a line, and of something faint.
HIDING, CROSSING, FAINT = 1000.0, 10.0, 0.05


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Mark:
    """A mark to label; texts: those to try in turn, the last one in any case."""

    x: float
    y: float
    radius: float
    texts: Sequence[str]
    bold: bool = False

    @property
    def box(self) -> Box:
        r = self.radius
        return Box(self.x - r, self.y - r, self.x + r, self.y + r)


@dataclass(frozen=True)
class Label:
    text: str
    box: Box
    anchor: str  # of SVG: the side that faces the mark
    line: tuple[float, float, float, float] | None  # from the mark's edge to a label that is not next to it

    @property
    def x(self) -> float:
        """The anchor's."""
        left, _, right, _ = self.box
        return {"start": left, "end": right}.get(self.anchor, (left + right) / 2)

    @property
    def dots(self) -> list[Box]:
        """Small boxes along the line; without a line they have no area."""
        if self.line is None:
            return [Box(0, 0, 0, 0)] * len(STEPS)
        start, end = np.reshape(self.line, (2, 2))
        return [Box(x - 1, y - 1, x + 1, y + 1) for x, y in (start + (end - start) * STEPS).tolist()]


def text_width(text: str, size: float) -> float:
    """The width in pixels, overestimated if anything."""
    return size * sum(CAPITAL if letter.isupper() or letter in "mw" else LETTER for letter in text)


def place(marks: Sequence[Mark], frame: Box, size: float, faint: Sequence[Box] = ()) -> list[Label]:
    """A label for each mark, in the order of the marks, so that the first ones have the best places.

    Args:
        frame: no label leaves it.
        size: the font's.
        faint: boxes that labels avoid if they can.
    """
    labels: list[Label] = []
    for mark in marks:
        others = [*(other.box for other in marks if other is not mark), *(label.box for label in labels)]
        lines = [dot for label in labels if label.line for dot in label.dots]
        for text in mark.texts:
            last = text == mark.texts[-1]
            where = product(DISTANCES if last else LONG_TEXTS, SIDES)
            found = [_at(mark, text, size, *place) for place in where]
            boxes, dots = [label.box for label in found], [dot for label in found for dot in label.dots]
            hidden = HIDING * (overlaps(boxes, [*others, mark.box]) + _outside(boxes, frame))
            crossed = overlaps(dots, others).reshape(len(found), -1).sum(axis=1) + overlaps(boxes, lines)
            costs = hidden + CROSSING * crossed
            if costs.min() == 0 or last:
                break
        distances = np.arange(len(found)) // len(SIDES)
        labels.append(found[int(np.argmin(costs + FAINT * overlaps(boxes, faint) + distances))])
    return labels


def overlaps(boxes: Sequence[Box], others: Sequence[Box]) -> np.ndarray:
    """[N] float: the area of each of N boxes that the others cover, added up over them."""
    a, b = np.reshape(boxes, (-1, 1, 4)), np.reshape(others, (1, -1, 4))
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    return np.where(sides > 1e-6, sides, 0).prod(axis=-1).sum(axis=1)


def _outside(boxes: Sequence[Box], frame: Box) -> np.ndarray:
    """[N] float: how far each of N boxes leaves the frame."""
    low, high = np.subtract(frame, boxes)[:, :2], np.subtract(boxes, frame)[:, 2:]
    return np.maximum(np.hstack([low, high]), 0).sum(axis=1)


def _at(mark: Mark, text: str, size: float, distance: float, side: tuple[float, float]) -> Label:
    """The label at this distance from the mark's edge."""
    across, down = side
    width, height = text_width(text, size) * (BOLD if mark.bold else 1), LINE * size
    direction = np.array(side) / np.hypot(*side)
    (x0, y0), (x, y) = ((mark.x, mark.y) + direction * np.array([[mark.radius], [mark.radius + distance]])).tolist()
    left, top = x + (across - 1) * width / 2, y + (down - 1) * height / 2
    anchor = "start" if across == 1 else "end" if across == -1 else "middle"
    line = None if distance == NEAR else (x0, y0, x, y)
    return Label(text, Box(left, top, left + width, top + height), anchor, line)
