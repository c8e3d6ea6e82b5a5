"""The scorers of one server behind one door: each question goes to the one of its kind."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial

from rl.scorer.config import MathSettings, Settings, SqlSettings, TaskSettings
from rl.scorer.math_scoring import MathQuestion, MathScorer
from rl.scorer.outcomes import Score, UnknownQuestion
from rl.scorer.pool import WorkerPool
from rl.scorer.scoring import WorkerScorer
from rl.scorer.shared import SharedResults, gather_in_turn
from rl.scorer.sql.question import SqlQuestion
from rl.scorer.sql_scoring import SqlScorer, scorer_of
from rl.scorer.task_scoring import TaskQuestion, TaskScorer

Question = SqlQuestion | MathQuestion | TaskQuestion

_CLASSES: dict[type, Callable[..., WorkerScorer]] = {
    SqlSettings: SqlScorer,
    MathSettings: MathScorer,
    TaskSettings: TaskScorer,
}
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
        sections = settings.Scorers.values()
        self._scorers: dict[str, WorkerScorer] = {of.kind: _CLASSES[type(of)](of) for of in sections}  # by kind

    def pools(self) -> dict[str, WorkerPool]:
        """By kind."""
        return {kind: scorer.pool for kind, scorer in self._scorers.items()}

    def sandboxes(self) -> dict[str, list[str]]:
        """By kind, what confines its workers."""
        return {kind: scorer.sandbox for kind, scorer in self._scorers.items()}

    def caches(self) -> dict[str, SharedResults]:
        """By name."""
        golds = {
            kind.replace("sql", "gold", 1): scorer.golds
            for kind, scorer in self._scorers.items()
            if isinstance(scorer, SqlScorer)
        }
        return golds | {_cache_name(kind): scorer.scores for kind, scorer in self._scorers.items()}

    def empty_golds(self) -> int:
        """Responses to questions whose gold returns no rows, or nothing but NULL."""
        return sum(scorer.empty_golds for scorer in self._scorers.values() if isinstance(scorer, SqlScorer))

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
        scorings = [
            partial(self._scorer_of(question).score, question, responses, digests) for question, responses in questions
        ]

        async def attempt(scoring: Callable[[], Awaitable[list[Score]]]) -> list[Score] | Exception:
            try:
                return await scoring()
            except Exception as error:
                return error

        count = sum(len(responses) for _, responses in questions)
        self._admit(count)
        self._admitted += count
        try:
            async with asyncio.timeout(self._request_seconds):
                found = await gather_in_turn(attempt, scorings)
        except TimeoutError:
            raise Busy(f"not finished within {self._request_seconds:g} s; it goes on, ask again") from None
        finally:
            self._admitted -= count
        scores = []
        for number, result in enumerate(found):
            if isinstance(result, UnknownQuestion) and len(found) > 1:
                raise UnknownQuestion(f"questions.{number}: {result}")
            if isinstance(result, Exception):
                raise result
            scores.append(result)
        return scores

    def _scorer_of(self, question: Question) -> WorkerScorer:
        if isinstance(question, TaskQuestion):
            kind, lacks, model = f"task:{question.task}", f"has no task {question.task!r}", "PythonRewardModel of it"
        elif isinstance(question, SqlQuestion):
            scorer = scorer_of(self._scorers.values(), question.db_id)
            if scorer is not None:
                return scorer
            prefixes = ", ".join(repr(of.settings.prefix) for of in self._scorers.values() if isinstance(of, SqlScorer))
            if prefixes:
                raise UnknownQuestion(f"db_id {question.db_id!r} has none of this server's prefixes: {prefixes}")
            kind, lacks, model = "sql", "scores no SQL", "SqlDetailRewardModel"
        else:
            kind, lacks, model = "math", "scores no math", "MathRewardModel"
        if kind not in self._scorers:
            raise UnknownQuestion(f"this server {lacks}: start one whose Scorers have a {model}")
        return self._scorers[kind]

    def _admit(self, count: int) -> None:
        # What waits besides for workers are jobs of requests that were answered 503 or whose client went away.
        waiting = max(self._admitted, sum(pool.waiting for pool in self.pools().values()))
        if waiting and waiting + count > self._max_waiting:
            seconds = max(pool.seconds_to_clear() for pool in self.pools().values())
            retry_after = min(max(math.ceil(seconds), 1), _LONGEST_RETRY_SECONDS)
            raise Busy(f"{waiting} responses wait already (setting max_waiting {self._max_waiting})", retry_after)


def _cache_name(kind: str) -> str:
    kind, separator, task = kind.partition(":")
    return f"{kind}_answers{separator}{task}"
