"""Responses that were drawn and have no score yet, on disk: the engine's work survives the program.

F.drawn is beside F.jsonl while samples are missing. Every response is appended to it when it comes from the engine;
those whose record F.jsonl has are passed over when it is read.
"""

from dataclasses import dataclass

from rl.data.json_text import record_of


@dataclass(frozen=True)
class PendingResponse:
    """The engine's response to one request."""

    id: int  # of the prompt's row
    sample: int  # 0..n-1
    response_ids: list[int]
    response_log_probs: list[float] | None  # as in SampleRecord
    seconds: float  # of sampling, in all runs together, until it was there


def read_pending(line: bytes) -> PendingResponse | None:
    """The response of one line of F.drawn, None if it is not one."""
    response = record_of(PendingResponse, line)
    if response is None or type(response.id) is not int or type(response.sample) is not int:
        return None
    return response if isinstance(response.response_ids, list) and isinstance(response.seconds, int | float) else None
