"""A user's own task: from a ground truth and responses to scores, by the task's function in the pool's workers."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from rl.common.outcomes import INFRA_ERROR
from rl.scorer.config import TaskSettings
from rl.scorer.outcomes import Score, ask, failure, no_answer
from rl.scorer.pool import WorkerPool
from rl.scorer.shared import SharedResults

_NO_ANSWER = "the reward function found no answer in the response"


@dataclass(frozen=True)
class TaskQuestion:
    """What a response is compared with: ground_truth is JSON text, whose meaning only the task's function knows."""

    task: str
    ground_truth: str

    @classmethod
    def of(cls, task: str, ground_truth: Any) -> "TaskQuestion":
        return cls(task, json.dumps(ground_truth, sort_keys=True))


class TaskScorer:
    """PythonRewardModel: the score that the task's function gives."""

    def __init__(self, settings: TaskSettings):
        self._settings = settings
        self.scores: SharedResults[Score] = SharedResults(settings.answer_cache_bytes)
        worker = {
            "kind": "task",
            "memory_bytes": settings.worker_memory_bytes,
            "held_bytes": 0,
            "jobs": {"path": str(settings.path), "function": settings.function_name},
        }
        self.pool = WorkerPool(settings.processes, settings.slow_processes, worker)

    async def score(self, question: TaskQuestion, responses: list[str]) -> list[Score]:
        """The scores of the responses, in order."""
        return await asyncio.gather(*(self._score(question.ground_truth, response) for response in responses))

    async def _score(self, gold: str, response: str) -> Score:
        def kept_bytes(score: Score) -> int | None:
            return None if score.kept_bytes is None else score.kept_bytes + 2 * len(response)

        return await self.scores.get((gold, response), lambda: self._ask(gold, response), kept_bytes)

    async def _ask(self, gold: str, response: str) -> Score:
        job = {"job": "task", "response": response, "ground_truth": json.loads(gold)}
        header, _ = await ask(self.pool, lambda _: (job, b""), self._settings.prediction_seconds, "pred")
        if header["outcome"] == "no_answer":
            return no_answer(_NO_ANSWER)
        if header["outcome"] == INFRA_ERROR or "score" not in header:
            return failure(header)
        return Score(header["outcome"], header["score"], "result", json.dumps([[header["pred"]]]), header["pred"])
