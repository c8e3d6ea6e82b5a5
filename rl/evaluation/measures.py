"""What a report measures of a model on a split: the name, definition, heading, unit and uses of every measure."""

from dataclasses import dataclass

import numpy as np

from rl.common.outcomes import CORRECT_TOLERANCE
from rl.metrics.bootstrap import LEVEL, RESAMPLES, Interval
from rl.metrics.majority import MOST_SAMPLES
from rl.metrics.styles import BY_OPENING, BY_PREFIX, BY_STRUCTURE, OTHERS

SHARE, NUMBER, NATS = "share", "number", "nats"
# Where a measure is used: in the page's main table, its table of answers and lengths, the paired tests (and tables.md),
# the page's differences, the results for groups of questions, the comparison over seeds, and the demo's tables on the
# terminal.
MAIN_TABLE, ANSWERS, TESTED, SHOWN, GROUP_TABLES, OVER_SEEDS = "main", "answers", "tested", "shown", "groups", "seeds"
TERMINAL = "terminal"
EVERYWHERE = (MAIN_TABLE, TESTED, SHOWN, GROUP_TABLES, OVER_SEEDS)


@dataclass(frozen=True)
class Measure:
    """
    Attributes:
        name: in report.json; it ends with "@k" if there is a value for every k.
        definition: may have the fields {n}, {solved_in}, {styles}, {styled} and {entropy}.
        heading: a column's heading; empty: the name in words.
        unit: SHARE (shown in per cent), NUMBER, NATS, or empty.
        used: the places where it is shown or tested.
        of_styles: whether only tasks with styles have it.
    """

    name: str
    definition: str
    heading: str = ""
    unit: str = SHARE
    used: tuple[str, ...] = ()
    of_styles: bool = False


# What decides whether two answers are one vote: their results, or their syntax.
RESULT, SYNTAX = "result", "syntax"

MEASURES = (
    Measure(
        "greedy", "Share of prompts whose greedy response (temperature 0) is correct.", used=(*EVERYWHERE, TERMINAL)
    ),
    Measure("mean@k", "Pass@1: the share of correct ones among all k samples.", "Pass@1", used=(TESTED, SHOWN)),
    Measure(
        "pass@k",
        "Probability that at least one of k samples is correct: 1 - C(n-c,k)/C(n,k) with c correct of n = {n} samples, "
        "the unbiased estimator; k never exceeds n.",
        used=(*EVERYWHERE, TERMINAL),
    ),
    Measure(
        "maj@k",
        "Probability that the most frequent of k answers is correct: the expectation over all subsets of k of the n "
        "samples. Samples without an answer, or with SQL that fails, do not vote; each of t tied answers wins with "
        f"probability 1/t. maj_by says which answers are equal. Left out for n above {MOST_SAMPLES}, as it takes long.",
        used=(ANSWERS, TESTED),
    ),
    Measure(
        "keep_rate",
        "Mean Pass@{solved_in} on the prompts that the base solved: the probability that they are still solved. An "
        "unchanged model stays below 1, because a prompt can be solved once by luck; a second draw of the base shows "
        "this noise floor. The base itself is measured on its samples after the first {solved_in}, which did not "
        "decide what it solved (null if there are too few).",
        used=EVERYWHERE,
    ),
    Measure(
        "lost",
        "Share of the prompts that the base solved for which no sample is correct. null for the base itself, whose "
        "first {solved_in} samples decided what it solved; a second draw of the base shows the noise.",
        used=(MAIN_TABLE, GROUP_TABLES),
    ),
    Measure(
        "newly_solved",
        "Mean Pass@{solved_in} on the prompts that the base did not solve; null if it solved all.",
        used=(MAIN_TABLE, TESTED, GROUP_TABLES),
    ),
    Measure(
        "distinct_correct",
        "Number of distinct syntax trees (sqlglot) among a prompt's correct SQL after aliases, case and the order of "
        "operands are normalised; mean over the prompts with one.",
        unit=NUMBER,
        used=(ANSWERS, TESTED),
    ),
    Measure(
        "distinct_results",
        "Number of distinct results among a prompt's SQL that ran, correct or not; mean over the prompts with one; "
        "null if not all samples have a digest of their result.",
        unit=NUMBER,
        used=(ANSWERS, TESTED),
    ),
    Measure(
        "styles",
        "Mean number of distinct styles among a prompt's correct responses, over the prompts with one. It grows with "
        "the number of correct responses. {styled}",
        unit=NUMBER,
        used=(MAIN_TABLE, GROUP_TABLES, OVER_SEEDS, TERMINAL),
        of_styles=True,
    ),
    Measure(
        "style_entropy",
        "Entropy in nats of the styles among a prompt's correct responses, mean over the prompts with one: 0 is one "
        "style, ln {styles} = {entropy:.2f} is {styles} styles in equal shares. It grows with the number of correct "
        "responses.",
        unit=NATS,
        used=(OVER_SEEDS,),
        of_styles=True,
    ),
    Measure(
        "style_diversity",
        "Probability that two correct responses to a prompt have different styles, mean over the prompts with two: 0 "
        "is one style. It does not depend on the number of correct responses, so that models of different accuracy can "
        "be compared.",
        used=(MAIN_TABLE, TESTED, GROUP_TABLES),
        of_styles=True,
    ),
    Measure("style_share", "Share of each style over all samples, correct or not.", of_styles=True),
    Measure("response_tokens", "Mean response length in tokens.", "Tokens", NUMBER, (ANSWERS,)),
    Measure(
        "truncated",
        "Share of samples that hit the length limit.",
        "Trun\N{SOFT HYPHEN}cated",
        used=(MAIN_TABLE,),
    ),
    Measure(
        "unparsed_sql",
        "Correct samples whose SQL sqlglot cannot parse; they are compared by their text.",
        unit=NUMBER,
    ),
    Measure(
        "gold_failures",
        "Samples whose reference query failed; they count as wrong.",
        unit=NUMBER,
    ),
    Measure("overlong", "Prompts that were left out because they are too long.", unit=NUMBER),
    Measure(
        "maj_by",
        f"{RESULT}: SQL with equal results is one answer. {SYNTAX}: SQL with equal syntax trees, and math with equal "
        "text after spelling is normalised, is one answer; 1/2 and 0.5 are two.",
        unit="",
    ),
)
_BY_NAME = {measure.name: measure for measure in MEASURES}

_TERMS = {
    "correct": f"A response is correct if its score is 1 within {CORRECT_TOLERANCE:g}. For SQL: executed on the "
    "database, it returns the result of the reference query.",
    "solved": "The base solves a prompt if at least one of its first {solved_in} samples is correct.",
    "interval": f"[value, low, high]: mean over prompts with its {LEVEL:.0%} percentile bootstrap interval "
    f"({RESAMPLES:,} resamples of prompts, fixed seed). It covers the choice of prompts, not the training seed.",
}
_STYLES = {
    BY_PREFIX: "A style is the leading comment of the SQL, such as /*JOIN*/ ({names}); anything else, including a mix, "
    "is '{others}' and counts as one more style.",
    BY_STRUCTURE: "A style is the structure of the SQL: of {names}, the first that fits in the order CTE (WITH), AGG "
    "(an aggregate of a condition), EXISTS (or a subquery in a comparison), IN (with a subquery), JOIN; anything else "
    "is '{others}' and counts as one more style.",
    BY_OPENING: "A style is the response's first word, one of {names}; anything else is '{others}' and counts as one "
    "more style.",
}


def definitions(n: int | str, solved_in: int, styles: tuple[str, ...], styles_by: str = BY_PREFIX) -> dict[str, str]:
    """{term: definition} for readers of report.json and report.html; n: samples per prompt."""
    texts = _TERMS | {m.name: m.definition for m in MEASURES if styles or not m.of_styles}
    styled = _STYLES[styles_by].format(names=", ".join(styles), others=OTHERS)
    fields = {"n": n, "solved_in": solved_in, "styled": styled, "styles": len(styles)}
    return {name: text.format(entropy=np.log(len(styles) or 1), **fields) for name, text in texts.items()}


def measure_of(metric: str) -> Measure:
    """The measure of a metric: greedy, pass@8, mean@32, keep_rate, ..."""
    family, at, _ = metric.partition("@")
    return _BY_NAME[f"{family}@k" if at else metric]


def heading(metric: str) -> str:
    return measure_of(metric).heading or metric.replace("_", " ").capitalize()


def in_words(metric: str) -> str:
    """The heading within a sentence."""
    return heading(metric) if "@" in metric else heading(metric).lower()


def in_display_unit(metric: str, value: float) -> tuple[float, int]:
    """The value as tables show it, and its decimals: shares in per cent, other metrics as they are."""
    return (100 * value, 1) if measure_of(metric).unit == SHARE else (value, 2)


def interval_of(summary: dict, metric: str) -> Interval | None:
    """The interval of a metric in a summary of report.json; None if undefined."""
    family, at, k = metric.partition("@")
    return summary.get(f"{family}@k", {}).get(k) if at else summary.get(metric)


def metrics_for(use: str, n: int, solved_in: int) -> list[str]:
    """The metrics of all measures with this use, in order: a measure "@k" with its largest k, Pass@k with several.

    Args:
        n: samples per prompt.
        solved_in: see the report's specification.
    """
    of_pass = (solved_in, n) if use in (TESTED, SHOWN) else sorted({1, solved_in, n})
    found = []
    for measure in (measure for measure in MEASURES if use in measure.used):
        family, at, _ = measure.name.partition("@")
        ks = of_pass if family == "pass" else (n,) if family != "maj" or n <= MOST_SAMPLES else ()
        found += [f"{family}@{k}" for k in dict.fromkeys(ks)] if at else [family]
    return found
