"""The scorer server against plain SQLite and servers without its caches, in one run on this machine.

    python benchmarks/scorer.py [--questions 100] [--only sql,small,memory,math]

sql: training-shaped traffic on a shop of 300,000 orders: each question has 16 responses, each in a request of its own,
64 at a time; a third of the SQL repeats. Baselines: plain SQLite in one thread (the predicted queries only, one open
file); a pool of as many processes that run gold and prediction for every response, without HTTP; this server without
caches. Runaway queries are endless; their scores are not waited for, and throughput is that of the other responses up
to the last of them. small: queries of a tenth of a millisecond through POST /v1/score. memory: of the workers over
100,000 responses. math: against math-verify called in this process. All ratios come from this run.
"""

import argparse
import asyncio
import json
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil
import yaml

ORDERS, CLIENTS = 300_000, 5_000
RESPONSES, CONCURRENCY = 16, 64
RUNAWAY_SHARE, REPEATED_SHARE = 0.01, 1 / 3
RUNAWAY_SECONDS = 15.0
RUNAWAY = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
CORES = os.cpu_count() or 1
# Of about 1 to 30 ms each, 14 ms in the mean on the machine of docs/scorer.md; {} makes each one different without
# changing what it does.
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


@dataclass(frozen=True)
class Item:
    """One response to a question."""

    gold: str
    sql: str
    endless: bool

    @property
    def extra(self) -> dict:
        return {"db_id": "shop/shop.sqlite", "gold_sql": self.gold, "cmp_method": "bird"}

    @property
    def response(self) -> str:
        return f"{'I look at the orders. ' * 20}\n```sql\n{self.sql}\n```"


def make_databases(root: Path) -> None:
    """shop/shop.sqlite with ORDERS rows, and small/small.sqlite."""
    generator = random.Random(0)
    for folder, orders in (("shop", ORDERS), ("small", 200)):
        (root / folder).mkdir()
        connection = sqlite3.connect(root / folder / f"{folder}.sqlite")
        connection.execute("CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, client INTEGER, price REAL, city TEXT, day TEXT)"
        )
        connection.executemany("INSERT INTO clients VALUES (?, ?)", ((i, f"client {i}") for i in range(CLIENTS)))
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?)",
            (
                (
                    i,
                    generator.randrange(CLIENTS),
                    round(generator.random() * 100, 2),
                    f"city{generator.randrange(50)}",
                    f"2020-{generator.randrange(1, 13):02d}-{generator.randrange(1, 29):02d}",
                )
                for i in range(orders)
            ),
        )
        connection.commit()
        connection.close()


def traffic(questions: int, repeated: float, endless: float, seed: int) -> list[Item]:
    """RESPONSES responses to each question, in the order of a training step."""
    generator = random.Random(seed)
    items = []
    for question in range(questions):
        gold = QUERIES[question % len(QUERIES)].format(f"{seed}{question:05d}99")
        mine: list[Item] = []
        for number in range(RESPONSES):
            if generator.random() < endless:
                mine.append(Item(gold, RUNAWAY.format(len(items) + number), True))
                continue
            ordinary = [item for item in mine if not item.endless]
            if ordinary and generator.random() < repeated * RESPONSES / (RESPONSES - 1):
                mine.append(generator.choice(ordinary))
            else:
                sql = generator.choice(QUERIES).format(f"{seed}{question:05d}{number:02d}")
                mine.append(Item(gold, sql, False))
        items += mine
    return items


@contextmanager
def server(root: Path, **changes) -> Iterator[tuple[str, psutil.Process]]:
    """A server with the shipped settings and changes to its scorer: its address and process."""
    class_name = changes.pop("class_name", "SqlDetailRewardModel")
    scorer = {"class_name": class_name, **changes}
    if class_name != "MathRewardModel":
        scorer["database_path"] = str(root)
    with tempfile.TemporaryDirectory() as folder:
        config, address_file = Path(folder) / "scorer.yaml", Path(folder) / "address"
        config.write_text(yaml.safe_dump({"ScorerServer": {"shutdown_seconds": 1}, "Scorers": {"Scorer1": scorer}}))
        process = subprocess.Popen(
            [sys.executable, "-m", "rl.scorer", "-c", config, "--port", "0", "--address-file", address_file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not address_file.exists():
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
                time.sleep(0.02)
            yield f"http://{address_file.read_text()}", psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


async def send(address: str, items: list[Item], heartbeats: list[float] | None = None) -> float:
    """Ordinary answers a second, each response a PUT /api, CONCURRENCY at a time; endless ones hold their place."""
    slots = asyncio.Semaphore(CONCURRENCY)
    endless: set[asyncio.Task] = set()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(item: Item) -> None:
            try:
                body = {"gen_responses": [item.response], "extra": item.extra}
                async with session.put(f"{address}/api", json=body, timeout=aiohttp.ClientTimeout(600)) as answer:
                    reply = await answer.json()
                    if answer.status != 200:
                        raise SystemExit(f"HTTP {answer.status}: {reply}")
            finally:
                slots.release()

        async def beat() -> None:
            while True:
                started = time.perf_counter()
                async with session.get(f"{address}/heartbeat") as answer:
                    await answer.read()
                heartbeats.append(time.perf_counter() - started)
                await asyncio.sleep(0.05)

        beating = asyncio.create_task(beat()) if heartbeats is not None else None
        started = time.perf_counter()
        ordinary: set[asyncio.Task] = set()
        for item in items:
            await slots.acquire()
            (endless if item.endless else ordinary).add(asyncio.create_task(ask(item)))
        await asyncio.gather(*ordinary)
        seconds = time.perf_counter() - started
        for task in [*endless, *filter(None, [beating])]:
            task.cancel()
    return len(ordinary) / seconds


def plain_sqlite(root: Path, items: list[Item]) -> float:
    """Predicted queries a second in one thread."""
    connection = sqlite3.connect(f"file:{root}/shop/shop.sqlite?mode=ro", uri=True)
    started = time.perf_counter()
    for item in items:
        connection.execute(item.sql).fetchall()
    return len(items) / (time.perf_counter() - started)


def run_both(job: tuple[str, Item]) -> None:
    """What a server without caches does with one response, an endless one included."""
    path, item = job
    for sql in (item.gold, item.sql):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        deadline = time.monotonic() + RUNAWAY_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)  # noqa: B023
        try:
            connection.execute(sql).fetchall()
        except sqlite3.OperationalError:
            pass
        finally:
            connection.close()


def run_everything(root: Path, items: list[Item]) -> float:
    """Ordinary answers a second of CORES processes that run gold and prediction for every response, in order."""
    jobs = [(f"{root}/shop/shop.sqlite", item) for item in items]
    with multiprocessing.Pool(CORES) as pool:
        pool.map(abs, range(CORES))
        started = time.perf_counter()
        for _ in pool.imap(run_both, jobs):
            pass
        return sum(not item.endless for item in items) / (time.perf_counter() - started)


def measure_sql(root: Path, questions: int) -> None:
    say = report("sql")
    with server(root) as (address, _):
        asyncio.run(send(address, traffic(4, REPEATED_SHARE, 0, 9)))  # file and processes are warm
        different = traffic(questions, 0, 0, 1)
        floor = statistics.mean([plain_sqlite(root, different), plain_sqlite(root, different)])
        say("plain SQLite, one thread", floor, "queries/s")
        ours = asyncio.run(send(address, different))
        say("no repeated SQL", ours, "answers/s", ours / (floor * CORES), "of plain x cores, >= .85")
        calm = asyncio.run(send(address, traffic(questions, REPEATED_SHARE, 0, 2)))
        say("a third repeated", calm, "answers/s")
        heartbeats: list[float] = []
        shaped = asyncio.run(send(address, traffic(questions, REPEATED_SHARE, RUNAWAY_SHARE, 3), heartbeats))
        say("... and 1 % runaways", shaped, "answers/s", shaped / calm, "of the same without them, >= .70")
    heartbeats.sort()
    most = heartbeats[-1] * 1000
    say("heartbeat meanwhile, 99 %", heartbeats[int(len(heartbeats) * 0.99)] * 1000, "ms", most, "ms at most")
    with server(root, gold_cache_bytes=0, answer_cache_bytes=0) as (address, _):
        uncached = asyncio.run(send(address, traffic(questions, REPEATED_SHARE, RUNAWAY_SHARE, 4)))
        say("this server without caches", uncached, "answers/s", shaped / uncached, "x with them")
    # A quarter of the traffic, with its share of runaways: they take most of the time, and it is long.
    fewer = traffic(max(questions // 4, 13), REPEATED_SHARE, 0, 5)
    for place in range(50, len(fewer), 100):
        fewer[place] = Item(fewer[place].gold, RUNAWAY.format(place), True)
    everything = run_everything(root, fewer)
    say("gold and prediction for all", everything, "answers/s", shaped / everything, "x ours, >= 15")


def small_batch(number: int, questions: int = 8) -> dict:
    """A request with distinct small queries."""

    def question(key: int) -> dict:
        gold = f"SELECT city, count(*) FROM orders WHERE id < {key % 150} GROUP BY city"
        sql = "SELECT city, count(*) FROM orders WHERE id < {} AND {} = {} GROUP BY city"
        return {
            "question": {"db_id": "small/small.sqlite", "gold_sql": gold, "cmp_method": "bird"},
            "responses": [f"```sql\n{sql.format(50 + i, key, key)}\n```" for i in range(RESPONSES)],
        }

    return {"questions": [question(number * questions + i) for i in range(questions)]}


async def send_batches(address: str, numbers: range, concurrency: int = 4) -> float:
    """Answers a second."""
    slots = asyncio.Semaphore(concurrency)
    bodies = [json.dumps(small_batch(number)).encode() for number in numbers[:200]]

    async with aiohttp.ClientSession() as session:

        async def ask(number: int) -> int:
            body = bodies[number] if number < len(bodies) else json.dumps(small_batch(numbers[number])).encode()
            async with slots, session.post(f"{address}/v1/score", data=body) as answer:
                return sum(len(of_question) for of_question in (await answer.json())["answers"])

        started = time.perf_counter()
        count = sum(await asyncio.gather(*(ask(number) for number in range(len(numbers)))))
        return count / (time.perf_counter() - started)


def measure_small(root: Path) -> None:
    with server(root) as (address, _):
        asyncio.run(send_batches(address, range(10_000, 10_010)))
        report("small")("through POST /v1/score", asyncio.run(send_batches(address, range(200))), "answers/s, >= 2500")


def measure_memory(root: Path) -> None:
    say = report("memory")
    with server(root) as (address, process):
        for answers in (10_000, 100_000):
            first = 0 if answers == 10_000 else 10_000 // 128
            asyncio.run(send_batches(address, range(first, answers // 128)))
            workers = [child.memory_info().rss / 1e6 for child in process.children()]
            rss = process.memory_info().rss / 1e6
            say(f"after {answers:,} answers", max(workers), "MB, the largest worker", rss, "MB, the server")


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
    kinds = [ANSWERS[number % len(ANSWERS)] for number in range(count)]
    return [(gold.format(first + i), answer.format(first + i)) for i, (gold, answer) in enumerate(kinds)]


def plain_math_verify(pairs: list[tuple[str, str]]) -> float:
    """Comparisons a second in this process, without time limits: those take signals, and end nothing in C."""
    from math_verify import parse, verify

    started = time.perf_counter()
    for gold, answer in pairs:
        read = [parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (gold, answer)]
        verify(*read, timeout_seconds=None)
    return len(pairs) / (time.perf_counter() - started)


async def send_math(address: str, pairs: list[tuple[str, str]], concurrency: int = 64) -> float:
    """Answers a second, each a request of its own."""
    slots = asyncio.Semaphore(concurrency)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(gold: str, answer: str) -> None:
            body = {"gen_responses": [rf"So it is \boxed{{{answer}}}."], "extra": {"ground_truth": gold}}
            async with slots, session.put(f"{address}/api", json=body) as reply:
                await reply.read()
                if reply.status != 200:
                    raise SystemExit(f"HTTP {reply.status}")

        started = time.perf_counter()
        await asyncio.gather(*(ask(*pair) for pair in pairs))
        return len(pairs) / (time.perf_counter() - started)


def measure_math(root: Path) -> None:
    say = report("math")
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it has no time limits
    plain_math_verify(math_pairs(60, 100))
    floor = plain_math_verify(math_pairs(1200, 1000))
    say("math-verify, one thread", floor, "answers/s")
    with server(root, class_name="MathRewardModel") as (address, _):
        asyncio.run(send_math(address, math_pairs(60, 100)))
        ours = asyncio.run(send_math(address, math_pairs(2400, 1000)))
    say("this server", ours, "answers/s", ours / (floor * CORES), "of math-verify x cores, >= .80")


def report(part: str):
    def say(what: str, figure: float, unit: str, second: float | None = None, meaning: str = "") -> None:
        more = "" if second is None else f"   {second:.2f} {meaning}"
        sys.stdout.write(f"{part:7} {what:32} {figure:9.1f} {unit}{more}\n")
        sys.stdout.flush()

    return say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--questions", type=int, default=100, help="of the training-shaped traffic (default: 100)")
    parser.add_argument("--only", default="sql,small,memory,math", help="parts (default: %(default)s)")
    options = parser.parse_args()
    parts = options.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_databases(root)
        if "sql" in parts:
            measure_sql(root, options.questions)
        if "small" in parts:
            measure_small(root)
        if "memory" in parts:
            measure_memory(root)
        if "math" in parts:
            measure_math(root)


if __name__ == "__main__":
    main()
