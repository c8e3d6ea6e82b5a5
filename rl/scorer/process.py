"""The server's end of one worker process (worker.py): a socket in the event loop, and the means to stop it."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import psutil

from rl.common.time_limits import WORKER_START_S
from rl.scorer import frames
from rl.scorer.fork_server import LAST_WORDS_SECONDS, ForkServer, WorkerLost
from rl.scorer.lru import ByteLru

logger = logging.getLogger(__name__)

_END_SECONDS = 5.0

_FAULTS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})

Reply = tuple[dict, bytes]


class WorkerProcess(asyncio.Protocol):
    """One worker. Callbacks: `on_reply(worker, reply)` for every reply, `on_end(worker)` once when it is gone.

    held: mirrors the gold results that the worker holds. cpu_used: its processor time at its last reply, in seconds.
    returncode: after its end, as subprocess has it; None if it ended with its fork server.
    """

    def __init__(self, fork_server: ForkServer, settings: dict):
        self._fork_server = fork_server
        self._buffer = bytearray()
        # A reply was in the worker's memory before.
        self._max_reply_bytes = settings["memory_bytes"]
        # Of a worker that `start` returned. The loop itself holds tasks weakly.
        self.pid: int
        self._status: psutil.Process
        self._transport: asyncio.Transport
        self._reaping: asyncio.Task
        # Whether `pid` is its process's: from the fork until it is reaped, no other process group can have its number.
        self._has_pid = False
        self._terminated = False
        self._disconnected = asyncio.Event()
        self._ready = asyncio.get_running_loop().create_future()
        self.returncode: int | None = None
        self.held: ByteLru[bool] = ByteLru(settings["jobs"].get("held_bytes", 0))
        self.cpu_used = 0.0
        self.on_reply: Callable[[WorkerProcess, Reply], None] = lambda worker, reply: None
        self.on_end: Callable[[WorkerProcess], None] = lambda worker: None
        self.gone = asyncio.Event()

    @classmethod
    async def start(cls, fork_server: ForkServer, settings: dict) -> "WorkerProcess":
        """A worker that has said it is ready; WorkerLost when it does not come up."""
        try:
            async with asyncio.timeout(WORKER_START_S):
                worker = await cls._fork(fork_server, settings)
        except (OSError, TimeoutError) as error:
            raise WorkerLost(f"a worker process cannot be started: {error}") from error
        try:
            worker._status = psutil.Process(worker.pid)
            async with asyncio.timeout(WORKER_START_S):
                await worker._ready
        except BaseException as error:
            await worker.kill()
            if isinstance(error, psutil.Error):
                raise WorkerLost(f"the processor time of a worker cannot be read in /proc: {error}") from None
            if isinstance(error, (WorkerLost, TimeoutError)):
                raise WorkerLost("a worker process did not start") from error
            raise
        return worker

    @classmethod
    async def _fork(cls, fork_server: ForkServer, settings: dict) -> "WorkerProcess":
        loop = asyncio.get_running_loop()
        ours, its = socket.socketpair()
        with its:
            transport, worker = await loop.create_unix_connection(lambda: cls(fork_server, settings), sock=ours)
            try:
                worker.pid = await fork_server.fork(its.fileno())
            except BaseException:
                transport.abort()
                raise
        worker._has_pid = True
        worker._reaping = loop.create_task(worker._reap())
        return worker

    @property
    def crashed(self) -> bool:
        """Whether it ended by a fault of its job: an exception or a segmentation fault, and not by others.

        SIGBUS is none: a mapped file was cut off under it.
        """
        code = self.returncode
        return code is not None and (code > 0 or -code in _FAULTS)

    @property
    def usable(self) -> bool:
        """False from when its end is ordered or seen; on_end follows."""
        return not (self._terminated or self._transport.is_closing())

    def send(self, header: dict, body: bytes) -> None:
        """Give it a job; the reply comes through on_reply, unless on_end comes first."""
        if self.usable:
            self._transport.write(frames.encode(header, body))

    def cpu_seconds(self) -> float:
        """Processor time since its start; 0 when it is gone."""
        try:
            times = self._status.cpu_times()
        except psutil.Error:
            return 0.0
        return times.user + times.system

    def set_priority(self, nice: int) -> bool:
        """Whether its niceness is `nice` now: a lower one than before takes a privilege."""
        try:
            os.setpriority(os.PRIO_PROCESS, self.pid, nice)
        except (PermissionError, ProcessLookupError):
            return False
        return True

    def terminate(self) -> None:
        """SIGKILL, to the processes that it started too: the end comes through on_end."""
        self._terminated = True
        if self._has_pid:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """End the process, whatever it does, and wait for its end."""
        self.terminate()
        try:
            await asyncio.wait_for(self.gone.wait(), _END_SECONDS)
        except TimeoutError:
            logger.error("worker %d does not end: it may wait for a disk that does not answer", self.pid)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (frame := self._next_frame()) is not None:
            self.cpu_used = frame[0]["cpu"]
            if not self._ready.done():
                self._ready.set_result(None)
            else:
                self.on_reply(self, frame)

    def _next_frame(self) -> Reply | None:
        try:
            return frames.take(self._buffer, self._max_reply_bytes)
        except ValueError as error:
            logger.error("worker %d was killed: it sent %s", self.pid, error)
            self._buffer.clear()
            self.terminate()
            return None

    def connection_lost(self, error: Exception | None) -> None:
        # A worker whose socket is closed is of no more use; it may still run when it was the one that closed it.
        self.terminate()
        self._disconnected.set()

    async def _reap(self) -> None:
        await self._exit()
        # What it started must not outlive it.
        self.terminate()
        # Its last reply may be in the socket. If a process of another group holds that, no end comes.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._disconnected.wait()
        self._has_pid = False
        try:
            self.returncode = await self._fork_server.wait(self.pid)
        except WorkerLost:
            with suppress(ChildProcessError):  # orphans are this process's if it is a container's first
                os.waitpid(self.pid, os.WNOHANG)
        self._transport.abort()
        self.gone.set()
        if not self._ready.done():
            self._ready.set_exception(WorkerLost("a worker process ended at its start"))
            self._ready.exception()
        else:
            self.on_end(self)

    async def _exit(self) -> None:
        """Wait until the process is a zombie; where the system does not tell, until it is killed."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            await self._disconnected.wait()
            return
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
