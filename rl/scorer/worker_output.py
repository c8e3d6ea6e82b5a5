"""What workers print, passed on to the server's stderr: named, bounded, and without waiting for its reader."""

import asyncio
import os
import select
import time
from contextlib import suppress

_STDERR = 2
# Below what a pipe takes without waiting (PIPE_BUF), once it can take anything.
_LINE_BYTES = 2_000
_BYTES_PER_SECOND = 20_000


class WorkerOutput(asyncio.Protocol):
    """The server's end of the pipe that is stdout and stderr of a pool's workers.

    It is always read, so that no worker waits for its prints. A worker may write no file itself (worker.py), so that a
    stderr that is a file would make each print an error.
    """

    def __init__(self, name: str):
        self._name = name
        self._line = b""
        self._left_out = 0
        self._room = 0
        self._second_ends = 0.0
        self._ended = asyncio.Event()
        self._transport: asyncio.BaseTransport

    async def close(self, seconds: float) -> None:
        """Pass on what comes until its end, or for so long: if a process of another group holds it, no end comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if time.monotonic() > self._second_ends:
            self._second_ends = time.monotonic() + 1
            self._room = _BYTES_PER_SECOND
            self._say_what_is_left_out()
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            self._pass_on(line)
        self._line = self._cut(rest)

    def connection_lost(self, error: Exception | None) -> None:
        if self._line:
            self._pass_on(self._line)
        self._say_what_is_left_out()
        self._ended.set()

    def _pass_on(self, line: bytes) -> None:
        line = self._cut(line)
        if self._room < len(line) or not self._write(line):
            self._left_out += len(line)
        self._room -= len(line)

    def _cut(self, line: bytes) -> bytes:
        self._left_out += max(len(line) - _LINE_BYTES, 0)
        return line[:_LINE_BYTES]

    def _say_what_is_left_out(self) -> None:
        if self._left_out and self._write(b"%d bytes of output are left out" % self._left_out):
            self._left_out = 0

    def _write(self, line: bytes) -> bool:
        try:
            if not select.select([], [_STDERR], [], 0)[1]:
                return False
            os.write(_STDERR, b"%s: %s\n" % (self._name.encode(), line))
        except OSError:
            return False
        return True
