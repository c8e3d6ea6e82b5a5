"""Metrics of a training step from what compute_score returned for its samples."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rl.common.outcomes import OUTCOMES


def reward_metrics(infos: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Outcomes of the responses and the effort of scoring them.

    Args:
        infos: the reward_extra_info of each sample; those of another reward function are passed by.

    Returns:
        dph/outcome/<outcome>: the share of the samples with it. dph/scorer/*: requests, retries, busy_waits and
        infra_errors of the step, seconds_mean and seconds_max from a response to its score, and healthy_servers, the
        fewest that a client saw. Nothing when no sample is ours.
    """
    ours = [info for info in infos if "scorer" in info and "outcome" in info]
    if not ours:
        return {}
    outcomes = [info["outcome"] for info in ours]
    efforts = [json.loads(info["scorer"]) for info in ours]
    column = {name: [effort[name] for effort in efforts] for name in efforts[0]}
    metrics = {f"dph/outcome/{outcome}": outcomes.count(outcome) / len(ours) for outcome in OUTCOMES}
    for name in ("requests", "retries", "busy_waits", "infra_errors"):
        metrics[f"dph/scorer/{name}"] = sum(column[name])
    metrics["dph/scorer/seconds_mean"] = sum(column["seconds"]) / len(ours)
    metrics["dph/scorer/seconds_max"] = max(column["seconds"])
    metrics["dph/scorer/healthy_servers"] = min(column["healthy_servers"])
    return metrics
