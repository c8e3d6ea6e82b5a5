"""The picture of Pass@1 against Pass@k: the recorded study's, and hand-made ones."""

import json
from itertools import combinations
from xml.etree import ElementTree

import pytest

from rl.evaluation.analysis.trade_off import Point, TradeOff, trade_offs_over_seeds
from rl.evaluation.report.labels import Box, overlaps
from rl.evaluation.report.pareto_figure import NARROW, WIDE, Panel, pareto_figure
from tests.programs import REPOSITORY

STUDY = json.loads((REPOSITORY / "docs" / "study" / "methods.json").read_text())
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def two_methods(label: str = "GRPO", **of_js) -> TradeOff:
    points = {"grpo": Point(label, None, False, [(50, 70)]), "dph_js": Point("DPH-JS", None, True, [(55, 85)], **of_js)}
    return TradeOff("in_domain", 8, (45.0, 80.0), points)


@pytest.mark.parametrize("layout", [WIDE, NARROW])
@pytest.mark.parametrize("number", [0, 1])
def test_no_label_of_the_study_hides_another_one_or_a_mark(layout, number):
    trade_off = trade_offs_over_seeds(STUDY)[number]
    numbers = {name: i for i, name in enumerate(trade_off.points, start=1)}
    panel = Panel(0, 0, trade_off, layout, numbers, STUDY["leading"])
    labels = [label for _, label in panel.labels]
    means = [point.mean for name, point in trade_off.points.items() if name != "grpo_passk"]
    assert len(labels) == len(trade_off.points)  # the base too, and Pass@k GRPO not
    assert not any(overlaps([one.box], [other.box]) for one, other in combinations(labels, 2))
    marks = [Box(x - 4, y - 4, x + 4, y + 4) for x, y in map(panel.at, [trade_off.base, *means])]
    assert not overlaps([label.box for label in labels], marks).any()
    named = {label.text for label in labels}
    frontier = {trade_off.points[name].label for name in trade_off.frontier}
    assert {"Base", "GRPO", "DPH-F", "CHORD-mu"} <= named
    assert panel.far and panel.far[0].startswith("Pass@k GRPO at ")
    assert len(named & frontier) >= len(frontier) - 1


def test_a_method_far_from_all_others_is_named_below_the_plot_unless_the_headline_is_about_it():
    points = {f"m{i}": Point(f"M{i}", None, False, [(50 + i, 80 - i)]) for i in range(8)}
    points["far"] = Point("Far", None, False, [(10, 78)])
    trade_off = TradeOff("in_domain", 8, (49.0, 79.0), points)
    numbers = {name: i for i, name in enumerate(points)}
    assert Panel(0, 0, trade_off, WIDE, numbers, []).far == ["Far at 10 and 78 %"]
    assert Panel(0, 0, trade_off, WIDE, numbers, ["far"]).far == []


def test_every_number_has_its_name_in_the_key():
    found = texts(pareto_figure(trade_offs_over_seeds(STUDY), STUDY["leading"], NARROW))
    methods = [STUDY["labels"][name] for name in STUDY["methods"]]
    tail = found[found.index("■  better than the base in both") + 1 :]
    key = {text.split("  ")[0]: text.split("  ")[1] for text in tail if text[0].isdigit() and "  " in text}
    assert len(key) > 10 and all(methods[int(number) - 1] == name for number, name in key.items())
    ticks = {"35", "40", "45", "50", "55", "60", "65", "70", "75", "80", "85"}
    assert {text for text in found if text.isdigit()} - ticks <= key.keys()
    assert any(text.startswith("In domain, not drawn: Pass@k GRPO at") for text in found)


def test_labels_are_texts_not_markup():
    svg = pareto_figure([two_methods(label="<b>A & B</b>")], ["grpo"], WIDE)
    assert "<b>A & B</b>" in texts(svg) and "<b>" not in svg
    titles = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert "<b>A & B</b>: Pass@1 50.0, Pass@8 70.0" in titles and titles[0] == two_methods().sentence


def test_intervals_are_drawn_and_within_the_plot():
    intervals = ([55.0, 20.0, 99.0], [85.0, 60.0, 100.0])
    trade_off = two_methods(intervals=intervals)
    panel = Panel(0, 0, trade_off, WIDE, {"grpo": 1, "dph_js": 2}, [])
    (low, high), (bottom, top) = panel.x_range, panel.y_range
    assert low < 20 and high > 99 and bottom < 60 and top > 100
    (mark,) = (mark for mark in panel.marks if mark.words.startswith("DPH-JS"))
    assert mark.seeds.count("M") == 2 and "H" in mark.seeds and "V" in mark.seeds


def test_a_picture_turns_dark_and_an_element_of_a_page_takes_the_pages_colours():
    trade_off = two_methods()
    assert "prefers-color-scheme: dark" in pareto_figure([trade_off], [], WIDE)
    inside = pareto_figure([trade_off], [], WIDE, file=False)
    assert "<style>" not in inside and " width=" not in inside.partition(">")[0]


def test_controls_are_open_and_what_sees_gold_has_a_colour_of_its_own():
    points = {
        "dph": Point("A", None, True, [(50, 70)]),
        "control": Point("B", "control", False, [(60, 75)]),
        "gold": Point("C", "gold", False, [(70, 90)]),
    }
    panel = Panel(0, 0, TradeOff("s", 8, (45, 80), points), WIDE, dict.fromkeys(points, 1), [])
    marks = {mark.words[0]: mark for mark in panel.marks}
    assert [marks[name].open for name in "ABC"] == [False, True, True]
    assert marks["A"].colour == marks["B"].colour != marks["C"].colour
    assert panel.trade_off.frontier == ["control"]
