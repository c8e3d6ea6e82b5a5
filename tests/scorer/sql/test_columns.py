"""Comparison of results by spider's rule, against brute force. Whole cases: test_compare.py."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.scorer.outcomes import Score
from rl.scorer.sql.columns import equal_under_column_permutation
from rl.scorer.sql.execute import StatementError
from rl.scorer.sql.scoring import SqlQuestion, SqlScorer
from tests.scorer.conftest import SHOP, fenced, running

# Few values, so that columns and rows collide; 1 and 1.0 are equal, "1" is neither; Python hashes -1 and -2 alike.
cells = st.sampled_from([0, 1, 1.0, "1", None, b"1", -1, -2])


def tables(columns: int) -> st.SearchStrategy[list[tuple]]:
    return st.lists(st.tuples(*[cells] * columns), min_size=1, max_size=5)


@st.composite
def table_pairs(draw: st.DrawFn) -> tuple[list[tuple], list[tuple]]:
    columns = draw(st.integers(1, 4))
    gold = draw(tables(columns))
    if draw(st.booleans()):
        return gold, draw(tables(columns))
    # A permutation of rows and columns, with at most one cell changed: near misses.
    order = draw(st.permutations(range(columns)))
    rows = [reordered(row, order) for row in draw(st.permutations(gold))]
    row, other = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(rows) - 1))
    column, change = draw(st.integers(0, columns - 1)), draw(st.sampled_from(["none", "cell", "exchange"]))
    if change == "cell":
        rows[row] = with_cell(rows[row], column, draw(cells))
    elif change == "exchange":  # the column's bag of values stays
        first, second = rows[row][column], rows[other][column]
        rows[row], rows[other] = with_cell(rows[row], column, second), with_cell(rows[other], column, first)
    return gold, rows


def reordered(row: tuple, order: Sequence[int]) -> tuple:
    return tuple(row[i] for i in order)


def with_cell(row: tuple, column: int, value: object) -> tuple:
    return (*row[:column], value, *row[column + 1 :])


def brute_force(gold: list[tuple], predicted: list[tuple], ordered: bool) -> bool:
    bag = list if ordered else Counter
    orders = permutations(range(len(gold[0])))
    return any(bag([reordered(row, order) for row in predicted]) == bag(gold) for order in orders)


@settings(max_examples=400, deadline=None)
@given(table_pairs(), st.booleans())
def test_spider_equals_brute_force_over_permutations(pair: tuple[list, list], ordered: bool) -> None:
    gold, predicted = pair
    assert equal_under_column_permutation(gold, predicted, ordered) == brute_force(gold, predicted, ordered)


def cycles(*lengths: int) -> list[tuple[int, ...]]:
    """Rows: the edges of disjoint cycles, columns: their vertices. Every column and row looks like every other."""
    size, rows, start = sum(lengths), [], 0
    for length in lengths:
        for i in range(length):
            ends = {start + i, start + (i + 1) % length}
            rows.append(tuple(int(vertex in ends) for vertex in range(size)))
        start += length
    return rows


def identity(size: int) -> list[tuple[int, ...]]:
    return [tuple(int(i == j) for j in range(size)) for i in range(size)]


def parity(odd: int, zero: int, one: int) -> list[tuple[int, ...]]:
    """All rows of ten values with an even or odd number of `one`: every nine columns are those of the other parity."""
    return [row for row in product((zero, one), repeat=10) if row.count(one) % 2 == odd]


def hexads() -> list[tuple[int, ...]]:
    """The Steiner system S(5,6,12), 132 rows: every five of the 12 columns look like every other five."""
    # Of the projective line over the integers modulo 11, in which 11 is infinity, by the group PSL(2, 11).
    maps = [
        [*((i + 1) % 11 for i in range(11)), 11],
        [*(3 * i % 11 for i in range(11)), 11],
        [11, *(-pow(i, -1, 11) % 11 for i in range(1, 11)), 0],
    ]
    found = [frozenset({1, 3, 4, 5, 9, 11})]
    for block in found:
        found += {frozenset(of[i] for i in block) for of in maps} - set(found)
    return [tuple(int(i in block) for i in range(12)) for block in found]


HEXADS = hexads()
ONE_EXCHANGED, THREE_MOVED = (
    [reordered(row, [*first, *range(len(first), 12)]) for row in HEXADS] for first in ([1, 0], [1, 2, 0])
)


def graph(adjacent: Callable[[int, int], bool]) -> list[tuple[int, ...]]:
    """Rows: the edges of a graph, columns: its 16 vertices, (i // 4, i % 4)."""
    edges = ((i, j) for i in range(16) for j in range(i) if adjacent(i, j))
    return [tuple(int(vertex in edge) for vertex in range(16)) for edge in edges]


def steps(i: int, j: int) -> tuple[int, int]:
    return (i // 4 - j // 4) % 4, (i % 4 - j % 4) % 4


# Two graphs in which neighbours have two common neighbours, and so have all other pairs.
ROOK = graph(lambda i, j: 0 in steps(i, j))
SHRIKHANDE = graph(lambda i, j: steps(i, j) in {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)})


TEN_COPIES_AND_ONE = [(i,) * 10 + (i % 3,) for i in range(30)]

HARD = [
    ("10 identical columns", [(7,) * 10] * 30, [(7,) * 10] * 30, True),
    ("10 identical columns, one row differs", [(7,) * 10] * 30, [(7,) * 10] * 29 + [(8,) * 10], False),
    ("10 identical columns and one", TEN_COPIES_AND_ONE, [row[::-1] for row in TEN_COPIES_AND_ONE], True),
    ("identity, rows reversed", identity(20), identity(20)[::-1], True),
    ("one cycle and two", cycles(12), cycles(6, 6), False),
    ("cycles in another order", cycles(5, 7), cycles(7, 5), True),
    ("even and odd parity", parity(0, 0, 1), parity(1, 0, 1), False),
    ("even and odd parity of values with one hash", parity(0, -1, -2), parity(1, -1, -2), False),
    ("hexads in another order", HEXADS, [row[5:] + row[:5] for row in HEXADS[::-1]], True),
    ("hexads twice and two systems", HEXADS + HEXADS, HEXADS + ONE_EXCHANGED, False),
    ("two pairs of systems", HEXADS + ONE_EXCHANGED, HEXADS + THREE_MOVED, False),
    ("strongly regular graphs", ROOK, SHRIKHANDE, False),
]


def test_symmetric_columns_need_no_search_of_permutations() -> None:
    for name, gold, predicted, equal in HARD:
        assert equal_under_column_permutation(gold, predicted, ordered=False) is equal, name


def test_columns_that_stay_alike_are_an_error_of_the_prediction(sql_scorer: Callable[..., SqlScorer]) -> None:
    """Two pairs of Steiner systems, each with values of its own: which columns belong together takes a long search."""
    gold, predicted = (
        HEXADS + [tuple(2 * value for value in row) for row in second] for second in (ONE_EXCHANGED, THREE_MOVED)
    )
    message = "its columns are so similar that too many pairings with gold's must be tried"
    with pytest.raises(StatementError, match=message):
        equal_under_column_permutation(gold, predicted, ordered=False)
    scorer = sql_scorer()

    async def scenario() -> list[Score]:
        question = SqlQuestion(db_id=SHOP, gold_sql=values(gold), cmp_method="spider")
        async with running(scorer):
            return await scorer.score(question, [fenced(values(rows)) for rows in (predicted, gold[::-1])])

    wrong, right = asyncio.run(scenario())
    assert (wrong.outcome, wrong.error, right.outcome) == ("pred_error", message, "match")


def values(rows: list[tuple[int, ...]]) -> str:
    return f"SELECT * FROM (VALUES {', '.join(map(str, rows))})"
