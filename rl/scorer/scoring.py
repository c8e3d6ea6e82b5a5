"""What scorers of every kind share: a pool of workers, and a cache of the scores that these gave."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rl.common.outcomes import INFRA_ERROR
from rl.scorer.config import ScorerSettings
from rl.scorer.fork_server import WorkerLost
from rl.scorer.outcomes import Score
from rl.scorer.pool import Prepare, WorkerCrashed, WorkerOverran, WorkerPool
from rl.scorer.process import Reply
from rl.scorer.sandbox.support import mechanisms
from rl.scorer.shared import SharedResults, gather_in_turn


class WorkerScorer:
    """Scores responses in worker processes of one kind.

    reads, allow, server_port: as rl/scorer/sandbox/confine.py has them; with a server, time is by the clock. caches: by
    their names in GET /metrics. empty_golds: how many responses came to questions whose gold returns no rows, or
    nothing but NULL.
    """

    def __init__(
        self,
        settings: ScorerSettings,
        jobs: dict,
        reads: list[str] | None,
        allow: Sequence[str] = (),
        server_port: int | None = None,
    ):
        kind, separator, name = settings.kind.partition(":")
        self.scores: SharedResults[Score] = SharedResults(settings.answer_cache_bytes)
        self.caches: dict[str, SharedResults] = {f"{kind}_answers{separator}{name}": self.scores}
        self.empty_golds = 0
        self.sandbox = mechanisms(settings)
        worker = {
            "kind": kind,
            "name": f"task {name}" if kind == "task" else f"{settings.kind} worker",
            "memory_bytes": settings.worker_memory_bytes,
            "jobs": jobs,
            "sandbox": {
                "mechanisms": self.sandbox,
                "reads": reads,
                "allow": list(allow),
                "server_port": server_port,
            },
        }
        self.pool = WorkerPool(settings.processes, settings.slow_processes, worker, by_clock=server_port is not None)

    async def score(self, question: Any, responses: list[str], digests: bool = False) -> list[Score]:
        """The scores of the responses, in order. `digests`: with those of results of SQL."""
        raise NotImplementedError

    async def _score_distinct(
        self,
        gold: tuple,
        predictions: Sequence[str | None],
        run: Callable[[str], Awaitable[Score]],
        missing: Score,
        days: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Score]:
        """The score of each prediction beside `gold`, by one `run` of equal ones; `missing` is that of None.

        days: of predictions whose score holds for a day, that day.
        """

        async def score(pred: str) -> Score:
            return await self.scores.get((*gold, pred, days.get(pred, "")), lambda: run(pred))

        distinct = [pred for pred in dict.fromkeys(predictions) if pred is not None]
        scores = await gather_in_turn(score, distinct)
        by_prediction = dict(zip(distinct, scores, strict=True)) | {None: missing}
        return [by_prediction[pred] for pred in predictions]

    async def _ask(
        self, prepare: Prepare, cpu_limit: float, side: str = "pred", wall_limit: float | None = None
    ) -> Reply:
        """A worker's reply to a job about `side` ("gold" or "pred"), or what stands for one that never came."""
        try:
            return await self.pool.run(prepare, cpu_limit, wall_limit)
        except WorkerOverran:
            return {"outcome": f"{side}_timeout"}, b""
        except WorkerCrashed:
            return {"outcome": f"{side}_error", "error": "it crashed the process that ran it"}, b""
        except WorkerLost as error:
            return {"outcome": INFRA_ERROR, "error": str(error)}, b""
