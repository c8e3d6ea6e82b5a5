"""The cost of the kernel's sandbox in a scorer's worker, in processor time, beside other programs on the machine.

    python benchmarks/scorer_sandbox.py [--pairs 15] [--only small,shop,math,start]

A pair is two workers, one without the sandbox and one with it, that answer the same questions in turn, in blocks of
some hundredths of a second: without, with, with, without. Each block's processor time is divided by that of the other
worker for the same questions; of a pair the median of its ratios counts, of all pairs their median, with its interval
of 95 % or more (order statistics: no distribution is assumed). Two alike processes differ too: the same is done with
two workers without a sandbox, which shows what this machine cannot tell apart. Addresses are not randomised, since
different layouts of memory make alike processes differ.
"""

import argparse
import asyncio
import ctypes
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
from scipy import stats
from scorer_traffic import ANSWERS, make_databases, math_pairs, say, small_batch, traffic

from rl.scorer.config import MathSettings, SqlSettings
from rl.scorer.fork_server import ForkServer
from rl.scorer.math.scoring import MathQuestion, MathScorer
from rl.scorer.process import WorkerProcess
from rl.scorer.scoring import WorkerScorer
from rl.scorer.sql.scoring import SqlQuestion, SqlScorer

BLOCKS = 40  # of each worker of a pair
WARM_BLOCKS = 4
STARTS = 20
_NO_RANDOM_ADDRESSES = 0x0040000

Questions = Callable[[Path, int], list[tuple[object, list[str]]]]


def small_questions(root: Path, number: int) -> list:
    return [(SqlQuestion(**each["question"]), each["responses"]) for each in small_batch(number)["questions"]]


def shop_questions(root: Path, number: int) -> list:
    gold, *others = traffic(1, 0, 0, number)
    question = SqlQuestion(db_id="shop/shop.sqlite", gold_sql=gold.gold, cmp_method="bird")
    return [(question, [f"```sql\n{item.sql}\n```" for item in others[:4]])]


def math_questions(root: Path, number: int) -> list:
    pairs = math_pairs(len(ANSWERS), 1000 + number * len(ANSWERS))
    return [(MathQuestion(ground_truth=gold), [rf"\boxed{{{answer}}}"]) for gold, answer in pairs]


def sql_scorer(root: Path, sandbox: str) -> WorkerScorer:
    return SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=root, sandbox=sandbox, **ONE))


def math_scorer(root: Path, sandbox: str) -> WorkerScorer:
    return MathScorer(MathSettings(class_name="MathRewardModel", sandbox=sandbox, **ONE))


ONE: dict = {"num_instances": 1, "slow_instances": 1}
KINDS: dict[str, tuple[str, Callable[[Path, str], WorkerScorer], Questions]] = {
    "small": ("small queries", sql_scorer, small_questions),
    "shop": ("queries of 14 ms", sql_scorer, shop_questions),
    "math": ("math", math_scorer, math_questions),
}


async def block_seconds(scorer: WorkerScorer, questions: list) -> float:
    """Processor time of the scorer's one worker for these questions, which wait for it together."""
    [worker] = scorer.pool._all
    before = worker.cpu_used
    await asyncio.gather(*(scorer.score(question, responses) for question, responses in questions))
    assert [worker] == list(scorer.pool._all), "the worker was replaced"
    return worker.cpu_used - before


async def ratio(scorers: list[WorkerScorer], root: Path, questions: Questions, blocks: int) -> float:
    """Of one pair: the second one's processor time by the first one's."""
    await asyncio.gather(*(scorer.pool.start() for scorer in scorers))
    ratios = []
    for number in range(WARM_BLOCKS + blocks):
        used = [0.0, 0.0]
        for place in (0, 1) if number % 2 else (1, 0):
            used[place] = await block_seconds(scorers[place], questions(root, number))
        if number >= WARM_BLOCKS:
            ratios.append(used[1] / used[0])
    await asyncio.gather(*(scorer.pool.close() for scorer in scorers))
    return statistics.median(ratios)


def compare(name: str, make: Callable[[Path, str], WorkerScorer], root: Path, questions: Questions, pairs: int) -> None:
    found: dict[str, list[float]] = {"required": [], "off": []}
    for _ in range(pairs):  # in turn, so that both meet the same load
        for sandbox, ratios in found.items():
            scorers = [make(root, "off"), make(root, sandbox)]
            ratios.append(asyncio.run(ratio(scorers, root, questions, BLOCKS)))
    for sandbox, what in (("required", "with / without sandbox"), ("off", "two without")):
        low, high = stats.quantile_test(found[sandbox]).confidence_interval(0.95)  # NaN for less than 6 pairs
        middle = statistics.median(found[sandbox])
        print(f"{name}, {what:22} {middle:.4f}   {low:.4f} to {high:.4f} ({pairs} pairs)", flush=True)


def start_workers(name: str, make: Callable[[Path, str], WorkerScorer], root: Path) -> None:
    """Processor time and memory of a worker that is ready, and of the fork server."""

    async def measure(sandbox: str) -> None:
        settings = make(root, sandbox).pool._settings
        fork_server, found = await ForkServer.start(settings), []
        times = psutil.Process(fork_server._process.pid).cpu_times()
        for _ in range(STARTS):
            worker = await WorkerProcess.start(fork_server, settings)
            own = psutil.Process(worker.pid).memory_full_info().uss / 1e6
            found.append((1000 * worker.cpu_used, own))
            await worker.kill()
        await fork_server.close()
        cpu, own = (statistics.median(column) for column in zip(*found, strict=True))
        say(f"{name}: a worker, sandbox {sandbox}", cpu, "ms of processor time", own, "MB of its own")
        say(f"{name}: its fork server", 1000 * (times.user + times.system), "ms of processor time")

    for sandbox in ("off", "required"):
        asyncio.run(measure(sandbox))


def without_random_addresses() -> None:
    """Start this program again with them off, unless they are."""
    library = ctypes.CDLL(None)
    if sys.platform == "linux" and not library.personality(0xFFFFFFFF) & _NO_RANDOM_ADDRESSES:
        if library.personality(_NO_RANDOM_ADDRESSES) >= 0:
            os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=15, help="of processes, a kind (default: 15)")
    parser.add_argument("--only", default="small,shop,math,start", help="parts (default: %(default)s)")
    options = parser.parse_args()
    without_random_addresses()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_databases(root)
        for part in options.only.split(","):
            if part == "start":
                start_workers("SQL", sql_scorer, root)
                start_workers("math", math_scorer, root)
            else:
                name, make, questions = KINDS[part]
                compare(name, make, root, questions, options.pairs)
        print(f"load {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} cores", flush=True)


if __name__ == "__main__":
    main()
