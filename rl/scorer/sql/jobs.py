"""What a worker for SQL does. Jobs, by the header's "job":

- identify: {uri} -> {outcome: "identity", identity}, or {outcome: "unknown", error} if there is no such database; for
  PostgreSQL, whose contents the server cannot see.
- gold: {uri, version, sql, seconds} -> {outcome: "gold", ordered, rows, columns, null}, body: the marshalled rows, for
  `score` jobs of any worker. null: no value of the rows is other than NULL, as when there are no rows. Of stored
  results: {tables: [[path, positions of columns], ...], ordered}, and the body has the tables.
- score: {uri, version, sql, seconds, gold, ordered, method, reward, digest}, body: gold's rows unless this worker still
  holds them -> {outcome, score} and, if `digest` is true, {digest, rows}; body: the payload as JSON. With a reward
  model that times equal results the job has {gold_sql}, and the reply to one {reward}.

uri, version and seconds: see the Executor of each engine. Outcomes besides: pred_error or gold_error with "error",
pred_timeout or gold_timeout, fault with "error" (the database could not be read, or not the part of it that the
prediction reads).
"""

import marshal
from contextlib import suppress
from importlib import import_module
from typing import Any

from rl.scorer.lru import ByteLru
from rl.scorer.sql.compare import COMPARISONS, STORED, GoldRows, equal_bird
from rl.scorer.sql.execute import (
    DamagedDatabase,
    DatabaseFault,
    Limits,
    Row,
    StatementError,
    StatementTimeout,
    marshalled,
)
from rl.scorer.sql.lexer import has_top_level_order_by
from rl.scorer.sql.payload import result_digest, rows_as_json
from rl.scorer.sql.rewards import HIGHEST_RATIO, MATCH_SCORE, REWARD_MODELS, TIME_FLOOR_SECONDS, efficiency_reward
from rl.scorer.sql.stored import read_table

# Python's objects take up to ten times as much memory as when they are marshalled.
_LARGE_BYTES = 1_000_000
# A query is timed by its fastest run: as many as this, unless both queries' runs have taken so many seconds before.
_TIMED_RUNS = 5
_TIMED_SECONDS = 0.25


def warm_up(engine: str, **_: object) -> None:
    """Import the engine's driver, once for all workers."""
    _engine_module(engine)


def _engine_module(engine: str) -> Any:
    # Imported only where it is configured: neither duckdb nor psycopg need be installed.
    return import_module("rl.scorer.sql.execute" if engine == "sqlite" else f"rl.scorer.sql.{engine}_engine")


class SqlJobs:
    """Answers jobs; keeps gold results and open files between them, and nothing else.

    engine: of the settings. arguments: of its Executor, beside the limits: the fields of Limits. held_bytes: capacity
    of the gold results that it keeps. payload_rows, payload_bytes: cap of the rows sent.
    """

    def __init__(
        self, engine: str, arguments: dict, limits: dict, held_bytes: int, payload_rows: int, payload_bytes: int
    ):
        self._engine = engine
        self._limits = Limits(**limits)
        self._executor = _engine_module(engine).Executor(self._limits, **arguments)
        # Address space for files that are mapped for reading.
        self.mapped_bytes = self._executor.mapped_bytes
        self._golds: ByteLru[GoldRows] = ByteLru(held_bytes)
        self._payload_cap = payload_rows, payload_bytes

    def reply(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        """The reply's header and body."""
        try:
            return self._reply(job, body)
        except MemoryError:
            pass
        # Perhaps for other questions' gold, which says nothing of this one: once more, without them.
        self._forget_other_golds(job)
        try:
            header, payload = self._reply(job, body)
        except MemoryError:
            header, payload = {"outcome": f"{_side(job)}_error", "error": "out of memory"}, b""
        # What is left of the memory may be in pieces: the next answer gets a fresh process.
        return header | {"last": True}, payload

    def _reply(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        side = _side(job)
        try:
            if job["job"] == "identify":
                return self._executor.identify(job["uri"]), b""
            return self._gold(job) if side == "gold" else self._score(job, body)
        except StatementTimeout:
            return {"outcome": f"{side}_timeout"}, b""
        except (StatementError, DatabaseFault) as error:
            # Gold has run: what a prediction alone finds damaged says nothing about the response.
            damaged = isinstance(error, DamagedDatabase) and side == "pred"
            outcome = "fault" if damaged or isinstance(error, DatabaseFault) else f"{side}_error"
            # A worker may read what database_path was when it started; the next one sees a folder that replaced it.
            last = {"last": True} if isinstance(error, DatabaseFault) else {}
            return {"outcome": outcome, "error": str(error), **last}, b""

    def _gold(self, job: dict) -> tuple[dict, bytes]:
        if "tables" in job:
            return self._stored_gold(job)
        rows = self._executor.execute(job["uri"], job["version"], job["sql"], job["seconds"])
        null = all(value is None for row in rows for value in row)
        ordered = has_top_level_order_by(job["sql"], self._engine)
        header = {"outcome": "gold", "ordered": ordered, "rows": len(rows), "null": null}
        header["columns"] = len(rows[0]) if rows else 0
        body = marshalled(rows)
        if len(body) > _LARGE_BYTES:
            _check_equal_rows_fit(rows, body)
        return header, body

    def _stored_gold(self, job: dict) -> tuple[dict, bytes]:
        tables = [read_table(path, positions, self._limits) for path, positions in job["tables"]]
        null = all(value is None for table in tables for column in table for value in column)
        rows = max(len(table[0]) for table in tables)
        header = {"outcome": "gold", "ordered": job["ordered"], "rows": rows, "null": null, "columns": len(tables[0])}
        return header, marshalled(tables)

    def _score(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        gold = self._gold_rows(job, body)
        rows = self._executor.execute(job["uri"], job["version"], job["sql"], job["seconds"])
        reward = REWARD_MODELS[job["reward"]]
        if equal := COMPARISONS[job["method"]](gold, rows):
            outcome, score = "match", MATCH_SCORE
        else:
            score = 0.0 if job["method"] == STORED else reward.credit(gold, rows)
            outcome = "partial" if score > 0 else "mismatch"
        payload = rows_as_json(rows, *self._payload_cap)
        header = {"outcome": outcome, "score": score}
        header |= _digest(rows, job) if job["digest"] else {}
        del rows
        # Stored results have no query to be timed beside.
        if equal and reward.timed and job.get("gold_sql", job["sql"]) != job["sql"]:
            header["reward"] = self._efficiency(job)
        return header, payload.encode()

    def _efficiency(self, job: dict) -> float:
        """The reward of an equal result by the times of both queries, which take turns on the same warm pages."""
        gold = predicted = float("inf")
        started = self._executor.clock()
        for _ in range(_TIMED_RUNS):
            predicted = min(predicted, self._cpu_seconds(job, job["sql"], job["seconds"]))
            # What is beyond the highest step earns no more.
            gold = min(
                gold, self._cpu_seconds(job, job["gold_sql"], HIGHEST_RATIO * max(predicted, TIME_FLOOR_SECONDS))
            )
            if self._executor.clock() - started > _TIMED_SECONDS:
                break
        return efficiency_reward(gold, predicted)

    def _cpu_seconds(self, job: dict, sql: str, limit: float) -> float:
        started = self._executor.clock()
        with suppress(StatementTimeout):  # the time to its limit is the query's
            self._executor.execute(job["uri"], job["version"], sql, limit)
        return self._executor.clock() - started

    def _gold_rows(self, job: dict, body: bytes) -> GoldRows:
        """Gold from the body, or as held since an earlier job; the server mirrors what is held (ByteLru)."""
        held = self._golds.get(job["gold"])
        if held is not None:
            return held
        gold = GoldRows(marshal.loads(body), job["ordered"])
        self._golds.put(job["gold"], gold, len(body))
        return gold

    def _forget_other_golds(self, job: dict) -> None:
        gold = self._golds.get(job.get("gold"))
        self._golds = ByteLru(self._golds.capacity)
        if gold is not None:
            self._golds.put(job["gold"], gold, 0)


def _digest(rows: list[Row], job: dict) -> dict:
    try:
        return {"rows": len(rows), "digest": result_digest(rows, job["method"])}
    except MemoryError:
        # Its score stands. Only the same query is taken to return the same.
        return {"rows": len(rows), "digest": result_digest([(job["sql"],)], job["method"]), "last": True}


def _check_equal_rows_fit(rows: list[Row], body: bytes) -> None:
    """MemoryError when a prediction with these rows would not fit beside them: a right answer must not be an error."""
    spare = bytearray(2 * len(body))
    equal_bird(GoldRows(marshal.loads(body), ordered=False), rows)
    del spare


def _side(job: dict) -> str:
    return "gold" if job["job"] == "gold" else "pred"
