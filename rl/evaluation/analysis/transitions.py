"""Per-prompt transitions from the base: retained, forgotten, gained, unsolved (the paper's Figure 4)."""

import numpy as np

from rl.evaluation.analysis.comparison import Comparison


def transition_shares(keep_rate: np.ndarray, newly_solved: np.ndarray) -> dict[str, float] | None:
    """Shares of all prompts, which add up to 1: {"retained", "forgotten", "gained", "unsolved"}.

    The base solves a prompt or not in its first `solved_in` samples; the method solves it with probability
    Pass@solved_in, so that both have equally many attempts. retained + forgotten is the share that the base solved, and
    retained / (retained + forgotten) the keep rate.

    Args:
        keep_rate: [P] float, the method's Pass@solved_in on prompts that the base solved, else NaN (prompt_metrics).
        newly_solved: [P] float, the same on all other prompts.

    Returns:
        None if no prompt defines the metrics: a base without a second draw and too few samples.
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


def transitions_of_split(comparison: Comparison, split: str) -> dict[str, dict[str, float]]:
    """{method: shares}, the noise floor first: the base's second draw, or else its later samples."""
    spec = comparison.spec
    metrics = {name: comparison.metrics[name][split] for name in (spec.noise_floor, *spec.trained)}
    shares = {name: transition_shares(of["keep_rate"], of["newly_solved"]) for name, of in metrics.items()}
    return {name: of_method for name, of_method in shares.items() if of_method is not None}
