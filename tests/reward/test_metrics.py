"""From what compute_score returned for the samples of a step to the step's metrics."""

import json
from dataclasses import asdict

import pytest

from rl.common.outcomes import OUTCOMES
from verl.dph.reward.metrics import reward_metrics
from verl.dph.reward.protocol import Effort


def info(outcome: str, **effort) -> dict:
    return {"score": 1.0, "outcome": outcome, "scorer": json.dumps(asdict(Effort(**effort)))}


def test_shares_of_outcomes_and_what_scoring_took():
    metrics = reward_metrics(
        [
            info("match", seconds=0.2, requests=0.5, healthy_servers=2),
            info("match", seconds=0.3, requests=0.5, healthy_servers=2),
            info("no_answer", seconds=1.5, requests=2, retries=1, healthy_servers=1),
            info("pred_timeout", seconds=2.0, requests=3, busy_waits=4, infra_errors=2, healthy_servers=2),
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
