"""What became of each prompt against the base: kept, lost, new or never solved (the paper's Figure 4)."""

import numpy as np

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.spec import BASE, BASE_AGAIN

Fates = dict[str, float]


def fates(keep_rate: np.ndarray, newly_solved: np.ndarray) -> Fates | None:
    """Shares of all prompts, which add up to 1: {"kept", "lost", "new", "never"}.

    The base solves a prompt or not in its first `solved_in` samples; the method solves it with probability
    Pass@solved_in, so that both have equally many tries. kept + lost is what the base solved, and kept / (kept + lost)
    the keep rate.

    Args:
        keep_rate: [P] float, the method's Pass@solved_in on prompts that the base solved, else NaN (prompt_metrics).
        newly_solved: [P] float, the same on all other prompts.

    Returns:
        None where the metrics are defined for no prompt: a base without a second draw and too few samples.
    """
    if np.isnan(keep_rate).all() and np.isnan(newly_solved).all():
        return None
    parts = {
        "kept": keep_rate,
        "lost": 1 - keep_rate,
        "new": newly_solved,
        "never": 1 - newly_solved,
    }
    return {name: float(np.nansum(values)) / values.size for name, values in parts.items()}


def fates_of_split(comparison: Comparison, split: str) -> dict[str, Fates]:
    """{method: its fates}: first the noise floor, which is the base's second draw or else its later samples."""
    spec = comparison.spec
    floor = BASE_AGAIN if BASE_AGAIN in spec.methods else BASE
    found = {}
    for name in (floor, *spec.trained):
        of_prompts = comparison.metrics[name][split]
        shares = fates(of_prompts["keep_rate"], of_prompts["newly_solved"])
        if shares is not None:
            found[name] = shares
    return found
