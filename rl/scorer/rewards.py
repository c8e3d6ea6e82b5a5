"""The reward models, by the class_name of a scorer's section.

Those for SQL differ in the score of a result that differs from gold's. An equal result scores 1 with each of them, and
no other result does. The tables of docs/reference/scorer.md, the server's --help and the check of class_name come
from REWARD_MODELS. Standard library only: workers for SQLite and --help load this module.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from rl.scorer.sql.compare import GoldRows, column_sets
from rl.scorer.sql.execute import Row

MATCH_SCORE = 1.0
PARTIAL_CREDIT = 0.8

Credit = Callable[[GoldRows, list[Row]], float]


def no_credit(gold: GoldRows, predicted: list[Row]) -> float:
    """An unequal result scores 0."""
    return 0.0


def column_credit(gold: GoldRows, predicted: list[Row]) -> float:
    """0.8 c^2 / (gold columns * predicted columns), in [0, 0.8]; 0 when either side has no rows.

    c: how many columns of gold can be paired one to one with predicted columns of the same set of values.
    """
    if not gold.rows or not predicted:
        return 0.0
    predicted_sets = column_sets(predicted)
    paired = (Counter(gold.column_sets) & Counter(predicted_sets)).total()
    return PARTIAL_CREDIT * (paired * paired / (len(gold.column_sets) * len(predicted_sets)))


def released_column_credit(gold: GoldRows, predicted: list[Row]) -> float:
    """The released server's credit: as column_credit, but one predicted column may match several of gold's.

    0.8 min(1, c^2 / (gold columns * predicted columns)), c: how many columns of gold have the set of values of some
    predicted column. One constant can get .8: where gold is (1, 1, 1, name), `SELECT 1` does.
    """
    if not gold.rows or not predicted:
        return 0.0
    predicted_sets = column_sets(predicted)
    found = set(predicted_sets)
    right = sum(column in found for column in gold.column_sets)
    return PARTIAL_CREDIT * min(1.0, right * right / (len(gold.column_sets) * len(predicted_sets)))


class RewardModel(NamedTuple):
    """A reward model.

    scores: in words; for SQL the score of a result that differs from gold's. source: where the model comes from.
    credit: for SQL, the same as a function of gold and the predicted rows.
    """

    scores: str
    source: str
    credit: Credit | None = None


REWARD_MODELS: dict[str, RewardModel] = {
    "SqlDetailRewardModel": RewardModel(
        "0.8 * c² / (gold columns * predicted columns), c: gold columns that can be paired one to one with predicted "
        "columns of the same set of values",
        "the default: the paper's, with its columns paired",
        column_credit,
    ),
    "SqlReleasedRewardModel": RewardModel(
        "0.8 * min(1, c² / (gold columns * predicted columns)), c: gold columns with the set of values of some "
        "predicted column",
        "the released server's, to reproduce results of the paper's code (with order_check: false)",
        released_column_credit,
    ),
    "SqlRewardModel": RewardModel("0", "execution match, the field's default (BIRD's EX)", no_credit),
    "MathRewardModel": RewardModel(
        "math: 1 for an answer that math-verify finds equal to the ground truth, else 0", "the paper's"
    ),
    "PythonRewardModel": RewardModel("a task of your own: the score that the task's function gives", "yours"),
}
SQL_CREDITS: dict[str, Credit] = {name: model.credit for name, model in REWARD_MODELS.items() if model.credit}

if TYPE_CHECKING:
    SqlClassName = str
else:
    SqlClassName = Literal[tuple(SQL_CREDITS)]
