"""The server's end of a fork server (worker.py), from which the workers of one pool are forked.

multiprocessing's forkserver does not fit: its processes import the same modules for every pool, start by a call that
blocks the event loop, have no process group of their own, and survive the process that they are forked from.
"""

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from rl.common.time_limits import WORKER_START_S
from rl.scorer.sql.engines import ENGINES
from rl.scorer.worker import FORK, NUMBER

_REPOSITORY = Path(__file__).resolve().parents[2]
LAST_WORDS_SECONDS = 1.0

_PROGRAM = "from rl.scorer.worker import main; main()"  # -m would import runpy
_STDERR = 2
_BYTES_PER_SECOND = 20_000


class WorkerLost(Exception):
    """The worker ended without a reply, and nothing shows that its job was at fault."""


class WorkerOutput(asyncio.Protocol):
    """Passes what a pool's workers print to the server's stderr: bounded, and without blocking.

    This is the server's end of the pipe that is their stdout and stderr. It is always read, so no worker waits when it
    prints. Workers cannot use the server's stderr: they may not write files (worker.py), and it may be one.
    """

    def __init__(self) -> None:
        self._room = 0
        self._second_ends = 0.0
        self._ended = asyncio.Event()
        self._transport: asyncio.BaseTransport

    async def close(self, seconds: float) -> None:
        """Pass on output until its end, at most for `seconds`: a process of another group may keep the pipe open."""
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
        passed_on, self._room = data[: self._room], max(self._room - len(data), 0)
        with suppress(OSError):
            # A pipe that is writable takes so much without blocking.
            for start in range(0, len(passed_on), select.PIPE_BUF):
                if select.select([], [_STDERR], [], 0)[1]:
                    os.write(_STDERR, passed_on[start : start + select.PIPE_BUF])

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()


class ForkServer:
    """A process that has imported what its workers need and forks one within milliseconds.

    Its workers end with it. It ends when the server's end of its socket is closed.
    """

    def __init__(self, process: subprocess.Popen, control: socket.socket, output: WorkerOutput):
        self._process = process
        self._control = control
        self._output = output
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, settings: dict) -> "ForkServer":
        """Start one and wait until it can fork. Raises WorkerLost if it does not start."""
        path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
        # Workers that need only the standard library (SQLite's) start a third faster without site-packages.
        engine = ENGINES.get(settings["jobs"].get("engine"))
        flags = ["-S"] if engine is not None and engine.package is None else []
        try:
            control, its = socket.socketpair()
            control.setblocking(False)
            with its:
                process = subprocess.Popen(
                    [sys.executable, *flags, "-c", _PROGRAM, json.dumps(settings)],
                    stdin=its.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONPATH": path},
                    # Ctrl-C in a terminal is for the server, which then ends its workers. Not a new session: Linux
                    # gives each session an equal share of the processors, whatever its priorities.
                    process_group=0,
                )
            output = WorkerOutput()
            await asyncio.get_running_loop().connect_read_pipe(lambda: output, process.stdout)
        except OSError as error:
            raise WorkerLost(f"a worker process cannot be started: {error}") from error
        server = cls(process, control, output)
        try:
            async with asyncio.timeout(WORKER_START_S):
                await server._reply()
        except BaseException as error:
            await server.close()
            if isinstance(error, (WorkerLost, TimeoutError)):
                raise WorkerLost("a worker process did not start") from error
            raise
        return server

    @property
    def usable(self) -> bool:
        """False once it has ended."""
        return self._process.poll() is None

    async def fork(self, channel: int) -> int:
        """The id of a new worker process, with `channel` as its stdin.

        Raises OSError if there cannot be one, WorkerLost if the fork server has ended.
        """
        process = await self._ask(FORK, [channel])
        if process < 0:
            raise OSError(-process, os.strerror(-process))
        return process

    async def wait(self, process: int) -> int:
        """The exit code of a worker that has ended, as subprocess reports it; until then its id stays reserved."""
        return await self._ask(process, [])

    async def _ask(self, number: int, descriptors: list[int]) -> int:
        async with self._turn:
            try:
                socket.send_fds(self._control, [NUMBER.pack(number)], descriptors)
                return await self._reply()
            except BaseException as error:
                # Also when this is cancelled: the next request would read this one's reply.
                self._end()
                if isinstance(error, OSError):
                    raise WorkerLost(f"the process that forks workers has ended: {error}") from error
                raise

    async def _reply(self) -> int:
        reply = await asyncio.get_running_loop().sock_recv(self._control, NUMBER.size)
        if len(reply) < NUMBER.size:
            raise WorkerLost("the process that forks workers has ended")
        return NUMBER.unpack(reply)[0]

    async def close(self) -> None:
        """End it, and with it its workers."""
        self._end()
        async with self._turn:  # a request that still waits for its reply sees the end
            self._control.close()
        await self._output.close(LAST_WORDS_SECONDS)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
