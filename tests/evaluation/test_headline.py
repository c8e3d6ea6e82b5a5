"""The headline states what is significant and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from rl.evaluation.analysis.prompt_metrics import prompt_metrics, summarise
from rl.evaluation.report.headline import Headline, style_sentences
from rl.evaluation.report.theme import method_looks
from tests.evaluation.conftest import DOWN, INCLUDES_0, UP, findings


def headline(comparison, **changed: tuple[float, float]) -> Headline:
    return Headline(findings(comparison, **changed), method_looks(comparison.spec.short_names))


NOTHING = "No difference between the base, GRPO and DPH-JS is beyond chance on these 6 questions."


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
                "dph_js_grpo_style_diversity": UP,
                "grpo_base_mean16": UP,
                "dph_js_base_mean16": UP,
                "grpo_base_pass16": DOWN,
                "dph_js_base_pass16": DOWN,
            },
            "GRPO gives right answers in 1.5 styles a question, DPH-JS in 3.6. Both are right more often than the "
            "base, but solve fewer questions in 16 tries.",
        ),
        (
            {"grpo_base_mean16": UP, "dph_js_base_mean16": UP, "grpo_base_pass16": DOWN},
            "Both are right more often than the base; GRPO solves fewer questions in 16 tries.",
        ),
        (
            {"grpo_base_mean16": DOWN, "dph_js_base_mean16": UP, "dph_js_base_pass16": UP},
            "GRPO is right less often than the base; DPH-JS is right more often and solves more questions in 16 tries.",
        ),
        ({"grpo_base_style_diversity": DOWN}, "The base gives right answers in 4.0 styles a question, GRPO in 1.5."),
        (
            {"grpo_base_style_diversity": DOWN, "dph_js_base_style_diversity": DOWN},
            "The base gives right answers in 4.0 styles a question, GRPO in 1.5 and DPH-JS in 3.6.",
        ),
        # The tested diversity says the opposite of the numbers that would be shown.
        ({"dph_js_grpo_style_diversity": DOWN}, f"{NOTHING[:-1]}, except in style diversity."),
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
CHANCE = "greedy accuracy, Pass@1, Pass@8, Pass@16, keep rate and number of styles"
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
                "GRPO and DPH-JS may differ by chance in keep rate and number of styles (in domain); in "
                f"{CHANCE} (out of domain).",
            ],
        ),
        (
            RIGHT | {"out_grpo_base_pass16": DOWN, "out_dph_js_grpo_keep_rate": DOWN},
            [
                "Out of domain: DPH-JS is below GRPO in keep rate. GRPO is right more often than the base, but solves "
                "fewer questions in 16 tries.",
                f"GRPO and DPH-JS may differ by chance in {CHANCE} (in domain); in greedy accuracy, Pass@1, Pass@8, "
                "Pass@16 and number of styles (out of domain).",
            ],
        ),
    ],
)
def test_the_summary_adds_the_other_split_and_what_may_be_chance(measured, changed, lines):
    found = headline(measured, **changed)
    assert found.summary() == lines
    sentences = [sentence for text in (found.title(), *lines) for sentence in text.split(". ")]
    assert len(set(sentences)) == len(sentences)


def with_styles(measured, split: str, right: dict[str, float], of: tuple[int, ...] = (8, 7, 1), wrong_in_join=0):
    """The comparison if every question of a split had so many samples in JOIN, CTE and Others, with these shares right,
    but none of JOIN in the first questions, and GRPO all of its samples in JOIN."""
    samples, summaries = dict(measured.samples), dict(measured.summaries)
    base = samples["base"][split]
    styles = np.repeat([base.style_names.index(name) for name in ("JOIN", "CTE", "Others")], of)
    correct = np.concatenate([np.arange(n) < round(n * right[name]) for name, n in zip(right, of, strict=True)])
    drawn = {"base": (styles, correct), "grpo": (0 * styles, correct)}
    for name, (style, is_right) in drawn.items():
        changed = replace(base, style=np.tile(style, (6, 1)), correct=np.tile(is_right, (6, 1)))
        changed.correct[:wrong_in_join, styles == styles[0]] = False
        samples[name] = samples[name] | {split: changed}
        summaries[name] = summaries[name] | {split: summarise(changed, prompt_metrics(changed, None, changed))}
    return replace(measured, samples=samples, summaries=summaries)


def test_styles_that_two_methods_have_may_differ_by_chance_unless_their_test_says_otherwise(measured):
    chance = headline(measured, dph_js_grpo_style_diversity=UP, grpo_base_style_diversity=DOWN).summary()[-1]
    assert chance.split("; ")[0].endswith("Pass@16 and keep rate (in domain)")
    assert chance.endswith("keep rate and number of styles (out of domain).")


@pytest.mark.parametrize(("number", "split"), enumerate(["in_domain", "out_of_domain"]))
@pytest.mark.parametrize(
    ("of_join", "of_cte", "wrong_in_join", "said"),
    [
        (7 / 8, 4 / 7, 0, "JOIN is the style that it is right in most often."),
        (7 / 8, 1, 0, "CTE is the style that it is right in most often."),
        # One question decides that CTE is ahead; in the five others JOIN is.
        (7 / 8, 6 / 7, 1, "Which style it is right in most often may be chance."),
        (1, 1, 0, "Which style it is right in most often may be chance."),
    ],
)
def test_a_style_is_the_best_on_a_split_only_beyond_chance(
    measured, number, split, of_join, of_cte, wrong_in_join, said
):
    found = with_styles(measured, split, {"JOIN": of_join, "CTE": of_cte, "Others": 0}, wrong_in_join=wrong_in_join)
    text = style_sentences(found, method_looks(measured.spec.short_names))[number]
    assert said in text and text.count(" most often") == 1
    assert "GRPO uses JOIN most, in 100 % of its samples (the base: 50 %)." in text


def test_rare_styles_and_others_are_left_out_of_the_bases_accuracy(measured, monkeypatch):
    looks, right = method_looks(measured.spec.short_names), {"JOIN": 7 / 8, "CTE": 4 / 7, "Others": 0}
    text, _ = style_sentences(with_styles(measured, "in_domain", right), looks)
    assert text.startswith("In domain, the base is right in 57 % (CTE) to 88 % (JOIN) of its samples in a style.")
    monkeypatch.setattr("rl.evaluation.report.headline.LEAST_SHARE", 0.1)
    rare = style_sentences(with_styles(measured, "in_domain", right, (14, 1, 1)), looks)
    assert [text.partition(",")[0] for text in rare] == ["Out of domain"]
