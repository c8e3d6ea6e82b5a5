"""SQLite: what runs and what is rejected, in this process; then attacks over HTTP.

After each attack everything on disk is as it was, no lock is held, and the next answer is right.
"""

import hashlib
import itertools
import os
import sqlite3
import stat
import string
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from rl.scorer.sql.execute import Executor, Limits, Row, StatementError, StatementTimeout, marshalled
from tests.scorer.conftest import SHOP, fenced, make_database, question

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


@pytest.mark.parametrize("first", [0, 300])
def test_invalid_bytes_of_a_text_are_ignored_wherever_they_come(tmp_path: Path, first: int) -> None:
    path = tmp_path / "bytes.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        bad = ((i, b"a\xff%d" % i if i % 10 == 9 else b"a%d" % i) for i in range(1000))
        connection.executemany("INSERT INTO t VALUES (?, CAST(? AS TEXT))", bad)
    executor = Executor(Limits(sql_chars=1000, value_bytes=1000, rows=1000, bytes=100_000))
    rows = [(f"a{i}", i) for i in range(first, 1000)]
    for _ in range(2):  # the connection stays open
        assert executor.execute(f"file:{path}?mode=ro", "1", f"SELECT b, a FROM t WHERE a >= {first}", 5) == rows
    executor.close(f"file:{path}?mode=ro")


EXPLAINED = ("EXPLAIN {}", "explain query plan {}", "/* x */ -- y\n;EXPLAIN {}", "\ufeff /**/EXPLAIN/**/{}")


def test_explain_is_not_a_select(run: Callable[[str], list[Row]]) -> None:
    for form in EXPLAINED:
        with pytest.raises(StatementError, match="EXPLAIN is not a SELECT"):
            run(form.format("SELECT a FROM t"))
    assert run("/* EXPLAIN */ SELECT a AS explain FROM t LIMIT 1") == [(1,)]


# Functions that SQLite does not call deterministic, and why they may be called.
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


def test_every_function_that_could_make_the_score_random_is_refused(run: Callable[[str], list[Row]]) -> None:
    functions = "SELECT DISTINCT name FROM pragma_function_list WHERE flags & 0x800 = 0 AND type = 's'"
    names = {name for (name,) in sqlite3.connect(":memory:").execute(functions)}
    # Not named: functions that change the connection or the process.
    denied = names - set.union(*MAY_BE_CALLED.values()) - {"fts3_tokenizer", "load_extension", "icu_load_collation"}
    assert denied >= {"random", "randomblob"}
    for name in denied:
        arguments = "4" if name == "randomblob" else ""
        with pytest.raises(StatementError, match=f"(?i)not authorized to use function: {name}$"):
            run(f"SELECT a FROM t ORDER BY {name.upper()}({arguments})")


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


def test_marshals_error_for_want_of_memory_is_a_memory_error() -> None:
    """marshal raises the same ValueError for any object when memory runs out."""
    with pytest.raises(MemoryError):
        marshalled([object()])


GOLD = "SELECT name FROM clients ORDER BY id"
NAMES = [["Ann"], ["Bob"], ["Cid"], ["Dee"], ["Eve"], ["Ann"]]
NUMBERS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
LARGE = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 150000)"


def test_what_does_not_fit_into_sqlite_s_cache_needs_no_file(start_scorer: Callable) -> None:
    """A temporary table, and a sort."""
    scorer = start_scorer(prediction_seconds=10.0, worker_memory_bytes=1_500_000_000)
    numbered = "SELECT row_number() OVER (ORDER BY hex(zeroblob(1500)) || x) n FROM r"
    for sql in ("SELECT count(*) FROM (SELECT DISTINCT x || hex(x) FROM r)", f"SELECT max(n) FROM ({numbered})"):
        assert scorer.outcome(f"{LARGE} {sql}", "SELECT 150000") == "match", sql


# FOLDER is the one that state() watches; the server's working and temporary directories lie in it.
HOSTILE = Path(__file__).parents[1] / "hostile" / "sqlite.sql"
SHADOWS = ["CREATE TEMP TABLE clients AS SELECT 'x' AS name", "CREATE TEMP VIEW clients AS SELECT 'x' AS name", "BEGIN"]
TEXTS = [
    "SELECT 1\0",
    "DROP TABLE clients -- \0",
    "SELECT '" + "x" * 1_500_000 + "'",
    "SELECT 1 -- " + "x" * 9_000_000,
    "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "SELECT * FROM clients" + ", clients" * 70,
    "SELECT count(*) FROM json_tree('" + '{"a":' * 100_000 + "')",
]

# Each is twice the one before: 2^25 tables when SQLite has put them into each other, before it runs anything.
DOUBLED = ", ".join(f"{b} AS (SELECT p.x FROM {a} p, {a} q)" for a, b in itertools.pairwise(string.ascii_lowercase))

BOMBS = [
    "SELECT zeroblob(2000000000)",
    "SELECT group_concat(a.name || hex(zeroblob(100000))) FROM clients a, clients b, clients c",
    f"{NUMBERS} SELECT group_concat(hex(zeroblob(50000 + x % 2))) FROM r",
    f"{NUMBERS} SELECT x, hex(zeroblob(1000)) FROM r",
    f"{NUMBERS} SELECT count(DISTINCT x || zeroblob(9000000)) FROM r",
    "SELECT hex(zeroblob(4500000))" + ", hex(zeroblob(4500000))" * 100,
    "WITH RECURSIVE r(x) AS (SELECT hex(zeroblob(100000)) UNION SELECT x || 'y' FROM r) SELECT count(*) FROM r",
    f"WITH a AS (SELECT 1 AS x), {DOUBLED} SELECT * FROM z",
]

# They return NULL in some versions of SQLite.
LONG_FORMATS = ["SELECT printf('%.*c', 1000000000, 'x')", "SELECT printf('%1000000000d', 1)"]

RUNAWAYS = [
    "SELECT count(*) FROM clients a, clients b, clients c, clients d, clients e, clients f, clients g, clients h, "
    "clients i, clients j, clients k, clients l, clients m",
    f"{NUMBERS} SELECT max(length(hex(zeroblob(50000 + x % 2)))) FROM r",
    f"{NUMBERS} SELECT name FROM clients WHERE id > (SELECT count(*) FROM r WHERE x <> clients.id)",
]

_A = "replace(hex(zeroblob(2000000)), '0', 'a')"
# One call of a C function takes longer than the limit and the grace: only killing the worker ends it.
UNINTERRUPTIBLE = [
    "SELECT instr(zeroblob(5000000), CAST(zeroblob(2500000) || x'01' AS BLOB))",
    f"SELECT {_A} LIKE '%' || replace(hex(zeroblob(20000)), '0', 'a') || 'b'",
    f"SELECT length(trim({_A}, replace(hex(zeroblob(200000)), '0', 'b') || 'a'))",
]


def state(directory: Path) -> dict[str, str]:
    """Everything below `directory`, the server's log aside: files by their hash, links by their target."""
    found = {}
    for path in directory.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path)] = os.readlink(path) if stat.S_ISLNK(mode) else stat.filemode(mode)
    return {path: content for path, content in found.items() if not Path(path).name.startswith("scorer.log")}


_fresh = itertools.count()


def answers_right(server) -> None:
    """A question that no cache knows is judged right, for a right and a wrong prediction."""
    gold = f"{GOLD} -- {next(_fresh)}"
    right, wrong = f"SELECT name FROM clients -- {next(_fresh)}", f"SELECT city FROM clients -- {next(_fresh)}"
    answer = server.score([fenced(right), fenced(wrong)], gold, "spider")
    assert answer["Scorer1"][0] == [1.0, [["result", NAMES]]]
    assert answer["details"][0]["outcome"] == "match"
    assert answer["Scorer1"][1][0] == 0.0


@pytest.fixture(scope="module")
def server(start_scorer: Callable):
    """One worker, so that the next statement meets whatever an attack left behind, and half a second for each."""
    return start_scorer(num_instances=1, slow_instances=1, prediction_seconds=0.5, gold_seconds=0.5, grace_seconds=0.5)


@pytest.fixture
def victim(server) -> Iterator:
    """The server, for one attack; checks afterwards that the attack had no effect."""
    before = state(server.directory)
    yield server
    answers_right(server)
    with closing(sqlite3.connect(server.databases / SHOP, timeout=0, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
    assert state(server.directory) == before


def test_what_is_not_a_select_is_denied(victim) -> None:
    lines = HOSTILE.read_text().replace("FOLDER", str(victim.directory)).splitlines()
    statements = [line for line in lines if not line.startswith("--")]
    # Gold is denied in the same way.
    questions = [question(GOLD, *statements), *(question(gold, "SELECT 1") for gold in statements)]
    as_pred, *as_gold = victim.answers(*questions)
    assert [sql for sql, score in zip(statements, as_pred, strict=True) if score["outcome"] != "pred_error"] == []
    assert [score["outcome"] for [score] in as_gold] == ["gold_error"] * len(statements)


def test_no_answer_changes_what_gold_or_the_next_answer_sees(victim) -> None:
    responses = [
        *SHADOWS,
        "WITH clients AS (SELECT 'x' AS name) SELECT name FROM clients",
        "SELECT name FROM (SELECT 'x' AS name) clients",
        "SELECT name FROM clients",
    ]
    details = victim.score([fenced(sql) for sql in responses], GOLD)["details"]
    outcomes = [detail["outcome"] for detail in details]
    assert outcomes == ["pred_error"] * (len(responses) - 3) + ["mismatch", "mismatch", "match"]


def test_a_hostile_text_is_an_error(victim) -> None:
    for sql in TEXTS:
        assert victim.outcome(sql, GOLD) == "pred_error", sql[:30]


EXCESSES = [
    *((sql, ("pred_error", "pred_timeout")) for sql in BOMBS),
    *((sql, ("pred_error", "pred_timeout", "mismatch")) for sql in LONG_FORMATS),
    *((sql, ("pred_timeout",)) for sql in (*RUNAWAYS, *UNINTERRUPTIBLE)),
]


# One of each kind is among the tests below that are not slow.
@pytest.mark.slow
@pytest.mark.parametrize(("sql", "outcomes"), EXCESSES, ids=[sql[:60] for sql, _ in EXCESSES])
def test_what_takes_too_much_memory_or_time_is_ended(victim, sql: str, outcomes: tuple[str, ...]) -> None:
    assert victim.outcome(sql, GOLD) in outcomes


def test_what_never_ends_is_ended(victim) -> None:
    assert victim.outcome(RUNAWAYS[0], GOLD) == "pred_timeout"
    assert victim.outcome(GOLD, UNINTERRUPTIBLE[0]) == "gold_timeout"


def with_new_answer(server, label: str) -> set[int]:
    """The workers after a question that no cache answers, so that at least one exists."""
    assert server.outcome(f"{GOLD} -- {label}", GOLD) == "match"
    return set(server.workers())


def assert_one_is_replaced(server, before: set[int]) -> None:
    # The answer comes before its worker has ended.
    deadline = time.monotonic() + 20
    while len(before - set(server.workers())) != 1:
        assert time.monotonic() < deadline, f"workers were {before}, are {server.workers()}"
        time.sleep(0.05)
    assert len(before - with_new_answer(server, f"after {before}")) == 1


def test_what_ignores_the_time_limit_costs_its_worker_and_no_other_answer(scorer) -> None:
    before = with_new_answer(scorer, "before")
    answer = scorer.score([fenced(sql) for sql in (UNINTERRUPTIBLE[0], f"{GOLD} -- beside")], GOLD)
    assert [detail["outcome"] for detail in answer["details"]] == ["pred_timeout", "match"]
    assert_one_is_replaced(scorer, before)


def test_what_takes_too_much_memory_is_an_error_and_its_worker_is_replaced(scorer) -> None:
    before = with_new_answer(scorer, "before memory")
    sql = f"{NUMBERS} SELECT count(DISTINCT x || zeroblob(9000000)) FROM r"
    assert scorer.score([fenced(sql)], GOLD)["Scorer1"] == [[0.0, [["error", "error: out of memory"]]]]
    assert_one_is_replaced(scorer, before)


def test_a_right_answer_is_not_an_error_however_large_gold_is(victim) -> None:
    for rows, expected in {8: {"match"}, 16: {"match", "gold_error"}, 40: {"gold_error"}}.items():
        # A million bytes each, in a worker that may have 150 million.
        sql = f"{NUMBERS[:-1]} LIMIT {rows}) SELECT x, hex(zeroblob(500000)) FROM r"
        assert victim.outcome(sql, sql) in expected, rows


@pytest.fixture(scope="module")
def traps(server) -> None:
    """Ways out of database_path, and files that are not databases, with names that a db_id may have."""
    make_database(outside := server.directory / "outside.sqlite", "CREATE TABLE clients (name)")
    links = {
        "link.sqlite": outside,
        "chain.sqlite": server.databases / "link.sqlite",
        "relative.sqlite": "../outside.sqlite",
        "up": server.directory,
        "zero.sqlite": "/dev/zero",
        "process.sqlite": "/proc/self/mem",
        "dangling.sqlite": server.directory / "created.sqlite",
        "loop.sqlite": server.databases / "loop.sqlite",
    }
    for name, target in links.items():
        (server.databases / name).symlink_to(target)
    os.mkfifo(server.databases / "pipe.sqlite")
    (server.databases / "directory.sqlite").mkdir()


PATHS = """
. .. shop shop/ ../outside.sqlite shop/../../outside.sqlite ./shop/.././../outside.sqlite FOLDER/outside.sqlite
FOLDER/databases/shop/shop.sqlite /etc/passwd /proc/self/environ //etc/passwd ~/a.sqlite $HOME/a.sqlite :memory:
new.sqlite new.sqlite?mode=rwc shop/shop.sqlite?mode=memory&cache=shared shop/shop.sqlite?vfs=unix-none
shop/shop.sqlite#fragment file:shop/shop.sqlite file:FOLDER/outside.sqlite?mode=ro %2e%2e/outside.sqlite
..%2foutside.sqlite shop%2fshop.sqlite ..\\outside.sqlite shop/shop.sqlite/../../../outside.sqlite
link.sqlite chain.sqlite relative.sqlite up/outside.sqlite zero.sqlite process.sqlite dangling.sqlite loop.sqlite
pipe.sqlite directory.sqlite
"""
ODD_NAMES = ["", "\0", "shop/shop.sqlite\0", "shop/shop.sqlite\0.sqlite", "shop/shop.sqlite\n", " shop/shop.sqlite"]
ODD_NAMES += ["../outside.sqlite\0/../databases/shop/shop.sqlite", "x" * 100_000, "a/" * 3000 + "a.sqlite"]


@pytest.mark.usefixtures("traps")
def test_a_db_id_that_names_no_database_is_rejected(victim) -> None:
    for db_id in PATHS.split() + ODD_NAMES:
        reply = victim.put([fenced("SELECT 1")], "SELECT 1", db_id=db_id.replace("FOLDER", str(victim.directory)))
        assert reply.status_code == 404 and len(reply.json()["error"]) > 20, db_id[:40]


def test_a_file_that_becomes_a_link_is_refused(server) -> None:
    path = server.databases / "swapped.sqlite"
    path.write_bytes((server.databases / SHOP).read_bytes())
    assert server.outcome(GOLD, GOLD, db_id="swapped.sqlite") == "match"
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert server.put([fenced(GOLD)], GOLD, db_id="swapped.sqlite").status_code == 404


def test_reading_a_database_in_wal_mode_creates_nothing(server) -> None:
    path = server.databases / "wal.sqlite"
    make_database(path, "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    before = state(server.directory)
    assert str(path) in before
    assert server.outcome("SELECT a, 1 FROM t", "SELECT 1, a FROM t", db_id="wal.sqlite") == "match"
    assert state(server.directory) == before
