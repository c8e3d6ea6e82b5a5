"""One statement on one file, in this process: what runs, what is rejected, and what a statement leaves behind."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from rl.scorer.sql.execute import Executor, Limits, Row, StatementError, StatementTimeout
from tests.scorer.conftest import make_database

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executing") / "a.sqlite"
    rows = """(1, '["x", "y"]'), (2, '["y"]'), (3, '[]')"""
    make_database(path, f"CREATE TABLE t (a, tags TEXT); INSERT INTO t VALUES {rows};")
    return path


@pytest.fixture(scope="module")
def run(path: Path) -> Iterator[Callable[[str], list[Row]]]:
    """Runs a statement; every one on the same open file, within small limits."""
    executor = Executor(Limits(sql_chars=1_000_000, value_bytes=1_000_000, rows=1000, bytes=100_000))
    uri = f"file:{path}?mode=ro"
    yield lambda sql: executor.execute(uri, "1", sql, 0.2)
    executor.close(uri)


def test_json_can_be_taken_apart(run: Callable[[str], list[Row]]) -> None:
    assert run("SELECT a, value FROM t, json_each(tags) ORDER BY a, value") == [(1, "x"), (1, "y"), (2, "y")]
    assert run("""SELECT fullkey FROM json_tree('{"k": [5]}') WHERE atom = 5""") == [("$.k[0]",)]


EXPLAINED = ("EXPLAIN {}", "explain query plan {}", "/* x */ -- y\n;EXPLAIN {}", "\ufeff /**/EXPLAIN/**/{}")


def test_explain_is_no_select(run: Callable[[str], list[Row]]) -> None:
    for form in EXPLAINED:
        with pytest.raises(StatementError, match="EXPLAIN is no SELECT"):
            run(form.format("SELECT a FROM t"))
    assert run("/* EXPLAIN */ SELECT a AS explain FROM t LIMIT 1") == [(1,)]


# What SQLite does not call deterministic, by name, and why it may be called all the same.
MAY_BE_CALLED = {
    "the clock": {"current_date", "current_time", "current_timestamp"},
    "constant, as nothing is written": {"changes", "last_insert_rowid", "total_changes"},
    "constants of the library": {
        *("fts5_source_id", "sqlite_compileoption_get", "sqlite_compileoption_used"),
        *("sqlite_source_id", "sqlite_version"),
    },
    "of a full-text or R-tree table, which cannot be read": {
        *("bm25", "fts5", "highlight", "match", "matchinfo", "offsets", "optimize"),
        *("rtreecheck", "rtreedepth", "rtreenode", "snippet"),
    },
}


def test_every_function_that_could_make_the_score_a_lottery_is_refused(run: Callable[[str], list[Row]]) -> None:
    functions = "SELECT DISTINCT name FROM pragma_function_list WHERE flags & 0x800 = 0 AND type = 's'"
    names = {name for (name,) in sqlite3.connect(":memory:").execute(functions)}
    # Not named: functions that change the connection or the process.
    denied = names - set.union(*MAY_BE_CALLED.values()) - {"fts3_tokenizer", "load_extension", "icu_load_collation"}
    assert denied >= {"random", "randomblob"}
    for name in denied:
        arguments = "4" if name == "randomblob" else ""
        with pytest.raises(StatementError, match=f"(?i)not authorized to use function: {name}$"):
            run(f"SELECT a FROM t ORDER BY {name.upper()}({arguments})")


def test_50_megabytes_of_sql_are_refused_by_their_length(run: Callable[[str], list[Row]]) -> None:
    with pytest.raises(StatementError, match="50000008 characters"):
        run("SELECT 1" + " " * 50_000_000)


def test_an_error_does_not_repeat_a_megabyte_of_the_statement(run: Callable[[str], list[Row]]) -> None:
    with pytest.raises(StatementError, match="no such column: xxx") as raised:
        run(f"SELECT [{'x' * 900_000}] FROM t")
    assert len(str(raised.value)) <= 1000


LOCKING = {
    "SELECT missing FROM t": StatementError,
    "DELETE FROM t": StatementError,
    f"{ENDLESS} SELECT (SELECT a FROM t) FROM r": StatementError,
    f"{ENDLESS} SELECT (SELECT a FROM t), zeroblob(1000) FROM r": StatementError,
    f"{ENDLESS} SELECT count((SELECT a FROM t WHERE a < x)) FROM r": StatementTimeout,
    "SELECT a, zeroblob(a * 400000) FROM t": StatementError,
}


def test_no_statement_leaves_a_lock_behind(path: Path, run: Callable[[str], list[Row]]) -> None:
    for sql in ("SELECT * FROM t", *LOCKING):
        with pytest.raises(LOCKING[sql]) if sql in LOCKING else nullcontext():
            run(sql)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
        assert run("SELECT sum(a) FROM t") == [(6,)]


def test_memory_that_runs_out_while_rows_are_counted_is_said_so() -> None:
    code = """
import resource
from rl.scorer.sql.execute import marshalled

rows = [(bytes(20_000_000),)]
with open("/proc/self/statm") as statm:
    base = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (base + 10_000_000, base + 10_000_000))
try:
    marshalled(rows)
except MemoryError:
    print("out of memory")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "out of memory\n", done.stderr
