"""Colours: which hue stands for which method and style, in a light and a dark page.

Plots are drawn in stand-in colours, which svg.py turns into CSS variables, so that one drawing serves both pages. Hues
follow Okabe and Ito's set for colour-blind readers, darkened or lightened until small text in them has a contrast of
4.5 to 1 with the page.
"""

from dataclasses import dataclass

from verl.dph.evaluation.spec import BASE, BASE_AGAIN


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
BASE_AGAIN_COLOUR = Colour("m-again", "#000011", "#7a838e", "#858f9b")
METHOD_COLOURS = {
    "grpo": Colour("m-1", "#000012", "#bd4b00", "#ff9a57"),
    "dph_js": Colour("m-2", "#000013", "#006bb0", "#63b8f5"),
    "dapo": Colour("m-3", "#000014", "#ad3d82", "#f092c6"),
    "dph_f": Colour("m-4", "#000015", "#007a57", "#45d0a6"),
    "rkl": Colour("m-5", "#000016", "#806200", "#e5c445"),
    "sixth": Colour("m-6", "#000017", "#6a3fb0", "#bda2f7"),
    "seventh": Colour("m-7", "#000018", "#6e4a2f", "#d8ad88"),
}
COLOURS = (INK, MUTED, GRID, PAGE, BASE_COLOUR, BASE_AGAIN_COLOUR, *METHOD_COLOURS.values())

# Fills of stacked bars, the same on both pages; text on them is STYLE_INK. The last is that of "Others".
STYLE_FILLS = ("#7fb2e0", "#f2d675", "#ee9a74", "#62c3a4", "#f3afc1", "#c9c2ea", "#b9d86c")
OTHERS_FILL = "#c6cbd1"
STYLE_INK = "#16191d"


def method_colours(names: list[str]) -> dict[str, Colour]:
    """A colour for every method: its own where it has one, else the first that no other method of the report takes."""
    colours = {BASE: BASE_COLOUR, BASE_AGAIN: BASE_AGAIN_COLOUR}
    free = [colour for owner, colour in METHOD_COLOURS.items() if owner not in names]
    for name in names:
        if name not in colours:
            colours[name] = METHOD_COLOURS[name] if name in METHOD_COLOURS else (free.pop(0) if free else MUTED)
    return {name: colours[name] for name in names}


def style_fills(style_names: tuple[str, ...]) -> dict[str, str]:
    """{style: fill} for the known styles and, last, Others; beyond the palette the fills repeat."""
    known = {name: STYLE_FILLS[i % len(STYLE_FILLS)] for i, name in enumerate(style_names[:-1])}
    return known | {style_names[-1]: OTHERS_FILL}


def css_variables() -> tuple[str, str]:
    """The declarations of all colours: (light page, dark page)."""
    light = "".join(f"--{colour.variable}:{colour.light};" for colour in COLOURS)
    dark = "".join(f"--{colour.variable}:{colour.dark};" for colour in COLOURS)
    return light, dark
