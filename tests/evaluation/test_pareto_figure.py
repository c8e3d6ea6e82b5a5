"""The picture of Pass@1 against Pass@k: the recorded study's, and hand-made ones."""

import json
from xml.etree import ElementTree

import pytest

from rl.evaluation.analysis.trade_off import Point, TradeOff, trade_offs_over_seeds
from rl.evaluation.report.pareto_figure import FILES, WIDE, pareto_figure, pareto_files
from tests.programs import REPOSITORY

STUDY = json.loads((REPOSITORY / "docs" / "study" / "methods.json").read_text())
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("file", FILES)
def test_every_mark_has_its_number_and_every_method_is_in_the_key(file):
    svg = pareto_files(trade_offs_over_seeds(STUDY))[file]
    found = texts(svg)
    for number, name in enumerate(STUDY["methods"], start=1):
        assert found.count(str(number)) >= 2  # a panel per split; an axis may have the number too
        assert sum(text.startswith(STUDY["labels"][name]) for text in found) >= 1
    assert "prefers-color-scheme: dark" in svg and "var(--ink)" in svg and "#1b1f24" not in svg.partition("</style>")[2]


def test_labels_are_texts_and_say_what_a_method_is():
    points = {
        "dph": Point("<b>A & $B$</b>", None, [(50, 70)]),
        "control": Point("B", "control", [(60, 75)]),
        "gold": Point("C", "gold", [(70, 90)]),
    }
    trade_off = TradeOff("s", 8, (45.0, 80.0), points)
    assert trade_off.frontier == ["control"]
    found = texts(pareto_files([trade_off])["pareto.svg"])
    assert {"<b>A & $B$</b>", "B (control)", "C (learns from gold answers)"} <= {*found}
    assert "<style>*{" in pareto_figure([trade_off], WIDE).replace(' type="text/css"', "")  # no colours of its own
