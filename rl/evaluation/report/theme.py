"""Colours: which hue stands for which method and style, in a light and a dark page.

Plots are drawn in stand-in colours, which svg.py turns into CSS variables, so that one drawing serves both pages. Hues
follow Okabe and Ito's set for colour-blind readers, darkened or lightened until small text in them has a contrast of
4.5 to 1 with the page.
"""

from dataclasses import dataclass

from rl.evaluation.spec import BASE, BASE_AGAIN


@dataclass(frozen=True)
class Colour:
    variable: str  # CSS variable
    stand_in: str  # what matplotlib draws with
    light: str
    dark: str


INK = Colour("ink", "#000001", "#1b1f24", "#e8eaed")
MUTED = Colour("muted", "#000002", "#5d6671", "#a3acb7")
GRID = Colour("grid", "#000003", "#e3e6ea", "#30363d")
PAGE = Colour("page", "#000004", "#ffffff", "#14171b")

BASE_COLOUR = Colour("m-base", "#000010", "#5d6671", "#a3acb7")
BASE_AGAIN_COLOUR = Colour("m-again", "#000011", "#6d7681", "#858f9b")
METHOD_COLOURS = {
    "grpo": Colour("m-1", "#000012", "#bd4b00", "#ff9a57"),
    "dph_js": Colour("m-2", "#000013", "#006bb0", "#63b8f5"),
    "dapo": Colour("m-3", "#000014", "#ad3d82", "#f092c6"),
    "dph_f": Colour("m-4", "#000015", "#007a57", "#45d0a6"),
    "rkl": Colour("m-5", "#000016", "#806200", "#e5c445"),
}
FURTHER_COLOURS = (
    Colour("m-6", "#000017", "#6a3fb0", "#bda2f7"),
    Colour("m-7", "#000018", "#6e4a2f", "#d8ad88"),
    Colour("m-8", "#000019", "#b3123f", "#ff7f9b"),
    Colour("m-9", "#00001a", "#00707a", "#3fd0e0"),
    Colour("m-10", "#00001b", "#4f6b00", "#b5d24a"),
    Colour("m-11", "#00001c", "#2f3fa8", "#98a8ff"),
    Colour("m-12", "#00001d", "#8a4f83", "#cfa9c9"),
)
COLOURS = (INK, MUTED, GRID, PAGE, BASE_COLOUR, BASE_AGAIN_COLOUR, *METHOD_COLOURS.values(), *FURTHER_COLOURS)

# Of lines, by the method's place in the report: neighbours with similar hues differ by them.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# A longer name does not fit beside the end of a line; then lines carry letters, and a key tells whose they are.
LONGEST_NAME_AT_LINE = 10

# Fills of stacked bars, the same on both pages; text on them is STYLE_INK. The last is that of "Others".
STYLE_FILLS = ("#7fb2e0", "#f2d675", "#ee9a74", "#62c3a4", "#f3afc1", "#c9c2ea", "#b9d86c")
OTHERS_FILL = "#c6cbd1"
STYLE_INK = "#16191d"
# What became of a prompt (fates.py), as bars on both pages.
FATE_FILLS = {"kept": "#62c3a4", "lost": "#ee9a74", "new": "#7fb2e0", "never": "#c6cbd1"}


@dataclass(frozen=True)
class Look:
    """How a method, or a family of methods, is drawn in every figure of a report."""

    label: str
    tag: str  # at the end of its line: the label, or a letter where labels are long
    colour: Colour
    marker: str


def method_colours(names: list[str]) -> dict[str, Colour]:
    """A colour for every method: its own where it has one, else one that no other takes, while there are any."""
    own = {BASE: BASE_COLOUR, BASE_AGAIN: BASE_AGAIN_COLOUR} | METHOD_COLOURS
    free = [colour for owner, colour in METHOD_COLOURS.items() if owner not in names] + list(FURTHER_COLOURS)
    others = [name for name in names if name not in own]
    own |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: own[name] for name in names}


def method_looks(labels: dict[str, str]) -> dict[str, Look]:
    """{method: its look} from {method: label}, in the report's order. The second draw of the base is never a line."""
    colours = method_colours(list(labels))
    lettered = any(len(label) > LONGEST_NAME_AT_LINE for name, label in labels.items() if name != BASE_AGAIN)
    return {
        name: Look(label, letter(i) if lettered else label, colours[name], MARKERS[i % len(MARKERS)])
        for i, (name, label) in enumerate(labels.items())
    }


def letter(place: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    return (letter(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def style_fills(style_names: tuple[str, ...]) -> dict[str, str]:
    """{style: fill} for the known styles and, last, Others; beyond the palette the fills repeat."""
    known = {name: STYLE_FILLS[i % len(STYLE_FILLS)] for i, name in enumerate(style_names[:-1])}
    return known | {style_names[-1]: OTHERS_FILL}


def css_variables() -> tuple[str, str]:
    """The declarations of all colours: (light page, dark page)."""
    light = "".join(f"--{colour.variable}:{colour.light};" for colour in COLOURS)
    dark = "".join(f"--{colour.variable}:{colour.dark};" for colour in COLOURS)
    return light, dark
