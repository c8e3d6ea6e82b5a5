"""The scorer server against plain SQLite and servers without its caches, in one run on this machine.

    python benchmarks/scorer.py [--questions 100] [--only sql,small,memory,math,sandbox,slow]

sql: training-shaped traffic on a shop of 300,000 orders: each question has 16 responses, each in a request of its own,
64 at a time; a third of the SQL repeats. Baselines: plain SQLite in one thread (the predicted queries only, one open
file); a pool of as many processes that run gold and prediction for every response, without HTTP; this server without
caches. Runaway queries are endless; their scores are not waited for, and throughput is that of the other responses up
to the last of them. small: queries of a tenth of a millisecond through POST /v1/score. memory: of the workers over
100,000 responses. math: against math-verify called in this process. sandbox: the
processor time of a worker with it and without, in turn. slow: a query of two seconds beside as many busy processes as
twice the cores, and ordinary responses beside a full slow lane. All ratios come from this run.
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
import yaml

from rl.scorer.config import MathSettings, ScorerSettings, SqlSettings
from rl.scorer.math_scoring import MathQuestion, MathScorer
from rl.scorer.process import WorkerProcess
from rl.scorer.scoring import WorkerScorer
from rl.scorer.sql_scoring import SqlQuestion, SqlScorer

ORDERS, CLIENTS = 300_000, 5_000
RESPONSES, CONCURRENCY = 16, 64
QUESTIONS = 8  # of a request to POST /v1/score
RUNAWAY_SHARE, REPEATED_SHARE = 0.01, 1 / 3
RUNAWAY_SECONDS = 15.0
RUNAWAY = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
CORES = os.cpu_count() or 1
SANDBOX_PAIRS, SANDBOX_ROUNDS = 10, 22
SLOW_QUERY_SECONDS = 2.0
# Of about 1 to 30 ms each, 14 ms in the mean on the machine of docs/explanation/scoring.md; {} makes each one different
# without changing what it does.
QUERIES = (
    "SELECT city, count(*) FROM orders WHERE price > 90.{0} GROUP BY city",
    "SELECT count(*) FROM orders WHERE client < 2500.{0}",
    "SELECT client, sum(price) FROM orders WHERE client < 40.{0} GROUP BY client ORDER BY 2 DESC LIMIT 5",
    "SELECT name FROM clients JOIN orders ON orders.client = clients.id WHERE price > 99.9{0} LIMIT 20",
    "SELECT DISTINCT city FROM orders WHERE day = '2020-03-07' AND price < 50.{0}",
    "SELECT max(price) FROM orders WHERE city = 'city7' AND price < 99.{0}",
    "SELECT price, day FROM orders WHERE id BETWEEN 1000 AND 1020 AND price < 99.{0}",
    "SELECT name, city FROM orders JOIN clients ON clients.id = client WHERE orders.id = 77 AND price < 99.{0}",
    "SELECT name FROM clients WHERE id > 4990.{0} ORDER BY name",
)


class Item(NamedTuple):
    """One response to a question."""

    gold: str
    sql: str
    endless: bool

    @property
    def body(self) -> dict:
        extra = {"db_id": "shop/shop.sqlite", "gold_sql": self.gold, "cmp_method": "bird"}
        return {"gen_responses": [f"{'I look at the orders. ' * 20}\n```sql\n{self.sql}\n```"], "extra": extra}


def make_databases(root: Path) -> None:
    """shop/shop.sqlite with ORDERS rows, and small/small.sqlite."""
    generator = random.Random(0)

    def order(number: int) -> tuple:
        client, price, city = generator.randrange(CLIENTS), generator.random() * 100, generator.randrange(50)
        day = f"2020-{generator.randrange(1, 13):02d}-{generator.randrange(1, 29):02d}"
        return number, client, round(price, 2), f"city{city}", day

    for folder, orders in (("shop", ORDERS), ("small", 200)):
        (root / folder).mkdir()
        with closing(sqlite3.connect(root / folder / f"{folder}.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT)")
            columns = "id INTEGER PRIMARY KEY, client INTEGER, price REAL, city TEXT, day TEXT"
            connection.execute(f"CREATE TABLE orders ({columns})")
            connection.executemany("INSERT INTO clients VALUES (?, ?)", ((i, f"client {i}") for i in range(CLIENTS)))
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", map(order, range(orders)))


def traffic(questions: int, repeated: float, endless: float, seed: int) -> list[Item]:
    """RESPONSES responses to each question, in the order of a training step."""
    generator = random.Random(seed)
    items: list[Item] = []
    for question in range(questions):
        gold = QUERIES[question % len(QUERIES)].format(f"{seed}{question:05d}99")
        ordinary: list[Item] = []
        for number in range(RESPONSES):
            if generator.random() < endless:
                items.append(Item(gold, RUNAWAY.format(len(items)), True))
                continue
            if ordinary and generator.random() < repeated * RESPONSES / (RESPONSES - 1):
                ordinary.append(generator.choice(ordinary))
            else:
                sql = generator.choice(QUERIES).format(f"{seed}{question:05d}{number:02d}")
                ordinary.append(Item(gold, sql, False))
            items.append(ordinary[-1])
    return items


@contextmanager
def server(root: Path, **changes) -> Iterator[tuple[str, psutil.Process]]:
    """A server with the shipped settings and changes to its scorer: its address and process."""
    class_name = changes.pop("class_name", "SqlDetailRewardModel")
    scorer = {"class_name": class_name, **changes}
    if class_name != "MathRewardModel":
        scorer["database_path"] = str(root)
    command = [sys.executable, "-m", "rl.scorer", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        config, address_file = Path(folder) / "scorer.yaml", Path(folder) / "address"
        config.write_text(yaml.safe_dump({"ScorerServer": {"shutdown_seconds": 1}, "Scorers": {"Scorer1": scorer}}))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*command, "-c", config, "--address-file", address_file], **quiet) as process:
            try:
                while not address_file.exists():
                    if process.poll() is not None:
                        raise SystemExit("the server did not start")
                    time.sleep(0.02)
                yield f"http://{address_file.read_text()}", psutil.Process(process.pid)
            finally:
                process.terminate()


async def send(
    address: str,
    path: str,
    bodies: Iterable[dict],
    concurrency: int = CONCURRENCY,
    endless: Collection[int] = (),
    heartbeats: list[float] | None = None,
) -> float:
    """Seconds until all replies but those to the bodies numbered in `endless` are there; these hold their place."""
    slots = asyncio.Semaphore(concurrency)
    limits = {"connector": aiohttp.TCPConnector(limit=0), "timeout": aiohttp.ClientTimeout(600)}
    async with aiohttp.ClientSession(address, **limits) as session:

        async def ask(body: dict) -> None:
            try:
                async with session.request("PUT" if path == "/api" else "POST", path, json=body) as reply:
                    text = await reply.text()
                    if reply.status != 200:
                        raise SystemExit(f"HTTP {reply.status}: {text}")
            finally:
                slots.release()

        async def beat() -> None:
            while heartbeats is not None:
                started = time.perf_counter()
                async with session.get("/heartbeat") as reply:
                    await reply.read()
                heartbeats.append(time.perf_counter() - started)
                await asyncio.sleep(0.05)

        awaited, others = [], [asyncio.create_task(beat())]
        started = time.perf_counter()
        for number, body in enumerate(bodies):
            await slots.acquire()
            (others if number in endless else awaited).append(asyncio.create_task(ask(body)))
        await asyncio.gather(*awaited)
        seconds = time.perf_counter() - started
        for task in others:
            task.cancel()
    return seconds


def score_items(address: str, items: list[Item], heartbeats: list[float] | None = None) -> float:
    """Ordinary responses a second, each a request of its own."""
    endless = {number for number, item in enumerate(items) if item.endless}
    seconds = asyncio.run(send(address, "/api", (item.body for item in items), CONCURRENCY, endless, heartbeats))
    return (len(items) - len(endless)) / seconds


def plain_sqlite(root: Path, items: list[Item]) -> float:
    """Predicted queries a second in one thread."""
    connection = sqlite3.connect(f"file:{root}/shop/shop.sqlite?mode=ro", uri=True)
    started = time.perf_counter()
    for item in items:
        connection.execute(item.sql).fetchall()
    return len(items) / (time.perf_counter() - started)


def run_both(path: str, item: Item) -> None:
    """What a server without caches does with one response, an endless one included."""
    for sql in (item.gold, item.sql):
        deadline = time.monotonic() + RUNAWAY_SECONDS
        with closing(sqlite3.connect(path, uri=True)) as connection, suppress(sqlite3.OperationalError):
            connection.set_progress_handler(lambda deadline=deadline: time.monotonic() > deadline, 10_000)
            connection.execute(sql).fetchall()


def run_everything(root: Path, items: list[Item]) -> float:
    """Ordinary answers a second of CORES processes that run gold and prediction for every response, in order."""
    with multiprocessing.Pool(CORES) as pool:
        pool.map(abs, range(CORES))
        started = time.perf_counter()
        pool.starmap(run_both, [(f"file:{root}/shop/shop.sqlite?mode=ro", item) for item in items], chunksize=1)
        return sum(not item.endless for item in items) / (time.perf_counter() - started)


def say(what: str, figure: float, unit: str, second: float | None = None, meaning: str = "") -> None:
    more = "" if second is None else f"   {second:.2f} {meaning}"
    print(f"{what:36} {figure:9.1f} {unit}{more}", flush=True)


def measure_sql(root: Path, questions: int) -> None:
    with server(root) as (address, _):
        score_items(address, traffic(4, REPEATED_SHARE, 0, 9))  # file and processes are warm
        different = traffic(questions, 0, 0, 1)
        floor = statistics.mean([plain_sqlite(root, different), plain_sqlite(root, different)])
        say("plain SQLite, one thread", floor, "queries/s")
        ours = score_items(address, different)
        say("no repeated SQL", ours, "answers/s", ours / (floor * CORES), "of plain x cores, >= .85")
        calm = score_items(address, traffic(questions, REPEATED_SHARE, 0, 2))
        say("a third repeated", calm, "answers/s")
        heartbeats: list[float] = []
        shaped = score_items(address, traffic(questions, REPEATED_SHARE, RUNAWAY_SHARE, 3), heartbeats)
        say("... and 1 % runaways", shaped, "answers/s", shaped / calm, "of the same without them, >= .70")
    beats = [1000 * seconds for seconds in sorted(heartbeats)]
    say("heartbeat meanwhile, 99 %", beats[int(len(beats) * 0.99)], "ms", beats[-1], "ms at most")
    with server(root, gold_cache_bytes=0, answer_cache_bytes=0) as (address, _):
        uncached = score_items(address, traffic(questions, REPEATED_SHARE, RUNAWAY_SHARE, 4))
        say("this server without caches", uncached, "answers/s", shaped / uncached, "x with them")
    # A quarter of the traffic, with its share of runaways: they take most of the time, and it is long.
    fewer = traffic(max(questions // 4, 13), REPEATED_SHARE, 0, 5)
    fewer[50::100] = [Item(item.gold, RUNAWAY.format(i), True) for i, item in enumerate(fewer[50::100])]
    everything = run_everything(root, fewer)
    say("gold and prediction for all", everything, "answers/s", shaped / everything, "x ours, >= 15")


def small_batch(number: int) -> dict:
    """A request with distinct small queries."""
    questions = []
    for key in range(number * QUESTIONS, (number + 1) * QUESTIONS):
        sql = "SELECT city, count(*) FROM orders WHERE id < {}{} GROUP BY city"
        extra = {"db_id": "small/small.sqlite", "gold_sql": sql.format(key % 150, ""), "cmp_method": "bird"}
        responses = [f"```sql\n{sql.format(50 + i, f' AND {key} = {key}')}\n```" for i in range(RESPONSES)]
        questions.append({"question": extra, "responses": responses})
    return {"questions": questions}


def score_batches(address: str, numbers: range) -> float:
    """Responses a second."""
    seconds = asyncio.run(send(address, "/v1/score", map(small_batch, numbers), 4))
    return len(numbers) * QUESTIONS * RESPONSES / seconds


def measure_small(root: Path) -> None:
    with server(root) as (address, _):
        score_batches(address, range(10_000, 10_010))
        say("small queries, POST /v1/score", score_batches(address, range(200)), "answers/s, >= 2500")


def measure_memory(root: Path) -> None:
    with server(root) as (address, process):
        for first, last in ((0, 10_000), (10_000, 100_000)):
            score_batches(address, range(*(count // (QUESTIONS * RESPONSES) for count in (first, last))))
            workers = [child.memory_info().rss / 1e6 for child in process.children()]
            rss = process.memory_info().rss / 1e6
            say(f"memory after {last:,} answers", max(workers), "MB, the largest worker", rss, "MB, the server")


# Kinds of answers as AIME, MATH and Minerva have them; {0} makes each one different.
ANSWERS = (
    ("{0}", "0{0}"),
    (r"\frac{{{0}}}{{7}}", r"\dfrac{{{0}}}{{7}}"),
    ("{0}.5", r"\frac{{2 \cdot {0} + 1}}{{2}}"),
    (r"{0}\sqrt{{3}}", r"\sqrt{{3 \cdot {0}^2}}"),
    ("({0}, 2)", "(2, {0})"),
    (r"\{{1, {0}\}}", r"{0}, 1"),
    ("[1, {0})", "[1, {0}]"),
    (r"{0} \times 10^{{3}}", "{0}000"),
    ("{0}x^2 + 1", "1 + {0}x^2"),
    (r"{0}\%", "{0}"),
    ("x = {0}", "{0}"),
    (r"\begin{{pmatrix}} {0} & 1 \\ 0 & 2 \end{{pmatrix}}", r"\begin{{pmatrix}} {0} & 1 \\ 0 & 3 \end{{pmatrix}}"),
)


def math_pairs(count: int, first: int) -> list[tuple[str, str]]:
    """(gold, answer), all different."""
    kinds = (ANSWERS[number % len(ANSWERS)] for number in range(count))
    return [(gold.format(first + i), answer.format(first + i)) for i, (gold, answer) in enumerate(kinds)]


def plain_math_verify(pairs: list[tuple[str, str]]) -> float:
    """Comparisons a second in this process, without time limits: those take signals, and end nothing in C."""
    from math_verify import parse, verify

    started = time.perf_counter()
    for pair in pairs:
        verify(*(parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in pair), timeout_seconds=None)
    return len(pairs) / (time.perf_counter() - started)


def measure_math(root: Path) -> None:
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it has no time limits
    # The first ones warm the process and the workers.
    floor = [plain_math_verify(pairs) for pairs in (math_pairs(60, 100), math_pairs(1200, 1000))][1]
    say("math-verify, one thread", floor, "answers/s")
    with server(root, class_name="MathRewardModel") as (address, _):
        for pairs in (math_pairs(60, 100), math_pairs(2400, 1000)):
            bodies = ({"gen_responses": [rf"\boxed{{{a}}}"], "extra": {"ground_truth": gold}} for gold, a in pairs)
            ours = len(pairs) / asyncio.run(send(address, "/api", bodies))
    say("math, this server", ours, "answers/s", ours / (floor * CORES), "of math-verify x cores, >= .80")


def compare_sandbox(name: str, make: Callable[[], list[WorkerScorer]], questions: Callable[[int], list]) -> None:
    """Processor time of one worker each, without and with the sandbox, for the same questions in turn.

    questions(round): (question, responses) of a round. Of several pairs of processes: two alike differ by some per
    cent. Seconds by the clock would compare what else the machine does.
    """

    async def ratio(scorers: list[WorkerScorer]) -> float:
        used = [0.0, 0.0]
        await asyncio.gather(*(scorer.pool.start() for scorer in scorers))
        for number in range(SANDBOX_ROUNDS):
            for place in (0, 1) if number % 2 else (1, 0):
                workers = scorers[place].pool._all
                before = sum(worker.cpu_used for worker in workers)
                for question, responses in questions(number):
                    await scorers[place].score(question, responses)
                if number > 1:  # the first ones warm the workers
                    used[place] += sum(worker.cpu_used for worker in workers) - before
        await asyncio.gather(*(scorer.pool.close() for scorer in scorers))
        return used[1] / used[0]

    ratios = sorted(asyncio.run(ratio(make())) for _ in range(SANDBOX_PAIRS))
    middle = statistics.median(ratios)
    print(
        f"{name + ', with / without sandbox':36} {middle:9.3f} x processor time of a worker   {ratios[0]:.3f} to "
        f"{ratios[-1]:.3f} in {SANDBOX_PAIRS} pairs",
        flush=True,
    )


def unconfined_and_confined(kind: Callable[..., WorkerScorer], settings: ScorerSettings) -> list[WorkerScorer]:
    """Two scorers of one worker each."""
    one = {"num_instances": 1, "slow_instances": 1}
    return [kind(settings.model_copy(update={**one, "sandbox": sandbox})) for sandbox in ("off", "required")]


def start_workers(name: str, scorers: list[WorkerScorer], starts: int) -> None:
    """Processor time and memory of a worker that is ready, in turn without and with the sandbox."""
    found: list[list[tuple[float, float]]] = [[], []]

    async def measure(place: int) -> None:
        worker = await WorkerProcess.start(scorers[place].pool._settings)
        memory = psutil.Process(worker.pid).memory_info().rss / 1e6
        found[place].append((1000 * worker.cpu_used, memory))
        await worker.kill()

    for number in range(starts):
        asyncio.run(measure(number % 2))
    for sandbox, values in zip(("without", "with"), found, strict=True):
        cpu, memory = (statistics.median(column) for column in zip(*values, strict=True))
        say(f"start of a worker, {name}, {sandbox}", cpu, "ms of processor time", memory, "MB")


def measure_sandbox(root: Path) -> None:
    def sql() -> list[WorkerScorer]:
        return unconfined_and_confined(SqlScorer, SqlSettings(class_name="SqlRewardModel", database_path=root))

    def math() -> list[WorkerScorer]:
        return unconfined_and_confined(MathScorer, MathSettings(class_name="MathRewardModel"))

    def small_questions(number: int) -> list:
        return [(SqlQuestion(**each["question"]), each["responses"]) for each in small_batch(number)["questions"]]

    def shop_questions(number: int) -> list:
        gold, *others = traffic(1, 0, 0, number)
        question = SqlQuestion(db_id="shop/shop.sqlite", gold_sql=gold.gold, cmp_method="bird")
        return [(question, [f"```sql\n{item.sql}\n```" for item in others])]

    def math_questions(number: int) -> list:
        pairs = math_pairs(len(ANSWERS), 1000 + number * len(ANSWERS))
        return [(MathQuestion(ground_truth=gold), [rf"\boxed{{{answer}}}"]) for gold, answer in pairs]

    compare_sandbox("small queries", sql, small_questions)
    compare_sandbox("queries of 14 ms", sql, shop_questions)
    compare_sandbox("math", math, math_questions)
    start_workers("SQL", sql(), 40)
    start_workers("math", math(), 8)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Programs that compute, at this one's priority."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure_slow(root: Path) -> None:
    counting = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r LIMIT {}) SELECT count(*) FROM r"
    started = time.process_time()
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(counting.format(0, 1_000_000)).fetchall()
    rows = int(1_000_000 * SLOW_QUERY_SECONDS / (time.process_time() - started))

    def seconds(address: str, number: int) -> float:
        sql = counting.format(number, rows)
        return 1 / score_items(address, [Item("SELECT 1", sql, False)])

    with server(root) as (address, _):
        score_items(address, traffic(4, REPEATED_SHARE, 0, 9))
        say("a slow query", statistics.median(seconds(address, i) for i in range(3)), "s")
        with busy_processes(2 * CORES):
            beside = [seconds(address, i) for i in range(3, 6)]
        say(f"... beside {2 * CORES} busy processes", statistics.median(beside), "s", max(beside), "s at most")
    for lane in (4 * CORES, CORES):  # with CAP_SYS_NICE, and without
        with server(root, slow_instances=lane) as (address, _):
            score_items(address, traffic(4, REPEATED_SHARE, 0, 9))
            calm = score_items(address, traffic(20, REPEATED_SHARE, 0, 2))
            endless = [Item("SELECT 1", RUNAWAY.format(i), True) for i in range(lane)]
            full = score_items(address, endless + traffic(20, REPEATED_SHARE, 0, 3))
            say(f"beside a slow lane full of {lane}", full, "answers/s", full / calm, "of the same without")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--questions", type=int, default=100, help="of the training-shaped traffic (default: 100)")
    parser.add_argument("--only", default="sql,small,memory,math,sandbox,slow", help="parts (default: %(default)s)")
    options = parser.parse_args()
    parts = {"sql": partial(measure_sql, questions=options.questions), "small": measure_small}
    parts |= {"memory": measure_memory, "math": measure_math, "sandbox": measure_sandbox, "slow": measure_slow}
    with tempfile.TemporaryDirectory() as folder:
        make_databases(Path(folder))
        for name in options.only.split(","):
            parts[name](Path(folder))


if __name__ == "__main__":
    main()
