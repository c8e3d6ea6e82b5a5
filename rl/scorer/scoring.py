"""From a question and its responses to answers: gold once, each distinct prediction once, in the pool's workers."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rl.scorer.config import ScorerSettings
from rl.scorer.databases import Database, find_database
from rl.scorer.pool import WorkerLost, WorkerOverran, WorkerPool, WorkerProcess
from rl.scorer.shared import SharedResults
from rl.scorer.sql.answer import read_sql
from rl.scorer.sql.execute import Limits
from rl.scorer.sql.lexer import repair
from rl.scorer.worker import WorkerSettings

logger = logging.getLogger(__name__)

_ATTEMPTS = 2
_TIMEOUT_PAYLOAD = json.dumps("timeout")


class ScoringUnavailable(Exception):
    """No score could be made, for a reason that is not the model's: the request must be repeated, not scored."""


@dataclass(frozen=True)
class Question:
    """What a response is compared with. cmp_method: "bird" or "spider"."""

    db_id: str
    gold_sql: str
    cmp_method: str


@dataclass(frozen=True)
class Answer:
    """The score of one response.

    outcome: match, partial, mismatch, no_answer, pred_error, pred_timeout, gold_error or gold_timeout.
    pred: the SQL that was read and run, None without. flag: "result", "error" or "gold_error".
    payload: JSON text of the rows, of "timeout" or of "error: ...".
    """

    outcome: str
    score: float
    flag: str
    payload: str
    pred: str | None = None


@dataclass(frozen=True)
class _Gold:
    """key: names the result among workers. rows: marshalled. failure: the answer of every response when it failed."""

    key: str
    rows: bytes
    ordered: bool
    failure: Answer | None


class SqlScorer:
    """SqlDetailRewardModel and SqlRewardModel over one directory of databases."""

    def __init__(self, settings: ScorerSettings):
        self._settings = settings
        self._root = Path(settings.database_path).resolve()
        self._golds: SharedResults[_Gold] = SharedResults(settings.gold_cache_bytes)
        self._answers: SharedResults[Answer] = SharedResults(settings.answer_cache_bytes)
        self._pool = WorkerPool(settings.processes, asdict(_worker_settings(settings)))

    async def start(self) -> None:
        """Starts the workers; WorkerLost when they cannot."""
        await self._pool.start()

    async def close(self) -> None:
        """Ends the workers."""
        await self._pool.close()

    async def score(self, question: Question, responses: list[str]) -> list[Answer]:
        """One answer a response, in order.

        Raises UnknownDatabase for a db_id that names none, ScoringUnavailable when a worker was lost twice or the
        database could not be read.
        """
        database = find_database(self._root, question.db_id)
        predictions = [read_sql(response) for response in responses]
        gold = await self._gold(database, repair(question.gold_sql))
        if gold.failure is not None:
            return [_with_pred(gold.failure, pred) for pred in predictions]
        return list(
            await asyncio.gather(*(self._answer(database, gold, question.cmp_method, pred) for pred in predictions))
        )

    async def _gold(self, database: Database, sql: str) -> _Gold:
        key = (database.identity, sql)
        return await self._golds.get(key, lambda: self._run_gold(database, sql), lambda gold: len(gold.rows) + len(sql))

    async def _run_gold(self, database: Database, sql: str) -> _Gold:
        seconds = self._settings.gold_seconds
        job = {"job": "gold", "uri": database.uri, "sql": sql, "seconds": seconds}
        header, rows = await self._run(lambda worker: (job, b""), seconds, timeout={"outcome": "gold_timeout"})
        # The file may have changed while gold ran; the key is of the content that was asked about.
        key = hashlib.sha256(repr((database.identity, sql)).encode("utf-8", "surrogatepass")).hexdigest()
        failure = None if header["outcome"] == "gold" else _failure(header, "gold_error")
        return _Gold(key, rows, header.get("ordered", False), failure)

    async def _answer(self, database: Database, gold: _Gold, method: str, pred: str | None) -> Answer:
        if pred is None:
            return Answer("no_answer", 0.0, "error", json.dumps("error: the response has no closed ```sql block"))
        answer = await self._answers.get(
            (gold.key, method, pred), lambda: self._run_prediction(database, gold, method, pred), _kept_bytes
        )
        return answer

    async def _run_prediction(self, database: Database, gold: _Gold, method: str, pred: str) -> Answer:
        seconds = self._settings.prediction_seconds
        job = {
            "job": "score",
            "uri": database.uri,
            "sql": pred,
            "seconds": seconds,
            "gold": gold.key,
            "ordered": gold.ordered and self._settings.order_check,
            "method": method,
            "partial": self._settings.partial_credit,
        }

        def prepare(worker: WorkerProcess) -> tuple[dict, bytes]:
            if worker.held.get(gold.key):
                return job, b""
            worker.held.put(gold.key, True, len(gold.rows))
            return job, gold.rows

        header, payload = await self._run(prepare, seconds, timeout={"outcome": "pred_timeout"})
        if "score" not in header:
            return _with_pred(_failure(header, "error"), pred)
        return Answer(header["outcome"], header["score"], "result", payload.decode(), pred)

    async def _run(
        self, prepare: Callable[[WorkerProcess], tuple[dict, bytes]], seconds: float, timeout: dict
    ) -> tuple[dict, bytes]:
        """A worker's reply; `timeout` when it had to be killed for its time; a lost worker's job is tried again."""
        for attempt in range(_ATTEMPTS):
            try:
                header, body = await self._pool.run(prepare, seconds + self._settings.grace_seconds)
            except WorkerOverran:
                logger.warning("a worker was killed: no answer within %g s", seconds + self._settings.grace_seconds)
                return timeout, b""
            except WorkerLost as error:
                logger.warning("%s (attempt %d of %d)", error, attempt + 1, _ATTEMPTS)
                continue
            if header["outcome"] == "fault":
                raise ScoringUnavailable(f"the database cannot be read now: {header['error']}")
            return header, body
        raise ScoringUnavailable(f"{_ATTEMPTS} worker processes were lost on this question")


def _worker_settings(settings: ScorerSettings) -> WorkerSettings:
    limits = Limits(
        sql_chars=settings.max_sql_chars,
        value_bytes=settings.max_value_bytes,
        rows=settings.max_result_rows,
        bytes=settings.max_result_bytes,
    )
    return WorkerSettings(
        memory_bytes=settings.worker_memory_bytes,
        held_gold_bytes=settings.worker_gold_cache_bytes,
        limits=limits,
        payload_rows=settings.payload_rows,
        payload_bytes=settings.payload_bytes,
    )


def _failure(header: dict, flag: str) -> Answer:
    timed_out = header["outcome"].endswith("_timeout")
    payload = _TIMEOUT_PAYLOAD if timed_out else json.dumps(f"error: {header['error']}")
    return Answer(header["outcome"], 0.0, flag, payload)


def _with_pred(answer: Answer, pred: str | None) -> Answer:
    return Answer(answer.outcome, answer.score, answer.flag, answer.payload, pred)


def _kept_bytes(answer: Answer) -> int | None:
    """A prediction that ran out of time may have met a busy machine: its next run decides anew."""
    if answer.outcome == "pred_timeout":
        return None
    return len(answer.payload) + len(answer.pred or "")
