"""One method on one split as the JSON object of report.json."""

import numpy as np

from verl.dph.evaluation.bootstrap import LEVEL, RESAMPLES, Interval, mean_interval
from verl.dph.evaluation.pass_at_k import k_values
from verl.dph.evaluation.samples import SampleSet
from verl.dph.evaluation.styles import OTHERS


def summarise(samples: SampleSet, metrics: dict[str, np.ndarray]) -> dict:
    """The summary of one method on one split; every metric is [value, low, high], or null where not defined.

    Args:
        samples: the sampled answers.
        metrics: what prompt_metrics made of them, {metric: [P] float64}.
    """
    n = samples.n
    interval = {name: mean_interval(values) for name, values in metrics.items()}
    return {
        "n": n,
        "prompts": samples.prompts,
        "greedy": interval.get("greedy"),
        "pass@k": {str(k): interval[f"pass@{k}"] for k in k_values(n)},
        "mean@k": {str(n): interval[f"mean@{n}"]},
        "keep_rate": interval["keep_rate"],
        "lost": interval["lost"],
        "newly_solved": interval["newly_solved"],
        "styles": interval.get("styles"),
        "style_entropy": interval.get("style_entropy"),
        "style_share": style_share(samples),
        "truncated": float(samples.truncated.mean()),
    }


def metric_of(summary: dict, name: str) -> Interval:
    """The interval of a metric by its flat name: greedy, pass@8, mean@32, keep_rate, style_entropy, ..."""
    family, at, k = name.partition("@")
    return summary[f"{family}@k"][k] if at else summary[name]


def style_share(samples: SampleSet) -> dict[str, float] | None:
    """{style: share of all samples, correct or not}; None for a task without styles."""
    if not samples.style_names:
        return None
    counts = np.bincount(samples.style.ravel(), minlength=len(samples.style_names))
    return dict(zip(samples.style_names, (counts / samples.style.size).tolist(), strict=True))


def definitions(n: int, solved_in: int, styles: tuple[str, ...]) -> dict[str, str]:
    """What every word of the report means, for the reader of report.json and report.html."""
    words = {
        "correct": "An answer is correct when its score is 1 within 1e-6. For SQL: executed on the database, it gives "
        "the result of the reference query.",
        "solved": f"The base solves a prompt when at least one of its first {solved_in} samples is correct.",
        "greedy": "Share of prompts whose one greedy answer (temperature 0) is correct.",
        "pass@k": f"Probability that at least one of k samples is correct: 1 - C(n-c,k)/C(n,k) with c correct of n = "
        f"{n} samples, the unbiased estimator; k never exceeds n.",
        "mean@k": "Share of correct samples over all k samples of a prompt.",
        "keep_rate": f"Mean Pass@{solved_in} on the prompts that the base solved: the chance that they are still "
        "solved. A model that has not changed stays below 1, because a prompt can be solved once by luck; a second "
        f"draw of the base shows this noise floor. For the base itself the samples after its first {solved_in} are "
        "used, which did not decide what it solved (null when there are too few).",
        "lost": "Share of the prompts that the base solved for which not one sample is correct.",
        "newly_solved": f"Mean Pass@{solved_in} on the prompts that the base did not solve; null when it solved all.",
        "truncated": "Share of samples that hit the length limit.",
        "interval": f"[value, low, high]: mean over prompts with its {LEVEL:.0%} percentile bootstrap interval "
        f"({RESAMPLES:,} resamples of prompts, fixed seed). It covers the choice of prompts, not the seed of training.",
    }
    if styles:
        words |= {
            "styles": "Mean number of distinct styles among a prompt's correct answers, over the prompts with one. A "
            f"style is the comment that opens the SQL ({', '.join(f'/*{name}*/' for name in styles)}); anything else, "
            f"a mix included, is '{OTHERS}' and counts as one more style.",
            "style_entropy": "Entropy in nats of the styles among a prompt's correct answers, mean over the prompts "
            f"with one: 0 is one style, ln {len(styles)} = {np.log(len(styles)):.2f} is {len(styles)} styles in "
            "equal parts.",
            "style_share": "Share of each style over all samples, correct or not.",
        }
    return words
