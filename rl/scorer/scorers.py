"""The scorers of one server behind one door: each question goes to the one of its kind."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial

from rl.scorer.config import Settings
from rl.scorer.math_scoring import MathQuestion, MathScorer
from rl.scorer.outcomes import Score, UnknownQuestion
from rl.scorer.pool import WorkerPool
from rl.scorer.shared import SharedResults
from rl.scorer.sql_scoring import SqlQuestion, SqlScorer
from rl.scorer.task_scoring import TaskQuestion, TaskScorer

Question = SqlQuestion | MathQuestion | TaskQuestion

_LONGEST_RETRY_SECONDS = 30


class Busy(Exception):
    """The work cannot be taken or is not finished in time: the request must be repeated after `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int = 1):
        super().__init__(reason)
        self.retry_after = retry_after


class Scorers:
    """SQL, math and custom tasks, whichever the settings name."""

    def __init__(self, settings: Settings):
        self._max_waiting = settings.ScorerServer.max_waiting
        self._admitted = 0  # responses of the requests under way
        self._request_seconds = settings.ScorerServer.request_seconds
        self._sql = SqlScorer(settings.sql) if settings.sql else None
        self._math = MathScorer(settings.math) if settings.math else None
        self._tasks = {name: TaskScorer(of_task) for name, of_task in settings.tasks.items()}

    def pools(self) -> dict[str, WorkerPool]:
        """By kind."""
        scorers = {"sql": self._sql, "math": self._math} | self._tasks_by_kind("task")
        return {kind: scorer.pool for kind, scorer in scorers.items() if scorer is not None}

    def caches(self) -> dict[str, SharedResults]:
        """By name."""
        sql: dict[str, SharedResults] = {"gold": self._sql.golds, "sql_answers": self._sql.scores} if self._sql else {}
        math = {"math_answers": self._math.scores} if self._math else {}
        return sql | math | {name: task.scores for name, task in self._tasks_by_kind("task_answers").items()}

    def _tasks_by_kind(self, kind: str) -> dict[str, TaskScorer]:
        return {f"{kind}:{name}": task for name, task in self._tasks.items()}

    async def start(self) -> None:
        """Start the workers; WorkerLost when they cannot."""
        await asyncio.gather(*(pool.start() for pool in self.pools().values()))

    async def close(self) -> None:
        """End the workers."""
        await asyncio.gather(*(pool.close() for pool in self.pools().values()))

    async def score(self, questions: list[tuple[Question, list[str]]], digests: bool = False) -> list[list[Score]]:
        """For each question with its responses, their scores in order; `digests`: with those of results of SQL.

        Raises UnknownQuestion, with the number of the question in the text if there are several; Busy when too
        much waits already, or when the scores are not there in time, in which case the work goes on and asking again
        joins it.
        """
        scorings = [self._scoring(question, responses, digests) for question, responses in questions]
        count = sum(len(responses) for _, responses in questions)
        self._admit(count)
        self._admitted += count
        try:
            async with asyncio.timeout(self._request_seconds):
                found = await asyncio.gather(*(scoring() for scoring in scorings), return_exceptions=True)
        except TimeoutError:
            raise Busy(f"not finished within {self._request_seconds:g} s; it goes on, ask again") from None
        finally:
            self._admitted -= count
        scores = []
        for number, result in enumerate(found):
            if isinstance(result, UnknownQuestion) and len(found) > 1:
                raise UnknownQuestion(f"questions.{number}: {result}")
            if isinstance(result, BaseException):
                raise result
            scores.append(result)
        return scores

    def _scoring(self, question: Question, responses: list[str], digests: bool) -> Callable[[], Awaitable[list[Score]]]:
        """What scores the responses when it is called; UnknownQuestion when no scorer is of the question's kind."""
        if isinstance(question, TaskQuestion):
            if question.task not in self._tasks:
                raise UnknownQuestion(
                    f"this server has no task {question.task!r}: start one whose Scorers have a PythonRewardModel of it"
                )
            return partial(self._tasks[question.task].score, question, responses)
        if isinstance(question, SqlQuestion):
            if self._sql is None:
                raise _unscored("SQL", "SqlDetailRewardModel")
            return partial(self._sql.score, question, responses, digests)
        if self._math is None:
            raise _unscored("math", "MathRewardModel")
        return partial(self._math.score, question, responses)

    def _admit(self, count: int) -> None:
        # What waits besides for workers are jobs of requests that were answered 503 or whose client went away.
        waiting = max(self._admitted, sum(pool.waiting for pool in self.pools().values()))
        if waiting and waiting + count > self._max_waiting:
            seconds = max(pool.seconds_to_clear() for pool in self.pools().values())
            retry_after = min(max(math.ceil(seconds), 1), _LONGEST_RETRY_SECONDS)
            raise Busy(f"{waiting} responses wait already (setting max_waiting {self._max_waiting})", retry_after)


def _unscored(kind: str, name: str) -> UnknownQuestion:
    return UnknownQuestion(f"this server scores no {kind}: start one whose Scorers have a {name}")
