"""SQL: from a question and its responses to scores. Gold once, each distinct prediction once, in workers."""

import asyncio
import hashlib
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, Field

from rl.common.outcomes import INFRA_ERROR
from rl.scorer.config import SqlSettings
from rl.scorer.databases import Database, DatabaseUnreadable, find_database
from rl.scorer.outcomes import Score, UnknownQuestion, failure, no_answer
from rl.scorer.pool import Prepare
from rl.scorer.process import Reply, WorkerProcess
from rl.scorer.scoring import WorkerScorer
from rl.scorer.shared import SharedResults
from rl.scorer.sql.compare import Comparison
from rl.scorer.sql.extract import read_sql
from rl.scorer.sql.lexer import repair

_NO_ANSWER = no_answer("the response has no closed ```sql block")


class SqlQuestion(BaseModel):
    """What SQL responses are compared with."""

    db_id: str = Field(description="path of the SQLite file below database_path, such as shop/shop.sqlite")
    gold_sql: str
    cmp_method: Comparison


@dataclass(frozen=True)
class GoldCheck:
    """What became of a gold query.

    outcome: gold, empty (it returns no rows), gold_error, gold_timeout; unknown_database; infra_error when nothing can
    be said of it. seconds: by the clock, from asking to the reply.
    """

    outcome: str
    seconds: float = 0.0
    error: str | None = None


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


class SqlScorer(WorkerScorer):
    """SqlDetailRewardModel and SqlRewardModel over one directory of databases."""

    def __init__(self, settings: SqlSettings):
        held_bytes = settings.worker_gold_cache_bytes
        jobs = {
            "limits": {
                "sql_chars": settings.max_sql_chars,
                "value_bytes": settings.max_value_bytes,
                "rows": settings.max_result_rows,
                "bytes": settings.max_result_bytes,
            },
            "held_bytes": held_bytes,
            "payload_rows": settings.payload_rows,
            "payload_bytes": settings.payload_bytes,
        }
        super().__init__(settings, "sql", jobs, held_bytes)
        self._settings = settings
        self._root = Path(settings.database_path).resolve()
        self.golds: SharedResults[_Gold] = SharedResults(settings.gold_cache_bytes)

    async def score(self, question: SqlQuestion, responses: list[str], digests: bool = False) -> list[Score]:
        """As of every scorer. Raises UnknownQuestion for a db_id that names no database."""
        try:
            # Aside: a file server may not answer, and megabytes of hostile text take a second to read.
            database, gold_sql, predictions = await asyncio.to_thread(self._read, question, responses)
        except DatabaseUnreadable as error:
            return [failure({"outcome": INFRA_ERROR, "error": str(error)})] * len(responses)
        gold = await self._gold(database, gold_sql)
        if gold.failure is not None:
            return [replace(gold.failure, pred=pred) for pred in predictions]
        method = question.cmp_method

        async def score(pred: str) -> Score:
            run = partial(self._run_prediction, database, gold, method, pred, digests)
            return await self.scores.get((gold.key, method, pred, digests), run)

        return await self._score_distinct(predictions, score, _NO_ANSWER)

    async def check_gold(self, db_id: str, gold_sql: str) -> GoldCheck:
        """Run a gold query."""
        started = time.perf_counter()
        try:
            gold = await self._gold(find_database(self._root, db_id), repair(gold_sql))
        except UnknownQuestion as error:
            return GoldCheck("unknown_database", error=str(error))
        except DatabaseUnreadable as error:
            return GoldCheck(INFRA_ERROR, error=str(error))
        seconds = time.perf_counter() - started
        if gold.failure is None:
            return GoldCheck("gold" if gold.rows else "empty", seconds)
        return GoldCheck(gold.failure.outcome, seconds, gold.failure.error)

    def _read(self, question: SqlQuestion, responses: list[str]) -> tuple[Database, str, list[str | None]]:
        database = find_database(self._root, question.db_id)
        return database, repair(question.gold_sql), [read_sql(response) for response in responses]

    async def _gold(self, database: Database, sql: str) -> _Gold:
        key = (database.identity, sql)
        return await self.golds.get(key, lambda: self._run_gold(database, sql))

    async def _run_gold(self, database: Database, sql: str) -> _Gold:
        seconds = self._settings.gold_seconds
        job = {"job": "gold", "uri": database.uri, "version": database.version, "sql": sql, "seconds": seconds}
        header, body = await self._run(lambda _: (job, b""), seconds, "gold")
        # The file may have changed while gold ran; the key is of the content that was asked about.
        key = hashlib.sha256(repr((database.identity, sql)).encode("utf-8", "surrogatepass")).hexdigest()
        failed = None if header["outcome"] == "gold" else failure(header)
        return _Gold(key, body, header.get("ordered", False), header.get("rows"), failed)

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
        header, payload = await self._run(prepare, seconds + digest * self._settings.grace_seconds, "pred")
        if "score" not in header:
            return failure(header, pred)
        of_result = header.get("digest"), header.get("rows")
        return Score(header["outcome"], header["score"], "result", payload.decode(), pred, *of_result)

    async def _run(self, prepare: Prepare, cpu_limit: float, side: str) -> Reply:
        header, body = await self._ask(prepare, cpu_limit + self._settings.grace_seconds, side)
        if header["outcome"] == "fault":
            header = {"outcome": INFRA_ERROR, "error": f"the database cannot be read now: {header['error']}"}
        return header, body
