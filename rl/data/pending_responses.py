"""Responses that were drawn and have no score yet, on disk: the engine's work survives the program.

F.drawn is beside F.jsonl while samples are missing. Every response is appended to it when it comes from the engine;
those whose record F.jsonl has are passed over when it is read.
"""

import dataclasses
import json
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from rl.common.append_log import AppendLog
from rl.data.json_text import loads


@dataclass(frozen=True)
class PendingResponse:
    """The engine's response to one request."""

    id: int  # of the prompt's row
    sample: int  # 0..n-1
    response_ids: list[int]
    response_log_probs: list[float] | None  # as in SampleRecord
    seconds: float  # of sampling, in all runs together, until it was there


class PendingResponses:
    """The responses of F.drawn, which exists from the first one on. Close it.

    Args:
        path: F.drawn.
        scored: the (id, sample number) pairs that F.jsonl holds.

    Attributes:
        waiting: the responses without a score, by (id, sample number).
        seconds: of the last response that came.

    Raises:
        UserError: the file cannot be read or written, or is damaged before its last line.
    """

    def __init__(self, path: Path, scored: Container[tuple[int, int]]):
        self._path, self._log = path, None
        self.waiting: dict[tuple[int, int], PendingResponse] = {}
        self.seconds = 0.0
        if path.exists():
            self._log = AppendLog(path)
            for response in self._log.read(_parse):
                self.seconds = response.seconds
                if (response.id, response.sample) not in scored:
                    self.waiting[response.id, response.sample] = response

    def add(self, response: PendingResponse) -> None:
        """Write a response down before it waits for its score.

        Raises:
            UserError: the disk is full or the file cannot be written.
        """
        if self._log is None:
            self._log = AppendLog(self._path)
        self._log.append(json.dumps(vars(response)).encode("ascii") + b"\n")
        self.waiting[response.id, response.sample] = response
        self.seconds = response.seconds

    def delete(self) -> None:
        if self._log is not None:
            self._log.delete()
            self._log = None

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def _parse(line: bytes) -> PendingResponse | None:
    try:
        content = loads(line)
        response = PendingResponse(**{field.name: content[field.name] for field in dataclasses.fields(PendingResponse)})
    except (ValueError, KeyError, TypeError):
        return None
    whole = type(response.id) is int and type(response.sample) is int and isinstance(response.response_ids, list)
    return response if whole and isinstance(response.seconds, int | float) else None
