"""Methods are told apart."""

from rl.evaluation.report.theme import COLOURS, method_looks


def test_methods_are_told_apart():
    looks = method_looks({name: name for name in ["base", "base_again", "grpo", "dph_js", *map(str, range(10))]})
    assert len({look.colour for look in looks.values()}) == len(looks) == 14
    assert len({(look.colour, look.marker) for look in looks.values()}) == 14
    assert len({colour.variable for colour in COLOURS}) == len(COLOURS)
