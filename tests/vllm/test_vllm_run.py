"""vLLM samples with the actor's weights of the moment, in every step (see conftest.py)."""

import pytest

pytestmark = pytest.mark.timeout(600)


def test_every_step_trains_on_whole_rollouts(metrics):
    assert [step["training/global_step"] for step in metrics] == [1, 2, 3]
    for step in metrics:
        assert step["dph/failed_rollouts"] == 0 and step["dph/rows"] == 4
        assert step["actor/grad_norm"] > 0


def test_rollout_and_actor_agree_after_every_weight_update(metrics):
    """Both compute in float32: probabilities that differ by more than rounding come from different weights."""
    for step in metrics:
        assert 0 < step["training/rollout_probs_diff_mean"] < 1e-5
        assert step["training/rollout_probs_diff_max"] < 1e-4


def test_the_weights_changed_enough_to_be_seen(metrics):
    """The policy that sampled the first step is the initial one; those of the later steps are far from it."""
    first, *later = [abs(step["dph/kl_ref_policy"]) for step in metrics]
    assert first < 1e-4
    assert min(later) > 0.1
