"""The headline states what is significant and nothing else."""

import pytest

from rl.evaluation.analysis.claims import claims
from rl.evaluation.analysis.comparison import compare
from rl.evaluation.analysis.paired_test import PairedTest, paired_tests
from rl.evaluation.report.headline import Headline
from rl.evaluation.report.theme import method_looks
from rl.evaluation.spec import read_spec


@pytest.fixture(scope="module")
def measured(made_up_report, tmp_path_factory):
    """A base, GRPO and DPH-JS that differ in nothing but chance."""
    made = made_up_report(tmp_path_factory.mktemp("measured"), prompts=6, splits=("in_domain",), styles=())
    for name in ("base", "grpo", "dph_js"):
        made.method(name)
    return compare(read_spec(made.write()))


def title_of(comparison, **changed: tuple[list[float], float]) -> str:
    """The headline if the tests of `first_second_metric` had this difference and p_holm, and no other did."""
    tests = []
    for test in paired_tests(comparison):
        name = f"{test.first}_{test.second}_{test.metric.replace('@', '')}"
        difference, p = changed.get(name, ([0.2, 0.1, 0.3], 0.06))
        tests.append(PairedTest(test.split, test.first, test.second, test.metric, 6, difference, p, p))
    return Headline(comparison, claims(comparison, tests), tests, method_looks(comparison.spec.short_names)).title()


NOTHING = "No difference between the base, GRPO and DPH-JS is beyond chance on these 6 questions."
UP, DOWN, INCLUDES_0 = ([0.2, 0.1, 0.3], 0.01), ([-0.2, -0.3, -0.1], 0.01), ([0.2, 0.0, 0.3], 0.01)


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
            {"grpo_base_pass16": DOWN, "dph_js_base_mean16": UP, "dph_js_grpo_pass16": UP, "dph_js_grpo_greedy": DOWN},
            "GRPO solves fewer questions in 16 tries than the base. DPH-JS solves more questions in 16 tries than "
            "GRPO, but is below it in greedy accuracy.",
        ),
        (
            {"dph_js_grpo_greedy": DOWN, "dph_js_grpo_mean16": DOWN},
            "DPH-JS is below GRPO in Pass@1 and greedy accuracy.",
        ),
    ],
)  # fmt: skip
def test_the_headline_says_what_is_significant_and_nothing_else(measured, changed, title):
    assert title_of(measured, **changed) == title
