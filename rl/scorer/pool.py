"""Jobs for worker processes that can be killed: one job at a time each, in order of arrival, slow ones apart.

A job's time is the processor time of its worker, so neither waiting for a worker nor a busy machine counts. Two lanes
keep slow jobs from holding up the others: a job that has run for SLOW_SECONDS moves to the slow lane, whose workers
have a low priority, and leaves its place to the next one. When that lane is full and others wait, the job is stopped
and begins again when the slow lane has room. The watchdog here kills a worker that exceeds its job's time (the worker's
own limit does not reach into C functions) or that gets nowhere (a file system that hangs).
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from rl.scorer.process import Reply, WorkerLost, WorkerProcess

logger = logging.getLogger(__name__)

# A hundred times an ordinary query.
SLOW_SECONDS = 0.5
# A slow worker gets a ninth of what an ordinary one gets of a processor that both want (Linux's weights 110 and 1024).
SLOW_NICE = 10
_TICK_SECONDS = 0.05
# A job whose worker used no processor for this long waits for a disk that does not answer.
_STALL_SECONDS = 60.0
_STALLED_CPU_SECONDS = 0.01
_ATTEMPTS = 2


class WorkerOverran(Exception):
    """The worker had no answer within the job's time and was killed."""


class WorkerCrashed(Exception):
    """The job ended its worker by a fault such as a segmentation fault, in every attempt."""


@dataclass(eq=False)
class _Job:
    """prepare: the frame for the worker that takes it. cpu_limit: seconds of processor time until it is killed."""

    prepare: Callable[[WorkerProcess], tuple[dict, bytes]]
    cpu_limit: float
    done: asyncio.Future
    losses: int = 0
    crashes: int = 0


@dataclass(eq=False)
class _Run:
    """A job in a worker.

    started: by the clock. cpu: the worker's processor time when it was last seen to grow, at `moved`.
    """

    job: _Job
    slow: bool
    started: float
    cpu_before: float
    cpu: float
    moved: float
    overran: bool = False
    stopped: bool = False


class WorkerPool:
    """`size` workers for ordinary jobs and `slow_size` more for slow ones."""

    def __init__(self, size: int, slow_size: int, settings: dict):
        self._sizes = {False: size, True: slow_size}
        self._settings = settings
        self._waiting: dict[bool, deque[_Job]] = {False: deque(), True: deque()}
        self._running: dict[WorkerProcess, _Run] = {}
        self._busy = {False: 0, True: 0}  # by lane, with workers that are being started for it
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._tasks: set[asyncio.Task] = set()
        self._closed = False
        self._recent_seconds = 0.0  # in a worker, a moving average over about 100 jobs
        self.ends: Counter[str] = Counter()  # of workers, by cause

    @property
    def waiting(self) -> int:
        """Jobs that no worker has yet."""
        return len(self._waiting[False]) + len(self._waiting[True])

    @property
    def running(self) -> int:
        """Jobs in workers."""
        return len(self._running)

    @property
    def workers(self) -> int:
        """Worker processes."""
        return len(self._all)

    def seconds_to_clear(self) -> float:
        """About how long the jobs that wait now will take, from the time that recent ones took."""
        return self.waiting * self._recent_seconds / self._sizes[False]

    async def start(self) -> None:
        """Starts every ordinary worker, so that one that cannot start is known before the first request."""
        started = await asyncio.gather(*(self._new_worker() for _ in range(self._sizes[False])), return_exceptions=True)
        for worker in started:
            if isinstance(worker, BaseException):
                raise worker
        self._idle += started
        self._start_task(self._watch())

    async def run(self, prepare: Callable[[WorkerProcess], tuple[dict, bytes]], cpu_limit: float) -> Reply:
        """A worker's reply to the job (header, body) that `prepare` makes for it.

        Raises WorkerOverran after `cpu_limit` seconds of processor time, WorkerCrashed when the job ended its worker
        twice by a fault, WorkerLost when its worker was killed twice or the pool ends.
        """
        if self._closed:
            raise WorkerLost("the server is ending")
        job = _Job(prepare, cpu_limit, asyncio.get_running_loop().create_future())
        self._waiting[False].append(job)
        self._dispatch()
        return await job.done

    async def close(self) -> None:
        """Ends every worker; what still runs is lost."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        jobs = [*self._waiting[False], *self._waiting[True], *(run.job for run in self._running.values())]
        for job in jobs:
            _fail(job, WorkerLost("the server is ending"))
        await asyncio.gather(*self._tasks, *(worker.kill() for worker in list(self._all)), return_exceptions=True)

    # Lanes

    def _dispatch(self) -> None:
        for slow in (False, True):
            waiting = self._waiting[slow]
            while waiting and self._busy[slow] < self._sizes[slow]:
                if waiting[0].done.done():
                    waiting.popleft()
                    continue
                self._busy[slow] += 1
                if self._idle:
                    self._begin(self._idle.pop(), waiting.popleft(), slow)
                else:
                    self._start_task(self._begin_in_new_worker(slow))

    async def _begin_in_new_worker(self, slow: bool) -> None:
        try:
            worker = await self._new_worker()
        except WorkerLost as error:
            logger.error("%s", error)
            self._busy[slow] -= 1
            if self._waiting[slow]:
                self._lost(self._waiting[slow].popleft(), slow, str(error))
            self._dispatch()
            return
        self._busy[slow] -= 1
        self._idle.append(worker)
        self._dispatch()

    def _begin(self, worker: WorkerProcess, job: _Job, slow: bool) -> None:
        if slow and not worker.set_priority(SLOW_NICE):
            logger.warning("worker %d keeps its priority", worker.pid)
        now = time.monotonic()
        self._running[worker] = _Run(job, slow, now, cpu_before=worker.cpu_used, cpu=worker.cpu_used, moved=now)
        worker.send(*job.prepare(worker))

    def _replied(self, worker: WorkerProcess, reply: Reply) -> None:
        run = self._running.pop(worker, None)
        if run is None:
            return
        self._busy[run.slow] -= 1
        self._recent_seconds += (time.monotonic() - run.started - self._recent_seconds) / 100
        if not run.job.done.done():
            run.job.done.set_result(reply)
        if run.overran or run.stopped:
            pass  # it is being killed
        elif reply[0].get("last"):
            self._retire(worker, "out_of_memory")
        elif len(self._idle) >= self._sizes[False] or (run.slow and not worker.set_priority(0)):
            self._retire(worker, "surplus")
        else:
            self._idle.append(worker)
        self._dispatch()

    def _ended(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        run = self._running.pop(worker, None)
        if run is not None:
            self._busy[run.slow] -= 1
            self._settle(run, worker)
        elif worker in self._idle:
            self._idle.remove(worker)
            self.ends["lost"] += 1
        if not self._closed:
            self._dispatch()

    def _settle(self, run: _Run, worker: WorkerProcess) -> None:
        """What becomes of a job whose worker ended."""
        if run.overran:
            self.ends["overran"] += 1
            _fail(run.job, WorkerOverran())
        elif run.stopped:
            self.ends["stopped"] += 1
            self._waiting[True].append(run.job)
        else:
            self.ends["crashed" if worker.crashed else "lost"] += 1
            run.job.crashes += worker.crashed
            reason = f"worker {worker.pid} ended without an answer (exit code {worker.returncode})"
            self._lost(run.job, run.slow, reason)

    def _lost(self, job: _Job, slow: bool, reason: str) -> None:
        job.losses += 1
        logger.warning("%s (attempt %d of %d)", reason, job.losses, _ATTEMPTS)
        if job.losses < _ATTEMPTS:
            self._waiting[slow].appendleft(job)
        elif job.crashes == job.losses:
            _fail(job, WorkerCrashed())
        else:
            _fail(job, WorkerLost(f"{_ATTEMPTS} worker processes were lost on this question"))

    # Watching

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            for worker, run in list(self._running.items()):
                if not (run.overran or run.stopped):
                    self._check(worker, run, now)

    def _check(self, worker: WorkerProcess, run: _Run, now: float) -> None:
        if now - run.started < SLOW_SECONDS:
            return
        cpu = worker.cpu_seconds()
        if cpu - run.cpu > _STALLED_CPU_SECONDS:
            run.cpu, run.moved = cpu, now
        if cpu - run.cpu_before > run.job.cpu_limit:
            logger.warning("a worker was killed: no answer within %g s of processor time", run.job.cpu_limit)
            run.overran = True
            worker.terminate()
        elif now - run.moved > _STALL_SECONDS:
            logger.error("a worker was killed: it used no processor for %g s", _STALL_SECONDS)
            worker.terminate()
        elif not run.slow:
            self._move_to_slow_lane(worker, run)

    def _move_to_slow_lane(self, worker: WorkerProcess, run: _Run) -> None:
        if self._busy[True] < self._sizes[True]:
            worker.set_priority(SLOW_NICE)
            run.slow = True
            self._busy[False] -= 1
            self._busy[True] += 1
            self._dispatch()
        elif self._waiting[False]:
            run.stopped = True
            worker.terminate()

    # Workers

    async def _new_worker(self) -> WorkerProcess:
        if self._closed:
            raise WorkerLost("the server is ending")
        worker = await WorkerProcess.start(self._settings)
        worker.on_reply, worker.on_end = self._replied, self._ended
        self._all.add(worker)
        if self._closed:
            await worker.kill()
            raise WorkerLost("the server is ending")
        return worker

    def _retire(self, worker: WorkerProcess, cause: str) -> None:
        self.ends[cause] += 1
        worker.terminate()

    def _start_task(self, coroutine) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _fail(job: _Job, error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)
