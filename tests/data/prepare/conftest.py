"""Small files in the benchmarks' formats, and `dph prepare`, run in this process as a user calls it."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rl import cli


@dataclass(frozen=True)
class Finished:
    exit_code: int
    out: str
    err: str


@pytest.fixture
def prepare(capsys):
    """Runs dph prepare; its exit code and what it printed."""

    def run(*words) -> Finished:
        exit_code = 0
        try:
            exit_code = cli.main(["prepare", *map(str, words)])
        except SystemExit as end:
            exit_code = end.code or 0
        return Finished(exit_code, *capsys.readouterr())

    return run


def write_database(path: Path, *statements: str | tuple) -> Path:
    """A SQLite file; a statement with values is a tuple of both."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(*statement) if isinstance(statement, tuple) else database.execute(statement)
    return path


def write_lines(path: Path, records) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read_bad(output: Path) -> list[dict]:
    """The list of the records that were left out."""
    return [json.loads(line) for line in output.with_suffix(".bad.jsonl").read_text().splitlines()]


def contents(path) -> list[str]:
    """The prompts' texts."""
    return [row[0]["content"] for row in pq.read_table(path)["prompt"].to_pylist()]


def of_bird(*more) -> list:
    """Arguments for the small dev set below, from its folder."""
    return ["bird", "--split", "dev", "--input", "dev.json", "--databases", "dev_databases", *more]


@pytest.fixture
def bird(tmp_path, monkeypatch) -> Path:
    """A folder like BIRD's: dev.json, and in dev_databases a shop and a school. Tests work in it."""
    write_database(
        tmp_path / "dev_databases" / "shop" / "shop.sqlite",
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, joined DATE)",
        "INSERT INTO customer VALUES (1, 'Ann', '2020-01-01'), (2, 'O''Neil', NULL), (3, 'Ann', '2021-05-05')",
        'CREATE TABLE "order" (id INTEGER, customer_id INTEGER, "Total (USD)" REAL, '
        "PRIMARY KEY (id, customer_id), FOREIGN KEY (customer_id) REFERENCES customer)",
        'INSERT INTO "order" VALUES (7, 1, 9.5), (8, 2, 20)',
    )
    write_database(
        tmp_path / "dev_databases" / "school" / "school.sqlite",
        "CREATE TABLE pupil (id INTEGER PRIMARY KEY, grade INTEGER)",
        "INSERT INTO pupil VALUES (1, 4)",
    )
    questions = [
        ("shop", "How many customers are there?", "", "SELECT COUNT(*) FROM customer", "simple"),
        ("shop", "Who has an order?", "an order refers to customer_id", "SELECT name FROM customer", "moderate"),
        ("school", "List the grades.", "", "SELECT grade FROM pupil", "challenging"),
    ]
    records = [
        {"question_id": number, "db_id": db, "question": text, "evidence": hint, "SQL": sql, "difficulty": difficulty}
        for number, (db, text, hint, sql, difficulty) in enumerate(questions)
    ]
    (tmp_path / "dev.json").write_text(json.dumps(records))
    monkeypatch.chdir(tmp_path)
    return tmp_path
