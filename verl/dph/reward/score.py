"""The reward function that verl's reward loop awaits (reward.custom_reward_function, name compute_score)."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rl.data.questions import scorer_question
from rl.scorer.client.shared import score_response
from rl.scorer.client.transport import RequestSettings


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict | None = None,
    *,
    scorer: str | Sequence[str] | None = None,
    timeout: float = RequestSettings.timeout_s,
    retries: int = RequestSettings.retries,
    busy_limit: float = RequestSettings.busy_limit_s,
    reward_router_address: str | None = None,
    reward_model_tokenizer: Any = None,
) -> dict[str, Any]:
    """The reward of one response.

    Args:
        data_source: the row's; names the kind of reward (rl.data.questions).
        solution_str: the response, special tokens removed.
        ground_truth: the row's reward_model.ground_truth.
        extra_info: the row's; not used.
        scorer, timeout, retries, busy_limit: reward.custom_reward_function.reward_kwargs; without scorer, $DPH_SCORER.
        reward_router_address, reward_model_tokenizer: verl passes them if there is a reward model; not used.

    Returns:
        Always the same keys: score (the reward, 0..1), acc (0 or 1), gold_error (0 or 1: the reference cannot be
        evaluated, and a training step leaves the prompt out), pred (the SQL or answer that was read, or None), outcome,
        and scorer (protocol.Effort as JSON text, for training/rollout_metrics.py). In validation verl averages the
        numbers, writes all to its dumps, and leaves text and None out of its metrics.

    Raises:
        ScorerUnavailable: no server answered; verl fails the rollout, which is not a reward of 0.
        UserError: an unknown data source, a request that the server rejects, or a server that is not a scorer.
    """
    question = scorer_question(data_source, ground_truth)
    limits = {"timeout_s": timeout, "retries": retries, "busy_limit_s": busy_limit}
    result = await score_response(solution_str, question, scorer, **limits)
    return {
        "score": result.score,
        "acc": result.acc,
        "gold_error": result.gold_error,
        "pred": result.pred,
        "outcome": result.outcome,
        "scorer": json.dumps(asdict(result.effort)),
    }
