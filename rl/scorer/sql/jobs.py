"""What a worker for SQL does. The header's "job" is one of:

- identify: {uri} -> {outcome: "identity", identity}, or {outcome: "unknown", error} if there is no such database. Only
  for PostgreSQL, whose contents the server cannot see.
- gold: {uri, version, sql, seconds} -> {outcome: "gold", ordered, rows, null}. The body has the marshalled
  rows, which `score` jobs of any worker take. null: whether all values are NULL (true without rows).
- score: {uri, version, sql, seconds, gold, ordered, method, reward, digest} -> {outcome, score}, and {digest, rows} if
  `digest` is true. The job's body has gold's rows unless this worker still holds them; the reply's body is the payload
  as JSON.

The replies to gold and score also have {clock: true} if the statement may read the clock in a view, so that
the statement's text does not show it.

The Executor of each engine explains uri, version and seconds. Other outcomes: pred_error or gold_error with "error",
pred_timeout or gold_timeout, fault with "error" (the database, or the part that the prediction reads, could not be
read).
"""

import marshal
from importlib import import_module
from typing import Any

from rl.scorer.lru import ByteLru
from rl.scorer.rewards import MATCH_SCORE, SQL_CREDITS
from rl.scorer.sql.compare import COMPARISONS, GoldRows, equal_bird
from rl.scorer.sql.engines import ENGINES
from rl.scorer.sql.execute import (
    DamagedDatabase,
    DatabaseFault,
    Limits,
    Row,
    StatementError,
    StatementTimeout,
    marshalled,
)
from rl.scorer.sql.lexer import has_top_level_order_by, reads_clock
from rl.scorer.sql.payload import result_digest, rows_as_json

# Larger results may not fit into memory twice: Python's objects take up to ten times their marshalled size.
_LARGE_BYTES = 1_000_000


def warm_up(engine: str, **_: object) -> None:
    """Import the engine's driver, once for all workers."""
    _engine_module(engine)


def _engine_module(engine: str) -> Any:
    # Imported only where it is configured: psycopg may not be installed.
    return import_module(f"rl.scorer.sql.{ENGINES[engine].module}")


class SqlJobs:
    """Answers jobs; keeps gold results and open files between them, and nothing else.

    engine: of the settings. arguments: further arguments of its Executor. limits: the fields of Limits. held_bytes:
    capacity for gold results. payload_rows, payload_bytes: cap of the rows sent.
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
        # Other questions' gold may have taken the memory, so try again without it.
        self._forget_other_golds(job)
        try:
            header, payload = self._reply(job, body)
        except MemoryError:
            header, payload = {"outcome": f"{_side(job)}_error", "error": "out of memory"}, b""
        # The remaining memory may be fragmented: the next answer gets a fresh process.
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
            # Gold has run, so damage that only the prediction meets says nothing about the response.
            damaged = isinstance(error, DamagedDatabase) and side == "pred"
            outcome = "fault" if damaged or isinstance(error, DatabaseFault) else f"{side}_error"
            # A worker may read the database_path that existed when it started; the next one sees its replacement.
            last = {"last": True} if isinstance(error, DatabaseFault) else {}
            return {"outcome": outcome, "error": str(error), **last}, b""

    def _gold(self, job: dict) -> tuple[dict, bytes]:
        rows = self._executor.execute(job["uri"], job["version"], job["sql"], job["seconds"])
        null = all(value is None for row in rows for value in row)
        ordered = has_top_level_order_by(job["sql"], self._engine)
        header = {"outcome": "gold", "ordered": ordered, "rows": len(rows), "null": null}
        header |= self._clock(job["sql"])
        body = marshalled(rows)
        if len(body) > _LARGE_BYTES:
            _check_equal_rows_fit(rows, body)
        return header, body

    def _score(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        gold = self._gold_rows(job, body)
        rows = self._executor.execute(job["uri"], job["version"], job["sql"], job["seconds"])
        if COMPARISONS[job["method"]](gold, rows):
            outcome, score = "match", MATCH_SCORE
        else:
            score = SQL_CREDITS[job["reward"]](gold, rows)
            outcome = "partial" if score > 0 else "mismatch"
        payload = rows_as_json(rows, *self._payload_cap)
        header = {"outcome": outcome, "score": score} | self._clock(job["sql"])
        header |= _digest(rows, job) if job["digest"] else {}
        return header, payload.encode()

    def _clock(self, sql: str) -> dict:
        return {"clock": True} if self._executor.clock and not reads_clock(sql, self._engine) else {}

    def _gold_rows(self, job: dict, body: bytes) -> GoldRows:
        """Gold from the body, or held since an earlier job; the server knows what each worker holds (ByteLru)."""
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
        # The score stands. This digest equals only the digest of the same query.
        return {"rows": len(rows), "digest": result_digest([(job["sql"],)], job["method"]), "last": True}


def _check_equal_rows_fit(rows: list[Row], body: bytes) -> None:
    """MemoryError if a prediction with these rows would not fit beside them: a right answer must not be an error."""
    spare = bytearray(2 * len(body))
    equal_bird(GoldRows(marshal.loads(body), ordered=False), rows)
    del spare


def _side(job: dict) -> str:
    return "gold" if job["job"] == "gold" else "pred"
