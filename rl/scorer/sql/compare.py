"""Comparison of a prediction's rows with gold's: `bird` or `spider` decide equality, a credit function the rest.

- bird: equal sets of rows, as BIRD's official evaluation compares.
- spider: equal bags of rows under some permutation of the columns, and equal lists where gold orders its result
  (Zhong et al. 2020, "Semantic Evaluation for Text-to-SQL with Distilled Test Suites").
- credit for matching columns: 0.8 * min(1, c^2 / (gold columns * predicted columns)) with c the number of gold columns
  whose set of values equals that of some predicted column.

Values compare as Python compares what sqlite3 returns: 1 == 1.0, None == None, '1' != 1.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from rl.scorer.sql.columns import equal_under_column_permutation
from rl.scorer.sql.execute import Row, Value

MATCH_SCORE = 1.0
PARTIAL_CREDIT = 0.8


class GoldRows:
    """Gold's result with what comparisons derive from it, made once and used for every prediction.

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
        return _column_sets(self.rows)


def equal_bird(gold: GoldRows, predicted: list[Row]) -> bool:
    """Equal sets of rows; the order of columns counts."""
    return gold.row_set == set(predicted)


def equal_spider(gold: GoldRows, predicted: list[Row]) -> bool:
    """Equal bags of rows under some permutation of the columns, or equal lists where gold is ordered."""
    return equal_under_column_permutation(gold.rows, predicted, gold.ordered)


Comparison = Literal["bird", "spider"]
COMPARISONS: dict[Comparison, Callable[[GoldRows, list[Row]], bool]] = {"bird": equal_bird, "spider": equal_spider}


def column_credit(gold: GoldRows, predicted: list[Row]) -> float:
    """Credit for matching columns, in [0, 0.8]; 0 when either side has no rows."""
    if not gold.rows or not predicted:
        return 0.0
    predicted_sets = _column_sets(predicted)
    found = set(predicted_sets)
    right = sum(column in found for column in gold.column_sets)
    return PARTIAL_CREDIT * min(1.0, right * right / (len(gold.column_sets) * len(predicted_sets)))


def no_credit(gold: GoldRows, predicted: list[Row]) -> float:
    """An unequal result scores 0."""
    return 0.0


# By the class_name of the scorer's settings: the score of a result that is not equal to gold's.
CREDITS: dict[str, Callable[[GoldRows, list[Row]], float]] = {
    "SqlDetailRewardModel": column_credit,
    "SqlRewardModel": no_credit,
}


def _column_sets(rows: list[Row]) -> list[frozenset[Value]]:
    return [frozenset(column) for column in zip(*rows, strict=True)]
