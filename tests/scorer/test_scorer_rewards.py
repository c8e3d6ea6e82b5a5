"""Scores of the reward models for SQL: against hand-computed values and laws, and as the server gives them."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.scorer.sql.compare import GoldRows
from rl.scorer.sql.jobs import SqlJobs
from rl.scorer.sql.rewards import (
    REWARD_MODELS,
    column_credit,
    efficiency_reward,
    released_column_credit,
    soft_f1,
    soft_f1_credit,
)
from tests.scorer.conftest import Scorer, fenced, make_league

PARTIAL = [
    # 1 of 2 gold columns in 2 predicted ones: 0.8 * 1 / (2 * 2).
    ([(1, "a"), (2, "b")], [(1, "x"), (2, "y")], 0.2),
    # Both gold columns among 3 predicted ones: 0.8 * 4 / (2 * 3).
    ([(1, "a"), (2, "b")], [(1, "a", 0), (2, "b", 0)], 0.8 * 4 / 6),
    # Sets of values: duplicates and the order of rows do not count.
    ([(1,), (2,)], [(2,), (1,), (1,)], 0.8),
    ([(1, "a")], [("a", 1)], 0.8),
    ([(1, 1)], [(1, 1)], 0.8),
    ([(1,)], [(2,)], 0.0),
    ([], [(1,)], 0.0),
    ([(1,)], [], 0.0),
]
# Columns with one set of values: one to one, and as the released server has it.
REPEATED = [
    # One predicted column is one of gold's two: 0.8 * 1 / (2 * 1); released min(1, 2 * 2 / (2 * 1)).
    ([(1, 1)], [(1,)], 0.4, 0.8),
    # 0.8 * 1 / (4 * 1); released min(1, 3 * 3 / (4 * 1)).
    ([(1, 1, 1, "Ann")], [(1,)], 0.2, 0.8),
    # 0.8 * 2 * 2 / (4 * 2); released 3 * 3 / (4 * 2) is above 1.
    ([(1, 1, 1, "Ann")], [(1, 1)], 0.4, 0.8),
    # 0.8 * 1 / (1 * 3), in both.
    ([(1,)], [(1, 1, 1)], 0.8 / 3, 0.8 / 3),
]


@pytest.mark.parametrize(("gold", "predicted", "score"), PARTIAL)
@pytest.mark.parametrize("credit", [column_credit, released_column_credit])
def test_partial_credit(credit: Callable, gold: list, predicted: list, score: float) -> None:
    assert credit(GoldRows(gold, ordered=False), predicted) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(("gold", "predicted", "score", "released"), REPEATED)
def test_columns_are_matched_one_to_one(gold: list, predicted: list, score: float, released: float) -> None:
    rows = GoldRows(gold, ordered=False)
    assert column_credit(rows, predicted) == pytest.approx(score, abs=1e-12)
    assert released_column_credit(rows, predicted) == pytest.approx(released, abs=1e-12)


SOFT_F1 = [
    ([], [], 1.0),
    ([(1,)], [], 0.0),
    ([], [(1,)], 0.0),
    ([(1, "a")], [(1, "a")], 1.0),
    # Columns in any order; a repeated row counts once.
    ([(1, "a")], [("a", 1), ("a", 1)], 1.0),
    # tp 1/2, fp 1/2, fn 1/2.
    ([(1, "a")], [(1, "b")], 0.5),
    # The example of BIRD's README in small. Rows: tp 1; tp 1/2, fn 1/2; fn 1. 2 * 1.5 / (2 * 1.5 + 0 + 1.5).
    ([("Apple", 325), ("Orange", 7), ("Banana", 119)], [(325, "Apple"), ("Orange",)], 2 / 3),
    # A row too many: tp 1, fp 1.
    ([(1,)], [(1,), (2,)], 2 / 3),
    # The rows' order: nothing is found.
    ([(1,), (2,)], [(2,), (1,)], 0.0),
    # A third column: tp 1, fp 1/2. 2 / (2 + 1/2).
    ([(1, "a")], [(1, "a", "c")], 0.8),
    # Values are not paired one to one, neither where gold repeats them (tp 1/2, no fn) nor where the prediction does.
    ([(1, 1)], [(1,)], 1.0),
    ([(1,)], [(1, 1)], 1.0),
    # NULL is a value, and 1 is 1.0.
    ([(None, 1)], [(1.0, None)], 1.0),
]


@pytest.mark.parametrize(("gold", "predicted", "score"), SOFT_F1)
def test_soft_f1(gold: list, predicted: list, score: float) -> None:
    assert soft_f1(gold, predicted) == pytest.approx(score, abs=1e-12)


# Processor times of gold and the prediction in seconds; the floor is .001, and a step is reached at .9 of it.
TIMES = [
    (4.0, 1.0, 1.25),
    (1.8, 1.0, 1.25),
    (1.79, 1.0, 1.0),
    (1.0, 1.0, 1.0),
    (0.9, 1.0, 1.0),
    (0.89, 1.0, 0.75),
    (0.45, 1.0, 0.75),
    (0.44, 1.0, 0.5),
    (0.225, 1.0, 0.5),
    (0.22, 1.0, 0.25),
    (0.001, 60.0, 0.25),
    # Below the floor there is no difference.
    (0.0009, 0.00001, 1.0),
    (0.00001, 0.001, 1.0),
    (0.00001, 0.002, 0.75),
    (0.002, 0.0, 1.25),
]


@pytest.mark.parametrize(("gold", "predicted", "reward"), TIMES)
def test_efficiency_has_birds_steps(gold: float, predicted: float, reward: float) -> None:
    assert efficiency_reward(gold, predicted) == reward


cells = st.sampled_from([0, 1, 1.0, "1", None, b"1", -1, -2])
CREDITS = {name: model.credit for name, model in REWARD_MODELS.items()}


def tables(columns: int) -> st.SearchStrategy[list[tuple]]:
    return st.lists(st.tuples(*[cells] * columns), min_size=1, max_size=5)


any_table = st.integers(1, 4).flatmap(tables)


def permuted(rows: list[tuple], order: list[int]) -> list[tuple]:
    return [tuple(row[i] for i in order) for row in rows]


@settings(max_examples=300, deadline=None)
@given(any_table, any_table)
def test_scores_of_other_results_are_bounded_below_1(gold: list, predicted: list) -> None:
    assert 0 <= soft_f1(gold, predicted) <= 1
    scores = {name: credit(GoldRows(gold, ordered=False), predicted) for name, credit in CREDITS.items()}
    assert all(0 <= score <= 0.8 for score in scores.values()), scores
    assert scores["SqlDetailRewardModel"] <= scores["SqlReleasedRewardModel"]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_permutations_leave_as_it_is(data: st.DataObject) -> None:
    gold, predicted = data.draw(any_table), data.draw(any_table)
    columns = data.draw(st.permutations(range(len(predicted[0]))))
    other_columns = permuted(predicted, columns)
    # Merging two columns of one set of values into one would, so order and copies of rows are what may change.
    other_rows = [*data.draw(st.permutations(predicted)), predicted[0]]
    for name, credit in CREDITS.items():
        score = credit(GoldRows(gold, ordered=False), predicted)
        assert credit(GoldRows(gold, ordered=False), other_columns) == score, name
        if name != "SqlSoftF1RewardModel":
            assert credit(GoldRows(gold, ordered=False), other_rows) == score, name
        assert credit(GoldRows(permuted(gold, list(range(len(gold[0])))[::-1]), ordered=False), predicted) == score


@settings(max_examples=200, deadline=None)
@given(any_table, any_table)
def test_credit_is_full_for_the_same_result_and_the_same_from_both_sides(one: list, other: list) -> None:
    assert soft_f1(one, one) == 1
    assert soft_f1_credit(GoldRows(one, ordered=False), one) == 0.8
    assert column_credit(GoldRows(one, ordered=False), one) == pytest.approx(0.8, abs=1e-12)
    there, back = column_credit(GoldRows(one, ordered=False), other), column_credit(GoldRows(other, ordered=False), one)
    assert there == pytest.approx(back, abs=1e-12)


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[str, float, float]]:
    """score(reward, gold, predicted): outcome, score and reward of a prediction on league, by a worker's job."""
    path = tmp_path_factory.mktemp("rewards") / "league.sqlite"
    make_league(path)
    limits = {"sql_chars": 100_000, "value_bytes": 1_000_000, "rows": 100_000, "bytes": 10_000_000}
    jobs = SqlJobs("sqlite", {}, limits, held_bytes=0, payload_rows=1, payload_bytes=1000)
    database = {"uri": f"file:{path}?mode=ro", "version": "", "seconds": 5.0}

    def score(reward: str, gold: str, predicted: str) -> tuple[str, float, float]:
        header, body = jobs.reply(database | {"job": "gold", "sql": gold}, b"")
        job = {"job": "score", "sql": predicted, "gold": gold, "gold_sql": gold, "ordered": header["ordered"]}
        job |= {"method": "bird", "reward": reward, "digest": False}
        header, _ = jobs.reply(database | job, body)
        return header["outcome"], header["score"], header.get("reward", header["score"])

    return score


GOLD = "SELECT name, goals FROM player WHERE team = 'Reds'"
PREDICTED = "SELECT name FROM player WHERE team = 'Reds'"
SCORES = {
    "SqlDetailRewardModel": 0.4,
    "SqlReleasedRewardModel": 0.4,
    "SqlRewardModel": 0.0,
    # tp 1/2 of each of two rows, fn 1/2 of each: F1 2/3.
    "SqlSoftF1RewardModel": 0.8 * 2 / 3,
    "SqlEfficiencyRewardModel": 0.0,
    "SqlFormatRewardModel": 0.0,
}


@pytest.mark.parametrize("reward", REWARD_MODELS)
def test_a_job_scores_by_its_reward_model(score: Callable[..., tuple[str, float, float]], reward: str) -> None:
    outcome, value, _ = score(reward, GOLD, PREDICTED)
    assert value == pytest.approx(SCORES[reward], abs=1e-12)
    assert outcome == ("partial" if value else "mismatch")
    # Both take far less than the floor.
    assert score(reward, GOLD, GOLD + " ORDER BY name DESC") == ("match", 1.0, 1.0)


TWO = "SELECT count(*) FROM player WHERE team = 'Reds'"
SCORERS = "SELECT name, team FROM player WHERE goals > 2"
# What guesses get, as docs/reference/reward-models.md shows it: gold, the guess, and its scores by
# SqlDetailRewardModel, SqlReleasedRewardModel, SqlRewardModel and SqlSoftF1RewardModel.
GUESSES = [
    # A constant for one of four columns of a row.
    ("SELECT count(*), min(id), max(id), name FROM player WHERE id = 1", "SELECT 1", 0.2, 0.8, 0.0, 0.8 * 2 / 3),
    (TWO, "SELECT 2", 1.0, 1.0, 1.0, 1.0),
    (TWO, "SELECT 1, 2, 3", 0.8 / 3, 0.8 / 3, 0.0, 0.4),
    (TWO, "SELECT 1 UNION SELECT 2 UNION SELECT 3", 0.0, 0.0, 0.0, 0.0),
    # The right columns, one by one: a cross join, one of them, two too many.
    (SCORERS, f"SELECT a.name, b.team FROM ({SCORERS}) a, ({SCORERS}) b", 0.8, 0.8, 0.0, 0.8 / 3),
    (SCORERS, "SELECT name FROM player WHERE goals > 2", 0.4, 0.4, 0.0, 0.8 * 2 / 3),
    (SCORERS, "SELECT name, team, id, goals FROM player WHERE goals > 2", 0.4, 0.4, 0.0, 0.8 * 2 / 3),
    # All rows of the table.
    (SCORERS, "SELECT name, team FROM player", 0.0, 0.0, 0.0, 0.4),
    # Gold without a result.
    ("SELECT id FROM player WHERE goals > 9", "SELECT 1 WHERE 0", 1.0, 1.0, 1.0, 1.0),
    ("SELECT max(goals) FROM player WHERE id > 9", "SELECT NULL", 1.0, 1.0, 1.0, 1.0),
]


@pytest.mark.parametrize(("gold", "guess", "scores"), [(gold, guess, scores) for gold, guess, *scores in GUESSES])
def test_what_guesses_get(score: Callable, gold: str, guess: str, scores: list[float]) -> None:
    models = ("SqlDetailRewardModel", "SqlReleasedRewardModel", "SqlRewardModel", "SqlSoftF1RewardModel")
    assert [score(model, gold, guess)[1] for model in models] == pytest.approx(scores, abs=1e-12)


COUNT = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < {}) SELECT {} FROM r"


@pytest.mark.parametrize(("gold", "predicted", "reward"), [(400_000, 40_000, 1.25), (40_000, 400_000, 0.25)])
def test_an_equal_result_scores_by_the_processor_time_of_both_queries(
    score: Callable[..., tuple[str, float, float]], gold: int, predicted: int, reward: float
) -> None:
    queries = COUNT.format(gold, "min(x)"), COUNT.format(predicted, "min(x)")
    assert score("SqlEfficiencyRewardModel", *queries) == ("match", 1.0, reward)
    assert score("SqlDetailRewardModel", *queries) == ("match", 1.0, 1.0)


def test_the_server_scores_format_and_leaves_empty_golds_without_judgement(start_scorer: Callable[..., Scorer]) -> None:
    scorer = start_scorer(class_name="SqlFormatRewardModel", judge_empty_gold=False, num_instances=1)
    responses = ["I do not know.", fenced("SELECT 1"), fenced("SELECT missing"), fenced("SELECT count(*) FROM clients")]
    reply = scorer.score(responses, "SELECT count(*) FROM clients")
    assert [score for score, _ in reply["Scorer1"]] == [-1.0, 0.0, 0.0, 1.0]
    for gold in ("SELECT id FROM clients WHERE 0", "SELECT max(id), NULL FROM clients WHERE 0"):
        reply = scorer.score(responses, gold)
        assert {detail["outcome"] for detail in reply["details"]} == {"gold_empty"}
        assert {(score, flag) for score, [[flag, _]] in reply["Scorer1"]} == {(0.0, "gold_error")}
    metrics = scorer.client.get("/metrics").text
    assert "\nscorer_empty_gold_responses_total 8.0\n" in metrics
    assert 'scorer_answers_total{outcome="gold_empty"} 8.0' in metrics


def test_empty_golds_are_judged_and_counted_unless_the_settings_say_otherwise(scorer: Scorer) -> None:
    name = "scorer_empty_gold_responses_total "

    def counted() -> float:
        return float(scorer.client.get("/metrics").text.split(f"\n{name}")[1].split()[0])

    before = counted()
    assert scorer.outcome("SELECT name FROM clients WHERE 0", "SELECT id FROM clients WHERE id > 9") == "match"
    assert scorer.outcome("SELECT 1", "SELECT max(id) FROM clients WHERE id > 9") == "mismatch"
    assert scorer.outcome("SELECT 1", "SELECT count(*) FROM clients WHERE id > 9") == "mismatch"
    assert counted() - before == 2
