"""PostgreSQL: verdicts as on SQLite, hostile statements that change nothing, infrastructure faults."""

import asyncio
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rl.common.errors import UserError
from rl.scorer import checks
from rl.scorer.config import SqlSettings
from rl.scorer.config_file import load_settings
from rl.scorer.outcomes import Score, UnknownQuestion
from rl.scorer.sql import lexer, scoring
from rl.scorer.sql.engines import connection_parameters
from rl.scorer.sql.execute import Limits, StatementError, StatementTimeout
from rl.scorer.sql.scoring import SqlQuestion, SqlScorer
from tests.scorer.conftest import LEAGUE, RUNAWAY, Scorer, fenced, make_database, question
from tests.scorer.postgresql import Postgresql

LIMITS = Limits(sql_chars=100_000, value_bytes=1_000_000, rows=1000, bytes=1_000_000)


def league() -> str:
    """LEAGUE for engines in which a column has one type."""
    script = LEAGUE.replace("(a, b)", "(a INTEGER, b INTEGER)").replace("rating REAL", "rating DOUBLE PRECISION")
    return re.sub(r"CREATE TABLE cell.*?;|INSERT INTO cell.*?;|\(11, CAST.*?\)\), ", "", script, flags=re.DOTALL)


@pytest.fixture(scope="module")
def league_server(postgresql: Postgresql) -> Postgresql:
    postgresql.make("league", league())
    return postgresql


@pytest.fixture(scope="module")
def run(league_server: Postgresql) -> Iterator[Any]:
    """run(sql, seconds=20.0): the rows on league, in this process."""
    from rl.scorer.sql.postgresql_engine import Executor

    executor = Executor(LIMITS, connection_parameters(league_server.connection))
    yield lambda sql, seconds=20.0: executor.execute("league", "1", sql, seconds)
    executor.close("league")


# Written by hand.
VALUES = [
    ("1.50::numeric, 2.00::numeric, 0.1::numeric + 0.2", (1.5, 2, 0.3)),
    ("12345678901234567890123456789012345678::numeric(38, 0)", (12345678901234567890123456789012345678,)),
    ("avg(a), sum(a), count(*), max(a) FROM (VALUES (1), (2)) AS t (a)", (1.5, 3, 2, 2)),
    ("7 / 2.0, round(7 / 3.0, 2), 3 > 2, abs(-0.5)", (3.5, 2.33, 1, 0.5)),
    ("'日本', 'e\u0301', '', 'a' || 'b'", ("日本", "e\u0301", "", "ab")),
    ("1::float8 / 3, true, false, NULL", (1 / 3, 1, 0, None)),
    ("'NaN'::float8, 'inf'::float8, '-inf'::float8", ("NaN", float("inf"), float("-inf"))),
    ("DATE '2020-01-05', TIMESTAMP '2020-01-05 10:00:00'", ("2020-01-05", "2020-01-05 10:00:00")),
    ("TIMESTAMP '2020-01-05 10:00:10.50', TIME '10:00:10.05'", ("2020-01-05 10:00:10.5", "10:00:10.05")),
    ("CAST(TIMESTAMP '2020-01-05 10:00:10.50' AS varchar), TIME '10:00:10'", ("2020-01-05 10:00:10.5", "10:00:10")),
    ("'00000000-0000-0000-0000-000000000001'::uuid", ("00000000-0000-0000-0000-000000000001",)),
    ("ARRAY[1, 2], ROW(1, 'é'), '{\"k\": 1}'::jsonb", ("{1,2}", "(1,é)", '{"k": 1}')),
    ("'\\x00ff'::bytea, INTERVAL '2 days', 7::oid, 'a'::char(3)", (b"\0\xff", "2 days", 7, "a  ")),
    ("TIMESTAMPTZ '2020-01-05 10:00:00+02', DATE 'infinity'", ("2020-01-05 08:00:00+00", "infinity")),
    ("'NaN'::numeric, 1e400::numeric, 1e400::numeric + 0.5", ("NaN", "1" + "0" * 400, "1" + "0" * 400 + ".5")),
    ("DATE '0044-03-15 BC', 0.1::float4", ("0044-03-15 BC", 0.1)),
]


def test_values_become_what_sqlite_has(run) -> None:
    for columns, expected in VALUES:
        [row] = run(f"SELECT {columns}")
        assert row == expected and list(map(type, row)) == list(map(type, expected)), columns


def hostile() -> list[str]:
    """The statements of hostile/both.sql and hostile/postgresql.sql."""
    texts = [(Path(__file__).parents[1] / "hostile" / f"{name}.sql").read_text() for name in ("both", "postgresql")]
    lines = [line for text in texts for line in text.splitlines() if not line.startswith("--")]
    escapes = {"\\n": "\n", "\\r": "\r", "\\0": "\0"}
    return [re.sub("|".join(map(re.escape, escapes)), lambda match: escapes[match[0]], line) for line in lines]


def test_what_is_not_a_select_is_denied(run, league_server: Postgresql) -> None:
    before = content(league_server)
    passed = []
    for sql in hostile():
        with suppress(StatementError):
            run(sql, 5.0)
            passed.append(sql)
    assert passed == []
    assert run("SELECT name FROM player ORDER BY id LIMIT 2") == [("Ada",), ("Ben",)]
    assert content(league_server) == before


def content(server: Postgresql) -> Any:
    """Everything that statements must not change."""
    relations = "SELECT relname, relnamespace, reltuples >= 0 FROM pg_class WHERE relnamespace <> 99 ORDER BY 1, 2"
    others = "SELECT (SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_roles), "
    others += "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT json_agg(p) FROM player p)"
    return [name for name, *_ in server.run("league", relations)], server.run("league", others)


INTERNAL = re.compile(
    r"RI_FKey_\w+|\w*handler|plpgsql_\w+|dsnowball_\w+|\w*_trigger\w*|binary_upgrade_\w+|amvalidate|currtid2|bernoulli"
    r"|system|unique_key_recheck"
)


def test_no_function_that_draws_lots_or_changes_something_may_be_called(league_server: Postgresql) -> None:
    """Each volatile function is known."""
    from rl.scorer.sql.postgresql_engine import _CALL_DENIED

    volatile = "SELECT DISTINCT proname FROM pg_proc WHERE provolatile = 'v' AND pronamespace = 11"
    names = {name for (name,) in league_server.run("league", volatile)}
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
    texts = ("now()", "current_date", "'today'::date", "'today 04:05'", "age(born)", "LOCALTIMESTAMP")
    quoted = ('"now"()', "$$now$$::date", r"E'\x6eow'::date", r"U&'n\006fw'::date", "$x$ now() $x$::date")
    for text in (*texts, *quoted, "clock_timestamp()"):
        assert lexer.reads_clock(f"SELECT {text} FROM t", "postgresql")
    assert not lexer.reads_clock("SELECT $$a$$, 'b' & 1, e FROM t -- now", "postgresql")
    assert lexer.has_top_level_order_by("SELECT a[1] FROM t ORDER BY 1", "postgresql")
    assert not lexer.has_top_level_order_by("SELECT $q$ ORDER BY $q$, array_agg(a ORDER BY a) FROM t", "postgresql")


MANY = "FROM (SELECT generate_series(1, 100000000000) AS i) t"


def test_limits_hold(run) -> None:
    for sql in (RUNAWAY, f"SELECT i {MANY} WHERE i < 0", f"SELECT count(*) {MANY}"):
        with pytest.raises(StatementTimeout):
            run(sql, 0.3)
    limited = {
        f"SELECT i {MANY}": "more than 1000 rows",
        "SELECT repeat('x', 1000001)": "a value of more than 1000000 bytes",
        f"SELECT repeat('x', 9999) {MANY} LIMIT 999": "more than 1000000 bytes",
        "SELECT 1" + " " * 200_000: "200008 characters",
        "SELECT 1\0": "null character",
        "SELECT '\ud800'": "UTF-8|utf-8",
        "SELECT " + "NOT " * 20_000 + "true": "depth|memory",
    }
    for sql, message in limited.items():
        with pytest.raises(StatementError, match=message):
            run(sql)
    assert run("SELECT count(*) FROM player;; ") == [(6,)]


def test_rows_come_in_one_order(run) -> None:
    sql = "SELECT p.id, q.id FROM player p, player q WHERE p.id <> q.id"
    assert len({tuple(run(sql)) for _ in range(5)}) == 1


# In the server's workers

SETTINGS = {
    "class_name": "SqlDetailRewardModel",
    "num_instances": 1,
    "slow_instances": 1,
    "prediction_seconds": 0.5,
    "gold_seconds": 0.5,
    "grace_seconds": 0.5,
    "worker_memory_bytes": 200_000_000,
}


def settings_of(connection: str, **changes: Any) -> SqlSettings:
    where = {"engine": "postgresql", "prefix": "postgresql/", "connection": connection}
    return SqlSettings.model_validate({**SETTINGS, **where, **changes})


@contextmanager
def asking(settings: SqlSettings) -> Iterator[Callable[..., list[Score]]]:
    """ask(db_id, gold, *predictions): the scores that a scorer with these settings gives."""
    scorer = SqlScorer(settings)
    with asyncio.Runner() as runner:
        runner.run(scorer.pool.start())

        def ask(db_id: str, gold: str, *predictions: str, method: str = "bird") -> list[Score]:
            asked = SqlQuestion(db_id=settings.prefix + db_id, gold_sql=gold, cmp_method=method)
            return runner.run(scorer.score(asked, [fenced(sql) for sql in predictions]))

        ask.scorer, ask.runner = scorer, runner
        try:
            yield ask
        finally:
            runner.run(scorer.pool.close())


def outcomes(scores: list[Score]) -> list[str]:
    return [score.outcome for score in scores]


GOLD = "SELECT name FROM player"


def test_a_worker_scores_caches_and_survives(league_server: Postgresql) -> None:
    gold, of = "SELECT name, goals FROM player ORDER BY id", "league"
    with asking(settings_of(league_server.connection)) as ask:
        predictions = [gold.lower(), GOLD, "SELECT id FROM player", "SELECT x FROM player", RUNAWAY]
        scores = ask(of, gold, *predictions, method="spider")
        assert outcomes(scores) == ["match", "partial", "mismatch", "pred_error", "pred_timeout"]
        assert scores[1].score == 0.8 * 1 / 2 and '["Ada",3]' in scores[0].payload
        before = ask.scorer.golds.misses, ask.scorer.scores.misses
        assert outcomes(ask(of, gold, *predictions[:4], method="spider")) == outcomes(scores)[:4]
        assert (ask.scorer.golds.misses, ask.scorer.scores.misses) == before
        assert outcomes(ask(of, "SELECT x FROM player", "SELECT 1")) == ["gold_error"]
        assert outcomes(ask(of, RUNAWAY, "SELECT 1")) == ["gold_timeout"]
        # A busy machine may be too slow for it, but it is not a fault.
        assert ask(of, gold, "SELECT repeat('x', 300000000)")[0].outcome in ("pred_error", "pred_timeout")
        assert outcomes(ask(of, gold, gold + " -- again")) == ["match"]
        for db_id in ("none", "../league", "", "x\0y", "league'; DROP DATABASE league; --", "dbname=league"):
            with pytest.raises(UnknownQuestion, match="db_id"):
                ask(db_id, gold, gold)


def test_a_change_is_seen(league_server: Postgresql) -> None:
    gold, was = "SELECT count(*) FROM t", "SELECT 1"
    league_server.make("changing", "CREATE TABLE t AS SELECT 1 AS a")
    with asking(settings_of(league_server.connection)) as ask:
        assert outcomes(ask("changing", gold, was)) == ["match"]
        for statement in ("INSERT INTO t VALUES (2)", "TRUNCATE t", "INSERT INTO t VALUES (1)"):
            misses = ask.scorer.golds.misses
            assert outcomes(ask("changing", gold, was)) == outcomes(ask("changing", gold, was))
            assert ask.scorer.golds.misses == misses, "nothing has changed"
            league_server.run("changing", statement)
            ask("changing", gold, was)
            assert ask.scorer.golds.misses == misses + 1, statement
        assert outcomes(ask("changing", gold, was)) == ["match"]


def test_what_is_not_the_responses_fault_is_an_infra_error(
    league_server: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = league_server

    def is_infra_error(ask: Callable[..., list[Score]], sql: str = GOLD) -> str:
        [score] = ask("league", GOLD, f"{sql} -- {is_infra_error.asked}")
        is_infra_error.asked += 1
        assert score.outcome == "infra_error", score
        return score.error

    is_infra_error.asked = 0
    owner = server.connection.replace("reader", "owner")
    with asking(settings_of(owner)) as ask:
        assert "may do more than read (owner" in is_infra_error(ask)
    server.run("postgres", "GRANT pg_read_server_files TO guest", "ALTER ROLE guest CONNECTION LIMIT -1")
    guest = server.connection.replace("reader", "guest")
    with asking(settings_of(guest)) as ask:
        assert "pg_read_server_files" in is_infra_error(ask)
        server.run("postgres", "REVOKE pg_read_server_files FROM guest")
        assert outcomes(ask("league", GOLD, GOLD)) == ["match"]
        server.run("postgres", "ALTER ROLE guest CONNECTION LIMIT 0")
    with asking(settings_of(guest)) as ask:
        assert "too many connections" in is_infra_error(ask)

    monkeypatch.setattr(scoring, "FIND_DATABASE_S", 1.0)
    with asking(settings_of(league_server.connection)) as ask:
        assert outcomes(ask("league", GOLD, GOLD)) == ["match"]
        with locked_table(server):
            assert "lock timeout" in is_infra_error(ask)
        assert outcomes(ask("league", GOLD, f"{GOLD} -- unlocked")) == ["match"]
        with while_running(server, "pg_cancel_backend"):
            assert "user request" in is_infra_error(ask, RUNAWAY)
        with while_running(server, "pg_terminate_backend"):
            assert "terminating connection" in is_infra_error(ask, RUNAWAY)
        assert outcomes(ask("league", GOLD, f"{GOLD} -- connected again")) == ["match"]
        server.signal(signal.SIGSTOP)
        try:
            assert "does not answer" in is_infra_error(ask)
        finally:
            server.signal(signal.SIGCONT)
        assert outcomes(ask("league", GOLD, f"{GOLD} -- awake")) == ["match"]
        server.stop()
        assert is_infra_error(ask)
        server.start()
        assert outcomes(ask("league", GOLD, f"{GOLD} -- started again")) == ["match"]


@contextmanager
def locked_table(server: Postgresql) -> Iterator[None]:
    import psycopg

    where = {"host": str(server.folder), "port": server.port, "user": "owner", "dbname": "league"}
    with psycopg.connect(**where) as connection:
        connection.execute("LOCK TABLE player IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def while_running(server: Postgresql, function: str) -> Iterator[None]:
    """Call `function` with the process of the runaway once there is one."""

    def interrupt() -> None:
        busy = "state = 'active' AND usename = 'reader' AND query ~ 'FETCH'"
        while not server.run("league", f"SELECT {function}(pid) FROM pg_stat_activity WHERE {busy}"):
            time.sleep(0.02)

    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    thread.join()


# Settings, and several engines in one server

SECTION = "Scorers: {Scorer1: {class_name: SqlRewardModel, "
HERE = "database_path: ., "
SERVER = "engine: postgresql, connection: "
WRONG = {
    "engine: postgresql": "wrong Scorers.Scorer1.connection: is missing",
    f"{HERE}{SERVER}'host=/x user=y'": "database_path = '.': Value error, is not for the engine postgresql",
    f"{HERE}connection: 'host=/x user=y'": "connection = 'host=/x user=y': Value error, is not for the engine sqlite",
    f"{HERE}prefix: a}}, S: {{class_name: SqlRewardModel, prefix: a, database_path: .": "of one kind",
    f"{SERVER}'host=/x user=y password=z'": "Scorers.Scorer1.connection has a password",
    f"{SERVER}'postgresql://y:z@localhost/'": "Scorers.Scorer1.connection has a password",
    f"{SERVER}'host=/x'": "has no user; give one",
    f"{SERVER}'user=y'": "has no host; give one",
    f"{SERVER}'host=/x user=y dbname=z'": "has a dbname, but the db_id names the database",
    f"{SERVER}'host=no.such.host.invalid user=y'": "has the host no.such.host.invalid, which has no address",
}


def test_a_wrong_setting_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "sql.yaml"

    def rejection(keys: str) -> str:
        path.write_text(f"{SECTION}{keys}}}}}")
        with pytest.raises(UserError) as raised:
            checks.check_scorers(load_settings(path).Scorers.items())
        return str(raised.value)

    for keys, message in WRONG.items():
        assert message in rejection(keys), keys


def test_a_server_of_two_engines_asks_the_one_of_the_prefix(
    start_scorer: Callable[..., Scorer], league_server: Postgresql
) -> None:
    section = "{class_name: SqlRewardModel, num_instances: 1, slow_instances: 1, "
    text = f"""
Scorers:
  A: {section} database_path: /cache/}}
  C: {section} engine: postgresql, prefix: pg/, connection: '{league_server.connection}'}}
"""
    scorer = start_scorer(text=text)
    make_database(scorer.databases / "league.sqlite", LEAGUE)
    # In its own dialect only.
    golds = {
        "league.sqlite": "SELECT ifnull(goals, 0) FROM player WHERE name GLOB 'E*'",
        "pg/league": "SELECT coalesce(goals, 0)::int8 FROM player WHERE name ~ '^E' AND 'a' = ANY (ARRAY['a'])",
    }
    of_all = [question(gold, gold, "SELECT 0", "SELECT 1", "SELECT", db_id=db_id) for db_id, gold in golds.items()]
    found = [[score["outcome"] for score in scores] for scores in scorer.answers(*of_all)]
    assert found == [["match", "match", "mismatch", "pred_error"]] * 2
    for db_id in ("league", "pg/none", "pg/"):
        reply = scorer.post(question("SELECT 1", "SELECT 1", db_id=db_id))
        assert reply.status_code == 404 and repr(db_id.partition("/")[2] or db_id)[1:-1] in reply.json()["error"]
    metrics = scorer.client.get("/metrics").text
    for kind in ("sql", "sql:pg/"):
        assert f'scorer_workers{{kind="{kind}"}} 1.0' in metrics and f'cache="{kind.replace("sql", "gold")}"' in metrics
