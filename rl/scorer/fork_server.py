"""The server's end of a fork server (worker.py), the process that the workers of one pool are forked from."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path

from rl.scorer.worker import FORK, NUMBER
from rl.scorer.worker_output import WorkerOutput

_REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
LAST_WORDS_SECONDS = 1.0

_PROGRAM = "from rl.scorer.worker import main; main()"  # -m would import runpy


class WorkerLost(Exception):
    """The worker ended without a reply, by no fault of its job's that can be seen."""


class ForkServer(asyncio.Protocol):
    """A process that has imported what its workers need, and forks one within milliseconds.

    When it ends, its workers end with it.
    """

    def __init__(self, process: subprocess.Popen, control: socket.socket, name: str):
        self._process = process
        # Descriptors go past the transport, which sends bytes only.
        self._control = control
        self._output = WorkerOutput(name)
        # Of one that `start` returned.
        self._transport: asyncio.Transport
        self._output_transport: asyncio.BaseTransport
        self._buffer = bytearray()
        # Replies come in the order of the requests, after one that says it is ready.
        self._awaited: deque[asyncio.Future[int]] = deque([asyncio.get_running_loop().create_future()])

    @classmethod
    async def start(cls, settings: dict) -> "ForkServer":
        """One that is ready to fork; WorkerLost when it does not come up."""
        try:
            server = await cls._launch(settings)
        except OSError as error:
            raise WorkerLost(f"a worker process cannot be started: {error}") from error
        try:
            async with asyncio.timeout(START_SECONDS):
                await server._awaited[0]
        except (WorkerLost, TimeoutError) as error:
            await server.close()
            raise WorkerLost("a worker process did not start") from error
        except BaseException:
            await server.close()
            raise
        return server

    @classmethod
    async def _launch(cls, settings: dict) -> "ForkServer":
        path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
        # Workers for SQLite need the standard library only: without site-packages they start a third faster.
        flags = ["-S"] if settings["jobs"].get("engine") == "sqlite" else []
        loop = asyncio.get_running_loop()
        ours, its = socket.socketpair()
        with ExitStack() as undo:
            undo.callback(ours.close)
            with its:
                process = subprocess.Popen(
                    [sys.executable, *flags, "-c", _PROGRAM, json.dumps(settings)],
                    stdin=its.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONPATH": path},
                    # Ctrl-C in a terminal is for the server, which then ends its workers. Not a session of its own:
                    # Linux gives each session an equal share of the processors, whatever the priorities within.
                    process_group=0,
                )
            undo.enter_context(process)  # closes its pipe and waits for its end
            undo.callback(process.kill)
            server = cls(process, undo.enter_context(ours.dup()), settings["name"])
            server._output_transport, _ = await loop.connect_read_pipe(lambda: server._output, process.stdout)
            server._transport, _ = await loop.create_unix_connection(lambda: server, sock=ours)
            undo.pop_all()
        return server

    @property
    def usable(self) -> bool:
        """False once it has ended."""
        return not self._transport.is_closing()

    async def fork(self, channel: int, output: int) -> int:
        """The id of a new worker process, with `channel` as its stdin and `output` as its stdout and stderr.

        Raises OSError if there cannot be one, WorkerLost if the fork server has ended.
        """
        process = await self._ask(FORK, [channel, output])
        if process < 0:
            raise OSError(-process, os.strerror(-process))
        return process

    def wait(self, process: int) -> asyncio.Future[int]:
        """The exit code of a worker that has ended, as subprocess has it. Until then its number is not given again."""
        return self._ask(process, [])

    def _ask(self, number: int, descriptors: list[int]) -> asyncio.Future[int]:
        reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(self._control, [NUMBER.pack(number)], descriptors)
            self._awaited.append(reply)
        except OSError as error:
            reply.set_exception(WorkerLost(f"the process that forks workers has ended: {error}"))
        return reply

    async def close(self) -> None:
        """End it, and so its workers."""
        self._end()
        # If a process of another group holds the pipe, no end comes.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._output.ended.wait()
        self._transport.abort()
        self._output_transport.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._control.close()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= NUMBER.size:
            [number] = NUMBER.unpack_from(self._buffer)
            del self._buffer[: NUMBER.size]
            reply = self._awaited.popleft()
            if not reply.done():
                reply.set_result(number)

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        for reply in self._awaited:
            if not reply.done():
                reply.set_exception(WorkerLost("the process that forks workers has ended"))
                reply.exception()  # its caller may have gone away
        self._awaited.clear()
