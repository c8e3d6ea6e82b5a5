"""SQL: from a question and its responses to scores. Gold once, each distinct prediction once, in workers."""

import asyncio
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from rl.common.outcomes import INFRA_ERROR
from rl.scorer.config import SqlSettings
from rl.scorer.databases import Database, find_database
from rl.scorer.outcomes import Score, ask, failure, no_answer
from rl.scorer.pool import WorkerPool
from rl.scorer.process import Reply, WorkerProcess
from rl.scorer.shared import SharedResults
from rl.scorer.sql.compare import Comparison
from rl.scorer.sql.execute import Limits
from rl.scorer.sql.extract import read_sql
from rl.scorer.sql.jobs import SqlJobSettings
from rl.scorer.sql.lexer import repair

_NO_ANSWER = no_answer("the response has no closed ```sql block")


@dataclass(frozen=True)
class SqlQuestion:
    """The reference of a response."""

    db_id: str
    gold_sql: str
    cmp_method: Comparison


@dataclass(frozen=True)
class GoldCheck:
    """What a gold query does. outcome: gold, gold_error or gold_timeout. rows: None unless it ran."""

    outcome: str
    rows: int | None
    seconds: float
    error: str | None


class ScoringUnavailable(Exception):
    """Nothing can be said, for a reason that is not the question's."""


@dataclass(frozen=True)
class _Gold:
    """key: names the result among workers. body: the marshalled rows. failure: the score of all if it failed."""

    key: str
    body: bytes
    ordered: bool
    rows: int | None
    failure: Score | None

    @property
    def kept_bytes(self) -> int | None:
        failed = self.failure is not None and self.failure.outcome == INFRA_ERROR
        return None if failed else len(self.body) + 1000


class SqlScorer:
    """SqlDetailRewardModel and SqlRewardModel over one directory of databases."""

    def __init__(self, settings: SqlSettings):
        self._settings = settings
        self._root = Path(settings.database_path).resolve()
        self.golds: SharedResults[_Gold] = SharedResults(settings.gold_cache_bytes)
        self.scores: SharedResults[Score] = SharedResults(settings.answer_cache_bytes)
        self.pool = WorkerPool(settings.processes, settings.slow_processes, _worker_settings(settings))

    async def score(self, question: SqlQuestion, responses: list[str], digests: bool = False) -> list[Score]:
        """The scores of the responses, in order. Raises UnknownQuestion for a db_id that names no database."""
        database = find_database(self._root, question.db_id)
        predictions = [read_sql(response) for response in responses]
        gold = await self._gold(database, repair(question.gold_sql))
        if gold.failure is not None:
            return [gold.failure.of(pred) for pred in predictions]
        distinct = [pred for pred in dict.fromkeys(predictions) if pred is not None]
        method = question.cmp_method
        scores = await asyncio.gather(*(self._score(database, gold, method, pred, digests) for pred in distinct))
        by_prediction = dict(zip(distinct, scores, strict=True)) | {None: _NO_ANSWER}
        return [by_prediction[pred] for pred in predictions]

    async def check_gold(self, db_id: str, gold_sql: str) -> GoldCheck:
        """Run a gold query. Raises UnknownQuestion for the db_id, ScoringUnavailable when nothing can be said."""
        started = time.perf_counter()
        gold = await self._gold(find_database(self._root, db_id), repair(gold_sql))
        seconds = time.perf_counter() - started
        if gold.failure is None:
            return GoldCheck("gold", gold.rows, seconds, None)
        if gold.failure.outcome == INFRA_ERROR:
            raise ScoringUnavailable(gold.failure.error)
        return GoldCheck(gold.failure.outcome, None, seconds, gold.failure.error)

    async def _gold(self, database: Database, sql: str) -> _Gold:
        key = (database.identity, sql)
        return await self.golds.get(key, lambda: self._run_gold(database, sql), lambda gold: gold.kept_bytes)

    async def _run_gold(self, database: Database, sql: str) -> _Gold:
        seconds = self._settings.gold_seconds
        job = {"job": "gold", "uri": database.uri, "version": database.version, "sql": sql, "seconds": seconds}
        header, body = await self._ask(lambda _: (job, b""), seconds, "gold")
        # The file may have changed while gold ran; the key is of the content that was asked about.
        key = hashlib.sha256(repr((database.identity, sql)).encode("utf-8", "surrogatepass")).hexdigest()
        failed = None if header["outcome"] == "gold" else failure(header)
        return _Gold(key, body, header.get("ordered", False), header.get("rows"), failed)

    async def _score(self, database: Database, gold: _Gold, method: str, pred: str, digest: bool) -> Score:
        key = (gold.key, method, pred, digest)
        return await self.scores.get(
            key, lambda: self._run_prediction(database, gold, method, pred, digest), lambda score: score.kept_bytes
        )

    async def _run_prediction(self, database: Database, gold: _Gold, method: str, pred: str, digest: bool) -> Score:
        seconds = self._settings.prediction_seconds
        job = {
            "job": "score",
            "uri": database.uri,
            "version": database.version,
            "sql": pred,
            "seconds": seconds,
            "gold": gold.key,
            "ordered": gold.ordered and self._settings.order_check,
            "method": method,
            "credit": self._settings.class_name,
            "digest": digest,
        }

        def prepare(worker: WorkerProcess) -> tuple[dict, bytes]:
            if worker.held.get(gold.key):
                return job, b""
            worker.held.put(gold.key, True, len(gold.body))
            return job, gold.body

        # A digest of the largest result takes seconds, which must not decide the outcome.
        header, payload = await self._ask(prepare, seconds + digest * self._settings.grace_seconds, "pred")
        if "score" not in header:
            return failure(header, pred)
        return Score(header["outcome"], header["score"], "result", payload.decode(), pred, header.get("digest"))

    async def _ask(self, prepare, seconds: float, side: str) -> Reply:
        header, body = await ask(self.pool, prepare, seconds + self._settings.grace_seconds, side)
        if header["outcome"] == "fault":
            header = {"outcome": INFRA_ERROR, "error": f"the database cannot be read now: {header['error']}"}
        return header, body


def _worker_settings(settings: SqlSettings) -> dict:
    limits = Limits(
        sql_chars=settings.max_sql_chars,
        value_bytes=settings.max_value_bytes,
        rows=settings.max_result_rows,
        bytes=settings.max_result_bytes,
    )
    jobs = SqlJobSettings(
        held_bytes=settings.worker_gold_cache_bytes,
        limits=limits,
        payload_rows=settings.payload_rows,
        payload_bytes=settings.payload_bytes,
    )
    return {
        "kind": "sql",
        "memory_bytes": settings.worker_memory_bytes,
        "held_bytes": settings.worker_gold_cache_bytes,
        "jobs": jobs._asdict() | {"limits": limits._asdict()},
    }
