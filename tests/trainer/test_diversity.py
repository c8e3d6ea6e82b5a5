"""From what verl has of a step's rollouts and of a validation to Pass@k, majority and styles."""

from math import log

import pytest

from verl.dph.training.diversity import response_of, rollout_metrics, validation_metrics

JOIN, IN = "SELECT a.x FROM a JOIN b ON a.id = b.id", "SELECT x FROM a WHERE id IN (SELECT id FROM b)"


def info(acc: int, pred: str | None) -> dict:
    return {"acc": acc, "pred": pred, "outcome": "match" if acc else "mismatch"}


def test_a_step_has_pass_at_k_and_styles_of_its_own_groups():
    rows = [("p", 1, JOIN), ("q", 0, JOIN), ("p", 1, IN), ("q", 1, IN)]
    responses = [(prompt, response_of("bird", acc, info(acc, pred))) for prompt, acc, pred in rows]
    metrics = rollout_metrics(responses, 2, {})
    of_styles = {name: metrics.pop(name) for name in [*metrics] if name.startswith("dph/style/")}
    # p: 2 of 2, q: 1 of 2. p: ln 2, q: 0.
    assert metrics == pytest.approx(
        {"dph/pass@1": 0.75, "dph/pass@2": 1.0, "dph/style_entropy": log(2) / 2, "dph/distinct_structures": 1.5}
    )
    assert of_styles["dph/style/IN"] == pytest.approx(2 / 3) and sum(of_styles.values()) == pytest.approx(1)


def test_groups_that_dynamic_sampling_left_out_count_in_pass_at_k():
    responses = [("p", response_of("math500", acc, info(acc, "1"))) for acc in (1, 0)]
    # 1 of 2; twice all right; once all wrong; once all with half of the points
    expected = {"dph/pass@1": (0.5 + 2) / 5, "dph/pass@2": 3 / 5}
    assert rollout_metrics(responses, 2, {1.0: 2, 0.0: 1, 0.5: 1}) == pytest.approx(expected)


def test_correct_is_what_the_reward_function_says_and_else_a_reward_of_1():
    assert response_of("sql", 0.3, {"acc": 1.0}).correct and not response_of("sql", 1.0, {"acc": 0}).correct
    assert response_of("sql", 1.0, {}).correct and not response_of("sql", 0.9, {"acc": None}).correct
    assert response_of("a source of one's own", 1.0, {"pred": 7}).pred is None


def test_a_validation_has_them_by_data_source():
    columns = {
        "reward": [1.0, 0.0, 1.0, 0.2, 0.0],
        "acc": [1, 0, 1, None, None],  # of another reward function
        "pred": [JOIN, IN, JOIN, None, None],
        "outcome": ["match", "mismatch", "match", None, None],
    }
    metrics = validation_metrics(
        ["bird", "bird", "bird", "other", "other"], ["p", "q", "p", "r", "r"], columns, "rqp", 2
    )
    assert metrics.pop("dph/val/bird/style/JOIN") == 1
    assert all(metrics.pop(name) == 0 for name in [*metrics] if "/style/" in name)
    # p: 2 of 2; q lost a rollout, which leaves it out of Pass@2 and of the majority
    of_bird = {"pass@1": 0.5, "pass@2": 1.0, "maj@2": 1.0, "style_entropy": 0.0, "distinct_structures": 1.0}
    of_other = {"pass@1": 0.0, "pass@2": 0.0}
    expected = {f"dph/val/bird/{name}": value for name, value in of_bird.items()}
    assert metrics == pytest.approx(expected | {f"dph/val/other/{name}": value for name, value in of_other.items()})
