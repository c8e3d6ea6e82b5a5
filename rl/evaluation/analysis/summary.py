"""The summary of one method on one split, as report.json has it (evaluation/measures.py has what its metrics mean)."""

import numpy as np

from rl.evaluation.analysis.samples import SampleSet
from rl.evaluation.measures import MEASURES, OF_GROUPS, RESULT, SYNTAX
from rl.metrics.bootstrap import mean_interval, ratio_interval
from rl.metrics.distinct_n import ORDERS
from rl.metrics.pass_at_k import k_values
from rl.metrics.styles import style_counts


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
    """The summary of a group of questions: Pass@k and the measures OF_GROUPS, as `summarise` has them.

    Args:
        n: samples per prompt.
        metrics: {metric: [P] float64}, as prompt_metrics returns them.
        members: [P] bool.
    """
    interval = {name: mean_interval(values[members]) for name, values in metrics.items()}
    names = [measure.name for measure in MEASURES if OF_GROUPS in measure.used and "@" not in measure.name]
    passed = {"pass@k": {str(k): interval[f"pass@{k}"] for k in k_values(n)}}
    return {"prompts": int(members.sum())} | passed | {name: interval.get(name) for name in names}
