"""The score of a response, from any scorer."""

import json
import sys
from dataclasses import dataclass

from rl.common.outcomes import INFRA_ERROR

# Size of a score besides its texts: objects and tables.
_ENTRY_BYTES = 800
# Payload after a timeout, as in the released server.
_TIMEOUT = "timeout"


class UnknownQuestion(Exception):
    """The question names something that this server does not have; the text is for the client."""


@dataclass(frozen=True)
class Score:
    """The score of one response.

    outcome: of rl.common.outcomes; infra_error judges nothing, and the response must be scored again. score: 0 to 1.
    flag: "result", "error" or "gold_error". payload: JSON text of the rows, "timeout" or "error: ...". pred: the answer
    extracted from the response, or None. digest, result_rows: digest and number of all rows, if requested. lasting:
    false if the next request must score the response again.
    """

    outcome: str
    score: float
    flag: str
    payload: str
    pred: str | None = None
    digest: str | None = None
    result_rows: int | None = None
    lasting: bool = True

    @property
    def error(self) -> str | None:
        """Why there is no result; None if there is one."""
        return None if self.flag == "result" else error_text(self.payload)

    @property
    def kept_bytes(self) -> int | None:
        """About its size in a cache; None if it must not be kept."""
        if self.outcome == INFRA_ERROR or not self.lasting:
            return None
        return sys.getsizeof(self.payload) + sys.getsizeof(self.pred) + _ENTRY_BYTES


def error_text(payload: str) -> str:
    """The sentence in the payload of an error."""
    return json.loads(payload).removeprefix("error: ")


def failure(header: dict, pred: str | None = None) -> Score:
    """The score for a worker's reply without a result."""
    outcome = header["outcome"]
    flag = "gold_error" if outcome.startswith("gold_") else "error"
    text = _TIMEOUT if outcome.endswith("_timeout") else f"error: {header['error']}"
    return Score(outcome, 0.0, flag, json.dumps(text), pred)


def no_answer(reason: str) -> Score:
    """The score of a response in which no answer was found."""
    return failure({"outcome": "no_answer", "error": reason})
