"""A user's own task: from a ground truth and responses to scores. Workers call the task's function."""

import json
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from rl.common.outcomes import INFRA_ERROR
from rl.scorer.config import TaskSettings
from rl.scorer.outcomes import Score, failure, no_answer
from rl.scorer.scoring import WorkerScorer

_NO_ANSWER = no_answer("the reward function found no answer in the response")


class TaskQuestion(BaseModel):
    """The reference for responses to a task."""

    task: str = Field(description="the name in the section of its PythonRewardModel")
    ground_truth: Any = Field(description="any JSON value; the task's function gets it")


class TaskScorer(WorkerScorer):
    """PythonRewardModel: the score that the task's function gives."""

    def __init__(self, settings: TaskSettings):
        jobs = {"path": str(settings.path), "function": settings.function_name}
        super().__init__(settings, jobs, reads=None, allow=settings.allow)
        self._cpu_limit, self._wall_limit = settings.prediction_seconds, settings.wall_seconds

    async def score(self, question: TaskQuestion, responses: list[str], digests: bool = False) -> list[Score]:
        truth = question.ground_truth
        gold = json.dumps(truth, sort_keys=True)
        return await self._score_distinct((gold,), responses, partial(self._run, truth), _NO_ANSWER)

    async def _run(self, truth: Any, response: str) -> Score:
        job = {"job": "task", "response": response, "ground_truth": truth}
        header, _ = await self._ask(lambda _: (job, b""), self._cpu_limit, wall_limit=self._wall_limit)
        if header["outcome"] == "no_answer":
            return _NO_ANSWER
        if header["outcome"] == INFRA_ERROR or "score" not in header:
            return failure(header)
        return Score(header["outcome"], header["score"], "result", json.dumps([[header["pred"]]]), header["pred"])
