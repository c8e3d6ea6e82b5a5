"""The headline states what is significant and nothing else."""

from dataclasses import replace

import pytest

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.analysis.paired_test import PairedTest, paired_tests
from rl.evaluation.report.headline import Headline, leading_methods, style_sentence
from rl.evaluation.report.theme import method_looks
from rl.evaluation.spec import read_spec
from rl.metrics.styles import BY_OPENING

FORMS = {"base": 4.04, "grpo": 1.52, "dph_js": 3.61}


@pytest.fixture(scope="module")
def measured(made_up_report, tmp_path_factory):
    """A base, GRPO and DPH-JS on two splits of SQL, and FORMS as the number of styles of each."""
    made = made_up_report(tmp_path_factory.mktemp("measured"), prompts=6)
    for name in FORMS:
        made.method(name)
    comparison = compare(read_spec(made.write()))
    summaries = {
        name: {split: summary | {"styles": [FORMS[name], 0.0, 5.0]} for split, summary in of_splits.items()}
        for name, of_splits in comparison.summaries.items()
    }
    return replace(comparison, summaries=summaries)


def headline(comparison, **changed: tuple[float, float]) -> Headline:
    """The headline if the tests of `first_second_metric` had this difference and p_holm, and no other did.

    "out_" before a name is the second split; without it a change is of the first split.
    """
    tests = []
    for test in paired_tests(comparison):
        split = "out_" if test.split == "out_of_domain" else ""
        name = f"{split}{test.first}_{test.second}_{test.metric.replace('@', '')}"
        difference, p = changed.get(name, (0.2, 0.06))
        interval = [difference, difference - 0.1, difference + 0.1]
        tests.append(PairedTest(test.split, test.first, test.second, test.metric, 6, interval, p, p))
    return Headline(comparison, tests, method_looks(comparison.spec.short_names))


NOTHING = "No difference between the base, GRPO and DPH-JS is beyond chance on these 6 questions."
UP, DOWN, INCLUDES_0 = (0.2, 0.01), (-0.2, 0.01), (0.1, 0.01)


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({}, NOTHING),
        ({"grpo_base_mean16": INCLUDES_0}, NOTHING),
        ({"grpo_base_mean16": DOWN}, "GRPO is right less often than the base."),
        (
            {"grpo_base_mean16": UP, "grpo_base_pass16": DOWN},
            "GRPO is right more often than the base, but solves fewer questions in 16 tries.",
        ),
        (
            {
                "dph_js_grpo_style_entropy": UP,
                "grpo_base_mean16": UP,
                "dph_js_base_mean16": UP,
                "grpo_base_pass16": DOWN,
                "dph_js_base_pass16": DOWN,
            },
            "GRPO answers in 1.5 forms of SQL, DPH-JS in 3.6. Both are right more often than the base, but solve fewer "
            "questions in 16 tries.",
        ),
        (
            {"grpo_base_mean16": UP, "dph_js_base_mean16": UP, "grpo_base_pass16": DOWN},
            "Both are right more often than the base; GRPO solves fewer questions in 16 tries.",
        ),
        (
            {"grpo_base_mean16": DOWN, "dph_js_base_mean16": UP, "dph_js_base_pass16": UP},
            "GRPO is right less often than the base; DPH-JS is right more often and solves more questions in 16 tries.",
        ),
        ({"grpo_base_style_entropy": DOWN}, "The base answers in 4.0 forms of SQL, GRPO in 1.5."),
        (
            {"grpo_base_style_entropy": DOWN, "dph_js_base_style_entropy": DOWN},
            "The base answers in 4.0 forms of SQL, GRPO in 1.5 and DPH-JS in 3.6.",
        ),
        # The tested entropy says the opposite of the numbers that would be shown.
        ({"dph_js_grpo_style_entropy": DOWN}, f"{NOTHING[:-1]}, except in style entropy."),
        ({"grpo_base_maj16": DOWN, "dph_js_grpo_maj16": UP}, f"{NOTHING[:-1]}, except in Maj@16."),
        (
            {"grpo_base_pass16": DOWN, "dph_js_grpo_pass16": UP, "dph_js_grpo_greedy": DOWN},
            "DPH-JS solves more questions in 16 tries than GRPO, but is below it in greedy accuracy. GRPO solves fewer "
            "questions in 16 tries than the base.",
        ),
        # What says the same in another metric is left to the claims.
        (
            {"dph_js_grpo_pass16": UP, "dph_js_grpo_keep_rate": UP},
            "DPH-JS solves more questions in 16 tries than GRPO.",
        ),
        (
            {"dph_js_grpo_greedy": DOWN, "dph_js_grpo_keep_rate": UP},
            "DPH-JS is above GRPO in keep rate, but is below it in greedy accuracy.",
        ),
        ({"grpo_base_keep_rate": DOWN}, "GRPO is below the base in keep rate."),
        (
            {"grpo_base_greedy": UP, "dph_js_base_greedy": UP, "grpo_base_pass8": DOWN},
            "GRPO and DPH-JS are above the base in greedy accuracy; GRPO is below the base in Pass@8.",
        ),
    ],
)  # fmt: skip
def test_the_title_says_what_is_significant_and_nothing_else(measured, changed, title):
    assert headline(measured, **changed).title() == title


PAIR = {"dph_js_grpo_pass16": UP, "dph_js_grpo_mean16": UP, "dph_js_grpo_greedy": UP, "dph_js_grpo_pass8": UP}
RIGHT = {"grpo_base_mean16": UP, "out_grpo_base_mean16": UP}
CHANCE = "greedy accuracy, Pass@1, Pass@8, Pass@16 and keep rate"
SAME = [
    "Out of domain: the same as in domain.",
    f"GRPO and DPH-JS may differ by chance in {CHANCE} (in domain and out of domain).",
]


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({}, SAME),
        (RIGHT, SAME),
        (
            RIGHT | PAIR,
            [
                "Out of domain: Against the base: the same as in domain.",
                f"GRPO and DPH-JS may differ by chance in keep rate (in domain); in {CHANCE} (out of domain).",
            ],
        ),
        (
            RIGHT | {"out_grpo_base_pass16": DOWN, "out_dph_js_grpo_keep_rate": DOWN},
            [
                "Out of domain: DPH-JS is below GRPO in keep rate. GRPO is right more often than the base, but solves "
                "fewer questions in 16 tries.",
                f"GRPO and DPH-JS may differ by chance in {CHANCE} (in domain); in greedy accuracy, Pass@1, Pass@8 and "
                "Pass@16 (out of domain).",
            ],
        ),
    ],
)
def test_the_summary_adds_the_other_split_and_what_may_be_chance(measured, changed, lines):
    found = headline(measured, **changed)
    assert found.summary() == lines
    sentences = [sentence for text in (found.title(), *lines) for sentence in text.split(". ")]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize(("of_cte", "most_often"), [(0.7, True), (0.5, True), (0.8, False)])
def test_no_style_is_the_best_if_two_are(measured, of_cte, most_often):
    accuracy = {"JOIN": [0.8, 0.0, 1.0], "CTE": [of_cte, 0.0, 1.0]}
    summaries = {
        name: of
        | {"in_domain": of["in_domain"] | {"style_accuracy": accuracy, "style_share": {"CTE": 0.1, "JOIN": 0.9}}}
        for name, of in measured.summaries.items()
    }
    text = style_sentence(replace(measured, summaries=summaries), headline(measured).looks)
    assert "GRPO answers in JOIN 90 % of the time" in text
    assert ("the style that the base is right in most often" in text) == most_often


@pytest.mark.parametrize(("entropy", "sign"), [(DOWN, "▼"), (UP, ""), (INCLUDES_0, "≈")])
def test_a_tile_says_of_the_styles_what_their_numbers_show(measured, entropy, sign):
    """GRPO's number of styles is below the base's; the entropy, which is tested, may be above."""
    _, grpo, _ = headline(measured, grpo_base_style_entropy=entropy).tiles()[-1].bars
    assert (grpo.value, grpo.sign) == ("1.5", sign)


@pytest.mark.parametrize(
    ("order", "leading"),
    [(["dapo", "grpo", "dph_js"], ["grpo", "dph_js"]), (["grpo_cap", "dapo", "dph_js"], ["grpo_cap", "dph_js"])],
)
def test_grpo_leads_wherever_it_stands(made_up_report, tmp_path, order, leading):
    made = made_up_report(tmp_path, prompts=2)
    for name in ("base", *order):
        made.method(name)
    assert leading_methods(read_spec(made.write())) == leading


def test_the_tiles_have_the_number_of_tries_of_the_title(measured):
    tiles = headline(measured).tiles()
    assert [tile.title for tile in tiles] == ["Pass@1", "Pass@16", "Forms of SQL"]
    assert tiles[1].about.startswith("right at least once in 16 tries")


def test_styles_that_are_not_sql_are_ways_of_writing(measured):
    of_math = replace(measured, spec=measured.spec.model_copy(update={"styles_by": BY_OPENING}))
    top = headline(of_math, dph_js_grpo_style_entropy=UP)
    assert top.title() == "GRPO answers in 1.5 ways of writing, DPH-JS in 3.6."
    assert top.tiles()[-1].title == "Ways of writing"
