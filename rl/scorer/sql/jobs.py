"""What a worker for SQL does. Jobs, by the header's "job":

- gold: {uri, version, sql, seconds} -> {outcome: "gold", ordered, rows}, body: the marshalled rows, for `score` jobs of
  any worker.
- score: {uri, version, sql, seconds, gold, ordered, method, credit, digest}, body: gold's rows unless this worker still
  holds them -> {outcome, score} and, if `digest` is true, {digest, rows}; body: the payload as JSON.

Outcomes besides: pred_error or gold_error with "error", pred_timeout or gold_timeout, fault with "error" (the file
could not be read, or not the part of it that the prediction reads).
"""

import marshal

from rl.scorer.lru import ByteLru
from rl.scorer.sql.compare import COMPARISONS, CREDITS, MATCH_SCORE, GoldRows, equal_bird
from rl.scorer.sql.execute import (
    MAPPED_BYTES,
    DamagedDatabase,
    DatabaseFault,
    Executor,
    Limits,
    Row,
    StatementError,
    StatementTimeout,
    marshalled,
)
from rl.scorer.sql.lexer import has_top_level_order_by
from rl.scorer.sql.payload import result_digest, rows_as_json

# Python's objects take up to ten times as much memory as when they are marshalled.
_LARGE_BYTES = 1_000_000


class SqlJobs:
    """Answers jobs; keeps gold results and open files between them, and nothing else.

    limits: the fields of Limits. held_bytes: capacity of the gold results that it keeps. payload_rows, payload_bytes:
    cap of the rows sent.
    """

    mapped_bytes = MAPPED_BYTES

    def __init__(self, limits: dict, held_bytes: int, payload_rows: int, payload_bytes: int):
        self._executor = Executor(Limits(**limits))
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
            return self._gold(job) if side == "gold" else self._score(job, body)
        except StatementTimeout:
            return {"outcome": f"{side}_timeout"}, b""
        except (StatementError, DatabaseFault) as error:
            # Gold has run: what a prediction alone finds damaged says nothing about the response.
            fault = isinstance(error, DatabaseFault) or (isinstance(error, DamagedDatabase) and side == "pred")
            return {"outcome": "fault" if fault else f"{side}_error", "error": str(error)}, b""

    def _gold(self, job: dict) -> tuple[dict, bytes]:
        rows = self._executor.execute(job["uri"], job["version"], job["sql"], job["seconds"])
        header = {"outcome": "gold", "ordered": has_top_level_order_by(job["sql"]), "rows": len(rows)}
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
            score = CREDITS[job["credit"]](gold, rows)
            outcome = "partial" if score > 0 else "mismatch"
        payload = rows_as_json(rows, *self._payload_cap)
        header = {"outcome": outcome, "score": score}
        return header | (_digest(rows, job) if job["digest"] else {}), payload.encode()

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
