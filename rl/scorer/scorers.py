"""The scorers of one server: each question goes to the scorer of its kind."""

import asyncio
from collections.abc import Callable

from rl.scorer.config import MathSettings, Settings, SqlSettings, TaskSettings
from rl.scorer.math.scoring import MathQuestion, MathScorer
from rl.scorer.outcomes import Score, UnknownQuestion
from rl.scorer.scoring import WorkerScorer, gather_in_turn
from rl.scorer.sql.scoring import SqlQuestion, SqlScorer, scorer_of
from rl.scorer.task.scoring import TaskQuestion, TaskScorer

Question = SqlQuestion | MathQuestion | TaskQuestion

_CLASSES: dict[type, Callable[..., WorkerScorer]] = {
    SqlSettings: SqlScorer,
    MathSettings: MathScorer,
    TaskSettings: TaskScorer,
}


class Busy(Exception):
    """The server cannot take the work or finish it in time: the client must ask again."""


class Scorers:
    """The scorers that the settings name. by_kind: by the `kind` of their settings."""

    def __init__(self, settings: Settings):
        self._max_waiting = settings.ScorerServer.max_waiting
        self._admitted = 0  # responses of the requests in progress
        self._request_seconds = settings.ScorerServer.request_seconds
        sections = settings.Scorers.values()
        self.by_kind: dict[str, WorkerScorer] = {of.kind: _CLASSES[type(of)](of) for of in sections}

    async def start(self) -> None:
        """Start the workers. Raises WorkerLost."""
        await asyncio.gather(*(scorer.pool.start() for scorer in self.by_kind.values()))

    async def close(self) -> None:
        """End the workers."""
        await asyncio.gather(*(scorer.pool.close() for scorer in self.by_kind.values()))

    async def score(self, questions: list[tuple[Question, list[str]]], digests: bool = False) -> list[list[Score]]:
        """The scores of each question's responses, in order. `digests`: with digests of SQL results.

        Raises UnknownQuestion, with the number of the question if there are several. Raises Busy if too much waits
        already, or if the scores take too long; the work then goes on, and asking again joins it.
        """

        async def attempt(number: int) -> list[Score]:
            question, responses = questions[number]
            try:
                return await self._scorer_of(question).score(question, responses, digests)
            except UnknownQuestion as error:
                if len(questions) == 1:
                    raise
                raise UnknownQuestion(f"questions.{number}: {error}") from None

        count = sum(len(responses) for _, responses in questions)
        self._admit(count)
        self._admitted += count
        try:
            async with asyncio.timeout(self._request_seconds):
                return await gather_in_turn(attempt, range(len(questions)))
        except TimeoutError:
            raise Busy(f"not finished within {self._request_seconds:g} s; it goes on, ask again") from None
        finally:
            self._admitted -= count

    def _scorer_of(self, question: Question) -> WorkerScorer:
        scorer: WorkerScorer | None
        if isinstance(question, SqlQuestion):
            scorer, lacks, model = self._sql_scorer_of(question.db_id), "scores no SQL", "SqlDetailRewardModel"
        elif isinstance(question, TaskQuestion):
            scorer, model = self.by_kind.get(f"task:{question.task}"), "PythonRewardModel of it"
            lacks = f"has no task {question.task!r}"
        else:
            scorer, lacks, model = self.by_kind.get("math"), "scores no math", "MathRewardModel"
        if scorer is None:
            raise UnknownQuestion(f"this server {lacks}: start one whose Scorers have a {model}")
        return scorer

    def _sql_scorer_of(self, db_id: str) -> SqlScorer | None:
        """None if no scorer is for SQL."""
        scorer = scorer_of(self.by_kind.values(), db_id)
        prefixes = [repr(of.settings.prefix) for of in self.by_kind.values() if isinstance(of, SqlScorer)]
        if scorer is None and prefixes:
            raise UnknownQuestion(f"db_id {db_id!r} has none of this server's prefixes: {', '.join(prefixes)}")
        return scorer

    def _admit(self, count: int) -> None:
        # Jobs of requests that got 503, or whose client went away, wait for workers too.
        waiting = max(self._admitted, sum(scorer.pool.waiting for scorer in self.by_kind.values()))
        if waiting and waiting + count > self._max_waiting:
            raise Busy(f"{waiting} responses wait already (setting max_waiting {self._max_waiting})")
