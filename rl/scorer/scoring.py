"""What all scorers share: a pool of workers, and a cache in which concurrent callers share each run."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from rl.common.outcomes import INFRA_ERROR
from rl.scorer.config import ScorerSettings
from rl.scorer.fork_server import WorkerLost
from rl.scorer.lru import ByteLru
from rl.scorer.outcomes import Score
from rl.scorer.pool import Prepare, WorkerCrashed, WorkerOverran, WorkerPool
from rl.scorer.process import Reply
from rl.scorer.sandbox import confine

# More than the workers of a large machine.
AT_ONCE = 1000


class Keepable(Protocol):
    """kept_bytes: about its size in a cache; None if it must not be kept."""

    @property
    def kept_bytes(self) -> int | None: ...


Result = TypeVar("Result", bound=Keepable)
Item = TypeVar("Item")
Made = TypeVar("Made")


class SharedResults(Generic[Result]):
    """Results by key: one run for concurrent callers, kept within `capacity` bytes; with 0 none is kept.

    hits, misses: calls that needed no run of their own, and runs.
    """

    def __init__(self, capacity: int):
        self._kept: ByteLru[Result] = ByteLru(capacity)
        self._running: dict[Hashable, asyncio.Task[Result]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def bytes(self) -> int:
        """Bytes of the results that are kept."""
        return self._kept.size

    def get(self, of: tuple, make: Callable[[], Awaitable[Result]]) -> "asyncio.Future[Result]":
        """The result of `make()` for `of`, which holds texts, numbers and tuples of them; only its hash is kept.

        A caller that goes away does not stop the run. An exception of `make` reaches every caller and is not kept.
        """
        key = hashlib.sha256(repr(of).encode()).digest()
        kept = self._kept.get(key)
        if kept is not None:
            self.hits += 1
            found = asyncio.get_running_loop().create_future()
            found.set_result(kept)
            return found
        task = self._running.get(key)
        if task is None:
            self.misses += 1
            task = self._running[key] = asyncio.create_task(self._run(key, make))
            # Marks a failure as seen: every caller may have gone away.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            self.hits += 1
        return asyncio.shield(task)

    async def _run(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        try:
            result = await make()
        finally:
            self._running.pop(key, None)
        if result.kept_bytes is not None:
            self._kept.put(key, result, result.kept_bytes)
        return result


async def gather_in_turn(make: Callable[[Item], Awaitable[Made]], items: Sequence[Item]) -> list[Made]:
    """make(item) of each, AT_ONCE at a time: a task takes some kilobytes, and a request may hold a million items."""
    if len(items) == 1:  # it needs no task
        return [await make(items[0])]
    made: list[Made] = []
    for start in range(0, len(items), AT_ONCE):
        made += await asyncio.gather(*map(make, items[start : start + AT_ONCE]))
    return made


class WorkerScorer:
    """Scores responses in worker processes of one kind.

    reads, allow, server_port: see rl/scorer/sandbox/confine.py; with a server, time is measured by the clock. caches:
    by their names in GET /metrics.
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
        self.sandbox = [] if settings.sandbox == "off" else list(confine.offered())
        worker = {
            "kind": kind,
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
        """The scores of the responses, in order. `digests`: with digests of SQL results."""
        raise NotImplementedError

    async def _score_distinct(
        self,
        gold: tuple,
        predictions: Sequence[str | None],
        run: Callable[[str], Awaitable[Score]],
        missing: Score,
        days: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Score]:
        """The score of each prediction compared with `gold`, with one `run` for equal ones; `missing` for None.

        days: the day of each prediction whose score holds for one day only.
        """

        def score(pred: str) -> "asyncio.Future[Score]":
            return self.scores.get((*gold, pred, days.get(pred, "")), lambda: run(pred))

        distinct = [pred for pred in dict.fromkeys(predictions) if pred is not None]
        scores = await gather_in_turn(score, distinct)
        by_prediction = dict(zip(distinct, scores, strict=True)) | {None: missing}
        return [by_prediction[pred] for pred in predictions]

    async def _ask(
        self, prepare: Prepare, cpu_limit: float, side: str = "pred", wall_limit: float | None = None
    ) -> Reply:
        """A worker's reply to a job about `side` ("gold" or "pred"), or a header that says why there is none."""
        try:
            return await self.pool.run(prepare, cpu_limit, wall_limit)
        except WorkerOverran:
            return {"outcome": f"{side}_timeout"}, b""
        except WorkerCrashed:
            return {"outcome": f"{side}_error", "error": "it crashed the process that ran it"}, b""
        except WorkerLost as error:
            return {"outcome": INFRA_ERROR, "error": str(error)}, b""
