"""Metrics of each prompt, and their summary: means over prompts with intervals, as report.json has them."""

import numpy as np

from rl.common.errors import UserError
from rl.evaluation.analysis.samples import JudgedSamples, SampleSet
from rl.evaluation.measures import GROUP_TABLES, MEASURES, RESULT, SYNTAX
from rl.metrics.bootstrap import mean_interval
from rl.metrics.distinct_answers import NO_VOTE, distinct_answers
from rl.metrics.majority import ks_of_majority, majority_at_k
from rl.metrics.pass_at_k import SOLVED_IN, k_values, pass_at_k
from rl.metrics.styles import distinct_styles, style_counts, style_diversity, style_entropy


def prompt_metrics(
    samples: SampleSet,
    greedy: JudgedSamples | None,
    base: SampleSet,
    solved_in: int = SOLVED_IN,
    by_result: bool = False,
) -> dict[str, np.ndarray]:
    """Metrics of one model on one split.

    Args:
        samples: n sampled responses per prompt.
        greedy: one greedy response per prompt, or None.
        base: the base model's samples of the same prompts; `samples` itself if they are the base's.
        solved_in: see SOLVED_IN.
        by_result: vote by results of SQL (samples.result), else by canonical texts (samples.answer).

    Returns:
        {metric: [P] float64}, NaN if a prompt does not define the metric. The metrics are those of MEASURES that have
        a value per prompt: pass@K for each of k_values(n) and for solved_in, maj@K of ks_of_majority(n), mean@n.
    """
    if samples.n < solved_in:
        raise UserError(
            f"{samples.path} has {samples.n} samples per prompt, but the keep rate needs Pass@{solved_in}: sample at "
            f"least {solved_in}, or lower solved_in."
        )
    counts = samples.correct.sum(axis=1)
    metrics = {} if greedy is None else {"greedy": greedy.correct[:, 0].astype(float)}
    metrics |= {f"pass@{k}": pass_at_k(counts, samples.n, k) for k in (*k_values(samples.n), solved_in)}
    metrics[f"mean@{samples.n}"] = samples.correct.mean(axis=1)
    votes = samples.result if by_result else samples.answer
    majorities = majority_at_k(votes, samples.correct, ks_of_majority(samples.n))
    metrics |= {f"maj@{k}": values for k, values in majorities.items()}
    metrics |= _against_base(samples, base, solved_in)
    metrics["response_tokens"] = samples.tokens.mean(axis=1)
    if samples.unparsed is not None:
        metrics["distinct_correct"] = distinct_answers(samples.answer, samples.correct)
    if samples.result is not None:
        metrics["distinct_results"] = distinct_answers(samples.result, samples.result != NO_VOTE)
    if samples.style_names:
        among_correct = style_counts(samples.style, samples.correct, len(samples.style_names))
        metrics["styles"] = distinct_styles(among_correct)
        metrics["style_entropy"] = style_entropy(among_correct)
        metrics["style_diversity"] = style_diversity(among_correct)
    return metrics


def _against_base(samples: SampleSet, base: SampleSet, solved_in: int) -> dict[str, np.ndarray]:
    """keep_rate and lost on the prompts that the base solved, newly_solved on the others.

    The base itself is measured on its later samples, which did not decide what it solved. With fewer than solved_in of
    them, its values are NaN. `lost` always is: fewer samples are more often all wrong, so that it could not be compared
    with a method's. A second draw of the base has it.
    """
    solved = base.correct[:, :solved_in].any(axis=1)
    answers = samples.correct[:, solved_in:] if samples is base else samples.correct
    n = answers.shape[1]
    if n < solved_in:
        return {name: np.full(samples.prompts, np.nan) for name in ("keep_rate", "lost", "newly_solved")}
    counts = answers.sum(axis=1)
    reached = pass_at_k(counts, n, solved_in)
    return {
        "keep_rate": np.where(solved, reached, np.nan),
        "lost": np.where(solved & (samples is not base), counts == 0, np.nan),
        "newly_solved": np.where(solved, np.nan, reached),
    }


def transition_shares(keep_rate: np.ndarray, newly_solved: np.ndarray) -> dict[str, float] | None:
    """Shares of all prompts that a method retained, forgot, gained or left unsolved (paper, Figure 4).

    The base solves a prompt or not in its first `solved_in` samples; the method solves it with probability
    Pass@solved_in, so that both have equally many attempts. retained + forgotten is the share that the base solved, and
    retained / (retained + forgotten) the keep rate.

    Args:
        keep_rate: [P] float, the method's Pass@solved_in on prompts that the base solved, else NaN (prompt_metrics).
        newly_solved: [P] float, the same on all other prompts.

    Returns:
        None if no prompt defines the metrics: for a base with too few samples and no second draw.
    """
    if np.isnan(keep_rate).all() and np.isnan(newly_solved).all():
        return None
    parts = {
        "retained": keep_rate,
        "forgotten": 1 - keep_rate,
        "gained": newly_solved,
        "unsolved": 1 - newly_solved,
    }
    return {name: float(np.nansum(values)) / values.size for name, values in parts.items()}


def summarise(samples: SampleSet, metrics: dict[str, np.ndarray], by_result: bool = False) -> dict:
    """The summary of one method on one split; every metric is [value, low, high], or None if undefined.

    Args:
        metrics: {metric: [P] float64}, as prompt_metrics returns them.
        by_result: as passed to prompt_metrics.
    """
    n = samples.n
    interval = {name: mean_interval(values) for name, values in metrics.items()}
    all_styles = style_counts(samples.style, samples.style >= 0, len(samples.style_names))  # [P, styles] int
    shares = (all_styles.sum(axis=0) / samples.style.size).tolist()
    of_k = {"pass@k": _ks_of_pass(metrics), "maj@k": ks_of_majority(n), "mean@k": (n,)}
    return {
        "n": n,
        "prompts": samples.prompts,
        **{measure.name: interval.get(measure.name) for measure in MEASURES},
        **{name: {str(k): interval[name.replace("@k", f"@{k}")] for k in ks} for name, ks in of_k.items()},
        "maj_by": RESULT if by_result else SYNTAX,
        "unparsed_sql": samples.unparsed,
        "gold_failures": samples.gold_failures,
        "overlong": len(samples.metadata.overlong_ids),
        "truncated": float(samples.truncated.mean()),
        "style_share": dict(zip(samples.style_names, shares, strict=True)) or None,
    }


def _ks_of_pass(metrics: dict[str, np.ndarray]) -> list[int]:
    """k_values(n) and solved_in, ascending."""
    return sorted(int(name.removeprefix("pass@")) for name in metrics if name.startswith("pass@"))


def summarise_group(metrics: dict[str, np.ndarray], members: np.ndarray) -> dict:
    """The summary of a group of questions: Pass@k and the measures of GROUP_TABLES, in the form of `summarise`.

    Args:
        metrics: {metric: [P] float64}, as prompt_metrics returns them.
        members: [P] bool.
    """
    interval = {name: mean_interval(values[members]) for name, values in metrics.items()}
    names = [measure.name for measure in MEASURES if GROUP_TABLES in measure.used and "@" not in measure.name]
    passed = {"pass@k": {str(k): interval[f"pass@{k}"] for k in _ks_of_pass(metrics)}}
    return {"prompts": int(members.sum())} | passed | {name: interval.get(name) for name in names}
