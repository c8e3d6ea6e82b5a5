"""The tiles show the headline's metrics, with the tests' verdicts."""

from dataclasses import replace

import pytest

from rl.evaluation.report.headline import Headline
from rl.evaluation.report.theme import method_looks
from rl.evaluation.report.tiles import Tile, tiles
from rl.metrics.styles import BY_OPENING
from tests.evaluation.conftest import DOWN, INCLUDES_0, UP, findings


def title_and_tiles(comparison, **changed: tuple[float, float]) -> tuple[str, list[Tile]]:
    """As tests.evaluation.conftest.findings."""
    found, looks = findings(comparison, **changed), method_looks(comparison.spec.short_names)
    title = Headline(found, looks).title()
    return title, tiles(found, looks, title)


@pytest.mark.parametrize(("diversity", "sign"), [(DOWN, "▼"), (UP, ""), (INCLUDES_0, "≈")])
def test_a_tile_says_of_the_styles_what_their_numbers_show(measured, diversity, sign):
    """GRPO's number of styles is below the base's; the diversity, which is tested, may be above."""
    _, found = title_and_tiles(measured, grpo_base_style_diversity=diversity)
    _, grpo, _ = found[-1].bars
    assert (grpo.value, grpo.sign) == ("1.5", sign)


def test_the_tiles_have_the_number_of_tries_of_the_title(measured):
    _, found = title_and_tiles(measured)
    assert [tile.title for tile in found] == ["Pass@1", "Pass@16", "Styles"]
    assert found[1].about.startswith("right at least once in 16 tries")
    assert found[2].about == "forms of SQL among a question’s right answers, of 5"


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        ({"grpo_base_pass8": DOWN}, ["Pass@8"]),
        ({"dph_js_grpo_greedy": DOWN, "dph_js_grpo_keep_rate": UP}, ["Greedy accuracy", "Keep rate"]),
        ({"grpo_base_mean16": UP, "grpo_base_pass8": DOWN}, []),  # the title leaves Pass@8 to the claims
    ],
)
def test_every_claimed_metric_that_the_title_names_has_a_tile(measured, changed, more):
    title, found = title_and_tiles(measured, **changed)
    assert [tile.title for tile in found] == ["Pass@1", "Pass@16", "Styles", *more]
    assert all(tile.title[1:] in title for tile in found[3:])


def test_a_tile_that_the_title_names_shows_its_sign(measured):
    _, [*_, tile] = title_and_tiles(measured, grpo_base_pass8=DOWN)
    assert (tile.about, [bar.sign for bar in tile.bars]) == ("right at least once in 8 tries, per cent", ["", "▼", "≈"])


def test_styles_that_are_not_sql_are_ways_of_writing(measured):
    of_math = replace(measured, spec=measured.spec.model_copy(update={"styles_by": BY_OPENING}))
    title, found = title_and_tiles(of_math, dph_js_grpo_style_diversity=UP)
    assert title == "GRPO gives right answers in 1.5 styles a question, DPH-JS in 3.6."
    assert found[-1].about == "ways of writing among a question’s right answers, of 5"
