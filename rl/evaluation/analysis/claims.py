"""The claims of a report: that one method is higher than another in a metric, or how many styles a method ends in.

The verdict on a difference is supported, lower or inconclusive. It is supported (higher) or lower only if the
difference is significant after Holm's correction over the metrics of the two methods on that split (paired_test.py) and
its interval excludes 0. The verdict on the number of styles is supported, not supported or inconclusive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl.common.text import number_of
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.measures import CLAIMED, in_words, metrics_for
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.metrics.bootstrap import LEVEL, Interval
from rl.metrics.styles import BY_PREFIX

# Bounds on the entropy of styles that are read from a prefix. In the demo, after 60 steps with seeds 1 to 3, it was at
# most .11 with GRPO (.03 with seed 31), and .94 to 1.0 with DPH-JS at eta 0.5.
ONE_STYLE_ENTROPY = 0.35
SEVERAL_STYLES_ENTROPY = 0.6
LEAST_QUESTIONS = 6

# Methods that are trained on the reward alone, without any divergence.
REWARD_ONLY = ("grpo", "dapo")

ONE_STYLE, SEVERAL_STYLES = "ends in one style", "keeps several styles"
SUPPORTED, INCONCLUSIVE, NOT_SUPPORTED = "supported", "inconclusive", "not supported"
LOWER = "lower"  # a difference is significantly below 0
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Claim:
    """That a method has a property on a split.

    Attributes:
        predicate: the property in words.
        measure: what was tested.
        questions: the questions that it was tested on, in words; "" if it was not measured.
        unit: "share" (a paired difference of shares) or "nats".
        value: [value, low, high]; None if it was not measured.
        p_holm: the corrected p of a difference; None for another claim.
    """

    split: str
    method: str
    predicate: str
    measure: str
    questions: str
    unit: str
    value: Interval | None
    verdict: str
    p_holm: float | None = None


def claims(comparison: Comparison, tests: Sequence[PairedTest]) -> list[Claim]:
    """Every claim that a report's methods and splits allow to judge.

    Args:
        tests: as paired_tests returns them.
    """
    spec = comparison.spec
    tested = {(test.split, test.first, test.second, test.metric): test for test in tests}
    found = []

    def difference(split: str, name: str, other: str, metric: str) -> None:
        test = tested.get((split, name, other, metric))
        value, p_holm = (test.difference, test.p_holm) if test else (None, None)
        against = {BASE: "the base", BASE_AGAIN: "a second draw of the base"}.get(other, spec.short_names[other])
        if (other, metric) == (BASE, "keep_rate"):
            against = "the base in its later samples"
        solved = f" that the base solved in {spec.solved_in} samples" if metric == "keep_rate" else ""
        questions = f"{number_of(test.prompts, 'question')}{solved}" if test else ""
        predicate, measure = f"higher {metric_name(metric)} than {against}", "paired difference"
        found.append(Claim(split, name, predicate, measure, questions, "share", value, compared(value, p_holm), p_holm))

    def style_entropy(split: str, name: str, predicate: str, bound: float, above: bool) -> None:
        value = comparison.summaries[name][split]["style_entropy"]
        answered = int(np.count_nonzero(~np.isnan(comparison.metrics[name][split]["style_entropy"])))
        measure = f"mean style entropy {'above' if above else 'below'} {bound}"
        questions = f"{number_of(answered, 'question')} with a correct answer"
        # With fewer no test of signs could have a p of .05.
        said = INCONCLUSIVE if value and answered < LEAST_QUESTIONS else verdict(value, bound, above)
        found.append(Claim(split, name, predicate, measure, questions, "nats", value, said))

    for split in spec.splits:
        metrics = claimed_metrics(comparison, split)
        for metric in metrics:
            for name in spec.trained:
                difference(split, name, spec.noise_floor if metric == "keep_rate" else BASE, metric)
        for other in spec.without_divergence:
            for metric in metrics:
                for name in spec.with_divergence:
                    difference(split, name, other, metric)
        has_styles = comparison.samples[BASE][split].style_names
        if spec.styles_by == BY_PREFIX and has_styles and split == spec.splits[0]:
            for name in (name for name in spec.without_divergence if name.startswith(REWARD_ONLY)):
                style_entropy(split, name, ONE_STYLE, ONE_STYLE_ENTROPY, above=False)
            for name in spec.with_divergence:
                style_entropy(split, name, SEVERAL_STYLES, SEVERAL_STYLES_ENTROPY, above=True)
    return found


def claimed_metrics(comparison: Comparison, split: str) -> list[str]:
    return metrics_for(CLAIMED, comparison.samples[BASE][split].n, comparison.spec.solved_in)


def compared(difference: Interval | None, p_holm: float | None) -> str:
    """Verdict of the claim that a paired difference is above 0."""
    if difference is None or p_holm is None:
        return NOT_MEASURED
    found = verdict(difference, 0.0, above=True) if p_holm <= 1 - LEVEL else INCONCLUSIVE
    return LOWER if found == NOT_SUPPORTED else found


def verdict(value: Interval | None, bound: float, above: bool) -> str:
    """Verdict of the claim that a value is above (or below) a bound: inconclusive if the bound is in its interval."""
    if value is None:
        return NOT_MEASURED
    _, low, high = value
    if low <= bound <= high:
        return INCONCLUSIVE
    return SUPPORTED if (low > bound) == above else NOT_SUPPORTED


def metric_name(metric: str) -> str:
    """A metric's name in running text."""
    return "greedy accuracy" if metric == "greedy" else in_words(metric)
