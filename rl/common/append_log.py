"""A file of lines that is only appended to, by one process at a time.

A program that dies while it writes leaves a torn last line: the next one cuts it off. A write that fails leaves none.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rl.common.errors import UserError

Item = TypeVar("Item")


class LineFile:
    """An append-only file, made where there is none. Close it.

    Args:
        path: in a folder that exists.

    Raises:
        UserError: the file cannot be opened, or another process has it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._file = self._open()

    def _open(self):
        file = open_samples(self.path, "a+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise UserError(f"Another process is writing {self.path}: wait for it, or name another file.") from error
        return file

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, parse: Callable[[bytes], Item | None]) -> Iterator[Item]:
        """What each line holds, one at a time; a last line that is torn or unreadable is cut off.

        Args:
            parse: of one line with its end; None for one that cannot be read.

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
                        "sample anew."
                    )
        self._file.truncate(end)

    def append(self, line: bytes) -> None:
        """Writes a line, with its end, whole or not at all.

        Raises:
            UserError: the disk is full or the file cannot be written.
        """
        before = self.size
        try:
            self._write(line)
        except UserError:
            with contextlib.suppress(OSError):  # what is left is a torn line, which the next reader cuts off
                self._file.truncate(before)
            raise

    def replace(self, lines: Iterable[bytes]) -> None:
        """Makes these the file's lines, all at once.

        Raises:
            UserError: see append; the file keeps its lines.
        """
        aside = LineFile(self.path.with_name(self.path.name + ".tmp"))
        try:
            aside._file.truncate(0)
            aside._write(b"".join(lines))
            os.replace(aside.path, self.path)
        except BaseException:
            aside.delete()
            raise
        self.close()
        self._file = aside._file

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:  # a disk that becomes full takes a part
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be written ({error.strerror}): make room and run again, it resumes."
            ) from error


def open_samples(path: Path, mode: str, **options):
    """The built-in open for a file of samples.

    Raises:
        UserError: it cannot be opened.
    """
    try:
        return open(path, mode, **options)
    except OSError as error:
        raise UserError(f"The samples file {path} cannot be opened ({error.strerror}).") from error
