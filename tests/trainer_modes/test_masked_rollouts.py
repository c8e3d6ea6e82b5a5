"""A real run of a random model with rollouts that cannot be scored, which trainer.max_failed_rollouts allows, and with
prompts whose reference cannot be evaluated.

tests/training/test_rehearsal_loss.py shows with verl's worker that these have no gradient.
"""

import pytest

from rl.scorer.client.protocol import OUTCOMES
from tests.trainer_modes.conftest import MINI_BATCH, SAMPLES, STEPS, VALIDATED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_they_are_counted_and_replaced_by_rows_that_do_not_count(training, masked):
    assert sum(metrics["dph/failed_rollouts"] for metrics in masked.values()) > 0
    padded = 0
    for step, metrics in masked.items():
        rows = training.dumped("masked", "rollouts", step)
        padding = [row for row in rows if row["uid"].startswith("pad")]
        masked_rows = metrics["dph/failed_rollouts"] + metrics["dph/unjudged_rollouts"]
        assert len(rows) - len(padding) == SAMPLES - masked_rows
        assert len(rows) % MINI_BATCH == 0 and len(padding) < MINI_BATCH
        padded += len(padding)
        assert all(row["output"] == "" for row in padding)
        assert all(row["score"] == 1 for row in rows if row not in padding)
    assert padded and masked[1]["dph/unjudged_rollouts"] > 0 == masked[2]["dph/unjudged_rollouts"]


def test_none_is_a_reward_of_0(masked):
    for metrics in masked.values():
        for name in ("critic/score", "critic/rewards"):
            assert [metrics[f"{name}/{kind}"] for kind in ("min", "mean", "max")] == [1, 1, 1]


def test_validation_goes_without_them(training, masked):
    scored = training.dumped("masked", "validation", STEPS)
    assert masked[STEPS]["dph/failed_validation_rollouts"] == VALIDATED - len(scored) > 0
    assert masked[STEPS]["val-core/sql/acc/mean@1"] == 1


def test_what_scoring_took_and_brought_is_logged(masked):
    for metrics in masked.values():
        shares = {outcome: metrics[f"dph/outcome/{outcome}"] for outcome in OUTCOMES}
        unjudged = shares["gold_error"]  # before they are left out
        assert (unjudged > 0) == (metrics["dph/unjudged_rollouts"] > 0)
        assert shares == dict.fromkeys(OUTCOMES, 0) | {"no_answer": pytest.approx(1 - unjudged), "gold_error": unjudged}
        of_scorer = {name: metrics[f"dph/scorer/{name}"] for name in ("retries", "busy_waits", "infra_errors")}
        assert of_scorer == dict.fromkeys(of_scorer, 0)
        assert 0 < metrics["dph/scorer/requests"] <= SAMPLES and metrics["dph/scorer/healthy_servers"] == 1
        assert 0 < metrics["dph/scorer/seconds_mean"] <= metrics["dph/scorer/seconds_max"] < 60


def test_rewards_that_cannot_be_had_end_the_run(training):
    reward = training.folder / "no_reward.py"
    reward.write_text("def compute_score(*args, **kwargs):\n    raise ConnectionError('the scorer is down')\n")
    settings = {"reward__custom_reward_function__path": reward, "data__max_response_length": 50}
    said = training.output("failing", code=2, **settings, trainer__total_training_steps=2)
    assert "8 of 8 rollouts failed in step 1" in said
