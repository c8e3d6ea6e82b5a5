"""What a dry run and every program reject of a group of responses, without verl."""

import pytest

from rl.checks.run import Subject, groups
from rl.common.errors import UserError
from rl.configuration.arguments import run_of

N, TOP_P, TOP_K = (f"actor_rollout_ref.rollout.{name}" for name in ("n", "top_p", "top_k"))


def subject(method: str, *words: str) -> Subject:
    run = run_of(method, ["mine", "device=cpu", *words])
    return Subject(run.composed, run.program)


@pytest.mark.parametrize("method", ["nsr", "pkpo", "grpo_passk"])
def test_advantages_that_do_not_sum_to_0_are_sampled_from_the_whole_vocabulary(method):
    config = subject(method).config
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.top_p, rollout.top_k, rollout.val_kwargs.top_p) == (1, -1, 0.95)
    assert groups(subject(method)).status == "ok"
    for word in (f"{TOP_P}=0.95", f"{TOP_K}=20"):
        with pytest.raises(UserError, match="do not sum to 0 in a group.*not a policy gradient.*top_p=1 and top_k=-1"):
            groups(subject(method, word))


@pytest.mark.parametrize("method", ["grpo", "maxrl"])
def test_advantages_that_sum_to_0_may_be_sampled_with_top_p(method):
    assert groups(subject(method, f"{TOP_P}=0.95", f"{TOP_K}=20")).status == "ok"
    with pytest.raises(UserError, match=f"compares the responses to a prompt, and there is one .{N}=1"):
        groups(subject(method, f"{N}=1"))


def test_one_response_is_enough_without_a_policy_loss():
    assert groups(subject("js_kl", f"{N}=1", "actor_rollout_ref.actor.policy_loss_coeff=0")).status == "skipped"
