"""Answers that were drawn and have no score yet, on disk: what the engine worked for survives the program.

Beside F.jsonl stands F.drawn while samples are missing. An answer goes there when it comes from the engine, and is
forgotten when its record is written; what is forgotten is swept out now and then, so the file stays as small as the
number of answers that wait.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from rl.common.append_log import LineFile

# Lines that the file may hold beside twice those that wait, before it is swept.
SWEEP_ROOM = 1000


class SampleNumbers:
    """A set of (id, sample number) pairs, as one bit mask an id."""

    def __init__(self):
        self._masks: dict[int, int] = {}
        self._count = 0

    def add(self, id: int, sample: int) -> bool:
        """Whether the pair is new."""
        mask = self._masks.get(id, 0)
        if mask >> sample & 1:
            return False
        self._masks[id] = mask | 1 << sample
        self._count += 1
        return True

    def __contains__(self, pair: tuple[int, int]) -> bool:
        id, sample = pair
        return bool(self._masks.get(id, 0) >> sample & 1)

    def __len__(self) -> int:
        return self._count


@dataclass(frozen=True)
class Answer:
    """What the engine answered to one request."""

    id: int  # of the prompt's row
    sample: int  # 0..n-1
    response_ids: list[int]
    response_log_probs: list[float] | None  # as in SampleRecord
    seconds: float  # of sampling, in all runs together, until it was there


class AnswerJournal:
    """The answers of F.drawn. The file is there from the first answer on. Close it.

    Args:
        path: F.drawn.
        scored: what F.jsonl holds; answers of it are not kept.

    Attributes:
        waiting: the answers without a score, by (id, sample number).
        seconds: of the last answer that came.

    Raises:
        UserError: the file cannot be read or written, or is damaged before its last line.
    """

    def __init__(self, path: Path, scored: SampleNumbers):
        self._path, self._file, self._lines = path, None, 0
        self.waiting: dict[tuple[int, int], Answer] = {}
        self.seconds = 0.0
        if not path.exists():
            return
        self._file = LineFile(path)
        for answer in self._file.read(_parse):
            self._lines += 1
            self.seconds = answer.seconds
            if (answer.id, answer.sample) not in scored:
                self.waiting[answer.id, answer.sample] = answer

    def add(self, answer: Answer) -> None:
        """Writes an answer before it waits for its score.

        Raises:
            UserError: the disk is full or the file cannot be written.
        """
        if self._file is None:
            self._file = LineFile(self._path)
        if self._lines < 2 * len(self.waiting) + SWEEP_ROOM:
            self._file.append(_line(answer))
            self._lines += 1
        else:
            self._file.replace(map(_line, [*self.waiting.values(), answer]))
            self._lines = len(self.waiting) + 1
        self.waiting[answer.id, answer.sample] = answer
        self.seconds = answer.seconds

    def forget(self, id: int, sample: int) -> None:
        """The answer has its record."""
        self.waiting.pop((id, sample), None)

    def delete(self) -> None:
        if self._file is not None:
            self._file.delete()
            self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _line(answer: Answer) -> bytes:
    return json.dumps(vars(answer)).encode("ascii") + b"\n"


def _parse(line: bytes) -> Answer | None:
    try:
        content = json.loads(line)
        answer = Answer(**{field.name: content[field.name] for field in dataclasses.fields(Answer)})
    except (ValueError, KeyError, TypeError):
        return None
    whole = type(answer.id) is int and type(answer.sample) is int and isinstance(answer.response_ids, list)
    return answer if whole and isinstance(answer.seconds, int | float) else None
