"""Math: from a ground truth and responses to scores, compared in the pool's workers."""

import asyncio
import json
from dataclasses import dataclass

from rl.scorer.config import MathSettings
from rl.scorer.math.extract import read_answer
from rl.scorer.outcomes import Score, ask, failure, no_answer
from rl.scorer.pool import WorkerPool
from rl.scorer.shared import SharedResults

_NO_ANSWER = no_answer("the response has neither a \\boxed{} nor an Answer: line")


@dataclass(frozen=True)
class MathQuestion:
    """The reference of a response."""

    ground_truth: str


class MathScorer:
    """MathRewardModel: 1 for an answer that math-verify finds equal to the ground truth, else 0."""

    def __init__(self, settings: MathSettings):
        self._settings = settings
        self.scores: SharedResults[Score] = SharedResults(settings.answer_cache_bytes)
        worker = {
            "kind": "math",
            "memory_bytes": settings.worker_memory_bytes,
            "held_bytes": 0,
            "jobs": {"max_answer_chars": settings.max_answer_chars},
        }
        self.pool = WorkerPool(settings.processes, settings.slow_processes, worker)

    async def score(self, question: MathQuestion, responses: list[str]) -> list[Score]:
        """The scores of the responses, in order."""
        predictions = [read_answer(response) for response in responses]
        distinct = [pred for pred in dict.fromkeys(predictions) if pred is not None]
        scores = await asyncio.gather(*(self._score(question.ground_truth, pred) for pred in distinct))
        by_prediction = dict(zip(distinct, scores, strict=True)) | {None: _NO_ANSWER}
        return [by_prediction[pred] for pred in predictions]

    async def _score(self, gold: str, pred: str) -> Score:
        return await self.scores.get((gold, pred), lambda: self._compare(gold, pred), lambda score: score.kept_bytes)

    async def _compare(self, gold: str, pred: str) -> Score:
        seconds = self._settings.prediction_seconds
        job = {"job": "math", "pred": pred, "gold": gold, "seconds": seconds}
        header, _ = await ask(self.pool, lambda _: (job, b""), seconds + self._settings.grace_seconds, "pred")
        if "score" not in header:
            return failure(header, pred)
        return Score(header["outcome"], header["score"], "result", json.dumps([[pred]]), pred)
