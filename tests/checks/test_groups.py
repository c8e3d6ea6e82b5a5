"""What a dry run and every program reject of a group of responses and a batch, without verl."""

import pytest
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

from rl.checks.run import ESTIMATORS, Subject, batch, groups
from rl.common.errors import UserError
from rl.configuration.arguments import run_of

N, TOP_P, TOP_K = (f"actor_rollout_ref.rollout.{name}" for name in ("n", "top_p", "top_k"))


def subject(method: str, *words: str) -> Subject:
    run = run_of(method, ["mine", "device=cpu", *words])
    return Subject(run.composed, run.program)


@pytest.mark.parametrize("method", ["nsr", "w_reinforce", "pkpo", "grpo_passk"])
def test_advantages_that_do_not_sum_to_0_are_sampled_from_the_whole_vocabulary(method):
    config = subject(method).config
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.top_p, rollout.top_k, rollout.val_kwargs.top_p) == (1, -1, 0.95)
    assert groups(subject(method)).status == "ok"
    for word in (f"{TOP_P}=0.95", f"{TOP_K}=20"):
        with pytest.raises(UserError, match="do not sum to 0 in a group.*not a policy gradient.*top_p=1 and top_k=-1"):
            groups(subject(method, word))


@pytest.mark.parametrize("method", ["grpo", "dapo", "maxrl", "js_kl"])
def test_advantages_that_sum_to_0_may_be_sampled_with_top_p(method):
    assert groups(subject(method, f"{TOP_P}=0.95", f"{TOP_K}=20")).status == "ok"
    with pytest.raises(UserError, match=f"compares the responses to a prompt, and there is one .{N}=1"):
        groups(subject(method, f"{N}=1"))


def test_an_estimator_that_is_not_there_is_named_before_ray_starts():
    """A dry run accepted it, and verl looks it up in the first step."""
    assert set(ADV_ESTIMATOR_REGISTRY) == ESTIMATORS
    with pytest.raises(UserError, match="adv_estimator=maxrll is unknown: use one of .*maxrl"):
        groups(subject("maxrl", "algorithm.adv_estimator=maxrll"))


def test_one_response_is_enough_without_a_policy_loss():
    assert groups(subject("js_kl", f"{N}=1", "actor_rollout_ref.actor.policy_loss_coeff=0")).status == "skipped"


def test_a_batch_of_whole_mini_batches():
    with pytest.raises(UserError, match="train_batch_size=8 is not a multiple of actor_rollout_ref.actor.ppo_mini_bat"):
        batch(subject("grpo", "data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=3"))
