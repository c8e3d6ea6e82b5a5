"""The pool: workers that are lost or crash, and the slow lane."""

import asyncio
import concurrent.futures
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
import uvloop

from rl.scorer import pool
from rl.scorer.config import MathSettings
from rl.scorer.math.scoring import MathQuestion, MathScorer
from rl.scorer.pool import LEAST_SLOW_SECONDS, WorkerPool, slow_niceness
from rl.scorer.sql.scoring import GoldCheck, SqlQuestion, SqlScorer
from tests.scorer.attacks import CAPABILITIES
from tests.scorer.conftest import SHOP, fenced, running


def test_a_worker_that_crashes_on_a_query_makes_it_an_error(start_scorer: Callable) -> None:
    """SIGSEGV simulates a fault of SQLite: no query is known that causes one."""
    scorer = start_scorer(prediction_seconds=30.0, num_instances=1)
    runaway = "WITH RECURSIVE r(x) AS (SELECT 5 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, [fenced(runaway)], "SELECT 1")
        seen: set[int] = set()
        while not under_way.done():
            for worker in scorer.workers():
                with suppress(psutil.NoSuchProcess):
                    if psutil.Process(worker).cpu_times().user > 0.3 and worker not in seen:
                        seen.add(worker)
                        os.kill(worker, signal.SIGSEGV)
            time.sleep(0.05)
    assert len(seen) == 2
    [detail] = under_way.result().json()["details"]
    assert detail["outcome"] == "pred_error"
    assert scorer.outcome("SELECT 1") == "match"


def test_a_worker_that_has_just_died_gets_no_job_and_costs_no_other_answer(
    sql_scorer: Callable[..., SqlScorer],
) -> None:
    """Asked every half millisecond around the moment at which the server's end of the socket closes, with uvloop."""
    scorer = sql_scorer(num_instances=2)

    async def scenario() -> list:
        found = []
        async with running(scorer):
            for attempt in range(5):
                for child in psutil.Process().children(recursive=True):
                    with suppress(psutil.ZombieProcess):
                        if "rl.scorer.worker" in " ".join(child.cmdline()):
                            child.kill()
                asked = []
                for number in range(100):
                    of = SqlQuestion(db_id=SHOP, gold_sql=f"SELECT {attempt}, {number}", cmp_method="bird")
                    predictions = [fenced(f"SELECT {attempt}, {number} + {wrong}") for wrong in range(2)]
                    asked.append(asyncio.create_task(scorer.score(of, predictions)))
                    await asyncio.sleep(0.0005)
                found += await asyncio.gather(*asked)
        return found

    found = uvloop.run(scenario())
    assert len(found) == 500
    outcomes = [Counter(scores[number].outcome for scores in found) for number in range(2)]
    for of, right in zip(outcomes, ("match", "mismatch"), strict=True):
        assert set(of) <= {right, "infra_error"} and of[right] > 400


def test_a_worker_that_cannot_be_started_for_want_of_descriptors_is_an_infra_error(
    sql_scorer: Callable[..., SqlScorer],
) -> None:
    scorer = sql_scorer()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> list[str]:
        async with running(scorer):
            outcomes = [(await scorer.check_gold(SHOP, "SELECT 1")).outcome]
            [worker] = scorer.pool._all
            await worker.kill()
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                async with asyncio.timeout(20):
                    outcomes.append((await scorer.check_gold(SHOP, "SELECT 2")).outcome)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            outcomes.append((await scorer.check_gold(SHOP, "SELECT 2")).outcome)
            return outcomes

    assert asyncio.run(scenario()) == ["gold", "infra_error", "gold"]


CAP_SYS_NICE = 23
may_renice = pytest.mark.skipif(not CAPABILITIES >> CAP_SYS_NICE & 1, reason="it takes CAP_SYS_NICE")


class Worker:
    """A worker whose processor time the test sets."""

    usable, cpu_used, cpu = True, 0.0, 0.0

    def cpu_seconds(self) -> float:
        return self.cpu

    def send(self, header: dict, body: bytes) -> None:
        pass

    def terminate(self) -> None:
        self.usable = False


@pytest.mark.parametrize(
    ("before", "seconds", "slow"),
    [
        ([], 0.11, True),
        ([], 0.09, False),
        ([0.003] * 92 + [15.0] * 8, 0.11, True),  # few endless ones change nothing
        ([0.003, 0.003, 15.0], 0.11, True),
        ([0.12] * 20, 0.15, False),
        ([0.12] * 20, 0.3, True),
        ([0.003, 0.003, 0.003, 0.12] * 25, 0.15, False),
        ([9.0] * 20, 2.1, True),
        ([1.0] * 100 + [0.003] * 100, 0.11, True),
    ],
)
def test_a_job_is_slow_beside_recent_ones(before: list[float], seconds: float, slow: bool) -> None:
    """With the slow lane full, a slow job is stopped for one that waits."""

    async def scenario() -> bool:
        workers, worker = WorkerPool(1, 0, {}, by_clock=False), Worker()
        workers._idle.append(worker)
        asked = [asyncio.create_task(workers.run(lambda _: ({}, b""), 60.0)) for _ in range(len(before) + 2)]
        await asyncio.sleep(0)
        for took in before:
            worker.cpu += took
            worker.cpu_used = worker.cpu
            workers._replied(worker, ({"outcome": "match"}, b""))
        worker.cpu += seconds
        workers._look(time.monotonic() + seconds)
        for each in asked:
            each.cancel()
        return not worker.usable

    assert asyncio.run(scenario()) is slow


def test_without_the_right_to_renice_a_slow_statement_costs_its_worker(
    sql_scorer: Callable[..., SqlScorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """setpriority as in a kernel without CAP_SYS_NICE: a niceness never falls again."""
    system = os.setpriority

    def setpriority(which: int, who: int, niceness: int) -> None:
        if niceness < os.getpriority(which, who):
            raise PermissionError
        system(which, who, niceness)

    monkeypatch.setattr(os, "setpriority", setpriority)
    monkeypatch.setattr(pool, "SLOW_MULTIPLE", 0.0)  # the statements are alike
    scorer = sql_scorer()
    count = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r LIMIT 3000000) SELECT count(*) FROM r"

    async def scenario() -> None:
        async with running(scorer):
            for number in range(4):
                assert (await scorer.check_gold(SHOP, count.format(number))).outcome == "gold"
            assert scorer.pool.ends == {"slow": 4}
            assert (await scorer.check_gold(SHOP, "SELECT 1")).outcome == "gold"
            [worker] = scorer.pool._idle
            assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.getpriority(os.PRIO_PROCESS, 0)

    asyncio.run(scenario())


@may_renice
def test_a_slow_statement_that_lost_its_worker_begins_again_at_the_server_s_priority(
    sql_scorer: Callable[..., SqlScorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets its whole time limit again. Killed twice, it is an infra_error; the next question starts anew."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 100.0)
    monkeypatch.setattr(pool, "SLOW_MULTIPLE", 0.0)  # the statements are alike
    limit = 0.6
    scorer = sql_scorer(gold_seconds=limit)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"

    async def ask(kills: int) -> tuple[GoldCheck, list[int], float]:
        """The outcome after `kills` workers were killed, the niceness of each worker, and the time of the last."""
        check = asyncio.create_task(scorer.check_gold(SHOP, endless))
        niceness: dict[int, int] = {}
        seconds = 0.0
        while not check.done():
            for worker in list(scorer.pool._runs):
                seconds = worker.cpu_seconds() - worker.cpu_used
                if seconds > 3 * LEAST_SLOW_SECONDS and worker.pid not in niceness:
                    niceness[worker.pid] = os.getpriority(os.PRIO_PROCESS, worker.pid)
                    if len(niceness) <= kills:
                        os.kill(worker.pid, signal.SIGKILL)
                        await worker.gone.wait()
            await asyncio.sleep(0.01)
        return check.result(), list(niceness.values()), seconds

    async def scenario() -> None:
        async with running(scorer):
            lost, niceness, _ = await ask(kills=2)
            assert (lost.outcome, lost.error) == ("infra_error", "2 worker processes were lost on this question")
            assert niceness == [own + slow_niceness(1, 1), own]
            found, niceness, seconds = await ask(kills=1)
            assert (found.outcome, niceness) == ("gold_timeout", [own + slow_niceness(1, 1), own])
            assert seconds > 0.75 * limit

    asyncio.run(scenario())


def test_lost_workers_are_forked_anew_and_a_lost_fork_server_is_replaced() -> None:
    scorer = MathScorer(MathSettings(class_name="MathRewardModel", num_instances=2))

    def fork_server() -> psutil.Process:
        [forking] = {psutil.Process(worker.pid).parent() for worker in scorer.pool._all}
        return forking

    async def scores(answers: list[str]) -> list[float]:
        responses = [rf"\boxed{{{answer}}}" for answer in answers]
        return [score.score for score in await scorer.score(MathQuestion(ground_truth="7"), responses)]

    async def end_of_all(killed: list[psutil.Process]) -> None:
        workers = list(scorer.pool._all)
        assert len(workers) == 2
        for process in killed:
            process.kill()
        await asyncio.gather(*(worker.gone.wait() for worker in workers))

    async def scenario() -> None:
        async with running(scorer):
            first = fork_server()
            await end_of_all(first.children())
            assert await scores([rf"\frac{{{7 * n}}}{{{n}}}" for n in range(2, 20)]) == [1.0] * 18
            assert fork_server() == first
            # Its workers end with it.
            await end_of_all([first])
            assert await scores([r"\frac{21}{3}", "8"]) == [1.0, 0.0]
            assert (second := fork_server()) != first
            assert scorer.pool.ends == {"lost": 4}
        assert not second.is_running()

    asyncio.run(scenario())
