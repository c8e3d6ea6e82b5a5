"""Which questions the data sources of rows become, and which are rejected; the table of data sets."""

import numpy as np
import pytest

from rl.common.errors import UserError
from rl.data.benchmarks import DATASETS
from rl.data.questions import answer_kind, scorer_question

SQL = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT 1", "cmp_method": "spider"}

MATH_SOURCES = [
    "math",
    "math_dapo",
    "DigitalLearningGmbH/MATH-lighteval",
    "math500",
    "aime_2024",
    "amc23",
    "olympiadbench",
    "minerva_math",
    "college_math.Beginning_and_Intermediate_Algebra",
    "openai/gsm8k",
]


def test_questions_of_the_known_sources():
    for source in ("sql", "bird", "spider"):
        assert scorer_question(source, SQL | {"difficulty": "hard"}) == SQL
    for source in MATH_SOURCES:
        assert scorer_question(source, r"\frac{1}{2}") == {"ground_truth": r"\frac{1}{2}"}
    for truth in (204, np.int64(204), "204"):
        assert scorer_question("aime24", truth) == {"ground_truth": "204"}


def test_other_sources_and_ground_truths_are_rejected():
    for truth in (27.0, True, None, ["1", "2"], "  ", {"answer": "1"}):
        with pytest.raises(UserError, match="not a text or a whole number"):
            scorer_question("amc23", truth)
    for source in ("poems", "mathematics", "sql2", "code/apps", "nosql", ""):
        with pytest.raises(UserError, match=r"There is no reward for data_source .*use one of sql, bird, .*aime\*"):
            scorer_question(source, SQL)
    for truth, named in [
        ("SELECT 1", "ground_truth is str"),
        ({key: SQL[key] for key in ("db_id", "cmp_method")}, "ground_truth.gold_sql is None"),
        (SQL | {"cmp_method": "exact"}, "cmp_method is 'exact': use bird or spider"),
    ]:
        with pytest.raises(UserError, match=named):
            scorer_question("sql", truth)
    with pytest.raises(UserError, match="reward_model.ground_truth is"):
        scorer_question("math", SQL)


def test_data_sets_are_told_apart():
    """Prepared files hold these numbers, which count on in the table's order."""
    blocks = [block for data in DATASETS.values() for block in data.id_blocks.values()]
    assert blocks == list(range(1, len(blocks) + 1))
    assert (DATASETS["bird"].id_blocks["train"], DATASETS["bird_mini_pg"].id_blocks["dev"]) == (1, 17)
    assert all(answer_kind(name) == data.kind for name, data in DATASETS.items())
