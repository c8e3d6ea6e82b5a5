"""A reward of verifiers' tasks, which prime-rl trains on: rewards.scorer.fn = "rl.scorer.client.verifiers.reward"."""

from typing import Any

from rl.common.errors import UserError
from rl.scorer.client.shared import score_response

_FIELDS = ("db_id", "gold_sql", "cmp_method", "task", "ground_truth")


async def reward(task: Any, trace: Any) -> float:
    """The reward of a trace's last reply, from $DPH_SCORER; verifiers 0.4 calls it by the names of its parameters.

    Args:
        task: the TaskData, whose fields db_id, gold_sql and cmp_method, or ground_truth, are the scorer's question.

    Raises (verifiers records the error on the trace, whose reward it then leaves empty):
        UserError: the task has none of these fields, or its reference cannot be evaluated, which judges nothing.
        ScorerUnavailable, ScorerRefused, ScorerMismatch: see ScorerClient.score.
    """
    fields = {name: getattr(task, name, None) for name in _FIELDS}
    question = {name: value for name, value in fields.items() if value is not None}
    if not question:
        raise UserError("The task names no database and no answer: give its data db_id and gold_sql, or ground_truth.")
    result = await score_response(trace.last_reply, question)
    if result.gold_error:
        raise UserError(f"The reference of {question} cannot be evaluated ({result.outcome}): {result.error}.")
    return result.score
