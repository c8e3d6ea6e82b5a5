"""Hostile SQL over HTTP: the database stays byte-identical, nothing appears on disk, the next answer is right."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

GOLD = "SELECT name FROM clients ORDER BY id"

DENIED = [
    "DELETE FROM clients",
    "UPDATE clients SET name = 'x'",
    "INSERT INTO clients VALUES (9, 'x', 'y')",
    "INSERT INTO clients VALUES (9, 'x', 'y') RETURNING id",
    "DROP TABLE clients",
    "ALTER TABLE clients RENAME TO c",
    "CREATE TABLE t (a)",
    "CREATE INDEX i ON clients (name)",
    "CREATE TEMP TABLE clients (name)",
    "CREATE TEMP VIEW clients AS SELECT 'x' AS name",
    "CREATE VIRTUAL TABLE t USING fts5(a)",
    "ATTACH 'attached.sqlite' AS a",
    "ATTACH ':memory:' AS a",
    "DETACH main",
    "PRAGMA writable_schema = 1",
    "PRAGMA query_only",
    "PRAGMA journal_mode = WAL",
    "SELECT * FROM pragma_table_info('clients')",
    "VACUUM",
    "VACUUM INTO 'copy.sqlite'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "BEGIN EXCLUSIVE",
    "SAVEPOINT s",
    "SELECT load_extension('x')",
    "WITH w AS (SELECT 1) DELETE FROM clients",
]

BOMBS = [
    "SELECT zeroblob(2000000000)",
    "SELECT length(zeroblob(20000000))",
    "SELECT group_concat(a.name || b.name || hex(zeroblob(100000))) FROM clients a, clients b, clients c",
    "SELECT printf('%.*c', 1000000000, 'x')",
    "SELECT * FROM clients WHERE " + "(" * 2000 + "1" + ")" * 2000,
    "SELECT 1" + " UNION SELECT 1" * 2000,
    # A million rows of 3 MB in all, then more rows than the limit.
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 1500) SELECT hex(zeroblob(1000000)) FROM r",
    "SELECT '" + "x" * 1_500_000 + "'",
]

RUNAWAYS = [
    "SELECT count(*) FROM clients a, clients b, clients c, clients d, clients e, clients f, clients g, clients h, "
    "clients i, clients j, clients k, clients l, clients m",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT * FROM r WHERE x < 0",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(length(randomblob(100000))) FROM r",
]

# One call of a C function takes longer than the limit and the grace: only killing the worker ends it.
UNINTERRUPTIBLE = "SELECT instr(zeroblob(5000000), CAST(zeroblob(2500000) || x'01' AS BLOB))"


def state(directory: Path) -> dict[Path, str]:
    """Every file below `directory`, the server's log aside, by its hash."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "scorer.log")
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("sql", DENIED)
def test_what_is_not_a_select_is_denied(scorer, sql: str) -> None:
    before = state(scorer.directory)
    assert scorer.outcome(sql, GOLD) == "pred_error"
    assert scorer.outcome(GOLD, GOLD) == "match"
    assert state(scorer.directory) == before


def long_printf_is_null() -> bool:
    with sqlite3.connect(":memory:") as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        try:
            return database.execute("SELECT printf('%.*c', 2000, 'x')").fetchone() == (None,)
        except sqlite3.Error:
            return False


@pytest.mark.parametrize("sql", BOMBS, ids=[sql[:30] for sql in BOMBS])
def test_what_is_too_large_is_an_error(scorer, sql: str) -> None:
    before = state(scorer.directory)
    # Some versions of SQLite give NULL for a printf that is too long: then the answer is nothing else than wrong.
    expected = ("mismatch",) if "printf" in sql and long_printf_is_null() else ("pred_error", "pred_timeout")
    assert scorer.outcome(sql, GOLD) in expected
    assert scorer.outcome(GOLD, GOLD) == "match"
    assert state(scorer.directory) == before


@pytest.mark.parametrize("sql", RUNAWAYS, ids=[sql[:30] for sql in RUNAWAYS])
def test_what_never_ends_is_ended(scorer, sql: str) -> None:
    assert scorer.outcome(sql, GOLD) == "pred_timeout"
    assert scorer.outcome(GOLD, GOLD) == "match"


def with_new_answer(scorer, label: str) -> set[int]:
    """The workers after a question that no cache answers, so that one is there."""
    assert scorer.outcome(f"{GOLD} -- {label}", GOLD) == "match"
    return set(scorer.workers())


def test_what_ignores_the_time_limit_costs_its_worker_and_no_other_answer(scorer) -> None:
    before = with_new_answer(scorer, "before")
    answer = scorer.score([f"```sql\n{sql}\n```" for sql in (UNINTERRUPTIBLE, f"{GOLD} -- beside")], GOLD)
    assert [detail["outcome"] for detail in answer["details"]] == ["pred_timeout", "match"]
    assert len(before - with_new_answer(scorer, "after")) == 1


def test_what_takes_too_much_memory_is_an_error_and_its_worker_is_replaced(scorer) -> None:
    before = with_new_answer(scorer, "before memory")
    numbers = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 1000)"
    sql = f"{numbers} SELECT count(DISTINCT x || zeroblob(9000000)) FROM r"
    assert scorer.score([f"```sql\n{sql}\n```"], GOLD)["Scorer1"] == [[0.0, [["error", "error: out of memory"]]]]
    assert len(before - with_new_answer(scorer, "after memory")) == 1


def test_a_denied_statement_as_gold_is_a_gold_error(scorer) -> None:
    before = state(scorer.directory)
    assert scorer.outcome("SELECT 1", "DELETE FROM clients") == "gold_error"
    assert state(scorer.directory) == before


def test_reading_a_database_in_wal_mode_creates_nothing(scorer) -> None:
    path = scorer.databases / "wal.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    # What is still in the log counts while the log is there.
    assert (scorer.databases / "wal.sqlite-wal").exists()
    assert scorer.outcome("SELECT 1", "SELECT a FROM t", db_id="wal.sqlite") == "match"
    connection.close()
    before = state(scorer.directory)
    assert path in before
    assert scorer.outcome("SELECT a, 1 FROM t", "SELECT 1, a FROM t", db_id="wal.sqlite") == "match"
    assert state(scorer.directory) == before
