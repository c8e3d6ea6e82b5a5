"""Append-only files of lines, written by one process at a time.

A program that dies in a write leaves a torn last line, which the next one cuts off. A failed write leaves nothing.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rl.common.errors import UserError, file_errors
from rl.common.run_lock import lock

Item = TypeVar("Item")


class AppendLog:
    """An append-only file of lines, created if missing, in a folder that exists. The caller closes it."""

    def __init__(self, path: Path):
        self.path = path
        with file_errors(path, "opened"):
            self._file = path.open("a+b", buffering=0)
        try:
            if not lock(self._file.fileno(), path) or not path.exists():  # one that failed has just deleted it
                raise UserError(f"Another process is writing {path}: wait for it, or name another file.")
        except UserError:
            self.close()
            raise

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, parse: Callable[[bytes], Item | None]) -> Iterator[Item]:
        """Yield the content of each line; cut off a last line that is torn or unreadable.

        Args:
            parse: maps one line with its newline to its content, or to None if it cannot be read.

        Raises:
            UserError: a line before the last cannot be read.
        """
        end, size = 0, self.size
        with open(self.path, "rb") as reader:
            for number, line in enumerate(reader, start=1):
                item = parse(line) if line.endswith(b"\n") else None
                if item is not None:
                    end += len(line)
                    yield item
                elif end + len(line) < size:
                    raise UserError(
                        f"{self.path} line {number} is damaged and others follow it: restore the file, or delete it to "
                        "start again."
                    )
        self._file.truncate(end)

    def append(self, line: bytes) -> None:
        """Write a line, with its newline, whole or not at all."""
        before, rest = self.size, memoryview(line)
        with file_errors(self.path, "written", "make room and re-run the same command to resume"):
            try:
                while rest:  # a disk that fills up may accept only a part
                    rest = rest[self._file.write(rest) :]
            except OSError:
                with contextlib.suppress(OSError):  # a torn line may stay, and the next reader cuts it off
                    self._file.truncate(before)
                raise

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        self._file.close()
