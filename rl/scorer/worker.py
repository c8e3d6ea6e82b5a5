"""A worker process: runs one statement at a time for the server, over stdin and stdout (frames.py).

Jobs, by the header's "job":
- gold: {uri, sql, seconds} -> {outcome: "gold", ordered}, body: the marshalled rows, for `score` jobs of any worker.
- score: {uri, sql, seconds, gold, ordered, method, partial}, body: gold's rows unless this worker still holds them
  -> {outcome, score}, body: the payload as JSON.
Outcomes besides: pred_error or gold_error with "error", pred_timeout or gold_timeout, fault with "error" (the file
could not be read). "last": true says that the worker ends after this answer.

The process is the sandbox: its address space is bounded, it cannot write a file (RLIMIT_FSIZE 0), and the server
kills it when it overruns. It does not confine an attacker who breaks SQLite itself: no system call is filtered.
"""

import ctypes
import json
import marshal
import os
import resource
import signal
import sys
from dataclasses import dataclass

from rl.scorer import frames
from rl.scorer.lru import ByteLru
from rl.scorer.sql.compare import COMPARISONS, MATCH_SCORE, GoldRows, partial_score
from rl.scorer.sql.execute import DatabaseFault, Limits, StatementError, StatementTimeout, execute
from rl.scorer.sql.lexer import has_top_level_order_by
from rl.scorer.sql.payload import rows_as_json

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class WorkerSettings:
    """What the server tells a worker when it starts it, as JSON on the command line.

    memory_bytes: address space beyond what the process has at its start. held_gold_bytes: capacity of the gold results
    that it holds. payload_rows, payload_bytes: cap of the rows sent back.
    """

    memory_bytes: int
    held_gold_bytes: int
    limits: Limits
    payload_rows: int
    payload_bytes: int

    @classmethod
    def from_json(cls, text: str) -> "WorkerSettings":
        fields = json.loads(text)
        return cls(**{**fields, "limits": Limits(**fields["limits"])})


class Worker:
    """Answers jobs; keeps gold results between them, and nothing else."""

    def __init__(self, settings: WorkerSettings):
        self._settings = settings
        self._golds: ByteLru[GoldRows] = ByteLru(settings.held_gold_bytes)

    def answer(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        """The reply's header and body."""
        side = "gold" if job["job"] == "gold" else "pred"
        try:
            return self._gold(job) if side == "gold" else self._score(job, body)
        except StatementTimeout:
            return {"outcome": f"{side}_timeout"}, b""
        except StatementError as error:
            return {"outcome": f"{side}_error", "error": str(error)}, b""
        except DatabaseFault as error:
            return {"outcome": "fault", "error": str(error)}, b""
        except MemoryError:
            # What is left of the memory may be in pieces: the next answer gets a fresh process.
            return {"outcome": f"{side}_error", "error": "out of memory", "last": True}, b""

    def _gold(self, job: dict) -> tuple[dict, bytes]:
        rows = execute(job["uri"], job["sql"], job["seconds"], self._settings.limits)
        return {"outcome": "gold", "ordered": has_top_level_order_by(job["sql"])}, marshal.dumps(rows)

    def _score(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        gold = self._gold_rows(job, body)
        rows = execute(job["uri"], job["sql"], job["seconds"], self._settings.limits)
        if COMPARISONS[job["method"]](gold, rows):
            outcome, score = "match", MATCH_SCORE
        else:
            score = partial_score(gold, rows) if job["partial"] else 0.0
            outcome = "partial" if score > 0 else "mismatch"
        payload = rows_as_json(rows, self._settings.payload_rows, self._settings.payload_bytes)
        return {"outcome": outcome, "score": score}, payload.encode()

    def _gold_rows(self, job: dict, body: bytes) -> GoldRows:
        """Gold from the body, or as held since an earlier job; the server mirrors what is held (ByteLru)."""
        held = self._golds.get(job["gold"])
        if held is not None:
            return held
        gold = GoldRows(marshal.loads(body), job["ordered"])
        self._golds.put(job["gold"], gold, len(body))
        return gold


def _confine(memory_bytes: int) -> None:
    """Bounds memory, forbids writing files, and ends the process with the server."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as statm:
            base = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (base + memory_bytes, base + memory_bytes))
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serves jobs until stdin ends."""
    settings = WorkerSettings.from_json(sys.argv[1])
    _confine(settings.memory_bytes)
    worker = Worker(settings)
    # The pipe gets a descriptor of its own, so that no stray print can break a frame.
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _write_all(replies, frames.encode({"outcome": "ready"}))
    while (frame := frames.read(sys.stdin.buffer)) is not None:
        header, body = worker.answer(*frame)
        del frame
        _write_all(replies, frames.encode(header, body))
        if header.get("last"):
            break


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
