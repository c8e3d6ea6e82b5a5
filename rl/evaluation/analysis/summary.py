"""The summary of one method on one split, as report.json has it (evaluation/measures.py has what its metrics mean)."""

import numpy as np

from rl.evaluation.analysis.samples import SampleSet
from rl.evaluation.measures import MEASURES, OF_GROUPS, RESULT, SYNTAX
from rl.metrics.bootstrap import mean_interval, ratio_interval
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
    of_k = {"pass@k": k_values(n), "maj@k": k_values(n), "mean@k": (n,)}
    return {
        "n": n,
        "prompts": samples.prompts,
        **{measure.name: interval.get(measure.name) for measure in MEASURES},
        **{name: {str(k): interval[name.replace("@k", f"@{k}")] for k in ks} for name, ks in of_k.items()},
        "maj_by": RESULT if by_result else SYNTAX,
        "unparsed_sql": samples.unparsed,
        "truncated": float(samples.truncated.mean()),
        "style_share": dict(zip(samples.style_names, shares, strict=True)) or None,
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
