"""Reading SQL text: repairs, a top-level ORDER BY, and the clock."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from rl.scorer.answers import read_sql
from rl.scorer.sql.lexer import has_top_level_order_by, reads_clock, repair
from rl.scorer.sql.scoring import _GoldQuery

REPAIRS = [
    ("a > = 1 AND b < = 2 AND c !  = 3", "a >= 1 AND b <= 2 AND c != 3"),
    ("a = '> =' AND b > = 1", "a = '> =' AND b >= 1"),
    ("a = 'it''s > =' AND b > = 1", "a = 'it''s > =' AND b >= 1"),
    (r"a = 'C:\' AND b > = '> ='", r"a = 'C:\' AND b >= '> ='"),
    ('"> =" > = 1', '"> =" >= 1'),
    ("`> =` [> =] > = 1", "`> =` [> =] >= 1"),
    ("-- it's > =\na > = 1", "-- it's > =\na >= 1"),
    ("/* it's */ a > = 1", "/* it's */ a >= 1"),
    ("SELECT YEAR(CURDATE()) - y, year ( curdate ( ) ), 'YEAR(CURDATE())'", "SELECT 2020 - y, 2020, 'YEAR(CURDATE())'"),
    ("a <> 1 AND b >= 2", "a <> 1 AND b >= 2"),
]


def test_repairs_outside_literals_and_comments_only() -> None:
    for sql, repaired in REPAIRS:
        assert repair(sql) == repaired


# test_compare.py has the others.
ORDERED = ["SELECT a FROM t ORDER /* x */ -- y\n BY a", "SELECT a FROM t WHERE s = '(' ORDER BY a"]
NOT_ORDERED = [r"SELECT a FROM t WHERE s = 'C:\' AND r = ' ORDER BY a'", "SELECT [order], by_ FROM t"]
READS_CLOCK = [
    "SELECT date('now')",
    'SELECT strftime("%Y", "Now")',
    "SELECT strftime('%Y', CURRENT_TIMESTAMP) - strftime('%Y', born) FROM player",
    "SELECT date()",
    'SELECT 1 - "JulianDay" /* now */ ( )',
    "SELECT strftime('%Y') - strftime('%Y', born) FROM player",
    "SELECT unixepoch('subsec')",
    "SELECT date('now ')",
    "SELECT strftime('%Y' || '%m')",
    "SELECT date(x) FROM (SELECT 'now' AS x)",
    # A column may say now.
    "SELECT [current_date], date(joined) FROM t",
    "SELECT date, count(), strftime('%Y', (born)) FROM t GROUP BY (date)",
]
READS_NO_CLOCK = [
    "SELECT a FROM t WHERE note = 'as of now' -- 'now'",
    "SELECT [current_date], [date] FROM t -- date('now')",
    "SELECT date, count() FROM t WHERE date IN (1) GROUP BY (date)",
]


def test_finds_a_top_level_order_by_and_a_look_at_the_clock() -> None:
    assert [sql for sql in ORDERED + NOT_ORDERED if has_top_level_order_by(sql)] == ORDERED
    assert [sql for sql in READS_CLOCK + READS_NO_CLOCK if reads_clock(sql)] == READS_CLOCK


def test_gold_that_reads_the_clock_is_of_a_day() -> None:
    today = datetime.now(UTC).date().isoformat()
    assert _GoldQuery.of("SELECT a > = 1 FROM t", "sqlite")[:2] == ("SELECT a >= 1 FROM t", "")
    assert _GoldQuery.of("SELECT date('now')", "sqlite").day in (today, datetime.now(UTC).date().isoformat())


@pytest.fixture
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone whose date is not the date in UTC."""
    monkeypatch.setenv("TZ", "AAA-14" if datetime.now(UTC).hour >= 10 else "BBB+12")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("local_time")
def test_a_day_is_also_a_local_one() -> None:
    days = _GoldQuery.of("SELECT date('now', 'localtime')", "sqlite").day.split()
    assert days == [datetime.now(UTC).date().isoformat(), datetime.now().date().isoformat()]
    assert days[0] != days[1]


HOSTILE = ["/*", "'", '"', "YEAR(", "> ", "<", "```sql", "ORDER ", "--", "[", "```sql ```", "<think>", "</think>"]


def test_reading_is_linear_in_hostile_text() -> None:
    """If it were quadratic, each would take hours."""
    started = time.process_time()
    for unit in HOSTILE:
        text = unit * (200_000 // len(unit))
        read_sql(text), repair(text), has_top_level_order_by(text), reads_clock(text)
    assert time.process_time() - started < 60
