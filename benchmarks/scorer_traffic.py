"""Databases, traffic, servers and clients of the scorer's benchmarks."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
import yaml

ORDERS, CLIENTS = 300_000, 5_000
RESPONSES, CONCURRENCY = 16, 64
QUESTIONS = 8  # per request to POST /v1/score
RUNAWAY_SHARE, REPEATED_SHARE = 0.01, 1 / 3
RUNAWAY_SECONDS = 15.0
RUNAWAY = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
CORES = os.cpu_count() or 1
# Each query takes about 1 to 30 ms, 14 ms on average, on the machine of docs/explanation/scoring.md. {} makes the text
# of each one different without changing its work.
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
    """Write shop/shop.sqlite with ORDERS rows, and small/small.sqlite."""
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
def server(root: Path, scorers: dict | None = None, **changes) -> Iterator[tuple[str, psutil.Process]]:
    """Run a server with the shipped settings and changes, or with `scorers`; yield its address and process."""
    class_name = changes.pop("class_name", "SqlDetailRewardModel")
    scorer = {"class_name": class_name, **changes}
    if class_name != "MathRewardModel":
        scorer["database_path"] = str(root)
    with tempfile.TemporaryDirectory() as folder, start(Path(folder), scorers or {"Scorer1": scorer}) as process:
        try:
            yield wait_for(Path(folder), process), psutil.Process(process.pid)
        finally:
            process.terminate()


def start(folder: Path, scorers: dict, port: int = 0) -> subprocess.Popen:
    """Start a server that has its files in `folder`; it need not serve yet."""
    config, address_file = folder / "scorer.yaml", folder / "address"
    config.write_text(yaml.safe_dump({"ScorerServer": {"shutdown_seconds": 1}, "Scorers": scorers}))
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


async def send(
    address: str,
    path: str,
    bodies: Iterable[dict],
    concurrency: int = CONCURRENCY,
    endless: Collection[int] = (),
    heartbeats: list[float] | None = None,
) -> float:
    """Seconds until all replies have arrived, except to the bodies numbered in `endless`, which keep their slots."""
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

        awaited: list[asyncio.Task] = []
        others = [asyncio.create_task(beat())]
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
    """Ordinary responses per second, with one request for each."""
    endless = {number for number, item in enumerate(items) if item.endless}
    seconds = asyncio.run(send(address, "/api", (item.body for item in items), CONCURRENCY, endless, heartbeats))
    return (len(items) - len(endless)) / seconds


def small_batch(number: int) -> dict:
    """A request with distinct small queries."""
    questions = []
    for key in range(number * QUESTIONS, (number + 1) * QUESTIONS):
        sql = "SELECT city, count(*) FROM orders WHERE id < {}{} GROUP BY city"
        extra = {"db_id": "small/small.sqlite", "gold_sql": sql.format(key % 150, ""), "cmp_method": "bird"}
        responses = [f"```sql\n{sql.format(50 + i, f' AND {key} = {key}')}\n```" for i in range(RESPONSES)]
        questions.append({"question": extra, "responses": responses})
    return {"questions": questions}


# The kinds of answers in AIME, MATH and Minerva; {0} makes each one different.
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


def math_body(gold: str, answer: str) -> dict:
    return {"gen_responses": [rf"\boxed{{{answer}}}"], "extra": {"ground_truth": gold}}


def small_body(number: int) -> dict:
    """One response to a question about the small database, for PUT /api."""
    [question, *_] = small_batch(number)["questions"]
    return {"gen_responses": question["responses"][:1], "extra": question["question"]}


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """A server's worker processes, which its children, the fork servers, have forked."""
    return [worker for fork_server in process.children() for worker in children_of(fork_server)]


def children_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def kill_workers(process: psutil.Process, fork_servers: bool) -> int:
    """Send SIGKILL to a server's workers, or to its fork servers, which ends their workers too; return how many."""
    victims = process.children() if fork_servers else workers_of(process)
    for victim in victims:
        with suppress(psutil.NoSuchProcess):
            victim.kill()
    return len(victims)


def say(what: str, figure: float, unit: str, second: float | None = None, meaning: str = "") -> None:
    more = "" if second is None else f"   {second:.2f} {meaning}"
    print(f"{what:36} {figure:9.1f} {unit}{more}", flush=True)
