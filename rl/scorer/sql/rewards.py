"""Reward models for SQL, by the class_name of the scorer's settings: what responses are worth beside a right one.

A result that is equal to gold's has the score 1, and nothing else has. Two models give training another number than
the score: SqlEfficiencyRewardModel for equal results, by their time, and SqlFormatRewardModel for no answer.
"""

from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from typing import Literal, NamedTuple

from rl.scorer.sql.compare import GoldRows, column_sets
from rl.scorer.sql.execute import Row

MATCH_SCORE = 1.0
PARTIAL_CREDIT = 0.8

# Processor time of a query below which it counts as no faster: it is the noise of measuring.
TIME_FLOOR_SECONDS = 0.001
# A ratio of times this little below a step reaches it, else a query as fast as gold would get .75 half of the time.
RATIO_TOLERANCE = 0.1
# BIRD's steps: the least ratio of gold's time to the prediction's, and the reward.
EFFICIENCY_STEPS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))
# Above the highest step, a time of gold that is stopped at this many times the prediction's.
HIGHEST_RATIO = 2.5
# What a round of timing takes at most, in time limits of a prediction: a run of its own, and gold's.
TIMED_LIMITS = 1 + HIGHEST_RATIO

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
    """As column_credit, but one predicted column may stand for several of gold's: the released server's credit.

    0.8 min(1, c^2 / (gold columns * predicted columns)), c: how many columns of gold have the set of values of some
    predicted column. One constant can have .8: with gold (1, 1, 1, name), `SELECT 1` does.
    """
    if not gold.rows or not predicted:
        return 0.0
    predicted_sets = column_sets(predicted)
    found = set(predicted_sets)
    right = sum(column in found for column in gold.column_sets)
    return PARTIAL_CREDIT * min(1.0, right * right / (len(gold.column_sets) * len(predicted_sets)))


def soft_f1_credit(gold: GoldRows, predicted: list[Row]) -> float:
    """0.8 soft-F1: without the factor, `SELECT 1` would have 1 where gold is (1, 1)."""
    return PARTIAL_CREDIT * soft_f1(gold.rows, predicted)


def soft_f1(gold: list[Row], predicted: list[Row]) -> float:
    """BIRD's soft F1 score, in [0, 1] (evaluation_f1 of bird-bench/mini_dev).

    Repeated rows count once. The i-th row of one side is held against the i-th of the other: the predicted values that
    are in gold's row are true positives, those that are not are false positives, gold's values that are not in the
    predicted row are false negatives, each divided by gold's number of columns. A row without a partner is one false
    positive or one false negative. The order of columns does not count, that of rows does.
    """
    if not gold and not predicted:
        return 1.0
    true_positives = false_positives = false_negatives = 0.0
    for gold_row, row in zip_longest(dict.fromkeys(gold), dict.fromkeys(predicted)):
        if row is None:
            false_negatives += 1
        elif gold_row is None:
            false_positives += 1
        else:
            gold_values, values = set(gold_row), set(row)
            found = sum(value in gold_values for value in row)
            true_positives += found / len(gold_row)
            false_positives += (len(row) - found) / len(gold_row)
            false_negatives += sum(value not in values for value in gold_row) / len(gold_row)
    # 2 precision recall / (precision + recall)
    return 2 * true_positives / (2 * true_positives + false_positives + false_negatives)


def efficiency_reward(gold_seconds: float, predicted_seconds: float) -> float:
    """BIRD's R-VES reward of an equal result, by the processor times of both queries.

    (evaluation_ves of bird-bench/mini_dev, which takes the time by the clock.)
    """
    ratio = max(gold_seconds, TIME_FLOOR_SECONDS) / max(predicted_seconds, TIME_FLOOR_SECONDS)
    return next(reward for step, reward in EFFICIENCY_STEPS if ratio >= step * (1 - RATIO_TOLERANCE))


class RewardModel(NamedTuple):
    """credit: the score of a result that is not equal to gold's. timed: whether the reward of an equal one is
    efficiency_reward. no_answer: the reward of a response without SQL, if it is not its score, 0."""

    credit: Credit
    timed: bool = False
    no_answer: float | None = None


SqlClassName = Literal[
    "SqlDetailRewardModel",
    "SqlRewardModel",
    "SqlReleasedRewardModel",
    "SqlSoftF1RewardModel",
    "SqlEfficiencyRewardModel",
    "SqlFormatRewardModel",
]
REWARD_MODELS: dict[SqlClassName, RewardModel] = {
    "SqlDetailRewardModel": RewardModel(column_credit),
    "SqlRewardModel": RewardModel(no_credit),
    "SqlReleasedRewardModel": RewardModel(released_column_credit),
    "SqlSoftF1RewardModel": RewardModel(soft_f1_credit),
    "SqlEfficiencyRewardModel": RewardModel(no_credit, timed=True),
    # SkyRL-SQL's -1, 0 and 1 (NovaSky-AI/SkyRL, skyrl_gym.envs.sql); a query that fails gets 0 there too.
    "SqlFormatRewardModel": RewardModel(no_credit, no_answer=-1.0),
}
