"""The recorded pictures are those of the recorded demos."""

import json
from xml.etree import ElementTree

from tests.docs.conftest import site_module
from tests.programs import REPOSITORY

FOLDER = REPOSITORY / "docs" / "study"
DEMO = json.loads((FOLDER / "demo.json").read_text())


def test_the_picture_of_answers_is_of_the_recorded_demo():
    name, report = "answers.svg", DEMO
    picture = ElementTree.parse(FOLDER / name).getroot()
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Base", "GRPO", "DPH-JS"} < set(texts)
    for method, label in (("base", "Base"), ("grpo", "GRPO"), ("dph_js", "DPH-JS")):
        percent = f"{100 * report[method]['in_domain']['pass@k']['1'][0]:.0f}"
        assert texts[texts.index(label) + 1].startswith(f"Pass@1 {percent} ")


def test_the_recorded_pictures_are_those_of_the_recorded_values():
    """`make pictures` draws them again."""
    for name, picture in site_module("study").answer_pictures().items():
        assert (FOLDER / name).read_text() == picture, name
