"""Methods are told apart, and a colour means one thing."""

import colorsys

from rl.evaluation.report.theme import (
    COLOURS,
    CORRECT_FILL,
    FURTHER_COLOURS,
    METHOD_COLOURS,
    OTHERS_FILL,
    STYLE_FILLS,
    TRANSITION_FILLS,
    method_looks,
)
from rl.evaluation.spec import BASE, BASE_AGAIN


def test_methods_are_told_apart():
    looks = method_looks({name: name for name in ["base", "base_again", "grpo", "dph_js", *map(str, range(10))]})
    assert len({look.colour for look in looks.values()}) == len(looks) == 14
    assert len({(look.colour, look.marker) for look in looks.values()}) == 14
    assert len({colour.variable for colour in COLOURS}) == len(COLOURS)


def hue_and_saturation(colour: str) -> tuple[float, float]:
    """The hue in degrees, and the saturation as a share."""
    hue, _, saturation = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    return 360 * hue, saturation


def test_methods_and_styles_have_no_hue_in_common_and_transitions_are_grey():
    methods = [*(METHOD_COLOURS[name] for name in METHOD_COLOURS.keys() - {BASE, BASE_AGAIN}), *FURTHER_COLOURS]
    for hue, _ in (hue_and_saturation(shade) for colour in methods for shade in (colour.light, colour.dark)):
        assert hue < 35 or 180 < hue < 240 or hue > 350, hue
    for fill in (*STYLE_FILLS, OTHERS_FILL, CORRECT_FILL):
        assert 40 < hue_and_saturation(fill)[0] < 170 or 243 < hue_and_saturation(fill)[0] < 345, fill
    assert all(hue_and_saturation(fill)[1] < 0.2 for fill in TRANSITION_FILLS.values())
    fills = [*STYLE_FILLS, OTHERS_FILL, CORRECT_FILL, *TRANSITION_FILLS.values()]
    assert len(set(fills)) == len(fills)
