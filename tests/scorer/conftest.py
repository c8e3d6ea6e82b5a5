"""A real scorer process over real SQLite files, for the tests of this folder."""

import copy
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from rl.scorer.config import SqlSettings
from rl.scorer.sandbox import confine
from rl.scorer.scoring import WorkerScorer
from rl.scorer.sql.scoring import SqlScorer
from tests.programs import REPOSITORY, SERVER_PROGRAM, serving
from tests.scorer.postgresql import Postgresql

SHIPPED_SETTINGS = REPOSITORY / "rl" / "scorer" / "sql.yaml"
# Small limits, so that statements reach them soon.
LIMITS = {
    "prediction_seconds": 1.0,
    "gold_seconds": 1.5,
    "grace_seconds": 1.0,
    "num_instances": 2,
    "worker_memory_bytes": 150_000_000,
}

SHOP = "shop/shop.sqlite"
RUNAWAY = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"

confined = pytest.mark.skipif(
    confine.offered() != confine.MECHANISMS, reason="the kernel lacks Landlock or seccomp on this architecture"
)


@asynccontextmanager
async def running(scorer: WorkerScorer) -> AsyncIterator[None]:
    """A scorer with its workers in this process, without the server."""
    await scorer.pool.start()
    try:
        yield
    finally:
        await scorer.pool.close()


def fenced(sql: str) -> str:
    return f"Some thoughts.\n```sql\n{sql}\n```"


def question(gold: str, *predictions: str, method: str = "bird", db_id: str = SHOP) -> dict:
    """A question of POST /v1/score."""
    extra = {"db_id": db_id, "gold_sql": gold, "cmp_method": method}
    return {"question": extra, "responses": [fenced(sql) for sql in predictions]}


@dataclass
class Scorer:
    """A running server: `score` asks PUT /api as a training client does, `answers` POST /v1/score."""

    process: subprocess.Popen
    url: str
    databases: Path
    directory: Path
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def put(self, responses: list[str], gold: str, method: str = "bird", db_id: str = SHOP) -> httpx.Response:
        extra = {"db_id": db_id, "gold_sql": gold, "cmp_method": method}
        return self.client.put("/api", json={"gen_responses": responses, "extra": extra})

    def score(self, responses: list[str], gold: str, method: str = "bird", db_id: str = SHOP) -> dict:
        reply = self.put(responses, gold, method, db_id)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def outcome(self, sql: str, gold: str = "SELECT 1", method: str = "bird", db_id: str = SHOP) -> str:
        return self.score([fenced(sql)], gold, method, db_id)["details"][0]["outcome"]

    def post(self, *questions: dict, **options: bool) -> httpx.Response:
        return self.client.post("/v1/score", json={"questions": questions, **options})

    def answers(self, *questions: dict, **options: bool) -> list[list[dict]]:
        reply = self.post(*questions, **options)
        assert reply.status_code == 200, reply.text
        return reply.json()["answers"]

    def metric(self, name: str) -> float:
        """The value of a line of GET /metrics."""
        text = self.client.get("/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert found, f"{name} is not in\n{text}"
        return float(found[1])

    def workers(self) -> list[int]:
        """Process ids of the workers, which the server's fork servers have forked."""
        fork_servers = psutil.Process(self.process.pid).children()
        return [worker.pid for fork_server in fork_servers for worker in fork_server.children()]


def wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + 20
    while alive := [process for process in processes if Path(f"/proc/{process}").exists()]:
        assert time.monotonic() < deadline, f"processes {alive} are left"
        time.sleep(0.02)


def make_database(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


# Small enough to check by hand.
SHOP_TABLES = """
    CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
    INSERT INTO clients VALUES
        (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Cid', 'Oslo'),
        (4, 'Dee', NULL), (5, 'Eve', 'Bonn'), (6, 'Ann', 'Rome');
    CREATE TABLE orders (id INTEGER PRIMARY KEY, client INTEGER, price REAL, note BLOB);
    INSERT INTO orders VALUES
        (1, 1, 10.0, x'00ff'), (2, 1, 20.5, NULL), (3, 2, 9e999, NULL), (4, 5, 7, CAST(x'61ff62' AS TEXT));
"""


@pytest.fixture
def sql_scorer(tmp_path: Path) -> Callable[..., SqlScorer]:
    """sql_scorer(**settings): a scorer for SHOP with its workers in this process, for `running`."""
    make_database(tmp_path / SHOP, SHOP_TABLES)
    least = {"class_name": "SqlRewardModel", "database_path": tmp_path, "num_instances": 1}
    return lambda **settings: SqlScorer(SqlSettings.model_validate(least | settings))


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
        make_database(databases / SHOP, SHOP_TABLES)
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
        # Started as a file, in a directory that also has its temporary files: it can write nothing elsewhere.
        working, temporary = directory / "working", directory / "temporary"
        working.mkdir()
        temporary.mkdir()
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [sys.executable, SERVER_PROGRAM, "-c", directory / "settings.yaml"]
        environment = kept | {"TMPDIR": str(temporary), "SQLITE_TMPDIR": str(temporary)}
        server = serving(command, directory, cwd=working, stdout=subprocess.PIPE, env=environment)
        started.append(Scorer(*servers.enter_context(server), databases, directory))
        return started[-1]

    with ExitStack() as servers:
        yield start
        for scorer in started:
            scorer.client.close()
            scorer.process.terminate()


@pytest.fixture(scope="session")
def scorer(start_scorer: Callable[..., Scorer]) -> Scorer:
    """One server for tests that do not change it."""
    return start_scorer()


# Small tables with ties, duplicates, NULL, every type of value and odd texts.
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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """A PostgreSQL server with a role that may read."""
    server = Postgresql()
    yield server
    server.remove()
