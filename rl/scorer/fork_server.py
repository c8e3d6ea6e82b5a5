"""The server's end of a fork server (worker.py), the process that the workers of one pool are forked from.

Not multiprocessing's forkserver: its processes import the same modules for every pool, are started by a call that
blocks the event loop, are in no process group of their own, and survive the process that they are forked from.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from rl.common.time_limits import WORKER_START_S
from rl.scorer.worker import FORK, NUMBER
from rl.scorer.worker_output import WorkerOutput

_REPOSITORY = Path(__file__).resolve().parents[2]
LAST_WORDS_SECONDS = 1.0

_PROGRAM = "from rl.scorer.worker import main; main()"  # -m would import runpy


class WorkerLost(Exception):
    """The worker ended without a reply, by no fault of its job's that can be seen."""


class ForkServer:
    """A process that has imported what its workers need, and forks one within milliseconds.

    When it ends, its workers end with it. It ends itself when the server's end of its socket is closed.
    """

    def __init__(self, process: subprocess.Popen, control: socket.socket, output: WorkerOutput):
        self._process = process
        self._control = control
        self._output = output
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, settings: dict) -> "ForkServer":
        """One that is ready to fork; WorkerLost when it does not come up."""
        path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
        # Workers for SQLite need the standard library only: without site-packages they start a third faster.
        flags = ["-S"] if settings["jobs"].get("engine") == "sqlite" else []
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
                    # Ctrl-C in a terminal is for the server, which then ends its workers. Not a session of its own:
                    # Linux gives each session an equal share of the processors, whatever the priorities within.
                    process_group=0,
                )
            output = WorkerOutput(settings["name"])
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
        """The exit code of a worker that has ended, as subprocess has it. Until then its number is not given again."""
        return await self._ask(process, [])

    async def _ask(self, number: int, descriptors: list[int]) -> int:
        async with self._turn:
            try:
                socket.send_fds(self._control, [NUMBER.pack(number)], descriptors)
                return await self._reply()
            except BaseException as error:
                # Also when this is cancelled: its reply would be taken for the next one.
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
        """End it, and so its workers."""
        self._end()
        async with self._turn:  # what still waits for a reply sees the end
            self._control.close()
        await self._output.close(LAST_WORDS_SECONDS)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
