"""Compare the scorer server with plain SQLite, without its sandbox, and with math-verify, in one run on this machine.

    python benchmarks/scorer.py [--questions 100] [--only sql,sandbox,math,slow]

sql: traffic as in training, on a shop of 300,000 orders. Each question has 16 responses, each response is one request,
64 requests run at a time, and a third of the SQL repeats. The baseline is plain SQLite in a process per core (only the
predicted queries, one open file each). Runaway queries never end: throughput counts the other responses, until the last
of them.
sandbox: queries of a tenth of a millisecond with and without it. math: against math-verify in this process. slow:
ordinary responses beside a full slow lane, and their latency, 8 at a time, beside 1 % runaways. All ratios come from
this run. scorer_soak.py runs hours of mixed load.
"""

import argparse
import asyncio
import logging
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from scorer_server import Server, cpu_seconds, serving
from scorer_traffic import CORES, RUNAWAY, Item, make_databases, math_body, math_pairs, say, traffic

RUNAWAY_SHARE = 0.01
# Each query of the slow lane first has a tenth of a second of an ordinary worker.
FILL_SECONDS = 2.0
PAIRS = 3
SANDBOX_PAIRS = 21


def run_predictions(root: Path, items: list[Item]) -> None:
    with closing(sqlite3.connect(f"file:{root}/shop/shop.sqlite?mode=ro", uri=True)) as connection:
        for item in items:
            with suppress(sqlite3.OperationalError):  # broken SQL
                connection.execute(item.sql).fetchall()


def plain_sqlite(root: Path, items: list[Item]) -> float:
    """Predicted queries a second of CORES processes, from when they have started."""
    with multiprocessing.Pool(CORES) as pool:
        pool.map(abs, range(CORES))
        started = time.perf_counter()
        pool.starmap(run_predictions, [(root, items[first::CORES]) for first in range(CORES)], chunksize=1)
        return len(items) / (time.perf_counter() - started)


def measure_sql(root: Path, questions: int) -> None:
    with serving(root, warm=True) as server:
        for seed in range(11, 11 + PAIRS):
            different = traffic(questions // PAIRS, seed, repeated=0)
            before, ours = plain_sqlite(root, different), server.score_items(different)
            floor = statistics.mean([before, plain_sqlite(root, different)])
            say(f"plain SQLite, {CORES} processes", floor, "queries/s")
            say("no repeated SQL", ours, "answers/s", ours / floor, "of plain SQLite, >= .85")
        calm = server.score_items(traffic(questions, 2))
        say("a third repeated", calm, "answers/s")
        shaped = server.score_items(traffic(questions, 3, endless=RUNAWAY_SHARE))
        say("... and 1 % runaways", shaped, "answers/s", shaped / calm, "of the same without them, >= .70")


def measure_sandbox(root: Path) -> None:
    """Processor time of the workers for the same queries, in turns."""
    ratios = []
    with serving(root) as confined, serving(root, sandbox="off") as unconfined:
        for pair in range(SANDBOX_PAIRS):
            numbers = range(20_000 + 20 * pair, 20_020 + 20 * pair)
            spent = []
            for server in (confined, unconfined):
                before = cpu_seconds(server.workers())
                server.score_batches(numbers)
                spent.append(cpu_seconds(server.workers()) - before)
            ratios.append(spent[0] / spent[1])
    low, middle, high = statistics.quantiles(ratios[1:], n=4)  # the first pair warms up
    half = f"(half of the pairs: {100 * low:.1f} to {100 * high:.1f})"
    say("sandbox: time of the workers", 100 * middle, f"% of the same without it {half}")


def plain_math_verify(pairs: list[tuple[str, str]]) -> float:
    """Comparisons per second in this process, without time limits, which need signals and cannot end C code."""
    from math_verify import parse, verify

    started = time.perf_counter()
    for gold, answer in pairs:
        verify(*(parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (gold, answer)), timeout_seconds=None)
    return len(pairs) / (time.perf_counter() - started)


def measure_math(root: Path) -> None:
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns about missing time limits
    # The first pairs warm up the process and the workers.
    floor = [plain_math_verify(pairs) for pairs in (math_pairs(60, 100), math_pairs(1200, 1000))][1]
    say("math-verify, one thread", floor, "answers/s")
    with serving(root, class_name="MathRewardModel") as server:
        for pairs in (math_pairs(60, 100), math_pairs(2400, 1000)):
            seconds, _ = asyncio.run(server.send(math_body(*pair) for pair in pairs))
            ours = len(pairs) / seconds
    say("math, this server", ours, "answers/s", ours / (floor * CORES), "of math-verify x cores, >= .80")


def say_latency(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p50, p99 = (1000 * ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    say(what, p50, "ms, p50", p99, f"ms, p99, of {len(seconds)}")


async def score_beside(server: Server, endless: list[Item], items: list[Item]) -> float:
    """Responses per second of `items` once `endless` have moved to the slow lane."""
    others = asyncio.create_task(server.send([item.body for item in endless], len(endless)))
    await asyncio.sleep(FILL_SECONDS)
    seconds, _ = await server.send([item.body for item in items])
    others.cancel()
    return len(items) / seconds


def measure_slow(root: Path) -> None:
    lane = 4 * CORES
    for _ in range(PAIRS):
        with serving(root, warm=True, slow_instances=lane) as server:
            calm = server.score_items(traffic(20, 2))
            endless = [Item("SELECT 1", RUNAWAY.format(i), True) for i in range(lane)]
            full = asyncio.run(score_beside(server, endless, traffic(20, 3)))
            say(f"beside a slow lane full of {lane}", full, "answers/s", full / calm, "of the same without, >= .80")
    with serving(root, warm=True) as server:
        for seed, share, what in ((7, 0.0, "8 at a time"), (8, RUNAWAY_SHARE, "... beside 1 % runaways")):
            items = traffic(60, seed, endless=share)
            say_latency(what, server.send_items(items, at_once=8, endless_keep_slots=False)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--questions", type=int, default=100, help="questions of the part sql (default: 100)")
    parser.add_argument("--only", default="sql,sandbox,math,slow", help="parts (default: %(default)s)")
    options = parser.parse_args()
    parts: dict[str, Callable[[Path], None]] = {
        "sql": partial(measure_sql, questions=options.questions),
        "sandbox": measure_sandbox,
        "math": measure_math,
        "slow": measure_slow,
    }
    with tempfile.TemporaryDirectory() as folder:
        make_databases(Path(folder))
        for name in options.only.split(","):
            parts[name](Path(folder))


if __name__ == "__main__":
    main()
