"""Pool of killable worker processes, each with one job at a time, in order of arrival.

A job's time is the processor time of its worker, so neither waiting for a worker nor a busy machine counts. Two lanes
keep slow jobs from delaying the others: a job that takes much longer than recent ones (`slow_seconds`) moves to the
slow lane, whose workers together have SLOW_SHARE of the ordinary workers' weight, and the next job takes its place. If
the slow lane is full and others wait, the job is stopped and begins again when that lane has a free worker. A watchdog
kills a worker that exceeds its job's time (the worker's own limit does not reach into C functions) or makes no progress
(a file system that hangs).
"""

import asyncio
import logging
import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rl.scorer.fork_server import ForkServer, WorkerLost
from rl.scorer.process import Reply, WorkerProcess

logger = logging.getLogger(__name__)

# A job is slow after SLOW_MULTIPLE times what nine of ten recent jobs took, within these bounds. Where few are endless,
# each costs the others a tenth of a second. Where all take a second, none is slow.
SLOW_MULTIPLE = 2.0
RECENT_JOBS, RECENT_SHARE = 100, 0.9
LEAST_SLOW_SECONDS, MOST_SLOW_SECONDS = 0.1, 2.0
# However many slow jobs run, ordinary jobs keep five sixths of the processors.
SLOW_SHARE = 0.2
# If no job has begun for this long, slow jobs together have the ordinary workers' weight, so that other programs do not
# hold them up.
IDLE_SECONDS = 1.0
# Linux divides a process's weight by this for each step of niceness.
_WEIGHT_STEP = 1.25
_MOST_NICE = 19
_TICK_SECONDS = 0.05
# A job whose worker used no processor for this long is taken to wait for a disk that does not answer.
_STALL_SECONDS = 60.0
_STALLED_CPU_SECONDS = 0.01
_ATTEMPTS = 2

# The frame of a job for the worker that takes it.
Prepare = Callable[[WorkerProcess], tuple[dict, bytes]]


class WorkerOverran(Exception):
    """The worker had no reply within the job's time and was killed."""


class WorkerCrashed(Exception):
    """The job ended its worker by a fault such as a segmentation fault, in every attempt."""


@dataclass(eq=False)
class _Job:
    """prepare: makes the frame for the worker that takes the job. cpu_limit: seconds of processor time before a kill.

    wall_limit: seconds by the clock; None for a job that only a disk can keep waiting. took: how long it has run.
    """

    prepare: Prepare
    cpu_limit: float
    wall_limit: float | None
    done: asyncio.Future
    took: "_Took" = field(default_factory=lambda: _Took())
    losses: int = 0
    crashes: int = 0


@dataclass(eq=False)
class _Took:
    """The longest time of a job in a worker, so far; kept after the job."""

    seconds: float = 0.0


@dataclass(eq=False)
class _Lane:
    """waiting: jobs that no worker has. busy: workers that have a job or are being started for one (starting)."""

    slow: bool
    size: int
    waiting: deque[_Job] = field(default_factory=deque)
    busy: int = 0
    starting: int = 0


@dataclass(eq=False)
class _Run:
    """A job in a worker.

    started: when it began, by the clock. cpu_before: the worker's processor time then. cpu: the worker's processor time
    when it last grew, at `moved`. ended_for: why the pool ended it, "overran" or "stopped".
    """

    job: _Job
    lane: _Lane
    cpu_before: float
    ended_for: str = ""

    def __post_init__(self) -> None:
        self.cpu = self.cpu_before
        self.started = self.moved = time.monotonic()

    def note_time(self, seconds: float) -> None:
        self.job.took.seconds = max(self.job.took.seconds, seconds)


def slow_seconds(recent: Iterable[float]) -> float:
    """When a job counts as slow, from the times that recent jobs have taken (those that still run: so far)."""
    times = sorted(recent)
    usual = times[int(RECENT_SHARE * (len(times) - 1))] if times else 0.0
    return min(max(SLOW_MULTIPLE * usual, LEAST_SLOW_SECONDS), MOST_SLOW_SECONDS)


def slow_niceness(slow: int, ordinary: int, share: float = SLOW_SHARE) -> int:
    """What is added to the niceness of each slow worker, so that together they get `share` of the ordinary weight."""
    return min(max(round(math.log(slow / (share * ordinary), _WEIGHT_STEP)), 0), _MOST_NICE)


class WorkerPool:
    """`size` workers for ordinary jobs and `slow` more for slow ones.

    by_clock: the clock decides which jobs are slow, because another server works on them; else processor time does.
    """

    def __init__(self, size: int, slow: int, settings: dict, by_clock: bool):
        self._ordinary, self._slow = self._lanes = _Lane(False, size), _Lane(True, slow)
        self._settings = settings
        self._by_clock = by_clock
        self._niceness = os.getpriority(os.PRIO_PROCESS, 0)
        self._runs: dict[WorkerProcess, _Run] = {}
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._tasks: set[asyncio.Task] = set()
        self._fork_server: ForkServer | None = None
        self._starting_fork_server = asyncio.Lock()
        self._closed = False
        self._last_began = 0.0  # when an ordinary worker last got a job
        self._recent: deque[_Took] = deque(maxlen=RECENT_JOBS)  # of jobs that have ended or are slow
        self.ends: Counter[str] = Counter()  # ends of workers by cause

    @property
    def waiting(self) -> int:
        """Jobs that no worker has yet."""
        return sum(len(lane.waiting) for lane in self._lanes)

    @property
    def running(self) -> int:
        """Jobs that workers have."""
        return len(self._runs)

    @property
    def workers(self) -> int:
        """Worker processes."""
        return len(self._all)

    async def start(self) -> None:
        """Start every ordinary worker, so that a failure shows before the first request. Raises WorkerLost."""
        starting = [self._new_worker() for _ in range(self._ordinary.size)]
        for worker in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(worker, BaseException):
                raise worker
            self._idle.append(worker)
        self._start_task(self._watch())

    async def run(self, prepare: Prepare, cpu_limit: float, wall_limit: float | None = None) -> Reply:
        """A worker's reply to the job (header, body) that `prepare` makes for it.

        Raises WorkerOverran after `cpu_limit` seconds of processor time or `wall_limit` seconds in the worker,
        WorkerCrashed when the job ended its worker twice by a fault, WorkerLost when its worker was killed twice or the
        pool ends.
        """
        if self._closed:
            raise WorkerLost("the server is ending")
        job = _Job(prepare, cpu_limit, wall_limit, asyncio.get_running_loop().create_future())
        self._ordinary.waiting.append(job)
        self._dispatch()
        return await job.done

    async def close(self) -> None:
        """End every worker; jobs that still run are lost."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for job in [*self._ordinary.waiting, *self._slow.waiting, *(run.job for run in self._runs.values())]:
            _fail(job, WorkerLost("the server is ending"))
        await asyncio.gather(*self._tasks, *(worker.kill() for worker in list(self._all)), return_exceptions=True)
        if self._fork_server is not None:
            await self._fork_server.close()

    # Lanes

    def _dispatch(self) -> None:
        for lane in self._lanes:
            while len(lane.waiting) > lane.starting and lane.busy < lane.size:
                lane.busy += 1
                worker = next((worker for worker in self._idle if worker.usable), None)
                if worker is not None:
                    self._idle.remove(worker)
                    self._begin(worker, lane)
                else:
                    lane.starting += 1
                    self._start_task(self._add_worker(lane))

    async def _add_worker(self, lane: _Lane) -> None:
        """Start a worker for a lane that has waiting jobs and fewer workers than its size."""
        try:
            self._idle.append(await self._new_worker())
        except WorkerLost as error:
            logger.error("%s", error)
            if lane.waiting:
                self._lost(lane.waiting.popleft(), lane, str(error))
        finally:
            lane.starting -= 1
            lane.busy -= 1
        self._dispatch()

    def _begin(self, worker: WorkerProcess, lane: _Lane) -> None:
        run = self._runs[worker] = _Run(lane.waiting.popleft(), lane, worker.cpu_used)
        if not lane.slow:
            self._last_began = run.started
        worker.send(*run.job.prepare(worker))

    def _share_out(self) -> None:
        """Set the priority of the slow workers."""
        share = 1.0 if time.monotonic() - self._last_began > IDLE_SECONDS else SLOW_SHARE
        # A job that was lost may lose its worker again before its limit: at the ordinary priority it gets further.
        runs = [(worker, run) for worker, run in self._runs.items() if worker.usable]
        slow = [worker for worker, run in runs if run.lane.slow and not run.job.losses]
        for worker in slow:
            # Without CAP_SYS_NICE, which containers lack, a niceness never falls again.
            worker.set_priority(self._niceness + slow_niceness(len(slow), self._ordinary.size, share))

    def _replied(self, worker: WorkerProcess, reply: Reply) -> None:
        run = self._runs.get(worker)
        if run is None:
            return  # it was not asked
        self._release(worker, run)
        run.note_time(time.monotonic() - run.started if self._by_clock else worker.cpu_used - run.cpu_before)
        if not run.lane.slow:
            self._recent.append(run.job.took)
        if not run.job.done.done():
            run.job.done.set_result(reply)
        if reply[0].get("last"):
            self._retire(worker, "fault" if reply[0]["outcome"] == "fault" else "out_of_memory")
        elif (
            run.ended_for
            or len(self._idle) >= self._ordinary.size
            or (run.lane.slow and not worker.set_priority(self._niceness))
        ):
            self._retire(worker, "slow")
        else:
            self._idle.append(worker)
        self._dispatch()

    def _release(self, worker: WorkerProcess, run: _Run) -> None:
        del self._runs[worker]
        run.lane.busy -= 1

    def _retire(self, worker: WorkerProcess, cause: str) -> None:
        self.ends[cause] += 1
        worker.terminate()

    def _ended(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        run = self._runs.get(worker)
        if run is not None:
            self._release(worker, run)
            self._settle(worker, run)
        elif worker in self._idle:
            self._idle.remove(worker)
            self.ends["lost"] += 1
        if not self._closed:
            self._dispatch()

    def _settle(self, worker: WorkerProcess, run: _Run) -> None:
        """Decide about the job of a worker that ended."""
        self.ends[run.ended_for or ("crashed" if worker.crashed else "lost")] += 1
        if run.ended_for == "overran":
            _fail(run.job, WorkerOverran())
        elif run.ended_for == "stopped":
            self._slow.waiting.append(run.job)
        else:
            run.job.crashes += worker.crashed
            self._lost(run.job, run.lane, f"worker {worker.pid} ended without a reply (exit code {worker.returncode})")

    def _lost(self, job: _Job, lane: _Lane, reason: str) -> None:
        job.losses += 1
        logger.warning("%s (attempt %d of %d)", reason, job.losses, _ATTEMPTS)
        if job.losses < _ATTEMPTS:
            lane.waiting.appendleft(job)
        elif job.crashes == job.losses:
            _fail(job, WorkerCrashed())
        else:
            _fail(job, WorkerLost(f"{_ATTEMPTS} worker processes were lost on this question"))

    # Watching

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._look(time.monotonic())
            self._share_out()

    def _look(self, now: float) -> None:
        for worker, run in list(self._runs.items()):
            if now - run.started > LEAST_SLOW_SECONDS and worker.usable:
                try:
                    self._check(worker, run, now)
                except Exception:
                    # The watchdog must survive: without it no limit would hold.
                    logger.exception("worker %d could not be checked", worker.pid)

    def _check(self, worker: WorkerProcess, run: _Run, now: float) -> None:
        """End a job that exceeds its limits, and move a slow one to the slow lane."""
        cpu, limit, wall_limit = worker.cpu_seconds(), run.job.cpu_limit, run.job.wall_limit
        seconds = now - run.started if self._by_clock else cpu - run.cpu_before
        run.note_time(seconds)
        if cpu - run.cpu > _STALLED_CPU_SECONDS:
            run.cpu, run.moved = cpu, now
        if cpu - run.cpu_before > limit:
            self._kill(worker, run, "overran", f"no reply within {limit:g} s of processor time")
        elif wall_limit is not None and now - run.started > wall_limit:
            self._kill(worker, run, "overran", f"no reply within {wall_limit:g} s by the clock")
        elif wall_limit is None and now - run.moved > _STALL_SECONDS:
            self._kill(worker, run, "", f"it used no processor for {_STALL_SECONDS:g} s")
        elif run.lane.slow or not self._is_slow(run.job):
            return
        elif self._slow.busy < self._slow.size:
            self._recent.append(run.job.took)
            self._ordinary.busy -= 1
            self._slow.busy += 1
            run.lane = self._slow
            self._dispatch()
        elif self._ordinary.waiting:
            self._recent.append(run.job.took)
            run.ended_for = "stopped"
            worker.terminate()

    def _is_slow(self, job: _Job) -> bool:
        return job.took.seconds > slow_seconds(took.seconds for took in self._recent)

    def _kill(self, worker: WorkerProcess, run: _Run, cause: str, reason: str) -> None:
        logger.warning("a worker was killed: %s", reason)
        run.ended_for = cause
        worker.terminate()

    # Workers

    async def _new_worker(self) -> WorkerProcess:
        if self._closed:
            raise WorkerLost("the server is ending")
        async with self._starting_fork_server:
            if self._fork_server is None or not self._fork_server.usable:
                self._fork_server = await ForkServer.start(self._settings)
        worker = await WorkerProcess.start(self._fork_server, self._settings)
        worker.on_reply, worker.on_end = self._replied, self._ended
        self._all.add(worker)
        if self._closed:
            await worker.kill()
            raise WorkerLost("the server is ending")
        return worker

    def _start_task(self, coroutine) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _fail(job: _Job, error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)
