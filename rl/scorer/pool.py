"""Worker processes that can be killed: one job at a time each, replaced when they die.

Waiting for a free worker costs a job none of its time: the watchdog starts when a worker has the job. A job that turns
out slow stops counting against the pool's size, within a bound, so that slow jobs do not hold up the others.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rl.scorer import frames
from rl.scorer.lru import ByteLru

_REPOSITORY = Path(__file__).resolve().parents[2]
_START_SECONDS = 60.0
# From here on a job is slow: a hundred times an ordinary query.
_SLOW_SECONDS = 0.5


class WorkerLost(Exception):
    """The worker ended without an answer."""


class WorkerOverran(Exception):
    """The worker had no answer within the job's time and was killed."""


class WorkerProcess:
    """The server's end of one worker (worker.py). `held` mirrors the gold results that the worker holds."""

    def __init__(self, process: asyncio.subprocess.Process, held_gold_bytes: int):
        self._process = process
        self.held: ByteLru[bool] = ByteLru(held_gold_bytes)

    @classmethod
    async def start(cls, settings: dict) -> "WorkerProcess":
        """A worker that has said it is ready; WorkerLost when it does not come up."""
        path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rl.scorer.worker", json.dumps(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            # Ctrl-C in a terminal is for the server, which then ends its workers.
            start_new_session=True,
        )
        worker = cls(process, settings["held_gold_bytes"])
        try:
            async with asyncio.timeout(_START_SECONDS):
                await worker._receive()
        except (asyncio.IncompleteReadError, TimeoutError) as error:
            await worker.kill()
            raise WorkerLost("a worker process did not start") from error
        except BaseException:
            await worker.kill()
            raise
        return worker

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, header: dict, body: bytes) -> tuple[dict, bytes]:
        """The worker's reply to one job."""
        self._process.stdin.write(frames.encode(header, body))
        await self._process.stdin.drain()
        return await self._receive()

    async def _receive(self) -> tuple[dict, bytes]:
        stream = self._process.stdout
        header_size, body_size = frames.LENGTHS.unpack(await stream.readexactly(frames.LENGTHS.size))
        return json.loads(await stream.readexactly(header_size)), await stream.readexactly(body_size)

    async def kill(self) -> None:
        """Ends the process, whatever it does, and waits for its end."""
        if self.alive:
            # Not Process.kill: it reaps a child that has just died, and asyncio then misses its exit.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        await self._process.wait()


class WorkerPool:
    """`size` workers for ordinary jobs and up to as many more for slow ones. Jobs wait in order for a free one."""

    def __init__(self, size: int, settings: dict):
        self._size = size
        self._settings = settings
        self._slots = asyncio.Semaphore(size)
        self._slow_jobs = 0
        self._closed = False
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()

    async def start(self) -> None:
        """Starts every worker, so that one that cannot start is known before the first request."""
        self._idle += await asyncio.gather(*(self._new_worker() for _ in range(self._size)))

    async def run(
        self, prepare: Callable[[WorkerProcess], tuple[dict, bytes]], seconds: float
    ) -> tuple[dict, bytes]:
        """The reply of a free worker to the job (header, body) that `prepare` makes for it.

        Raises WorkerOverran after `seconds` with the worker, WorkerLost when it died; either way it is replaced.
        """
        async with self._slot():
            worker = await self._take()
            try:
                async with asyncio.timeout(seconds):
                    header, body = await worker.ask(*prepare(worker))
            except TimeoutError:
                await self._discard(worker)
                raise WorkerOverran from None
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                await self._discard(worker)
                raise WorkerLost("a worker process ended without an answer") from error
            except BaseException:
                # Cancelled halfway: what the worker would say next belongs to no one.
                await self._discard(worker)
                raise
            if header.get("last"):
                await self._discard(worker)
            else:
                self._idle.append(worker)
            return header, body

    async def close(self) -> None:
        """Ends every worker; what still runs is lost."""
        self._closed = True
        await asyncio.gather(*(worker.kill() for worker in self._all))
        self._all.clear()
        self._idle.clear()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One job's share of the pool, given back at its end or when it turns out slow."""
        await self._slots.acquire()
        held = True

        def make_room() -> None:
            nonlocal held
            if self._slow_jobs < self._size:
                held = False
                self._slow_jobs += 1
                self._slots.release()

        timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, make_room)
        try:
            yield
        finally:
            timer.cancel()
            if held:
                self._slots.release()
            else:
                self._slow_jobs -= 1

    async def _take(self) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await self._discard(worker)
        return await self._new_worker()

    async def _new_worker(self) -> WorkerProcess:
        if self._closed:
            raise WorkerLost("the server is ending")
        worker = await WorkerProcess.start(self._settings)
        self._all.add(worker)
        return worker

    async def _discard(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        await worker.kill()
