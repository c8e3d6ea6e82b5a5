"""`spider` against the published rule of the test-suite evaluation (Zhong et al. 2020), as docs/scorer.md words it.

Equal bags of rows under some permutation of the columns; equal lists of rows, under one permutation, where gold has a
top-level ORDER BY; DISTINCT is kept. The expected values follow by hand, on the tables of `league` (conftest.py).
Where this differs from the official program, docs/scorer.md says so under "Compared with the official evaluators".
"""

from collections import Counter
from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# (what it shows, gold, prediction, equal)
BAGS = [
    ("the same statement", "SELECT name FROM player", "SELECT name FROM player", True),
    ("no order of rows", "SELECT name FROM player", "SELECT name FROM player ORDER BY name DESC", True),
    ("duplicates count", "SELECT team FROM player", "SELECT DISTINCT team FROM player", False),
    ("DISTINCT of gold is kept", "SELECT DISTINCT team FROM player", "SELECT team FROM player", False),
    ("DISTINCT of what is distinct", "SELECT DISTINCT id FROM player", "SELECT id FROM player", True),
    ("GROUP BY for DISTINCT", "SELECT DISTINCT team FROM player", "SELECT team FROM player GROUP BY team", True),
    ("DISTINCT inside count", "SELECT count(DISTINCT team) FROM player", "SELECT count(team) FROM player", False),
    ("UNION makes rows distinct", "SELECT a FROM pair UNION SELECT b FROM pair", "SELECT a FROM pair", False),
    ("UNION", "SELECT a FROM pair UNION SELECT b FROM pair", "VALUES (2), (1)", True),
    # a: 1, 2, 1 and b: 2, 1, 2.
    ("the same values, other counts", "SELECT a FROM pair", "SELECT b FROM pair", False),
    ("the same counts", "SELECT a FROM pair", "VALUES (1), (1), (2)", True),
    (
        "rows that a join repeats",
        "SELECT name FROM player WHERE id IN (SELECT player FROM game)",
        "SELECT name FROM player JOIN game ON player.id = game.player",
        False,
    ),
    (
        "rows that DISTINCT makes one again",
        "SELECT id FROM player WHERE id IN (SELECT player FROM game)",
        "SELECT DISTINCT id FROM player JOIN game ON player.id = game.player",
        True,
    ),
    ("a row is missing", "SELECT id FROM player", "SELECT id FROM player WHERE id < 6", False),
    ("a row too many", "SELECT id FROM player WHERE id < 6", "SELECT id FROM player", False),
    ("as many other rows", "SELECT id FROM player WHERE id < 4", "SELECT id FROM player WHERE id > 3", False),
    ("WITH", "WITH p AS (SELECT * FROM player) SELECT id FROM p", "SELECT id FROM player", True),
    (
        "EXCEPT for NOT IN",
        "SELECT id FROM player EXCEPT SELECT player FROM game",
        "SELECT id FROM player WHERE id NOT IN (SELECT player FROM game)",
        True,
    ),
    (
        "EXCEPT keeps no duplicates",
        "SELECT team FROM player EXCEPT SELECT 'Greens'",
        "SELECT team FROM player WHERE team IS NOT 'Greens'",
        False,
    ),
]

COLUMNS = [
    ("two columns swapped", "SELECT id, name FROM player", "SELECT name, id FROM player", True),
    ("three columns rotated", "SELECT id, name, team FROM player", "SELECT team, id, name FROM player", True),
    ("three columns turned round", "SELECT id, name, team FROM player", "SELECT team, name, id FROM player", True),
    (
        "six columns in another order",
        "SELECT * FROM player",
        "SELECT joined, goals, id, rating, team, name FROM player ORDER BY name",
        True,
    ),
    ("one column more", "SELECT name FROM player", "SELECT name, id FROM player", False),
    ("one column fewer", "SELECT name, id FROM player", "SELECT name FROM player", False),
    ("a column twice", "SELECT name FROM player", "SELECT name, name FROM player", False),
    ("a column in place of another", "SELECT name, team FROM player", "SELECT name, name FROM player", False),
    ("the other column twice", "SELECT a, a, b FROM pair", "SELECT a, b, b FROM pair", False),
    ("the same column twice, elsewhere", "SELECT a, a, b FROM pair", "SELECT b, a, a FROM pair", True),
    ("names of columns", "SELECT count(*) FROM player", "SELECT count(*) AS players FROM player", True),
    ("constant columns", "SELECT 1, id, 1 FROM player", "SELECT id, 1, 1 FROM player", True),
    ("constant columns of other values", "SELECT 1, id, 1 FROM player", "SELECT id, 1, 2 FROM player", False),
    ("right columns, wrongly paired", "VALUES (1, 'x'), (2, 'y')", "VALUES (1, 'y'), (2, 'x')", False),
    ("swapped in one row only", "VALUES (1, 2), (3, 4)", "VALUES (1, 2), (4, 3)", False),
    ("swapped in both rows", "VALUES (1, 2), (3, 4)", "VALUES (4, 3), (2, 1)", True),
    ("each row in an order of its own", "VALUES (1, 2, 3), (4, 5, 6)", "VALUES (2, 3, 1), (6, 4, 5)", False),
    # Both columns hold 1 and 2, so only the pairs decide.
    ("equal bags of values, the same pairs", "VALUES (1, 2), (2, 1)", "VALUES (2, 1), (1, 2)", True),
    ("equal bags of values, other pairs", "VALUES (1, 2), (2, 1)", "VALUES (1, 1), (2, 2)", False),
    ("self join, both ways", "SELECT p.a, q.b FROM pair p, pair q", "SELECT q.b, p.a FROM pair p, pair q", True),
    ("ten equal columns", f"SELECT {'id, ' * 9}id FROM player", f"SELECT {'id, ' * 9}id FROM player WHERE id", True),
    ("ten columns, one differs", f"SELECT {'id, ' * 9}id FROM player", f"SELECT {'id, ' * 9}-id FROM player", False),
    (
        "ten equal columns and another",
        f"SELECT {'team, ' * 10}name FROM player",
        f"SELECT name{', team' * 10} FROM player",
        True,
    ),
    (
        "ten columns that look alike",
        f"SELECT {', '.join(f'id = {i}' for i in range(1, 7))}, id < 0, id < 0, id < 0, id < 0 FROM player",
        f"SELECT id < 0, id < 0, {', '.join(f'id = {i}' for i in (3, 1, 6, 2, 5, 4))}, id < 0, id < 0 FROM player",
        True,
    ),
    (
        "ten columns that look alike, but one",
        f"SELECT {', '.join(f'id = {i}' for i in range(1, 7))}, id < 0, id < 0, id < 0, id < 0 FROM player",
        f"SELECT {', '.join(f'id = {i}' for i in (1, 2, 3, 4, 5, 5))}, id < 0, id < 0, id < 0, id < 0 FROM player",
        False,
    ),
]

ORDERS = [
    ("the same order", "SELECT id FROM player ORDER BY id DESC", "SELECT id FROM player ORDER BY -id", True),
    ("the opposite order", "SELECT id FROM player ORDER BY id DESC", "SELECT id FROM player ORDER BY id", False),
    ("ASC is the default", "SELECT id FROM player ORDER BY id", "SELECT id FROM player ORDER BY id ASC", True),
    ("only gold's ORDER BY matters", "SELECT id FROM player", "SELECT id FROM player ORDER BY id DESC", True),
    ("rows that come in order by themselves", "SELECT id FROM player ORDER BY id", "SELECT id FROM player", True),
    ("another key, the same order", "SELECT id FROM player ORDER BY id", "SELECT id FROM player ORDER BY id * 2", True),
    ("another key, another order", "SELECT id FROM player ORDER BY id", "SELECT id FROM player ORDER BY joined", False),
    # Dot and Ben are tied at 6.0; gold lists Ben first, as its second key says.
    (
        "a tie in another order",
        "SELECT name FROM player WHERE rating = 6 ORDER BY rating, name",
        "SELECT name FROM player WHERE rating = 6 ORDER BY rating, name DESC",
        False,
    ),
    (
        "a tie of equal rows",
        "SELECT rating FROM player WHERE rating = 6 ORDER BY rating, name",
        "SELECT rating FROM player WHERE rating = 6 ORDER BY rating, name DESC",
        True,
    ),
    ("swapped columns in order", "SELECT id, team FROM player ORDER BY id", "SELECT team, id FROM player", True),
    (
        "swapped columns out of order",
        "SELECT id, name FROM player ORDER BY id",
        "SELECT name, id FROM player ORDER BY id DESC",
        False,
    ),
    # Swapping the columns of the prediction's list gives gold's list.
    ("a swap restores the order", "SELECT 1, 2 UNION SELECT 2, 1 ORDER BY 1", "VALUES (2, 1), (1, 2)", True),
    ("no swap restores the order", "SELECT 1, 2 UNION SELECT 3, 4 ORDER BY 1", "VALUES (4, 3), (2, 1)", False),
    ("the first row", "SELECT id FROM player ORDER BY goals DESC LIMIT 1", "SELECT 4", True),
    ("the first two rows", "SELECT id FROM player ORDER BY id DESC LIMIT 2", "VALUES (6), (5)", True),
    ("the first two rows, turned round", "SELECT id FROM player ORDER BY id DESC LIMIT 2", "VALUES (5), (6)", False),
    ("LIMIT without an order", "SELECT id FROM player LIMIT 6", "SELECT id FROM player ORDER BY id DESC", True),
    (
        "groups in order",
        "SELECT team FROM player WHERE team NOT NULL GROUP BY team ORDER BY team DESC",
        "SELECT DISTINCT team FROM player WHERE team NOT NULL ORDER BY team",
        False,
    ),
    ("the order of a UNION", "SELECT 1 UNION SELECT 2 ORDER BY 1 DESC", "SELECT 1 UNION ALL SELECT 2", False),
    ("the order of a UNION, the same", "SELECT 1 UNION SELECT 2 ORDER BY 1 DESC", "VALUES (2), (1)", True),
    ("small letters, line breaks", "select id from player order\n\tby id desc", "SELECT id FROM player", False),
    ("a comment between", "SELECT id FROM player ORDER /* by */ BY id DESC", "SELECT id FROM player", False),
    ("behind a parenthesis", "SELECT id FROM (SELECT id FROM player)ORDER BY(-id)", "SELECT id FROM player", False),
    ("behind a WITH", "WITH p AS (SELECT 1) SELECT id FROM player ORDER BY id DESC", "SELECT id FROM player", False),
]

BAGS_IN_ORDER = [
    ("fewer rows in order", "SELECT id FROM player ORDER BY id", "SELECT id FROM player WHERE id < 6", False),
    ("other counts in order", "SELECT a FROM pair ORDER BY a", "SELECT b FROM pair ORDER BY b", False),
    ("nothing in order", "SELECT a FROM vacant ORDER BY a", "SELECT a, b FROM vacant", True),
]

NO_ORDERS = [
    ("in a subquery", "SELECT id FROM (SELECT id FROM player ORDER BY id DESC)", "SELECT id FROM player", True),
    ("in a WITH", "WITH p AS (SELECT id FROM player ORDER BY id DESC) SELECT id FROM p", "SELECT id FROM player", True),
    (
        "in a condition",
        "SELECT id FROM player WHERE id > (SELECT id FROM player ORDER BY id LIMIT 1)",
        "SELECT id FROM player WHERE id <> 1 ORDER BY id DESC",
        True,
    ),
    (
        "in a window",
        "SELECT id, row_number() OVER (ORDER BY id) FROM player",
        "SELECT id, id FROM player ORDER BY id DESC",
        True,
    ),
    ("in a literal", "SELECT ' order by ', id FROM player", "SELECT ' order by ', id FROM player ORDER BY -id", True),
    ("in a name", 'SELECT id AS "order by" FROM player', "SELECT id FROM player ORDER BY id DESC", True),
    ("in a comment", "SELECT id FROM player -- ORDER BY id", "SELECT id FROM player ORDER BY id DESC", True),
    (
        "the inner one does not count, the outer one does",
        "SELECT id FROM (SELECT id FROM player ORDER BY id DESC) ORDER BY id",
        "SELECT id FROM player ORDER BY id DESC",
        False,
    ),
]

VALUES = [
    ("nothing and nothing", "SELECT a FROM vacant", "SELECT id FROM player WHERE id > 6", True),
    ("nothing in other columns", "SELECT a, b FROM vacant", "SELECT a FROM vacant", True),
    ("nothing and a NULL", "SELECT a FROM vacant", "SELECT max(a) FROM vacant", False),
    ("nothing and a count of 0", "SELECT a FROM vacant", "SELECT count(*) FROM vacant", False),
    ("rows and nothing", "SELECT id FROM player", "SELECT id FROM player WHERE 0", False),
    ("NULL is NULL", "SELECT team FROM player WHERE id = 4", "SELECT NULL", True),
    ("NULL and the empty text", "SELECT NULL", "SELECT ''", False),
    ("NULL and 0", "SELECT goals FROM player WHERE id = 6", "SELECT 0", False),
    ("a column of NULLs elsewhere", "SELECT id, NULL FROM player", "SELECT NULL, id FROM player", True),
    ("a NULL in the other column", "VALUES (1, NULL), (2, 3)", "VALUES (1, 3), (2, NULL)", False),
    ("NULLs are counted", "SELECT NULL UNION ALL SELECT NULL", "SELECT NULL", False),
    ("1 and 1.0", "SELECT 1", "SELECT 1.0", True),
    ("1 and '1'", "SELECT 1", "SELECT '1'", False),
    ("1 and '1' are not each other's column", "VALUES (1, '1'), (2, '3')", "VALUES ('1', 1), (2, '3')", False),
    ("whole numbers as floats", "SELECT goals, id FROM player", "SELECT id, goals * 1.0 FROM player", True),
    ("true and 1", "SELECT 3 > 2", "SELECT 1", True),
    ("0.1 + 0.2 and 0.3", "SELECT 0.1 + 0.2", "SELECT 0.3", False),
    ("-1 and -2", "VALUES (-1, -2)", "VALUES (-1, -1)", False),
    ("-1 and -2 swapped", "VALUES (-1, -2)", "VALUES (-2, -1)", True),
    ("case", "SELECT name FROM player", "SELECT upper(name) FROM player", False),
    ("a space behind", "SELECT word FROM word WHERE id = 9", "SELECT word FROM word WHERE id = 8", False),
    ("one letter, two encodings", "SELECT word FROM word WHERE id = 1", "SELECT word FROM word WHERE id = 2", False),
    ("bytes that are no UTF-8 are ignored", "SELECT word FROM word WHERE id = 11", "SELECT 'ab'", True),
    ("equal blobs", "SELECT v FROM cell WHERE kind = 'bytes'", "SELECT x'00FF'", True),
    ("a blob and its text", "SELECT x'31'", "SELECT '1'", False),
    ("infinity", "SELECT 9e999", "SELECT 1e999", True),
    ("YEAR(CURDATE()) reads 2020", "SELECT YEAR(CURDATE()) - 2000", "SELECT 20", True),
    ("> = reads >=", "SELECT id FROM player WHERE goals > = 3", "SELECT id FROM player WHERE goals >= 3", True),
    # Equal numbers, but as texts '10' and '100' sort otherwise than '10.0' and '100'.
    ("numbers that sort differently as texts", "SELECT 10, 100", "SELECT 10.0, 100", True),
    ("and in order", "SELECT 10, 100 ORDER BY 1", "SELECT 100, 10.0", True),
]

CASES = [*BAGS, *COLUMNS, *ORDERS, *BAGS_IN_ORDER, *NO_ORDERS, *VALUES]


@pytest.mark.parametrize(("gold", "predicted", "equal"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_spider_decides_as_published(judge: Callable[..., bool], gold: str, predicted: str, equal: bool) -> None:
    assert judge(gold, predicted, "spider") is equal


def test_the_server_decides_as_published(ask_about_league: Callable[..., list[str]]) -> None:
    outcomes = ask_about_league([case[1:3] for case in CASES], "spider")
    judged = {case[0]: outcome == "match" for case, outcome in zip(CASES, outcomes, strict=True)}
    assert judged == {case[0]: case[3] for case in CASES}


@pytest.mark.parametrize(("gold", "predicted"), [case[1:3] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_without_order_check_the_order_of_rows_decides_nothing(
    judge: Callable[..., bool], gold: str, predicted: str
) -> None:
    assert judge(gold, predicted, "spider", order_check=False) is True


# Values of every type as SQL, with their Python values; few of them, so that columns and rows collide.
LITERALS = {"0": 0, "1": 1, "1.0": 1.0, "'1'": "1", "NULL": None, "x'31'": b"1", "-1": -1, "-2": -2}


@st.composite
def value_lists(draw: st.DrawFn) -> tuple[list[tuple], list[tuple]]:
    """Rows of literals for gold and prediction: independent, or a permutation of each other with one cell changed."""
    columns = draw(st.integers(1, 4))
    table = st.lists(st.tuples(*[st.sampled_from(sorted(LITERALS))] * columns), min_size=1, max_size=4)
    gold = draw(table)
    if draw(st.booleans()):
        return gold, draw(table)
    order = draw(st.permutations(range(columns)))
    predicted = [tuple(row[i] for i in order) for row in draw(st.permutations(gold))]
    if draw(st.booleans()):
        predicted[0] = (draw(st.sampled_from(sorted(LITERALS))), *predicted[0][1:])
    return gold, predicted


def as_sql(rows: list[tuple]) -> str:
    return f"VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)}"


def some_order_fits(gold: list[tuple], predicted: list[tuple], ordered: bool) -> bool:
    """The published rule, word for word: tries every order of the columns."""
    if len(gold[0]) != len(predicted[0]):
        return False
    gold, predicted = ([tuple(LITERALS[cell] for cell in row) for row in rows] for rows in (gold, predicted))
    collect = list if ordered else Counter
    orders = permutations(range(len(gold[0])))
    return any(collect([tuple(row[i] for i in order) for row in predicted]) == collect(gold) for order in orders)


@settings(max_examples=200, deadline=None)
@given(rows=value_lists(), ordered=st.booleans())
def test_small_results_are_judged_as_by_trying_every_order(
    judge: Callable[..., bool], rows: tuple[list[tuple], list[tuple]], ordered: bool
) -> None:
    gold, predicted = rows
    # A key that is the same for every row: the rows stay as they are listed.
    sql = f"SELECT * FROM ({as_sql(gold)}) ORDER BY NULL" if ordered else as_sql(gold)
    assert judge(sql, as_sql(predicted), "spider") is some_order_fits(gold, predicted, ordered)
