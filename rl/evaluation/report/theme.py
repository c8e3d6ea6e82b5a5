"""Colours and markers of methods, styles and transitions, on a light and a dark page.

A colour means one thing on the whole page. Methods are red, orange, brown or blue; styles are violet, pink, green and
gold; everything else is grey. Small text in a method's colour has a contrast of 4.5 to 1 with the page. The first five
styles were chosen so that colour-blind readers can tell them apart. Markers distinguish methods of similar hue.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rl.evaluation.spec import BASE, BASE_AGAIN

# Of the templates in this folder.
ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)


class Colour(NamedTuple):
    variable: str  # CSS variable
    light: str
    dark: str

    @property
    def css(self) -> str:
        return f"var(--{self.variable})"


INK = Colour("ink", "#1b1f24", "#e8eaed")
MUTED = Colour("muted", "#5d6671", "#a3acb7")
GRID = Colour("grid", "#e3e6ea", "#30363d")
PAGE = Colour("page", "#ffffff", "#14171b")

METHOD_COLOURS = {
    BASE: Colour("m-base", "#5d6671", "#a3acb7"),
    BASE_AGAIN: Colour("m-again", "#6d7681", "#858f9b"),
    "grpo": Colour("m-1", "#bd4b00", "#ff9a57"),
    "dph_js": Colour("m-2", "#006bb0", "#63b8f5"),
    "dapo": Colour("m-3", "#9b1020", "#ff6a6f"),
    "dph_f": Colour("m-4", "#00757f", "#35d3e3"),
    "rkl": Colour("m-5", "#6a4130", "#dcb79c"),
}
FURTHER_COLOURS = (
    Colour("m-6", "#2f3fa8", "#98a8ff"),
    Colour("m-7", "#8a4f2b", "#e3936b"),
    Colour("m-8", "#c92a2a", "#ff9d96"),
    Colour("m-9", "#17365f", "#7d9ccf"),
    Colour("m-10", "#4f2a20", "#b98a76"),
    Colour("m-11", "#3f6488", "#a9cdee"),
    Colour("m-12", "#23565f", "#83bdc9"),
)
# Wrong answers in the grid.
WRONG = Colour("wrong", "#e4e7eb", "#2b3138")
COLOURS = (INK, MUTED, GRID, PAGE, WRONG, *METHOD_COLOURS.values(), *FURTHER_COLOURS)

# {marker of matplotlib: the same marker as text}.
MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}

# Fills of the answer grid and of stacked bars, on both pages.
STYLE_FILLS = ("#8477f3", "#c39810", "#a5e07c", "#d7559d", "#f3c0f0", "#6fae3f", "#b06fd8")
OTHERS_FILL = "#b3a67c"
CORRECT_FILL = "#58b368"  # in a task without styles
TRANSITION_FILLS = {"retained": "#929da9", "forgotten": "#434c57", "gained": "#bcc4cd", "unsolved": "#eceef1"}
# Text on a fill.
ON_LIGHT_FILL, ON_DARK_FILL = "#16191d", "#fefefe"  # not the page's white, which turns dark (canvas.py)
DARK_FILLS = (TRANSITION_FILLS["forgotten"],)


@dataclass(frozen=True)
class Look:
    """How a method, or a family of methods, is drawn in every figure of a report."""

    label: str
    colour: Colour
    marker: str

    @property
    def glyph(self) -> str:
        return MARKERS[self.marker]


def method_looks(labels: dict[str, str]) -> dict[str, Look]:
    """{method: its look} from {method: label}. Methods without a colour of their own get an unused one if possible."""
    unused = [
        colour for owner, colour in METHOD_COLOURS.items() if owner not in labels and owner not in (BASE, BASE_AGAIN)
    ]
    unused += FURTHER_COLOURS
    others = [name for name in labels if name not in METHOD_COLOURS]
    colours = METHOD_COLOURS | {name: unused[i % len(unused)] for i, name in enumerate(others)}
    markers = list(MARKERS)
    return {
        name: Look(label, colours[name], markers[i % len(markers)]) for i, (name, label) in enumerate(labels.items())
    }


def style_fills(style_names: tuple[str, ...]) -> dict[str, str]:
    """{style: fill} for the known styles and, last, Others. Fills repeat if there are more styles than fills."""
    known = {name: STYLE_FILLS[i % len(STYLE_FILLS)] for i, name in enumerate(style_names[:-1])}
    return known | {style_names[-1]: OTHERS_FILL}
