"""Scores of the reward models for SQL: against hand-computed values and laws, and as the server gives them."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.scorer.rewards import SQL_CREDITS, column_credit
from rl.scorer.sql.compare import GoldRows
from tests.scorer.conftest import Scorer, fenced

# Gold, prediction, credit with columns one to one, and as the released server has it.
CREDITS = [
    # 1 of 2 gold columns in 2 predicted ones: 0.8 * 1 / (2 * 2).
    ([(1, "a"), (2, "b")], [(1, "x"), (2, "y")], 0.2, 0.2),
    # Both gold columns among 3 predicted ones: 0.8 * 4 / (2 * 3).
    ([(1, "a"), (2, "b")], [(1, "a", 0), (2, "b", 0)], 0.8 * 4 / 6, 0.8 * 4 / 6),
    # Sets of values: duplicates and the order of rows do not count.
    ([(1,), (2,)], [(2,), (1,), (1,)], 0.8, 0.8),
    ([(1, "a")], [("a", 1)], 0.8, 0.8),
    ([(1,)], [(2,)], 0.0, 0.0),
    ([], [(1,)], 0.0, 0.0),
    ([(1,)], [], 0.0, 0.0),
    # One predicted column is one of gold's two: 0.8 * 1 / (2 * 1); released min(1, 2 * 2 / (2 * 1)).
    ([(1, 1)], [(1,)], 0.4, 0.8),
    # 0.8 * 2 * 2 / (4 * 2); released 3 * 3 / (4 * 2) is above 1.
    ([(1, 1, 1, "Ann")], [(1, 1)], 0.4, 0.8),
    # 0.8 * 1 / (1 * 3), in both.
    ([(1,)], [(1, 1, 1)], 0.8 / 3, 0.8 / 3),
]


def test_partial_credit() -> None:
    for gold, predicted, score, released in CREDITS:
        rows = GoldRows(gold, ordered=False)
        expected = {"SqlDetailRewardModel": score, "SqlReleasedRewardModel": released, "SqlRewardModel": 0.0}
        found = {name: credit(rows, predicted) for name, credit in SQL_CREDITS.items()}
        assert found == pytest.approx(expected, abs=1e-12), gold


cells = st.sampled_from([0, 1, 1.0, "1", None, b"1", -1, -2])
any_table = st.integers(1, 4).flatmap(lambda columns: st.lists(st.tuples(*[cells] * columns), min_size=1, max_size=5))


@settings(max_examples=300)
@given(any_table, any_table, st.data())
def test_laws_of_the_scores_of_other_results(gold: list, predicted: list, data: st.DataObject) -> None:
    rows = GoldRows(gold, ordered=False)
    scores = {name: credit(rows, predicted) for name, credit in SQL_CREDITS.items()}
    assert all(0 <= score <= 0.8 for score in scores.values()), scores
    assert scores["SqlDetailRewardModel"] <= scores["SqlReleasedRewardModel"]
    # What permutations leave as it is. Merging two columns of one set of values into one would change it.
    order = data.draw(st.permutations(range(len(predicted[0]))))
    other_columns = [tuple(row[i] for i in order) for row in predicted]
    other_rows = [*data.draw(st.permutations(predicted)), predicted[0]]
    gold_reversed = GoldRows([row[::-1] for row in gold], ordered=False)
    for name, credit in SQL_CREDITS.items():
        assert credit(rows, other_columns) == credit(gold_reversed, predicted) == scores[name], name
        assert credit(rows, other_rows) == scores[name], name
    # Full for the same result, and the same from both sides.
    assert column_credit(rows, gold) == pytest.approx(0.8, abs=1e-12)
    back = column_credit(GoldRows(predicted, ordered=False), gold)
    assert back == pytest.approx(scores["SqlDetailRewardModel"], abs=1e-12)


def test_the_server_leaves_empty_golds_without_judgement(start_scorer: Callable[..., Scorer]) -> None:
    scorer = start_scorer(class_name="SqlRewardModel", judge_empty_gold=False, num_instances=1)
    responses = ["I do not know.", fenced("SELECT 1"), fenced("SELECT missing"), fenced("SELECT count(*) FROM clients")]
    reply = scorer.score(responses, "SELECT count(*) FROM clients")
    assert [score for score, _ in reply["Scorer1"]] == [0.0, 0.0, 0.0, 1.0]
    for gold in ("SELECT id FROM clients WHERE 0", "SELECT max(id), NULL FROM clients WHERE 0"):
        reply = scorer.score(responses, gold)
        assert {detail["outcome"] for detail in reply["details"]} == {"gold_empty"}
        assert {(score, flag) for score, [[flag, _]] in reply["Scorer1"]} == {(0.0, "gold_error")}
    assert scorer.metric('scorer_answers_total{outcome="gold_empty"}') == 8


def test_empty_golds_are_judged_unless_the_settings_say_otherwise(scorer: Scorer) -> None:
    assert scorer.outcome("SELECT name FROM clients WHERE 0", "SELECT id FROM clients WHERE id > 9") == "match"
    assert scorer.outcome("SELECT 1", "SELECT max(id) FROM clients WHERE id > 9") == "mismatch"
    assert scorer.outcome("SELECT 1", "SELECT count(*) FROM clients WHERE id > 9") == "mismatch"
