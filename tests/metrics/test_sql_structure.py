"""Canonical texts of equivalent and of different queries, and structural styles."""

import random
import sqlite3
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.demo.questions import FAMILIES, SCHEMAS, STYLE_NAMES, Mix, draw_question, fill_database, solve
from rl.metrics.sql_structure import canonical_sql, structure_of


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT a FROM t", "/*JOIN*/ select  A\nfrom T ; -- that is all"),
        ("SELECT t.a FROM t WHERE t.b = 'x'", "SELECT a FROM t AS other WHERE (b = 'x')"),
        (
            "SELECT a.name FROM item a JOIN child c ON c.key = a.id WHERE c.x > 3 AND c.y = 'q'",
            "SELECT item.name FROM item INNER JOIN child ON item.id = child.key WHERE 'q' = child.y AND 3 < child.x",
        ),
        ("SELECT COUNT(*) AS n FROM t", "SELECT count( * ) FROM t"),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM b WHERE b.id = t.id)",
            "SELECT a FROM t AS x WHERE EXISTS (SELECT 1 FROM b AS y WHERE x.id = y.id)",
        ),
        ("SELECT x.a FROM t x JOIN t y ON x.a = y.b", "SELECT p.a FROM t p JOIN t q ON q.b = p.a"),
        ("WITH m AS (SELECT a FROM t) SELECT * FROM m", "WITH n AS (SELECT t.a FROM t) SELECT * FROM n"),
        ("SELECT s.a FROM (SELECT a FROM t) s", "SELECT r.a FROM (SELECT t.a FROM t) AS r"),
        ("SELECT a FROM t ORDER BY a ASC LIMIT 1", "SELECT a FROM t ORDER BY a LIMIT 1"),
        ("SELECT `a b` FROM t WHERE NOT a <> 'X'", "SELECT \"a b\" FROM t WHERE a = 'X'"),
        ("SELECT a FROM t WHERE a IN (1, 2)", "SELECT a FROM t WHERE a IN (2, 1)"),
        ("SELECT a + b FROM t WHERE a = 1 OR b = 2", "SELECT b + a FROM t WHERE b = 2 OR a = 1"),
        ("SELECT SUM(a) / COUNT(*) * 100 FROM t", "SELECT 100 * (SUM(a) / COUNT(*)) FROM t"),
        ("SELECT a + b + c FROM t", "SELECT c + b + a FROM t"),
        ("SELECT a > b > c FROM t", "SELECT (a > b) > c FROM t"),
    ],
)
def test_one_query_written_twice(query, same):
    assert canonical_sql(query) == canonical_sql(same) is not None


@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("SELECT a FROM t WHERE b = 'X'", "SELECT a FROM t WHERE b = 'x'"),
        ('SELECT a FROM t WHERE b = "X"', 'SELECT a FROM t WHERE b = "x"'),
        ("SELECT a - b FROM t", "SELECT b - a FROM t"),
        ("SELECT a, b FROM t", "SELECT b, a FROM t"),
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC"),
        ("SELECT a FROM t JOIN u ON t.x = u.x", "SELECT a FROM t LEFT JOIN u ON t.x = u.x"),
        ("SELECT x.a FROM t x JOIN t y ON x.a = y.b", "SELECT y.a FROM t x JOIN t y ON x.a = y.b"),
        ("SELECT a FROM t WHERE b IN (SELECT c FROM u)", "SELECT a FROM t WHERE NOT b IN (SELECT c FROM u)"),
        ("SELECT a AS n FROM t ORDER BY n", "SELECT b AS n FROM t ORDER BY n"),
        ("SELECT 7 / 2", "SELECT 3"),
        ("SELECT SUM(a) * 100.0 / COUNT(*) FROM t", "SELECT SUM(a) / COUNT(*) * 100.0 FROM t"),
        ("SELECT a % 2 * b FROM t", "SELECT b * a % 2 FROM t"),
        ("SELECT a = b = c FROM t", "SELECT c = a = b FROM t"),
        ("SELECT a > b > c FROM t", "SELECT c < b < a FROM t"),
        ("SELECT a - (b - c) FROM t", "SELECT a - b - c FROM t"),
    ],
)
def test_queries_that_differ(query, other):
    assert canonical_sql(query) != canonical_sql(other)


def test_text_that_is_not_a_query():
    for text in ("", ";", "SELEC a", "SELECT (", "DROP TABLE t", "SELECT 1; SELECT 2", "x" * 20_000):
        assert canonical_sql(text) is None and structure_of(text) is None


numbers = st.recursive(
    st.sampled_from(["a", "b", "c", "t.a", "0", "1", "2", "NULL"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=3,
)
comparisons = st.tuples(numbers, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numbers).map(" ".join)
others = st.sampled_from(["a IN (2, 1)", "b IS NULL", "c BETWEEN 0 AND 1", "a NOT IN (1, NULL)", "c IS NOT NULL"])
conditions = st.recursive(
    comparisons | others,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join),
        inner.map(lambda condition: f"({condition})"),
        inner.map(lambda condition: f"NOT ({condition})"),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def table():
    """t(a, b, c) with every row of NULL, 0, 1 and 2."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (a, b, c)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", product((None, 0, 1, 2), repeat=3))
        yield database


@settings(max_examples=150, deadline=None)
@given(condition=conditions)
def test_the_canonical_text_of_a_condition_selects_the_same_rows(condition, table):
    """So that two conditions with one canonical text select the same rows, NULL and precedence included."""
    query = f"SELECT a, b, c FROM t WHERE {condition}"
    assert set(table.execute(canonical_sql(query))) == set(table.execute(query)), canonical_sql(query)


@pytest.mark.parametrize(
    ("query", "structure"),
    [
        ("SELECT a FROM t", None),
        ("SELECT COUNT(*) FROM t WHERE a IN (1, 2)", None),
        ("SELECT a FROM t, u WHERE t.x = u.x", "JOIN"),
        ("SELECT a FROM t JOIN u ON t.x = u.x GROUP BY a HAVING COUNT(*) > 1", "JOIN"),
        ("SELECT a FROM t WHERE b > (SELECT AVG(b) FROM t)", "EXISTS"),
        ("SELECT a FROM t JOIN u ON t.x = u.x WHERE b IN (SELECT b FROM v)", "IN"),
        ("SELECT SUM(CASE WHEN a = 1 THEN 1 ELSE 0 END) FROM t", "AGG"),
        ("SELECT COUNT(*) FILTER (WHERE a = 1) FROM t", "AGG"),
        ("SELECT SUM(IIF(a > 1, 1, 0)) FROM t", "AGG"),
        ("WITH u AS (SELECT a FROM t) SELECT a FROM u WHERE EXISTS (SELECT 1 FROM t)", "CTE"),
    ],
)
def test_structures(query, structure):
    assert structure_of(query) == structure


def test_solutions_of_the_demo_have_their_announced_structure_and_canonical_texts_with_their_result():
    """Run on a database: renaming and reordering changed no result."""
    rng = random.Random(1)
    for schema in SCHEMAS:
        with sqlite3.connect(":memory:") as database:
            fill_database(database, schema, 2)
            for family in range(len(FAMILIES)):
                mix = Mix(tuple(float(other == family) for other in range(len(FAMILIES))), 0.0)
                question = draw_question(rng, [schema], mix)
                for style in STYLE_NAMES:
                    query = solve(question, style)
                    assert structure_of(query) == style
                    if style != "CTE":  # whose canonical names are not SQL
                        assert set(database.execute(query)) == set(database.execute(canonical_sql(query)))
