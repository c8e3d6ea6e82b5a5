"""Comparison of a prediction's rows with gold's: `bird` or `spider` decides equality.

- bird: equal sets of rows, as BIRD's official evaluation compares.
- spider: equal bags of rows under some permutation of the columns, and equal lists where gold orders its result
  (Zhong et al. 2020, "Semantic Evaluation for Text-to-SQL with Distilled Test Suites").

Values compare as Python compares what sqlite3 returns: 1 == 1.0, None == None, '1' != 1.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from rl.scorer.sql.columns import equal_under_column_permutation
from rl.scorer.sql.execute import Row, Value


class GoldRows:
    """Gold's result, and what comparisons derive from it once for all predictions.

    rows: as executed. ordered: whether the order of the rows counts for `spider`.
    """

    def __init__(self, rows: list[Row], ordered: bool):
        self.rows = rows
        self.ordered = ordered

    @cached_property
    def row_set(self) -> frozenset[Row]:
        return frozenset(self.rows)

    @cached_property
    def column_sets(self) -> list[frozenset[Value]]:
        return column_sets(self.rows)


def equal_bird(gold: GoldRows, predicted: list[Row]) -> bool:
    """Equal sets of rows; the order of columns counts."""
    # Most right queries return gold's rows in gold's order, and comparing lists takes a tenth of the time of hashing.
    if gold.rows == predicted:
        return True
    return gold.row_set.issuperset(predicted) and len(set(predicted)) == len(gold.row_set)


def equal_spider(gold: GoldRows, predicted: list[Row]) -> bool:
    """Equal bags of rows under some permutation of the columns, or equal lists where gold is ordered."""
    return equal_under_column_permutation(gold.rows, predicted, gold.ordered)


Comparison = Literal["bird", "spider"]
COMPARISONS: dict[Comparison, Callable[[GoldRows, list[Row]], bool]] = {
    "bird": equal_bird,
    "spider": equal_spider,
}


def column_sets(rows: list[Row]) -> list[frozenset[Value]]:
    """The set of values of each column."""
    return [frozenset(column) for column in zip(*rows, strict=True)]
