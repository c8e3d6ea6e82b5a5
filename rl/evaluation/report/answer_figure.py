"""answers.svg: the answer grid of the first split as a picture of its own, for pages that cannot hold the report.

It has the base and the methods that the report's headline is about, and turns dark with the reader's screen.
"""

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.report.answer_grid import AnswerGrid
from rl.evaluation.report.environment import ENVIRONMENT
from rl.evaluation.report.headline import leading_methods
from rl.evaluation.report.theme import COLOURS, method_looks
from rl.evaluation.spec import BASE

# Pixels.
WIDTH, MARGIN, GAP = 1000, 16, 24
HEAD, BLOCK_HEAD = 84, 26  # above all blocks, and above each
KEY_GLYPH, KEY_LETTER = 44, 8.5  # of an entry of the key: colour and gaps, and a letter of its name


def answer_figure(comparison: Comparison) -> str:
    """The picture, an SVG document."""
    spec = comparison.spec
    grid, looks = AnswerGrid.of_split(comparison, spec.splits[0]), method_looks(spec.short_names)
    shown = [BASE, *leading_methods(spec)]
    panels = [grid.panel(comparison, name, looks[name]) for name in shown]
    rows = sum(block.height + (BLOCK_HEAD if block.name else 0) for block in panels[0].blocks)
    names = ", ".join(looks[name].label for name in shown)
    return ENVIRONMENT.get_template("answers.svg").render(
        width=WIDTH,
        height=round(MARGIN + HEAD + rows + MARGIN),
        margin=MARGIN,
        gap=GAP,
        head=HEAD,
        block_head=BLOCK_HEAD,
        key_glyph=KEY_GLYPH,
        key_letter=KEY_LETTER,
        panel_width=(WIDTH - 2 * MARGIN - (len(shown) - 1) * GAP) / len(shown),
        colours=COLOURS,
        key=grid.key,
        panels=panels,
        description=f"{names}: a row is a question, a cell an answer, coloured by its form if it is correct",
    )
