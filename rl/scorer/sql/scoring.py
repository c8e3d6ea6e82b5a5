"""SQL: from a question and its responses to scores. Workers run gold once, and each distinct prediction once."""

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from rl.common.outcomes import GOLD_EMPTY, INFRA_ERROR
from rl.common.time_limits import FIND_DATABASE_S
from rl.scorer.answers import read_sql
from rl.scorer.config import SqlSettings
from rl.scorer.databases import Database, DatabaseUnreadable, find_database
from rl.scorer.outcomes import Score, UnknownQuestion, failure, no_answer
from rl.scorer.pool import Prepare
from rl.scorer.process import Reply, WorkerProcess
from rl.scorer.scoring import SharedResults, WorkerScorer
from rl.scorer.sql.compare import Comparison
from rl.scorer.sql.engines import ENGINES, connection_parameters, password_file, port_to_allow
from rl.scorer.sql.lexer import reads_clock, repair

_NO_ANSWER = no_answer("the response has no closed ```sql block")
_SILENT = "its server does not answer"
_EMPTY_GOLD = failure({"outcome": GOLD_EMPTY, "error": "the gold query returns no rows, or nothing but NULL"})


class SqlQuestion(BaseModel):
    """The reference for SQL responses."""

    db_id: str = Field(
        description="path of the database below database_path, such as shop/shop.sqlite, after the prefix of its engine"
    )
    gold_sql: str = Field(description="the gold query")
    cmp_method: Comparison


@dataclass(frozen=True)
class GoldCheck:
    """The outcome of running a gold query.

    outcome: gold, empty (it returns no rows), all_null (nothing but NULL), gold_error, gold_timeout, unknown_database,
    or infra_error if the query could not be judged.
    """

    outcome: str
    error: str | None = None


class _GoldQuery(NamedTuple):
    """A gold query. day: see _day."""

    sql: str
    day: str

    @classmethod
    def of(cls, gold_sql: str, engine: str) -> "_GoldQuery":
        sql = repair(gold_sql, engine)
        return cls(sql, _day(sql, engine))


def _day(sql: str, engine: str) -> str:
    """The day for which the result of a query that reads the clock is kept; empty for any other query."""
    return _today() if reads_clock(sql, engine) else ""


def _today() -> str:
    """The date in UTC and, if it differs, in local time, which a query can ask for."""
    now = datetime.now(UTC)
    return " ".join(dict.fromkeys(day.date().isoformat() for day in (now, now.astimezone())))


@dataclass(frozen=True)
class _Gold:
    """A worker's reply about gold (sql/jobs.py), and the key by which workers hold its result."""

    key: str
    header: dict
    body: bytes

    @property
    def failure(self) -> Score | None:
        """The score of all responses if gold failed."""
        return None if self.header["outcome"] == "gold" else failure(self.header)

    @property
    def null(self) -> bool:
        """Whether gold returned no value other than NULL."""
        return self.header.get("null", False)

    @property
    def kept_bytes(self) -> int | None:
        if "clock" in self.header or self.header["outcome"] == INFRA_ERROR:  # what reads the clock holds now alone
            return None
        return len(self.body) + 1000


class SqlScorer(WorkerScorer):
    """The reward models for SQL (rewards.py) over an engine's databases below one directory or in one server."""

    def __init__(self, settings: SqlSettings):
        self._root = Path(settings.database_path or "").resolve()
        engine = ENGINES[settings.engine]
        reads, server_port = [str(self._root)], None
        arguments: dict[str, Any] = {}
        if engine.in_server:
            arguments = {"connection": connection_parameters(settings.connection or "")}
            reads, server_port = [password_file()], port_to_allow(arguments["connection"])
        jobs = {
            "engine": settings.engine,
            "arguments": arguments,
            "limits": {
                "sql_chars": settings.max_sql_chars,
                "value_bytes": settings.max_value_bytes,
                "rows": settings.max_result_rows,
                "bytes": settings.max_result_bytes,
            },
            "held_bytes": settings.worker_gold_cache_bytes,
            "payload_rows": settings.payload_rows,
            "payload_bytes": settings.payload_bytes,
        }
        super().__init__(settings, jobs, reads, server_port=server_port)
        self.settings = settings
        self.golds: SharedResults[_Gold] = SharedResults(settings.gold_cache_bytes)
        self.caches[settings.kind.replace("sql", "gold", 1)] = self.golds

    async def score(self, question: SqlQuestion, responses: list[str], digests: bool = False) -> list[Score]:
        """As WorkerScorer.score. Raises UnknownQuestion for a db_id that names no database."""
        try:
            # In a thread: a file server may not answer, and megabytes of hostile text take a second to read.
            file, gold_query, predictions, days = await asyncio.to_thread(self._read, question, responses)
            database = file or await self._find_in_server(question.db_id)
        except DatabaseUnreadable as error:
            return [failure({"outcome": INFRA_ERROR, "error": str(error)})] * len(responses)
        gold = await self._gold(database, gold_query)
        unjudged = _EMPTY_GOLD if gold.null and not self.settings.judge_empty_gold else gold.failure
        if unjudged is not None:
            return [replace(unjudged, pred=pred) for pred in predictions]
        method = question.cmp_method
        run = partial(self._run_prediction, database, gold, method, digests)
        return await self._score_distinct((gold.key, method, digests), predictions, run, _NO_ANSWER, days)

    async def check_gold(self, db_id: str, gold_sql: str) -> GoldCheck:
        """Run a gold query."""
        try:
            gold = await self._gold(await self._find(db_id), _GoldQuery.of(gold_sql, self.settings.engine))
        except UnknownQuestion as error:
            return GoldCheck("unknown_database", str(error))
        except DatabaseUnreadable as error:
            return GoldCheck(INFRA_ERROR, str(error))
        if gold.failure is not None:
            return GoldCheck(gold.failure.outcome, gold.failure.error)
        return GoldCheck("gold" if not gold.null else "all_null" if gold.header["rows"] else "empty")

    def find_file(self, db_id: str) -> Database | None:
        """The file or folder; None if the databases are in a server. Raises as find_database does."""
        if ENGINES[self.settings.engine].in_server:
            return None
        return find_database(self._root, db_id.removeprefix(self.settings.prefix))

    async def _find(self, db_id: str) -> Database:
        return self.find_file(db_id) or await self._find_in_server(db_id)

    async def _find_in_server(self, db_id: str) -> Database:
        name = db_id.removeprefix(self.settings.prefix)
        if not name or "\0" in name:
            raise UnknownQuestion(f"db_id {db_id!r} names no database")
        header = await self._identify(name)
        if header["outcome"] == "unknown":
            raise UnknownQuestion(f"db_id {db_id!r}: {header['error']}")
        if header["outcome"] != "identity":
            raise DatabaseUnreadable(f"db_id {db_id!r}: {header.get('error', _SILENT)}")
        return Database(name, (name, *header["identity"]))

    async def _identify(self, name: str) -> dict:
        """The header of a worker's reply about a database in a server."""
        job = {"job": "identify", "uri": name}
        return (await self._ask(lambda _: (job, b""), FIND_DATABASE_S, wall_limit=FIND_DATABASE_S))[0]

    def _read(
        self, question: SqlQuestion, responses: list[str]
    ) -> tuple[Database | None, _GoldQuery, list[str | None], dict[str, str]]:
        engine = self.settings.engine
        file = self.find_file(question.db_id)
        gold_query = _GoldQuery.of(question.gold_sql, engine)
        predictions = [read_sql(response, engine) for response in responses]
        days = {pred: _day(pred, engine) for pred in set(predictions) if pred is not None}
        return file, gold_query, predictions, days

    async def _gold(self, database: Database, query: _GoldQuery) -> _Gold:
        of = (database.identity, *query)
        return await self.golds.get(of, lambda: self._run_gold(database, query, of))

    async def _run_gold(self, database: Database, query: _GoldQuery, of: tuple) -> _Gold:
        seconds, today = self.settings.gold_seconds, _today()
        job = {"job": "gold", "uri": database.uri, "version": database.version, "sql": query.sql, "seconds": seconds}
        header, body = await self._run(database, lambda _: (job, b""), seconds, "gold")
        # The file may have changed while gold ran; the key names the content that was asked about.
        key = hashlib.sha256(repr(of).encode("utf-8", "surrogatepass")).hexdigest()
        # Scores and the rows that workers hold are kept under this key.
        return _Gold(f"{key}/{today}" if "clock" in header else key, header, body)

    async def _run_prediction(self, database: Database, gold: _Gold, method: str, digest: bool, pred: str) -> Score:
        seconds = self.settings.prediction_seconds
        job = {
            "job": "score",
            "uri": database.uri,
            "version": database.version,
            "sql": pred,
            "seconds": seconds,
            "gold": gold.key,
            "ordered": gold.header["ordered"] and self.settings.order_check,
            "method": method,
            "reward": self.settings.class_name,
            "digest": digest,
        }

        def prepare(worker: WorkerProcess) -> tuple[dict, bytes]:
            if worker.held.get(gold.key):
                return job, b""
            worker.held.put(gold.key, True, len(gold.body))
            return job, gold.body

        # A digest of the largest result takes seconds, which must not decide the outcome.
        header, payload = await self._run(database, prepare, seconds + digest * self.settings.grace_seconds, "pred")
        if "score" not in header:
            return failure(header, pred)
        found = header.get("digest"), header.get("rows")
        score = Score(header["outcome"], header["score"], "result", payload.decode(), pred, *found)
        return replace(score, lasting=False) if "clock" in header else score

    async def _run(self, database: Database, prepare: Prepare, seconds: float, side: str) -> Reply:
        limit = seconds + self.settings.grace_seconds
        if ENGINES[self.settings.engine].in_server:
            # By the clock, as the statement runs in that server; the last rows may take as long as all before.
            header, body = await self._ask(prepare, limit, side, limit + seconds)
            # Its worker was killed: either the statement ignored its limit, or the server does not answer.
            if "cpu" not in header and (await self._identify(database.uri))["outcome"] != "identity":
                header = {"outcome": "fault", "error": _SILENT}
        else:
            header, body = await self._ask(prepare, limit, side)
        if header["outcome"] == "fault":
            header = {"outcome": INFRA_ERROR, "error": f"the database cannot be read now: {header['error']}"}
        return header, body


def scorer_of(scorers: Iterable[WorkerScorer], db_id: str) -> SqlScorer | None:
    """The scorer for SQL with the longest prefix that the db_id has."""
    sql = [scorer for scorer in scorers if isinstance(scorer, SqlScorer) and db_id.startswith(scorer.settings.prefix)]
    return max(sql, key=lambda scorer: len(scorer.settings.prefix), default=None)
