"""Comparison of results by spider's rule, against brute force. Scores: test_scorer_rewards.py."""

from collections import Counter
from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from rl.scorer.sql.columns import equal_under_column_permutation

# Which results are equal, case by case: test_scorer_conformance.py.

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
    rows = [tuple(row[i] for i in order) for row in draw(st.permutations(gold))]
    if draw(st.booleans()):
        row, column = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, columns - 1))
        rows[row] = (*rows[row][:column], draw(cells), *rows[row][column + 1 :])
    return gold, rows


def brute_force(gold: list[tuple], predicted: list[tuple], ordered: bool) -> bool:
    bag = list if ordered else Counter
    orders = permutations(range(len(gold[0])))
    return any(bag([tuple(row[i] for i in order) for row in predicted]) == bag(gold) for order in orders)


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
]


def test_symmetric_columns_need_no_search_of_permutations() -> None:
    for name, gold, predicted, equal in HARD:
        assert equal_under_column_permutation(gold, predicted, ordered=False) is equal, name
