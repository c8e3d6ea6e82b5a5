"""Which questions the data sources of rows become, and which are refused."""

from pathlib import Path

import numpy as np
import pytest

from rl.common.errors import UserError
from rl.data.questions import DATA_SOURCES, scorer_question

SQL = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT 1", "cmp_method": "spider"}

MATH_SOURCES = [
    "math",
    "math_dapo",
    "math_dapo_reasoning",
    "HuggingFaceH4/MATH-500",
    "DigitalLearningGmbH/MATH-lighteval",
    "lighteval/MATH",
    "math500",
    "aime_2024",
    "aime25",
    "BytedTsinghua-SIA/AIME-2024",
    "amc23",
    "olympiadbench",
    "minerva_math",
    "college_math.Beginning_and_Intermediate_Algebra",
    "openai/gsm8k",
]


@pytest.mark.parametrize("source", ["sql", "bird", "spider"])
def test_sql_sources_bring_their_three_keys(source):
    assert scorer_question(source, SQL | {"difficulty": "hard"}) == SQL


@pytest.mark.parametrize("source", MATH_SOURCES)
def test_math_sources_bring_their_ground_truth(source):
    assert scorer_question(source, r"\frac{1}{2}") == {"ground_truth": r"\frac{1}{2}"}


@pytest.mark.parametrize("truth", [204, np.int64(204), "204"])
def test_whole_numbers_become_text(truth):
    assert scorer_question("aime24", truth) == {"ground_truth": "204"}


@pytest.mark.parametrize("truth", [27.0, True, None, ["1", "2"], "  ", {"answer": "1"}])
def test_other_ground_truths_of_math_are_refused(truth):
    with pytest.raises(UserError, match="not a text or a whole number"):
        scorer_question("amc23", truth)


@pytest.mark.parametrize("source", ["poems", "mathematics", "sql2", "code/apps", "nosql", ""])
def test_unknown_sources_are_refused_with_the_known_ones(source):
    with pytest.raises(UserError, match=r"There is no reward for data_source .*use one of sql, bird, .*aime\*"):
        scorer_question(source, SQL)


@pytest.mark.parametrize("source, truth", [("sql", "4"), ("math", SQL)])
def test_a_ground_truth_of_the_other_kind_is_named(source, truth):
    with pytest.raises(UserError, match="reward_model.ground_truth is"):
        scorer_question(source, truth)


def test_the_documentation_names_all_of_them():
    table = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for patterns in DATA_SOURCES.values():
        assert ", ".join(f"`{pattern}`" for pattern in patterns) in table
