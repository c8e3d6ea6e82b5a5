"""DuckDB and PostgreSQL: verdicts as SQLite's, hostile statements that change nothing, faults that blame nobody."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rl.scorer.config import SqlSettings
from rl.scorer.engines import connection_parameters
from rl.scorer.sql import lexer
from rl.scorer.sql.compare import COMPARISONS, GoldRows
from rl.scorer.sql.execute import Limits, StatementError, StatementTimeout
from tests.scorer.conftest import LEAGUE, RUNAWAY
from tests.scorer.postgresql import Postgresql
from tests.scorer.test_scorer_conformance import ALL

LIMITS = Limits(sql_chars=100_000, value_bytes=1_000_000, rows=1000, bytes=1_000_000)
ENGINES = ("duckdb", "postgresql")


def league(engine: str) -> str:
    """LEAGUE for engines in which a column has one type."""
    script = LEAGUE.replace("(a, b)", "(a INTEGER, b INTEGER)").replace("rating REAL", "rating DOUBLE PRECISION")
    script = re.sub(r"CREATE TABLE cell.*?;|INSERT INTO cell.*?;|\(11, CAST.*?\)\), ", "", script, flags=re.DOTALL)
    return script


def in_dialect(sql: str, engine: str) -> str:
    """A statement of the conformance cases as the engine writes it."""
    changes = {"char(": "chr(", "ifnull(": "coalesce(", "IS NOT 'Greens'": "IS DISTINCT FROM 'Greens'"}
    changes |= {"NOT NULL": "IS NOT NULL", "WHERE 0": "WHERE false"}
    for one, other in changes.items():
        sql = sql.replace(one, other)
    sql = re.sub(r"-9e999", "'-inf'::float8", sql)
    sql = re.sub(r"\b[19]e999", "'inf'::float8", sql)
    sql = re.sub(r"(FROM \(SELECT id FROM player[^)]*\))", r"\1 AS p ", sql)
    if engine == "duckdb":
        return re.sub(r"x'(\w*)'", lambda match: "'" + re.sub("(..)", r"\\x\1", match[1]) + "'::blob", sql)
    return re.sub(r"x'(\w*)'", r"'\\x\1'::bytea", sql)


# Golds whose result is another one in the engine, or none: no such function, or another arithmetic.
OTHERS = {
    "duckdb": {
        *("SELECT 1 / 0, sum(a) FROM vacant", "VALUES (1, '1'), (2, '3')", "SELECT 0.1 + 0.2", "SELECT 7 / 2"),
        *("SELECT 9007199254740993", "SELECT word FROM word WHERE id = 3"),
    },
    "postgresql": {
        *("SELECT 1 / 0, sum(a) FROM vacant", "SELECT 0.1 + 0.2", "SELECT 9007199254740993"),
        *("SELECT 'a' || char(0) || 'b'", "SELECT CAST(x'31' AS TEXT)"),
    },
}
OF_SQLITE = re.compile(r"FROM cell|id = 11|datetime\(|strftime\(")


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """league.duckdb; shop, a folder of a parquet and a CSV file; sub.duckdb, a damaged file."""
    import duckdb

    folder = tmp_path_factory.mktemp("duckdb")
    with duckdb.connect(folder / "league.duckdb") as connection:
        connection.execute(league("duckdb"))
        (folder / "shop").mkdir()
        connection.execute(f"COPY player TO '{folder}/shop/player.parquet'")
        connection.execute(f"COPY game TO '{folder}/shop/game.csv' (HEADER)")
    (folder / "damaged.duckdb").write_bytes(b"no database" * 1000)
    (folder / "secret.csv").write_text("a\n1\n")
    return folder


@pytest.fixture(scope="module")
def league_server(postgresql: Postgresql) -> Postgresql:
    postgresql.make("league", league("postgresql"))
    return postgresql


@pytest.fixture(scope="module", params=ENGINES)
def engine(request) -> str:
    return request.param


def executor(engine: str, request: pytest.FixtureRequest, limits: Limits = LIMITS) -> Any:
    """The engine's Executor in this process; what it is asked about is `of`."""
    if engine == "duckdb":
        from rl.scorer.sql.duckdb_engine import Executor

        made, of = Executor(limits, 400_000_000), str(request.getfixturevalue("databases") / "league.duckdb")
    else:
        from rl.scorer.sql.postgresql_engine import Executor

        server = request.getfixturevalue("league_server")
        settings = SqlSettings(class_name="SqlRewardModel", engine=engine, connection=server.connection)
        made, of = Executor(limits, connection_parameters(settings)), "league"
    return SimpleNamespace(executor=made, of=of, run=lambda sql, seconds=20.0: made.execute(of, "1", sql, seconds))


@pytest.fixture(scope="module")
def league_of(engine: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    made = executor(engine, request)
    yield made
    made.executor.close(made.of)


def test_results_are_judged_as_published(engine: str, league_of) -> None:
    judged = 0
    for equal_for, gold, predicted in ALL:
        if gold in OTHERS[engine] or OF_SQLITE.search(gold + predicted):
            continue
        texts = [lexer.repair(in_dialect(sql, engine), engine) for sql in (gold, predicted)]
        gold_rows, rows = map(league_of.run, texts)
        for method in ("bird", "spider"):
            ordered = lexer.has_top_level_order_by(texts[0], engine)
            assert COMPARISONS[method](GoldRows(gold_rows, ordered), rows) is (equal_for in ("both", method)), gold
            judged += 1
    assert judged > 240


# Written by hand, for both engines where the syntax is of both.
VALUES = [
    ("1.50::numeric, 2.00::numeric, 0.1::numeric + 0.2", (1.5, 2, 0.3)),
    ("12345678901234567890123456789012345678::numeric(38, 0)", (12345678901234567890123456789012345678,)),
    ("avg(a) FROM (VALUES (1), (2)) AS t (a)", (1.5,)),
    ("1::float8 / 3, true, false, NULL", (1 / 3, 1, 0, None)),
    ("'NaN'::float8, 'inf'::float8, '-inf'::float8", ("NaN", float("inf"), float("-inf"))),
    ("DATE '2020-01-05', TIMESTAMP '2020-01-05 10:00:00'", ("2020-01-05", "2020-01-05 10:00:00")),
    ("'00000000-0000-0000-0000-000000000001'::uuid", ("00000000-0000-0000-0000-000000000001",)),
]
OWN_VALUES = {
    "duckdb": [
        ("[1, 2], {'a': 1.5, 'b': 'é'}", ("[1, 2]", '{"a": 1.5, "b": "é"}')),
        ("MAP {'k': DATE '2020-01-05'}, TIME '10:00:00'", ('{"k": "2020-01-05"}', "10:00:00")),
        ("'\\x00\\xFF'::blob, INTERVAL 2 days, ['\\x01'::blob]", (b"\0\xff", "2 days, 0:00:00", '["01"]')),
        ("TIMESTAMPTZ '2020-01-05 10:00:00+02'", ("2020-01-05 08:00:00+00:00",)),
        ("170141183460469231731687303715884105727::hugeint", (2**127 - 1,)),
        ("DATE '0044-03-15 (BC)'", ("0044-03-15 (BC)",)),
    ],
    "postgresql": [
        ("ARRAY[1, 2], ROW(1, 'é'), '{\"k\": 1}'::jsonb", ("{1,2}", "(1,é)", '{"k": 1}')),
        ("'\\x00ff'::bytea, INTERVAL '2 days', 7::oid, 'a'::char(3)", (b"\0\xff", "2 days", 7, "a  ")),
        ("TIMESTAMPTZ '2020-01-05 10:00:00+02', DATE 'infinity'", ("2020-01-05 08:00:00+00", "infinity")),
        ("'NaN'::numeric, 1e400::numeric, 1e400::numeric + 0.5", ("NaN", "1" + "0" * 400, "1" + "0" * 400 + ".5")),
        ("DATE '0044-03-15 BC', 0.1::float4", ("0044-03-15 BC", 0.1)),
    ],
}


def test_values_become_what_sqlite_has(engine: str, league_of) -> None:
    for columns, expected in VALUES + OWN_VALUES[engine]:
        [row] = league_of.run(f"SELECT {columns}")
        assert row == expected and list(map(type, row)) == list(map(type, expected)), columns


def hostile(engine: str, folder: Path) -> list[str]:
    """The statements of hostile/both.sql and of the engine's own file."""
    texts = [(Path(__file__).parent / "hostile" / f"{name}.sql").read_text() for name in ("both", engine)]
    lines = [line for text in texts for line in text.splitlines() if not line.startswith("--")]
    escapes = {"FOLDER": str(folder), "\\n": "\n", "\\r": "\r", "\\0": "\0"}
    return [re.sub("|".join(map(re.escape, escapes)), lambda match: escapes[match[0]], line) for line in lines]


def test_what_is_not_a_select_is_denied(engine: str, league_of, databases: Path, request) -> None:
    before = content(engine, request)
    passed = []
    for sql in hostile(engine, databases):
        try:
            league_of.run(sql, 5.0)
        except StatementError as error:
            assert len(str(error)) > 4
        else:
            passed.append(sql)
    assert passed == []
    assert league_of.run("SELECT name FROM player ORDER BY id LIMIT 2") == [("Ada",), ("Ben",)]
    assert content(engine, request) == before


def content(engine: str, request: pytest.FixtureRequest) -> Any:
    """What statements must leave as it is."""
    folder = request.getfixturevalue("databases")
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if engine == "duckdb":
        return files
    server = request.getfixturevalue("league_server")
    relations = "SELECT relname, relnamespace, reltuples >= 0 FROM pg_class WHERE relnamespace <> 99 ORDER BY 1, 2"
    others = "SELECT (SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_roles), "
    others += "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT json_agg(p) FROM player p)"
    return files, [name for name, *_ in server.run("league", relations)], server.run("league", others)


INTERNAL = re.compile(
    r"RI_FKey_\w+|\w*handler|plpgsql_\w+|dsnowball_\w+|\w*_trigger\w*|binary_upgrade_\w+|amvalidate|currtid2|bernoulli"
    r"|system|unique_key_recheck"
)


def test_no_function_that_draws_lots_or_changes_something_may_be_called(engine: str, league_of, request) -> None:
    """DuckDB: its own list, so what a new version brings is denied too. PostgreSQL: each volatile function is known."""
    if engine == "duckdb":
        league_of.run("SELECT 1")
        [database] = league_of.executor._open.values()
        assert database.denied >= {"random", "uuid", "read_csv", "query", "glob", "nextval", "setseed", "arrow_scan"}
        assert not database.denied & {"range", "unnest", "count", "now", "lower", "json_each"}
        return
    from rl.scorer.sql.postgresql_engine import _CALL_DENIED

    volatile = "SELECT DISTINCT proname FROM pg_proc WHERE provolatile = 'v' AND pronamespace = 11"
    names = {name for (name,) in request.getfixturevalue("league_server").run("league", volatile)}
    left = {name for name in names if not _CALL_DENIED.fullmatch(name) and not INTERNAL.fullmatch(name)}
    assert len(names) > 100 and left == {"clock_timestamp", "timeofday", "current_query"}


# Whether a text has f as a name that is called (c) or not (n), not as a name (-), or is ambiguous (a).
NAMES = r"""
c SELECT f(1)
c SELECT "f" (1)
c SELECT f/* x */--y\n(1)
c SELECT s.F(1)
n SELECT f, 'f'(1)
- SELECT 'f(1)', "a f(1)", $$f(1)$$, $x$ $$ f(1) $x$ -- f(1)
c SELECT '$$', f(1), '$$'
c SELECT a$$, f(1) AS $$
c SELECT $1, f(1), $1
c SELECT 'a''', f(1)
c SELECT 1 --\r, f(1)
c SELECT '\', f(1) --'
a SELECT E'\', f(1) --'
a SELECT e'a'\n '\', f(1) --'
a SELECT U&"f"(1)
a SELECT /* /* */ f(1) */ 1
"""


def test_names_are_what_postgresql_takes_for_names() -> None:
    for line in NAMES.strip().splitlines():
        sql = line[2:].replace("\\n", "\n").replace("\\r", "\r")
        called = [called for name, called in lexer.names(sql) if name == "f"]
        found = "a" if lexer.ambiguity(sql) else "c" if True in called else "n" if called else "-"
        assert found == line[0], sql


def test_the_clock_and_the_order_are_seen_in_other_dialects() -> None:
    for text in ("now()", "current_date", "'today'::date", "age(born)", "LOCALTIMESTAMP", "clock_timestamp()"):
        assert lexer.reads_clock(f"SELECT {text} FROM t", "postgresql")
    assert not lexer.reads_clock("SELECT $$ now() $$, a[1] FROM t -- now()", "duckdb")
    assert lexer.has_top_level_order_by("SELECT a[1] FROM t ORDER BY 1", "postgresql")
    assert not lexer.has_top_level_order_by("SELECT $q$ ORDER BY $q$, array_agg(a ORDER BY a) FROM t", "duckdb")


MANY = {
    "duckdb": "FROM range(100000000000) t (i)",
    "postgresql": "FROM (SELECT generate_series(1, 100000000000) AS i) t",
}


def test_limits_hold(engine: str, league_of) -> None:
    for sql in (RUNAWAY, f"SELECT i {MANY[engine]} WHERE i < 0", f"SELECT count(*) {MANY[engine]}"):
        with pytest.raises(StatementTimeout):
            league_of.run(sql, 0.3)
    limited = {
        f"SELECT i {MANY[engine]}": "more than 1000 rows",
        "SELECT repeat('x', 1000001)": "a value of more than 1000000 bytes",
        f"SELECT repeat('x', 9999) {MANY[engine]} LIMIT 999": "more than 1000000 bytes",
        "SELECT 1" + " " * 200_000: "200008 characters",
    }
    for sql, message in limited.items():
        with pytest.raises(StatementError, match=message):
            league_of.run(sql)
    assert league_of.run("SELECT count(*) FROM player;; ") == [(6,)]


def test_rows_come_in_one_order(engine: str, league_of) -> None:
    sql = "SELECT p.id, q.id FROM player p, player q WHERE p.id <> q.id"
    assert len({tuple(league_of.run(sql)) for _ in range(5)}) == 1
