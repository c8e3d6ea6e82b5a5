"""The server's end of one worker process (worker.py): its socket in the event loop, and ways to stop it."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import psutil

from rl.common.time_limits import WORKER_START_S
from rl.scorer.fork_server import LAST_WORDS_SECONDS, ForkServer, WorkerLost
from rl.scorer.lru import ByteLru
from rl.scorer.worker import frame_of, take_frame

logger = logging.getLogger(__name__)

_END_SECONDS = 5.0

_FAULTS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})

Reply = tuple[dict, bytes]


class WorkerProcess(asyncio.Protocol):
    """One worker. It calls `on_reply(worker, reply)` for every reply and `on_end(worker)` once when it is gone.

    held: mirrors the gold results that the worker holds. cpu_used: its processor time at its last reply, in seconds.
    returncode: after its end, as subprocess reports it; None if it ended with its fork server.
    """

    def __init__(self, fork_server: ForkServer, settings: dict):
        self._fork_server = fork_server
        self._buffer = bytearray()
        # A larger reply would not have fitted into the worker's memory.
        self._max_reply_bytes = settings["memory_bytes"]
        # Set in a worker that `start` returned. The task is kept because the loop holds tasks weakly.
        self.pid: int
        self._status: psutil.Process
        self._transport: asyncio.Transport
        self._reaping: asyncio.Task
        # Whether `pid` is still its own: between fork and reaping no other process group can get this number.
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
        """Start a worker and wait until it is ready. Raises WorkerLost if it does not start."""
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
        """Whether its job ended it, by an exception or a segmentation fault, and not another process.

        SIGBUS does not count: a mapped file was truncated.
        """
        code = self.returncode
        return code is not None and (code > 0 or -code in _FAULTS)

    @property
    def usable(self) -> bool:
        """False once its end is ordered or seen; on_end follows."""
        return not (self._terminated or self._transport.is_closing())

    def send(self, header: dict, body: bytes) -> None:
        """Give it a job. on_reply gets the reply, unless on_end comes first."""
        if self.usable:
            self._transport.write(frame_of(header, body))

    def cpu_seconds(self) -> float:
        """Processor time since its start; 0 when it is gone."""
        try:
            times = self._status.cpu_times()
        except psutil.Error:
            return 0.0
        return times.user + times.system

    def set_priority(self, nice: int) -> bool:
        """Set its niceness and return whether that worked: lowering it takes CAP_SYS_NICE."""
        try:
            os.setpriority(os.PRIO_PROCESS, self.pid, nice)
        except (PermissionError, ProcessLookupError):
            return False
        return True

    def terminate(self) -> None:
        """Send SIGKILL to it and to the processes that it started; on_end follows."""
        self._terminated = True
        if self._has_pid:
            # Itself too: without a sandbox it can leave its group.
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    kill(self.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """End the process and wait for its end."""
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
            return take_frame(self._buffer, self._max_reply_bytes)
        except ValueError as error:
            logger.error("worker %d was killed: it sent %s", self.pid, error)
            self._buffer.clear()
            self.terminate()
            return None

    def connection_lost(self, error: Exception | None) -> None:
        # A worker without its socket is useless; if it closed the socket itself, it still runs.
        self.terminate()
        self._disconnected.set()

    async def _reap(self) -> None:
        await self._exit()
        # Processes that it started must not outlive it.
        self.terminate()
        # Its last reply may be in the socket, which a process of another group may keep open.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._disconnected.wait()
        self._has_pid = False
        try:
            self.returncode = await self._fork_server.wait(self.pid)
        except WorkerLost:
            with suppress(ChildProcessError):  # as a container's first process, this one inherits orphans
                os.waitpid(self.pid, os.WNOHANG)
        self._transport.abort()
        self.gone.set()
        if not self._ready.done():
            self._ready.set_exception(WorkerLost("a worker process ended at its start"))
            self._ready.exception()
        else:
            self.on_end(self)

    async def _exit(self) -> None:
        """Wait until the process is a zombie; without pidfd, until its socket closes."""
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
