"""A real run of a random model with rollouts that cannot be scored, which trainer.max_failed_rollouts allows, and with
prompts whose reference cannot be evaluated.

tests/training/test_rehearsal_loss.py shows with verl's worker that these have no gradient.
"""

import pandas as pd
import pytest

from tests.resume.conftest import VALIDATED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEPS, SAMPLES, MINI_BATCH = 2, 16, 8

# The real scorer grades the responses, and each that can be judged is worth 1: a 0 could only come from a failure or a
# broken reference. About a quarter cannot be scored: all of one validation prompt, and others by their text.
REWARD = """
from verl.dph.reward import score

async def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    if "unscored" in ground_truth["gold_sql"] or sum(map(ord, solution_str)) % 4 == 0:
        raise ConnectionError("the scorer is down")
    graded = await score.compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs)
    return graded if graded["gold_error"] else graded | {"score": 1.0, "acc": 1}
"""


@pytest.fixture(scope="module")
def masked(place):
    """The metrics of a run whose scorer does not score everything."""
    (place.folder / "patchy_reward.py").write_text(REWARD)
    # The second training prompt is in step 1: data are not shuffled.
    for name, row, gold in (("train", 1, "SELECT missing"), ("val", 0, "SELECT 'unscored'")):
        rows = pd.read_parquet(place.folder / f"{name}.parquet")
        rows.at[row, "reward_model"]["ground_truth"]["gold_sql"] = gold
        rows.to_parquet(place.folder / f"patchy_{name}.parquet")
    settings = {
        "reward.custom_reward_function.path": place.folder / "patchy_reward.py",
        "data.train_files": place.folder / "patchy_train.parquet",
        "data.val_files": place.folder / "patchy_val.parquet",
        "data.shuffle": False,
        # verl's own ends at a group of one, and one padding row is such a group
        "algorithm.adv_estimator": "grpo_passk",
        "actor_rollout_ref.rollout.top_p": 1.0,
        "actor_rollout_ref.rollout.val_kwargs.n": 1,
        "trainer.max_failed_rollouts": SAMPLES,
        "trainer.test_freq": STEPS,
    }
    place.train("js_kl", "masked", "0.2", steps=STEPS, **settings)
    return place.metrics("masked")


def test_they_are_counted_and_replaced_by_rows_that_do_not_count(place, masked):
    assert sum(metrics["dph/failed_rollouts"] for metrics in masked.values()) > 0
    padded = 0
    for step, metrics in masked.items():
        rows = place.dumped("masked", step)
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


def test_validation_goes_without_them(place, masked):
    scored = place.dumped("masked", STEPS, "validation")
    assert masked[STEPS]["dph/failed_validation_rollouts"] == VALIDATED - len(scored) > 0
    assert masked[STEPS]["val-core/sql/acc/mean@1"] == 1
