"""Colours and markers of methods, styles and transitions, on a light and a dark page.

Hues follow Okabe and Ito's palette for colour-blind readers. They are darkened or lightened until small text in them
has a contrast of 4.5 to 1 with the page. Markers distinguish methods of similar hue.
"""

from dataclasses import dataclass
from typing import NamedTuple

from rl.evaluation.spec import BASE, BASE_AGAIN

LIGHT, DARK = "light", "dark"


class Colour(NamedTuple):
    variable: str  # CSS variable
    light: str
    dark: str

    def on(self, page: str) -> str:
        return self.light if page == LIGHT else self.dark

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
    "dapo": Colour("m-3", "#ad3d82", "#f092c6"),
    "dph_f": Colour("m-4", "#007a57", "#45d0a6"),
    "rkl": Colour("m-5", "#806200", "#e5c445"),
}
FURTHER_COLOURS = (
    Colour("m-6", "#6a3fb0", "#bda2f7"),
    Colour("m-7", "#6e4a2f", "#d8ad88"),
    Colour("m-8", "#b3123f", "#ff7f9b"),
    Colour("m-9", "#00707a", "#3fd0e0"),
    Colour("m-10", "#4f6b00", "#b5d24a"),
    Colour("m-11", "#2f3fa8", "#98a8ff"),
    Colour("m-12", "#8a4f83", "#cfa9c9"),
)
# Cells of the answer grid that have no style's colour.
WRONG = Colour("wrong", "#e4e7eb", "#2b3138")
WRONG_MOST = Colour("wrong-most", "#a9b1bb", "#5d6671")
NO_ANSWER = Colour("no-answer", "#f4f5f7", "#1d2127")
COLOURS = (INK, MUTED, GRID, PAGE, WRONG, WRONG_MOST, NO_ANSWER, *METHOD_COLOURS.values(), *FURTHER_COLOURS)

# {marker of matplotlib: the same marker as text}; a dashed reference line has none.
MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
DASHES = "╌"

# Fills of the answer grid and of stacked bars, on both pages; text on them is STYLE_INK. "Others" is grey.
STYLE_FILLS = ("#4f93d8", "#e3b11c", "#e3743f", "#2fa87f", "#dc74a3", "#a08be0", "#93b83c")
OTHERS_FILL = "#8f98a3"
STYLE_INK = "#16191d"
TRANSITION_FILLS = {"retained": "#62c3a4", "forgotten": "#ee9a74", "gained": "#7fb2e0", "unsolved": "#c6cbd1"}


@dataclass(frozen=True)
class Look:
    """How a method, or a family of methods, is drawn in every figure of a report."""

    label: str
    colour: Colour
    marker: str

    @property
    def glyph(self) -> str:
        return MARKERS.get(self.marker, DASHES)


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


def style_looks(style_names: tuple[str, ...]) -> dict[str, Look]:
    """{style: its look} with the fills of style_fills."""
    return {name: Look(name, Colour("", fill, fill), "o") for name, fill in style_fills(style_names).items()}
