"""The summary of one method on one split, as report.json has it, and the meaning of its metrics."""

import numpy as np

from rl.common.outcomes import CORRECT_TOLERANCE
from rl.evaluation.analysis.samples import SampleSet
from rl.metrics.bootstrap import LEVEL, RESAMPLES, Interval, mean_interval, ratio_interval
from rl.metrics.distinct_n import ORDERS
from rl.metrics.pass_at_k import k_values
from rl.metrics.styles import BY_PREFIX, BY_STRUCTURE, OTHERS, style_counts

# What a majority is counted over.
RESULT, SYNTAX = "result", "syntax"
# Beside Pass@k, what is measured of a group of questions.
GROUP_METRICS = ("greedy", "keep_rate", "lost", "newly_solved", "styles", "style_entropy")
# Metrics that are no shares.
NOT_PERCENT = ("styles", "style_entropy", "distinct_correct", "distinct_results", "response_tokens")


def summarise(samples: SampleSet, metrics: dict[str, np.ndarray], by_result: bool = False) -> dict:
    """The summary of one method on one split; every metric is [value, low, high], or None if undefined.

    Args:
        metrics: {metric: [P] float64}, as prompt_metrics returns them.
        by_result: as passed to prompt_metrics.
    """
    n = samples.n
    interval = {name: mean_interval(values) for name, values in metrics.items()}
    named = len(samples.style_names)
    # [P, styles] int: samples in each style, and the correct ones among them.
    all_styles, among_correct = (style_counts(samples.style, of, named) for of in (samples.style >= 0, samples.correct))
    shares = (all_styles.sum(axis=0) / samples.style.size).tolist()
    accuracies = [ratio_interval(among_correct[:, i], all_styles[:, i]) for i in range(named)]
    return {
        "n": n,
        "prompts": samples.prompts,
        "greedy": interval.get("greedy"),
        "pass@k": {str(k): interval[f"pass@{k}"] for k in k_values(n)},
        "mean@k": {str(n): interval[f"mean@{n}"]},
        "maj@k": {str(k): interval[f"maj@{k}"] for k in k_values(n)},
        **{
            name: interval.get(name)
            for name in ("keep_rate", "lost", "newly_solved", "distinct_correct", "distinct_results")
        },
        "maj_by": RESULT if by_result else SYNTAX,
        "unparsed_sql": samples.unparsed,
        "styles": interval.get("styles"),
        "style_entropy": interval.get("style_entropy"),
        "style_share": dict(zip(samples.style_names, shares, strict=True)) or None,
        **{f"distinct_{n}": interval[f"distinct_{n}"] for n in ORDERS},
        "response_tokens": interval["response_tokens"],
        "truncated": float(samples.truncated.mean()),
        "style_accuracy": dict(zip(samples.style_names, accuracies, strict=True)) or None,
    }


def summarise_group(n: int, metrics: dict[str, np.ndarray], members: np.ndarray) -> dict:
    """The summary of a group of questions: the metrics of GROUP_METRICS, as `summarise` has them.

    Args:
        n: samples per prompt.
        metrics: {metric: [P] float64}, as prompt_metrics returns them.
        members: [P] bool.
    """
    interval = {name: mean_interval(values[members]) for name, values in metrics.items()}
    passed = {"pass@k": {str(k): interval[f"pass@{k}"] for k in k_values(n)}}
    return {"prompts": int(members.sum())} | passed | {name: interval.get(name) for name in GROUP_METRICS}


_STYLES = {
    BY_PREFIX: "A style is the leading comment of the SQL, such as /*JOIN*/ ({names}); anything else, including a mix, "
    "is '{others}' and counts as one more style.",
    BY_STRUCTURE: "A style is the structure of the SQL, the first that fits of CTE (WITH), AGG (an aggregate of a "
    "condition), EXISTS (or a subquery in a comparison), IN (with a subquery) and JOIN, among {names}; anything else "
    "is '{others}' and counts as one more style.",
}


def metric_of(summary: dict, name: str) -> Interval | None:
    """The interval of a metric by its flat name (greedy, pass@8, mean@32, keep_rate, ...); None if undefined."""
    family, at, k = name.partition("@")
    return summary[f"{family}@k"].get(k) if at else summary[name]


def in_display_unit(metric: str, value: float) -> tuple[float, int]:
    """The value as tables show it, and its decimals: shares in per cent, other metrics as they are."""
    return (value, 2) if metric in NOT_PERCENT else (100 * value, 1)


def definitions(n: int | str, solved_in: int, styles: tuple[str, ...], styles_by: str = BY_PREFIX) -> dict[str, str]:
    """{term: meaning} for readers of report.json and report.html; n: samples per prompt."""
    words = {
        "correct": f"A response is correct if its score is 1 within {CORRECT_TOLERANCE:g}. For SQL: executed on the "
        "database, it returns the result of the reference query.",
        "solved": f"The base solves a prompt if at least one of its first {solved_in} samples is correct.",
        "greedy": "Share of prompts whose greedy response (temperature 0) is correct.",
        "pass@k": f"Probability that at least one of k samples is correct: 1 - C(n-c,k)/C(n,k) with c correct of n = "
        f"{n} samples, the unbiased estimator; k never exceeds n.",
        "mean@k": "Share of correct samples over all k samples of a prompt.",
        "keep_rate": f"Mean Pass@{solved_in} on the prompts that the base solved: the probability that they are "
        "still solved. An unchanged model stays below 1, because a prompt can be solved once by luck; a second draw of "
        f"the base shows this noise floor. The base itself is measured on the samples after its first {solved_in}, "
        "which did not decide what it solved (null if there are too few).",
        "lost": "Share of the prompts that the base solved for which no sample is correct.",
        "newly_solved": f"Mean Pass@{solved_in} on the prompts that the base did not solve; null if it solved all.",
        "maj@k": "Probability that the most frequent of k answers is correct: the expectation over all subsets of k "
        "of the n samples. Samples without an answer, or with SQL that fails, do not vote; each of t tied answers "
        "wins with probability 1/t. maj_by defines equal answers.",
        "maj_by": f"{RESULT}: SQL with equal results is one answer. {SYNTAX}: SQL with equal syntax trees, and math "
        "with equal text after spelling is normalised, is one answer; 1/2 and 0.5 are two.",
        "distinct_correct": "Number of distinct syntax trees (sqlglot) among a prompt's correct SQL after aliases, "
        "case and the order of operands are normalised; mean over the prompts with one.",
        "distinct_results": "Number of distinct results among a prompt's SQL that ran, correct or not; mean over the "
        "prompts with one; null for samples of a version that stored none.",
        "unparsed_sql": "Correct samples whose SQL sqlglot cannot parse; they are compared by their text.",
        **{
            f"distinct_{order}": f"Distinct {order}-grams of tokens over all {order}-grams in a prompt's {n} responses "
            "together (distinct-n). It falls with response length."
            for order in ORDERS
        },
        "response_tokens": "Mean response length in tokens.",
        "truncated": "Share of samples that hit the length limit.",
        "interval": f"[value, low, high]: mean over prompts with its {LEVEL:.0%} percentile bootstrap interval "
        f"({RESAMPLES:,} resamples of prompts, fixed seed). It covers the choice of prompts, not the training seed.",
    }
    if styles:
        words |= {
            "styles": "Mean number of distinct styles among a prompt's correct responses, over the prompts with one. "
            + _STYLES[styles_by].format(names=", ".join(styles), others=OTHERS),
            "style_entropy": "Entropy in nats of the styles among a prompt's correct responses, mean over the prompts "
            f"with one: 0 is one style, ln {len(styles)} = {np.log(len(styles)):.2f} is {len(styles)} styles in "
            "equal shares.",
            "style_share": "Share of each style over all samples, correct or not.",
            "style_accuracy": "Share of correct samples among all samples in a style.",
        }
    return words
