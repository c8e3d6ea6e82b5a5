"""The picture of Pass@1 against Pass@k: the recorded study's, and hand-made ones."""

import json
from xml.etree import ElementTree

import pytest

from rl.evaluation.analysis.trade_off import Point, TradeOff, trade_offs_over_seeds
from rl.evaluation.report.pareto_figure import NARROW, WIDE, Panel, pareto_figure
from rl.evaluation.report.theme import INK
from tests.programs import REPOSITORY

STUDY = json.loads((REPOSITORY / "docs" / "study" / "methods.json").read_text())
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def two_methods(label: str = "GRPO", **of_js) -> TradeOff:
    points = {"grpo": Point(label, None, False, [(50, 70)]), "dph_js": Point("DPH-JS", None, True, [(55, 85)], **of_js)}
    return TradeOff("in_domain", 8, (45.0, 80.0), points)


@pytest.mark.parametrize("layout", [WIDE, NARROW])
def test_every_mark_has_its_number_and_every_number_its_name_in_the_key(layout):
    svg = pareto_figure(trade_offs_over_seeds(STUDY), layout)
    picture, found = ElementTree.fromstring(svg), texts(svg)
    methods = [STUDY["labels"][name] for name in STUDY["methods"]]
    for number, label in enumerate(methods, start=1):
        assert sum(text.startswith(f"{number}  {label}") for text in found) == 1
    assert len([*picture.iter(f"{SVG}circle")]) == 2 * len(methods)
    left, _, width, height = map(float, picture.get("viewBox").split())
    for text in picture.iter(f"{SVG}text"):
        assert left <= float(text.get("x")) <= width and float(text.get("y")) <= height


def test_labels_are_texts_not_markup():
    svg = pareto_figure([two_methods(label="<b>A & B</b>")], WIDE)
    assert "1  <b>A & B</b>" in texts(svg) and "<b>" not in svg
    titles = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert "<b>A & B</b>: Pass@1 50.0, Pass@8 70.0" in titles and titles[0] == two_methods().sentence


def panel(points: dict[str, Point]) -> Panel:
    return Panel(0, 0, TradeOff("s", 8, (45, 80), points), WIDE, dict.fromkeys(points, 1), dict.fromkeys(points, INK))


def test_intervals_or_the_range_over_seeds_are_within_the_plot():
    intervals = ([55.0, 20.0, 99.0], [85.0, 60.0, 100.0])
    for points in (two_methods(intervals=intervals).points, {"a": Point("A", None, True, [(20, 60), (99, 100)])}):
        (low, high), (bottom, top) = panel(points).spans
        assert low < 20 and high > 99 and bottom < 60 and top > 100


def test_a_picture_turns_dark_and_an_element_of_a_page_takes_the_pages_colours():
    assert "prefers-color-scheme: dark" in pareto_figure([two_methods()], WIDE)
    inside = pareto_figure([two_methods()], WIDE, file=False)
    assert "<style>" not in inside and " width=" not in inside.partition(">")[0]


def test_controls_and_what_sees_gold_are_open_and_named():
    points = {
        "dph": Point("A", None, True, [(50, 70)]),
        "control": Point("B", "control", False, [(60, 75)]),
        "gold": Point("C", "gold", False, [(70, 90)]),
    }
    assert [mark.open for mark in panel(points).marks] == [False, True, True]
    assert panel(points).trade_off.frontier == ["control"]
    found = texts(pareto_figure([panel(points).trade_off], WIDE))
    assert {"2  B (control)", "3  C (learns from gold answers)"} <= {*found}
