"""What docs/explanation/demo.md says of the recorded demos is in their reports in docs/study."""

import json
from xml.etree import ElementTree

import pytest

from tests.docs.conftest import rows, site_module
from tests.programs import REPOSITORY

FOLDER = REPOSITORY / "docs" / "study"
DEMO = json.loads((FOLDER / "demo.json").read_text())
PRETRAINED = json.loads((FOLDER / "pretrained.json").read_text())
PAGE = (REPOSITORY / "docs" / "explanation" / "demo.md").read_text()


ACCURACY = {"greedy": "greedy", "mean@32": "Pass@1", "pass@8": "Pass@8", "pass@32": "Pass@32"}


def significant(report: dict, split: str) -> set[str]:
    """The differences in accuracy with a corrected p of at most .05: "grpo > base: Pass@1"."""
    return {
        f"{test['first']} {'>' if test['difference'][0] > 0 else '<'} {test['second']}: {ACCURACY[test['metric']]}"
        for test in report["_tests"]
        if test["split"] == split and test["metric"] in ACCURACY and test["p_holm"] <= 0.05
    }


@pytest.mark.parametrize(("title", "report"), [("A recorded run", DEMO), ("## With a pretrained model", PRETRAINED)])
def test_the_page_has_the_values_of_the_recorded_runs(title, report):
    shown = rows(PAGE[PAGE.index(title) :])
    labels = {"base": "base", "grpo": "GRPO", "dph_js": "DPH-JS"}
    labels |= {"dph_f_solved_cap": "DPH-F solved, cap .6"} if "dph_f_solved_cap" in report else {}
    for method, label in labels.items():
        inside, outside = report[method]["in_domain"], report[method]["out_of_domain"]
        values = [*(inside["pass@k"][k][0] for k in ("1", "8", "32")), outside["pass@k"]["1"], outside["pass@k"]["8"]]
        values = [value[0] if isinstance(value, list) else value for value in values]
        expected = [f"{value:.3f}" for value in values]
        expected.insert(3, f"{inside['styles'][0]:.2f}")
        assert shown[label] == expected


def test_what_the_page_says_of_the_pretrained_model_are_its_verdicts():
    columns = ("Pass@1", "Pass@8", "Pass@32")

    def verdicts(method, other, split):
        found = {
            c["predicate"]: c["verdict"] for c in PRETRAINED["_claims"] if (c["method"], c["split"]) == (method, split)
        }
        return [found[f"higher {column} than {other}"] for column in columns]

    higher, equal, lower = "supported", "inconclusive", "lower"
    assert verdicts("grpo", "the base", "in_domain") == [higher, equal, equal]
    assert verdicts("dph_js", "the base", "in_domain") == [higher, lower, lower]
    assert verdicts("dph_js", "GRPO", "in_domain") == [lower, equal, equal]
    assert verdicts("dph_f_solved_cap", "the base", "in_domain") == [equal, equal, equal]
    assert verdicts("dph_f_solved_cap", "GRPO", "in_domain") == [lower, equal, equal]
    trained = ("grpo", "dph_js", "dph_f_solved_cap")
    outside = [verdicts(method, "the base", "out_of_domain") for method in trained]
    assert outside == [[equal] * 3] * 3

    def value(method, split, k):
        return PRETRAINED[method][split]["pass@k"][k][0]

    # "its Pass@8 and Pass@32 above DPH-JS's", and out of domain "significantly above DPH-JS", and nothing from the base
    assert significant(PRETRAINED, "in_domain") == {
        *("grpo > base: greedy", "grpo > base: Pass@1", "dph_js > base: Pass@1", "dph_js < grpo: Pass@1"),
        *("dph_js < base: Pass@8", "dph_js < base: Pass@32"),
        *("dph_f_solved_cap < grpo: greedy", "dph_f_solved_cap < grpo: Pass@1"),
        *("dph_f_solved_cap > dph_js: Pass@8", "dph_f_solved_cap > dph_js: Pass@32"),
    }
    assert significant(PRETRAINED, "out_of_domain") == {"dph_f_solved_cap > dph_js: Pass@8"}
    assert "no accuracy is significantly different from the base's" in PAGE
    for k in ("8", "32"):
        base, grpo, dph_js, recipe = (value(method, "in_domain", k) for method in ("base", *trained))
        assert dph_js < grpo < recipe < base
    assert value("base", "in_domain", "1") < value("dph_f_solved_cap", "in_domain", "1")
    assert max(("base", *trained), key=lambda method: value(method, "out_of_domain", "8")) == "dph_f_solved_cap"
    styles = {method: PRETRAINED[method]["in_domain"]["styles"][0] for method in ("base", *trained)}
    assert styles["grpo"] < 1.4 and min(styles["dph_js"], styles["dph_f_solved_cap"]) >= styles["base"]


def test_what_the_page_says_of_the_demos_comparisons_are_its_verdicts():
    """The page lists all of them."""
    assert significant(DEMO, "in_domain") == {
        *("grpo > base: greedy", "grpo > base: Pass@1", "grpo < base: Pass@8", "grpo < base: Pass@32"),
        *("dph_js > base: Pass@1", "dph_js < base: Pass@8", "dph_js < base: Pass@32", "dph_js < grpo: Pass@1"),
        *("dph_f_solved_cap > grpo: Pass@32", "dph_f_solved_cap < grpo: Pass@1"),
    }
    assert significant(DEMO, "out_of_domain") == {
        *("grpo > base: Pass@1", "dph_js > base: Pass@1"),
        *("dph_f_solved_cap < grpo: Pass@1", "dph_f_solved_cap < dph_js: Pass@1"),
    }
    entropies = [DEMO[name]["in_domain"]["style_entropy"] for name in ("grpo", "dph_js", "dph_f_solved_cap")]
    assert entropies[0][2] < min(entropies[1][1], entropies[2][1])
    of_recipe = [
        DEMO["dph_f_solved_cap"][split]["pass@k"][k][0] - DEMO["base"][split]["pass@k"][k][0]
        for split in ("in_domain", "out_of_domain")
        for k in ("1", "8")
    ]
    assert [f"{difference:.3f}".replace("0.", ".") for difference in of_recipe] == [".039", "-.044", "-.033", ".011"]
    assert "\n| 1 | .039 | -.044 | -.033 | .011 |\n" in PAGE


@pytest.mark.parametrize(("name", "report"), [("answers.svg", DEMO), ("pretrained_answers.svg", PRETRAINED)])
def test_a_picture_of_answers_is_of_its_recorded_run(name, report):
    picture = ElementTree.parse(FOLDER / name).getroot()
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Base", "GRPO", "DPH-JS"} < set(texts)
    for method, label in (("base", "Base"), ("grpo", "GRPO"), ("dph_js", "DPH-JS")):
        percent = f"{100 * report[method]['in_domain']['pass@k']['1'][0]:.0f}"
        assert texts[texts.index(label) + 1].startswith(f"Pass@1 {percent} ")


def test_the_recorded_pictures_are_those_of_the_recorded_values():
    """`make pictures` draws them again. A report that was recorded before it held its answers has none here."""
    for name, picture in site_module("study").answer_pictures().items():
        assert (FOLDER / name).read_text() == picture, name
