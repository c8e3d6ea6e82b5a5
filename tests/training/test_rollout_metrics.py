"""Pass@k, majority, styles, outcomes and scoring effort of a step's rollouts and of a validation."""

import json
from dataclasses import asdict
from math import log

import pytest

from rl.common.outcomes import OUTCOMES
from rl.scorer.client.protocol import Effort
from verl.dph.training.rollout_metrics import response_of, reward_metrics, rollout_metrics, validation_metrics

JOIN, IN = "SELECT a.x FROM a JOIN b ON a.id = b.id", "SELECT x FROM a WHERE id IN (SELECT id FROM b)"


def info(acc: int, pred: str | None) -> dict:
    return {"acc": acc, "pred": pred, "outcome": "match" if acc else "mismatch"}


def test_a_step_has_pass_at_k_and_styles_of_its_own_groups():
    rows = [("p", 1, JOIN), ("q", 0, JOIN), ("p", 1, IN), ("q", 1, IN)]
    responses = [(prompt, response_of("bird", acc, info(acc, pred))) for prompt, acc, pred in rows]
    metrics = rollout_metrics(responses, 2, [])
    of_styles = {name: metrics.pop(name) for name in [*metrics] if name.startswith("dph/style/")}
    # p: 2 of 2, q: 1 of 2. p: ln 2, q: 0.
    assert metrics == pytest.approx(
        {"dph/pass@1": 0.75, "dph/pass@2": 1.0, "dph/style_entropy": log(2) / 2, "dph/distinct_structures": 1.5}
    )
    assert of_styles["dph/style/IN"] == pytest.approx(2 / 3) and sum(of_styles.values()) == pytest.approx(1)


def test_groups_that_dynamic_sampling_left_out_count_in_pass_at_k():
    responses = [("p", response_of("math500", acc, info(acc, "1"))) for acc in (1, 0)]
    dropped = [("q", 1), ("r", 0), ("q", 1), ("s", 1), ("r", 0), ("s", 0)]
    dropped = [(prompt, response_of("math500", acc, info(acc, "1"))) for prompt, acc in dropped]
    expected = {"dph/pass@1": 2 / 4, "dph/pass@2": 3 / 4}
    assert rollout_metrics(responses, 2, dropped) == pytest.approx(expected)


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
    # p: 1, q: 0; r: 0.2 and 0, the rewards
    expected = {"dph/val_accuracy": (0.5 + 0.1) / 2, "dph/unjudged_validation_rollouts": 0}
    expected |= {f"dph/val/bird/{name}": value for name, value in of_bird.items()}
    assert metrics == pytest.approx(expected | {f"dph/val/other/{name}": value for name, value in of_other.items()})


def test_a_validation_leaves_out_what_was_not_judged():
    """p is right twice; the reference of q failed once, and always for r: one timeout must not choose a checkpoint."""
    columns = {"reward": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], "acc": [1, 1, 1, 0, 0, 0], "gold_error": [0, 0, 0, 1, 1, 1]}
    metrics = validation_metrics(["sql"] * 6, [*"ppqqrr"], columns, "pqr", 2)
    assert metrics == {
        "dph/val_accuracy": 1.0,
        "dph/unjudged_validation_rollouts": 3,
        "dph/val/sql/pass@1": 1.0,
        "dph/val/sql/pass@2": 1.0,
    }


def scored(outcome: str, **effort) -> dict:
    return {"score": 1.0, "outcome": outcome, "scorer": json.dumps(asdict(Effort(**effort)))}


def test_shares_of_outcomes_and_what_scoring_took():
    metrics = reward_metrics(
        [
            scored("match", seconds=0.2, requests=0.5, healthy_servers=2),
            scored("match", seconds=0.3, requests=0.5, healthy_servers=2),
            scored("no_answer", seconds=1.5, requests=2, retries=1, healthy_servers=1),
            scored("pred_timeout", seconds=2.0, requests=3, busy_waits=4, infra_errors=2, healthy_servers=2),
        ]
    )
    assert {outcome: metrics.pop(f"dph/outcome/{outcome}") for outcome in OUTCOMES} == dict.fromkeys(OUTCOMES, 0) | {
        "match": 0.5,
        "no_answer": 0.25,
        "pred_timeout": 0.25,
    }
    assert metrics == pytest.approx(
        {
            "dph/scorer/requests": 6,
            "dph/scorer/retries": 1,
            "dph/scorer/busy_waits": 4,
            "dph/scorer/infra_errors": 2,
            "dph/scorer/seconds_mean": 1.0,
            "dph/scorer/seconds_max": 2.0,
            "dph/scorer/healthy_servers": 1,
        }
    )
    assert reward_metrics([{"acc": 1.0}, {}]) == {}, "of another reward function"
