"""Scorer servers of the benchmarks: start one, send it requests, measure and kill its processes."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
import yaml
from scorer_traffic import BATCH, CONCURRENCY, Item, small_batch, traffic

from rl.common.processes import process_tree


class Server(NamedTuple):
    """A server that runs."""

    address: str
    process: psutil.Process

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, which its children, the fork servers, have forked."""
        return [worker for fork_server in self.process.children() for worker in process_tree(fork_server.pid)[1:]]

    def kill_workers(self, fork_servers: bool) -> int:
        """Send SIGKILL to its workers, or to its fork servers, which ends their workers too; return how many."""
        victims = self.process.children() if fork_servers else self.workers()
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        return len(victims)

    def connect(self) -> aiohttp.ClientSession:
        """A session for any number of requests at a time."""
        limits = {"connector": aiohttp.TCPConnector(limit=0), "timeout": aiohttp.ClientTimeout(600)}
        return aiohttp.ClientSession(self.address, **limits)

    async def send(
        self,
        bodies: Iterable[dict],
        at_once: int = CONCURRENCY,
        *,
        endless: Collection[int] = (),
        endless_keep_slots: bool = True,
    ) -> tuple[float, list[float]]:
        """Seconds until all replies have arrived, and those of each request.

        Args:
            endless: numbers of the bodies whose replies are not awaited, and missing in the result.
            endless_keep_slots: whether they count towards `at_once`.
        """
        slots = asyncio.Semaphore(at_once)
        async with self.connect() as session:
            awaited: list[asyncio.Task[float]] = []
            others: list[asyncio.Task[float]] = []
            started = time.perf_counter()
            for number, body in enumerate(bodies):
                await slots.acquire()
                asked = asyncio.create_task(ask(session, body))
                (others if number in endless else awaited).append(asked)
                if number in endless and not endless_keep_slots:
                    slots.release()
                else:
                    asked.add_done_callback(lambda _: slots.release())
            latencies = await asyncio.gather(*awaited)
            seconds = time.perf_counter() - started
            for task in others:
                task.cancel()
        return seconds, latencies

    def send_items(self, items: list[Item], **options) -> tuple[float, list[float]]:
        """The same for one request per item."""
        endless = {number for number, item in enumerate(items) if item.endless}
        return asyncio.run(self.send((item.body for item in items), endless=endless, **options))

    def score_items(self, items: list[Item]) -> float:
        """Ordinary responses per second, with one request for each."""
        seconds, latencies = self.send_items(items)
        return len(latencies) / seconds

    def score_batches(self, numbers: range) -> float:
        """Responses per second, with BATCH small queries in each request."""
        seconds, _ = asyncio.run(self.send(map(small_batch, numbers), 4))
        return len(numbers) * BATCH / seconds


async def ask(session: aiohttp.ClientSession, body: dict) -> float:
    """Seconds of a request, POST /v1/score with questions or PUT /api with one; its status must be 200."""
    method, path = ("POST", "/v1/score") if "questions" in body else ("PUT", "/api")
    started = time.perf_counter()
    async with session.request(method, path, json=body) as reply:
        text = await reply.text()
        if reply.status != 200:
            raise SystemExit(f"HTTP {reply.status}: {text}")
    return time.perf_counter() - started


@contextmanager
def serving(
    root: Path, scorers: dict | None = None, *, class_name: str = "SqlDetailRewardModel", warm: bool = False, **changes
) -> Iterator[Server]:
    """Run a server with the shipped settings and changes, or with `scorers`.

    Args:
        warm: let it score some traffic first, so that its processes and the shop's file are warm.
    """
    scorer = {"class_name": class_name, **changes}
    if class_name != "MathRewardModel":
        scorer["database_path"] = str(root)
    with tempfile.TemporaryDirectory() as folder, start(Path(folder), scorers or {"Scorer1": scorer}) as process:
        try:
            server = Server(wait_for(Path(folder), process), psutil.Process(process.pid))
            if warm:
                server.score_items(traffic(4, 9))
            yield server
        finally:
            process.terminate()


def start(folder: Path, scorers: dict, port: int = 0) -> subprocess.Popen:
    """Start a server that has its files in `folder`; it need not serve yet."""
    config, address_file = folder / "scorer.yaml", folder / "address"
    config.write_text(
        yaml.safe_dump({"ScorerServer": {"shutdown_seconds": 1, "request_seconds": 600}, "Scorers": scorers})
    )
    address_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "rl.scorer", "--port", str(port), "-c", str(config)]
    command += ["--address-file", str(address_file)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(folder: Path, process: subprocess.Popen) -> str:
    """The address of a started server, once it serves."""
    while not (folder / "address").exists():
        if process.poll() is not None:
            raise SystemExit("the server did not start")
        time.sleep(0.02)
    return f"http://{(folder / 'address').read_text()}"


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


def megabytes(process: psutil.Process) -> float:
    """Resident memory; 0 if the process has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.memory_info().rss / 1e6
    return 0.0
