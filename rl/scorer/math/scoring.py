"""Math: from a ground truth and responses to scores. Workers compare."""

import asyncio
import json
from dataclasses import replace
from functools import partial

from pydantic import BaseModel, Field

from rl.scorer.answers import read_answer
from rl.scorer.config import MathSettings
from rl.scorer.outcomes import Score, failure, no_answer
from rl.scorer.scoring import WorkerScorer

_NO_ANSWER = no_answer("the response has neither a \\boxed{} nor an Answer: line")


class MathQuestion(BaseModel):
    """The reference for math responses."""

    ground_truth: str = Field(description="the right answer, as LaTeX or plain text")


class MathScorer(WorkerScorer):
    """MathRewardModel: 1 for an answer that math-verify finds equal to the ground truth, else 0."""

    def __init__(self, settings: MathSettings):
        super().__init__(settings, {"max_answer_chars": settings.max_answer_chars}, reads=[])
        self._settings = settings

    async def score(self, question: MathQuestion, responses: list[str], digests: bool = False) -> list[Score]:
        # In a thread: megabytes of hostile text take seconds to read.
        answers = await asyncio.to_thread(lambda: [read_answer(response) for response in responses])
        gold = question.ground_truth
        return await self._score_distinct((gold,), answers, partial(self._compare, gold), _NO_ANSWER)

    async def _compare(self, gold: str, pred: str) -> Score:
        score = await self._judge(gold, pred)
        if not score.outcome.startswith("pred_"):
            return score
        # Gold itself may hang or crash the worker, only when it is compared: then it does so beside any answer.
        simplest = await self.scores.get((gold, None), lambda: self._judge(gold, "0"))
        if simplest.flag == "result":
            return score
        outcome = simplest.outcome.replace("pred_", "gold_")
        flag = "gold_error" if outcome.startswith("gold_") else simplest.flag
        return replace(simplest, outcome=outcome, flag=flag, pred=pred)

    async def _judge(self, gold: str, pred: str) -> Score:
        seconds = self._settings.prediction_seconds
        job = {"job": "math", "pred": pred, "gold": gold, "seconds": seconds}
        header, _ = await self._ask(lambda _: (job, b""), seconds + self._settings.grace_seconds)
        if "score" not in header:
            return failure(header, pred)
        return Score(header["outcome"], header["score"], "result", json.dumps([[pred]]), pred)
