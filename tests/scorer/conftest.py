"""A real scorer process over real SQLite files, for the tests of this folder."""

import copy
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import yaml

from rl.scorer.sandbox import support
from rl.scorer.scoring import WorkerScorer
from rl.scorer.sql.compare import COMPARISONS, GoldRows
from rl.scorer.sql.execute import Executor, Limits, Row
from rl.scorer.sql.lexer import has_top_level_order_by, repair
from tests.scorer.postgresql import Postgresql

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "rl" / "scorer" / "scorer_server_without_ray.py"
SHIPPED_SETTINGS = REPOSITORY / "rl" / "scorer" / "sql.yaml"
START_SECONDS = 60
# Small limits, so that statements reach them soon.
LIMITS = {
    "prediction_seconds": 1.0,
    "gold_seconds": 1.5,
    "grace_seconds": 1.0,
    "num_instances": 2,
    "worker_memory_bytes": 150_000_000,
}

RUNAWAY = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"


confined = pytest.mark.skipif(
    support.offered() != support.MECHANISMS, reason="the kernel lacks Landlock or seccomp on this architecture"
)


@asynccontextmanager
async def running(scorer: WorkerScorer) -> AsyncIterator[None]:
    """A scorer with its workers in this process, without the server."""
    await scorer.pool.start()
    try:
        yield
    finally:
        await scorer.pool.close()


@dataclass
class Scorer:
    """A running server: `score` asks PUT /api as a training client does."""

    process: subprocess.Popen
    url: str
    databases: Path
    directory: Path
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def put(self, responses: list[str], gold: str, method: str = "bird", db_id: str = "shop/shop.sqlite"):
        extra = {"db_id": db_id, "gold_sql": gold, "cmp_method": method}
        return self.client.put("/api", json={"gen_responses": responses, "extra": extra})

    def score(self, responses: list[str], gold: str, method: str = "bird", db_id: str = "shop/shop.sqlite") -> dict:
        reply = self.put(responses, gold, method, db_id)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def outcome(self, sql: str, gold: str = "SELECT 1", method: str = "bird", db_id: str = "shop/shop.sqlite") -> str:
        return self.score([fenced(sql)], gold, method, db_id)["details"][0]["outcome"]

    def workers(self) -> list[int]:
        """Process ids of what the server's children, its fork servers, have forked, by ps."""
        lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        parents = {int(process): int(parent) for process, parent in map(str.split, lines.splitlines())}
        return [process for process, parent in parents.items() if parents.get(parent) == self.process.pid]


def fenced(sql: str) -> str:
    return f"Some thoughts.\n```sql\n{sql}\n```"


def make_shop(path: Path) -> None:
    """clients: 6 rows, orders: 4 rows; small enough to check by hand."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
        INSERT INTO clients VALUES
            (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Cid', 'Oslo'),
            (4, 'Dee', NULL), (5, 'Eve', 'Bonn'), (6, 'Ann', 'Rome');
        CREATE TABLE orders (id INTEGER PRIMARY KEY, client INTEGER, price REAL, note BLOB);
        INSERT INTO orders VALUES
            (1, 1, 10.0, x'00ff'), (2, 1, 20.5, NULL), (3, 2, 9e999, NULL), (4, 5, 7, CAST(x'61ff62' AS TEXT));
        """
    )
    connection.close()


@pytest.fixture(scope="session")
def start_scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Scorer]]:
    """Starts servers with the shipped settings and changes to Scorer1's; ends those that still run.

    server: changes to the section ScorerServer. math: settings of a second scorer, for math. text: the whole file
    instead, in which /cache/ stands for the databases.
    """
    started: list[Scorer] = []

    def start(*, server: dict | None = None, math: dict | None = None, text: str = "", **changes: object) -> Scorer:
        directory = tmp_path_factory.mktemp("scorer")
        databases = directory / "databases"
        make_shop(databases / "shop" / "shop.sqlite")
        make_shop(databases / "shop" / "shop.db")
        settings = copy.deepcopy(yaml.safe_load(SHIPPED_SETTINGS.read_text()))
        settings["Scorers"]["Scorer1"] |= {"database_path": str(databases), **LIMITS, **changes}
        settings["ScorerServer"] |= {
            "log_file": str(directory / "scorer.log"),
            "shutdown_seconds": 20,
            **(server or {}),
        }
        if math is not None:
            settings["Scorers"]["Scorer2"] = {"class_name": "MathRewardModel", **math}
        text = text.replace("/cache/", f"{databases}/") or yaml.safe_dump(settings)
        (directory / "settings.yaml").write_text(text)
        address_file = directory / "address"
        # As a file, from another directory, with its temporary files beside: nothing it could write lies elsewhere.
        working, temporary = directory / "working", directory / "temporary"
        working.mkdir()
        temporary.mkdir()
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        process = subprocess.Popen(
            [sys.executable, SCRIPT, "-c", directory / "settings.yaml", "--port", "0", "--address-file", address_file],
            cwd=working,
            stdout=subprocess.PIPE,
            env=kept | {"TMPDIR": str(temporary), "SQLITE_TMPDIR": str(temporary)},
        )
        deadline = time.monotonic() + START_SECONDS
        while not address_file.exists():
            assert process.poll() is None, "the server ended at its start"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        scorer = Scorer(process, f"http://{address_file.read_text()}", databases, directory)
        started.append(scorer)
        return scorer

    yield start
    for scorer in started:
        if scorer.process.poll() is None:
            scorer.process.send_signal(signal.SIGTERM)
    for scorer in started:
        scorer.client.close()
        try:
            scorer.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            scorer.process.kill()
        scorer.process.stdout.close()


@pytest.fixture(scope="session")
def scorer(start_scorer: Callable[..., Scorer]) -> Scorer:
    """One server for the tests that leave it as it was."""
    return start_scorer()


LEAGUE = """
    CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, team TEXT, goals INTEGER, rating REAL, joined TEXT);
    INSERT INTO player VALUES
        (1, 'Ada', 'Reds', 3, 7.5, '2020-01-05'), (2, 'Ben', 'Blues', 3, 6.0, '2019-07-01'),
        (3, 'Cem', 'Reds', 0, NULL, '2021-03-09'), (4, 'Dot', NULL, 5, 6.0, '2018-11-30'),
        (5, 'Ben', 'Blues', 1, 8.25, '2020-01-05'), (6, 'Eva', 'Greens', NULL, 7.5, NULL);
    CREATE TABLE game (player INTEGER, opponent TEXT, points INTEGER);
    INSERT INTO game VALUES
        (1, 'Blues', 10), (1, 'Greens', 100), (2, 'Reds', 10), (2, 'Reds', 10), (5, 'Reds', 0), (9, 'Reds', 7);
    CREATE TABLE pair (a, b);
    INSERT INTO pair VALUES (1, 2), (2, 1), (1, 2);
    CREATE TABLE vacant (a, b);
    CREATE TABLE cell (kind TEXT, v);
    INSERT INTO cell VALUES ('int', 1), ('text', '1'), ('blob', x'31'), ('bytes', x'00ff');
    CREATE TABLE word (id INTEGER PRIMARY KEY, word TEXT);
    INSERT INTO word VALUES
        (1, 'caf\u00e9'), (2, 'cafe\u0301'), (3, 'CAF\u00c9'), (5, '日本'), (6, '🙂'), (7, ' a'), (8, 'a '), (9, 'a'),
        (10, 'A'), (11, CAST(x'61ff62' AS TEXT)), (12, 'line\nbreak'), (13, '50%');
"""


def make_league(path: Path) -> None:
    """Small tables with ties, duplicates, NULL, every type of value and odd texts: for the conformance cases."""
    connection = sqlite3.connect(path)
    connection.executescript(LEAGUE)
    connection.close()


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bool]:
    """judge(gold, predicted, method, order_check=True): whether the results on `league` are equal, in this process."""
    path = tmp_path_factory.mktemp("league") / "league.sqlite"
    make_league(path)
    executor = Executor(Limits(sql_chars=100_000, value_bytes=1_000_000, rows=1000, bytes=1_000_000))

    def run(sql: str) -> list[Row]:
        return executor.execute(f"file:{path}?mode=ro", "", repair(sql), 20.0)

    def equal(gold: str, predicted: str, method: str, order_check: bool = True) -> bool:
        ordered = order_check and has_top_level_order_by(gold)
        return COMPARISONS[method](GoldRows(run(gold), ordered), run(predicted))

    return equal


@pytest.fixture(scope="session")
def ask_about_league(scorer: Scorer) -> Callable[..., list[str]]:
    """ask_about_league([(gold, predicted), ...], method): the outcomes that the server gives, in one call."""
    make_league(scorer.databases / "league.sqlite")

    def outcomes(pairs: list[tuple[str, str]], method: str) -> list[str]:
        questions = [
            {
                "question": {"db_id": "league.sqlite", "gold_sql": gold, "cmp_method": method},
                "responses": [fenced(predicted)],
            }
            for gold, predicted in pairs
        ]
        reply = scorer.client.post("/v1/score", json={"questions": questions})
        assert reply.status_code == 200, reply.text
        return [answer["outcome"] for [answer] in reply.json()["answers"]]

    return outcomes


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """A PostgreSQL server with a role that may read."""
    server = Postgresql()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def runaway() -> str:
    """A statement without an end."""
    return RUNAWAY
