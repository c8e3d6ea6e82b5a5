"""What a math worker does: it compares one answer at a time with a gold answer.

Job: {"job": "math", "pred", "gold", "seconds"}, both answers as read from text, `seconds` of processor time. Reply:
- {"outcome": "match" | "mismatch", "score"}. An answer that math-verify cannot read is a mismatch.
- {"outcome": "pred_error" | "gold_error", "error"}: too long, or out of memory. gold_error also: math-verify reads no
  expression in gold, and the answer's text differs; or gold is empty.
- {"outcome": "pred_timeout" | "gold_timeout"}.

An answer that hangs in one operation of C code, such as 5^{5^{5^5}}, gets no reply: the server kills the worker.
guard.py says what else an answer's text could do.
"""

import resource
from functools import lru_cache

from rl.scorer.math.compare import equal, forget, parse_answer, readable, readable_gold, same, same_text
from rl.scorer.math.guard import OutOfTime, confined
from rl.scorer.math.notation import bare

# One pair of each kind: they fill ANTLR's tables and load what sympy imports late.
_WARM_UP = (
    (r"\frac{1}{2}", "0.5"),
    (r"x^2 - 1", r"(x-1)(x+1)"),
    (r"\{1, 2\}", r"2, \sqrt{3}"),
    ("[1, 2)", r"(-\infty, 2) \cup (3, 4]"),
    ("x = 5", "y < 6"),
    ("50%", r"5 \times 10^{3}"),
    (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\text{even}"),
)

# Parsed gold answers that a worker keeps.
_HELD_GOLDS = 1_000

_MATCH = {"outcome": "match", "score": 1.0}
_MISMATCH = {"outcome": "mismatch", "score": 0.0}


class MathJobs:
    """Answers jobs in the main thread, and keeps parsed gold answers between them.

    max_answer_chars: a longer answer is an error. recycle_bytes: the worker ends once it has grown by this much since
    its start (ANTLR's tables grow slowly).
    """

    mapped_bytes = 0

    def __init__(self, max_answer_chars: int = 2_000, recycle_bytes: int = 256_000_000):
        self._max_answer_chars = max_answer_chars
        self._side = "pred"
        self._gold = lru_cache(_HELD_GOLDS)(parse_answer)
        self._largest = _peak_bytes() + recycle_bytes

    def reply(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        """The reply's header and an empty body."""
        header = self._refusal(job) or self._judgement(job)
        grown = _peak_bytes() > self._largest
        return header | ({"last": True} if grown else {}), b""

    def _refusal(self, job: dict) -> dict | None:
        for side in ("gold", "pred"):
            if len(job[side]) > self._max_answer_chars:
                error = f"the answer has {len(job[side])} characters, more than {self._max_answer_chars}"
                return {"outcome": f"{side}_error", "error": error}
        return None

    def _judgement(self, job: dict) -> dict:
        gold = bare(job["gold"])
        if same_text(gold, ""):
            return {"outcome": "gold_error", "error": "the ground truth is empty"}
        self._side = "pred"
        try:
            return confined(job["seconds"], self._compare, gold, job["pred"])
        except OutOfTime:
            self._forget()
            return {"outcome": f"{self._side}_timeout"}
        except MemoryError:
            return {"outcome": f"{self._side}_error", "error": "out of memory", "last": True}
        except Exception as error:
            # math-verify turns most of its failures into a mismatch; the others must not end the worker.
            self._forget()
            return {"outcome": f"{self._side}_error", "error": f"{type(error).__name__}: {error}"[:200]}

    def _compare(self, gold: str, pred: str) -> dict:
        if same(gold, bare(pred), self._read_gold):
            return _MATCH
        if not readable_gold(gold, self._read_gold):
            return {"outcome": "gold_error", "error": "math-verify reads no expression in the gold answer"}
        return _MISMATCH

    def _read_gold(self, gold: str) -> tuple:
        self._side = "gold"
        parsed = self._gold(gold)
        self._side = "pred"
        return parsed

    def _forget(self) -> None:
        forget()
        self._gold.cache_clear()


def _peak_bytes() -> int:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def warm_up(**_: object) -> None:
    """Do once for all workers what is slow the first time. RuntimeError if math-verify does not work."""
    for gold, pred in _WARM_UP:
        parsed = parse_answer(gold), parse_answer(pred)
        if not all(map(readable, parsed)):
            raise RuntimeError(f"math-verify cannot read {gold} and {pred}; install it with the scorer's extra")
        equal(*parsed)
