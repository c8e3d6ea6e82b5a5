"""The baselines' advantage estimators (docs/explanation/baselines.md), through the function of verl's trainer."""

import itertools

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from rl.common.errors import UserError
from verl.dph.objective.advantages import give_verdicts, leave_one_out_max, leave_out_padding, likelihood_advantages

PKPO = {"adv_estimator": "pkpo", "pkpo_k": 2}
W_REINFORCE = {"adv_estimator": "w_reinforce", "w_reinforce_lambda": 0.1}
PASSK = {"adv_estimator": "grpo_passk", "norm_adv_by_std_in_grpo": False}


@pytest.fixture
def as_in_training(monkeypatch):
    """The trainer's registry of estimators."""
    for name, estimator in ADV_ESTIMATOR_REGISTRY.items():
        monkeypatch.setitem(ADV_ESTIMATOR_REGISTRY, name, estimator)
    leave_out_padding()


def advantages(algorithm, rewards, prompts, padding=0):
    """The advantages of responses of three tokens, the last one masked, before `padding` rows of verl's."""
    rows = len(rewards) + padding
    mask = torch.tensor([[1.0, 1.0, 0.0]] * len(rewards) + [[0.0, 0.0, 0.0]] * padding)
    of_tokens = torch.zeros(rows, 3)
    of_tokens[: len(rewards), 1] = torch.tensor(rewards)
    uid = np.array([*prompts, *["pad"] * padding], dtype=object)
    batch = {"token_level_rewards": of_tokens, "response_mask": mask}
    found = compute_advantage_for_multi_trajectories(
        DataProto.from_single_dict(batch | {"uid": uid}),
        batch_keys=[f"{prompt}_{row}_0" for row, prompt in enumerate(uid)],
        adv_estimator=algorithm["adv_estimator"],
        num_repeat=4,
        config=OmegaConf.create(algorithm),
    ).batch
    assert torch.equal(found["advantages"], found["returns"])
    assert torch.equal(found["advantages"], found["advantages"][:, :1] * mask)
    return found["advantages"][:, 0].tolist()


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([1, 0, 0, 0], [3, -1, -1, -1]),
        ([1, 1, 0, 0], [1, 1, -1, -1]),
        ([1, 1, 1, 0], [1 / 3, 1 / 3, 1 / 3, -1]),
        ([1, 1, 1, 1], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([1, 0.5, 0.9], [2, -1, -1]),  # partly right is wrong
        ([1], [0]),
        ([0], [0]),
    ],
)
def test_maxrl_of_a_group(accuracies, expected):
    found = likelihood_advantages({f"p_{sample}": accuracy for sample, accuracy in enumerate(accuracies)})
    assert list(found.values()) == pytest.approx(expected)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_maxrl_is_the_gradient_of_the_likelihood_cut_off(n):
    """Over all groups of n of a policy over 3 actions, one of them correct: grad P (1 - (1 - P)^(n-1)) / P."""
    logits = torch.tensor([0.3, -0.2, -1.0], dtype=torch.float64, requires_grad=True)
    correct = logits.softmax(-1)[2]
    objective = -sum((1 - correct) ** k / k for k in range(1, n))
    (expected,) = torch.autograd.grad(objective, logits, retain_graph=True)
    (of_correct,) = torch.autograd.grad(correct, logits)
    torch.testing.assert_close(expected, of_correct * ((1 - (1 - correct) ** (n - 1)) / correct).detach())
    surrogate, log_p = torch.zeros((), dtype=torch.float64), logits.log_softmax(-1)
    for group in itertools.product(range(3), repeat=n):
        found = likelihood_advantages({f"p_{i}": float(action == 2) for i, action in enumerate(group)})
        weights, actions = torch.tensor(list(found.values()), dtype=torch.float64), torch.tensor(group)
        assert weights.sum() == pytest.approx(0)
        surrogate = surrogate + log_p[actions].sum().exp().detach() * (weights * log_p[actions]).mean()
    torch.testing.assert_close(*torch.autograd.grad(surrogate, logits), expected)


def test_maxrl_takes_verdicts_by_sample_and_no_rewards(as_in_training):
    """b lost a rollout; a's third sample has two outputs; rewards and the padding row do not count."""
    verdicts = {"b_1": 0.0, "a_0": 1.0, "b_0": 1.0, "a_2": 0.0}
    rewards, prompts = [0.2, 0.9, 0.4, 0.1, 0.1], "abbaa"
    keys = ["a_0_0", "b_1_0", "b_0_0", "a_2_0", "a_2_1"]
    give_verdicts([*keys, "pad_0_0"], verdicts)
    assert advantages({"adv_estimator": "maxrl"}, rewards, prompts, padding=1) == [1, -1, 1, -1, -1, 0]
    with pytest.raises(UserError, match=r"adv_estimator=maxrl .* returned no `acc`"):
        give_verdicts(keys, {"a_0": None})


@pytest.mark.parametrize(
    ("k", "rewards", "expected"),
    [
        # 1 of 4 correct. k = 2: it is in 3 of the 6 pairs, and alone correct in each: 4 * 3 / 6.
        (2, [0, 1, 0, 0], [0, 2, 0, 0]),
        (3, [0, 1, 0, 0], [0, 3, 0, 0]),  # in 3 of the 4 triples
        (4, [0, 1, 0, 0], [0, 4, 0, 0]),
        # 2 of 4 correct: of the 3 pairs of either, the other one is correct in one.
        (2, [1, 0, 1, 0], [4 / 3, 0, 4 / 3, 0]),
        (3, [1, 0, 1, 0], [1, 0, 1, 0]),  # alone correct in 1 of 4 triples
        (4, [1, 0, 1, 0], [0, 0, 0, 0]),  # never
        (2, [1, 1, 1, 1], [0, 0, 0, 0]),
        (2, [0, 0, 0, 0], [0, 0, 0, 0]),
        # Pairs of .5: +.5 with each 0 (2). Pairs of 1: +1 with each 0, +.5 with .5.
        (2, [0, 0.5, 1, 0], [0, 4 / 6, 10 / 6, 0]),
    ],
)
def test_pkpo_of_four(k, rewards, expected):
    assert advantages(PKPO | {"pkpo_k": k}, rewards, "aaaa") == pytest.approx(expected)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_pkpo_is_an_unbiased_gradient_of_the_best_of_k(k):
    """The expectation over all groups of 5 of a policy over 3 actions, exactly; the mean over a group is verl's."""
    rewards, n = torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64), 5
    logits = torch.tensor([0.3, -0.2, -1.0], dtype=torch.float64, requires_grad=True)
    p = logits.softmax(-1)
    best = torch.cat([torch.zeros(1, dtype=torch.float64), p.cumsum(0)]) ** k  # of k samples, P(best <= action)
    (expected,) = torch.autograd.grad((best.diff() * rewards).sum(), logits)
    surrogate = torch.zeros((), dtype=torch.float64)
    log_p = logits.log_softmax(-1)
    for group in itertools.product(range(3), repeat=n):
        actions = torch.tensor(group)
        weights = leave_one_out_max(rewards[actions], k)
        surrogate = surrogate + log_p[actions].sum().exp().detach() * (weights * log_p[actions]).mean()
    (found,) = torch.autograd.grad(surrogate, logits)
    torch.testing.assert_close(found, expected)


def test_pkpo_takes_each_prompt_by_itself_and_no_subset_larger_than_it():
    """b has lost two rollouts of four: k is 2 there. A padding row alone is not a group."""
    found = advantages(PKPO | {"pkpo_k": 4}, [1, 0, 0, 1, 0, 0], "ababaa", padding=1)
    assert found == pytest.approx([4, 0, 0, 2, 0, 0, 0])


def test_w_reinforce():
    """A response with partial credit is not correct, and neither is one that is better than 1."""
    rewards = [1.0, 0.0, 1 - 1e-7, 0.5, -1.0, 1.25]
    assert advantages(W_REINFORCE, rewards, "aabbcc", padding=1) == pytest.approx([0.1, -1, 0.1, -1, -1, -1, 0])
    nsr = advantages(W_REINFORCE | {"w_reinforce_lambda": 0.0}, rewards, "aabbcc")
    assert nsr == pytest.approx([0, -1, 0, -1, -1, -1])


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grpo_passk_is_not_ended_by_one_padding_row(padding, as_in_training):
    """It is PKPO at k = n, divided by n and by the standard deviation."""
    rewards = [0.0, 0.5, 1.0, 1.0, 0.0, 0.0]
    found = advantages(PASSK, rewards, "aaabbb", padding)
    assert found == pytest.approx([0, 0, 0.5, 1, 0, 0] + [0] * padding)
    assert advantages(PASSK, [1.0, 0.25], "aa", padding) == pytest.approx([0.75, 0] + [0] * padding)
    pkpo = advantages(PKPO | {"pkpo_k": 3}, rewards, "aaabbb", padding)
    assert pkpo == pytest.approx([3 * value for value in found])
    normalised = advantages(PASSK | {"norm_adv_by_std_in_grpo": True}, rewards, "aaabbb", padding)
    # The standard deviations are .5 and 1 / sqrt(3).
    assert normalised == pytest.approx([0, 0, 1, 3**0.5, 0, 0] + [0] * padding, rel=1e-5)


@pytest.mark.parametrize("padding", [1, 3])
@pytest.mark.parametrize("estimator", ["opo", "gpg"])
def test_padding_rows_change_no_advantage(estimator, padding, as_in_training):
    """verl pads an incomplete last mini-batch. One NaN among the advantages makes verl skip the update."""
    rewards = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    alone = advantages({"adv_estimator": estimator}, rewards, "aaaabbbb")
    assert alone[0] > 0 > alone[1] and alone[7] < 0
    found = advantages({"adv_estimator": estimator}, rewards, "aaaabbbb", padding)
    assert found == alone + [0] * padding


def test_grpo_passk_compares_the_responses_that_rollout_correction_rejects(as_in_training):
    """Their masks are empty, as those of padding rows are; the second best does not become the best."""
    rewards = torch.tensor([[1.0], [0.5], [0.0], [0.0], [0.0]])
    for accepted, best in (([0, 1, 1, 1, 0], 0.0), ([1, 0, 0, 0, 0], 0.5)):
        mask = torch.tensor(accepted, dtype=torch.float32)[:, None]
        found, _ = ADV_ESTIMATOR_REGISTRY["grpo_passk"](
            token_level_rewards=rewards,
            response_mask=mask,
            index=np.array([*"aaaa", "pad"]),
            config=OmegaConf.create(PASSK),
        )
        assert found[:, 0].tolist() == [best, 0, 0, 0, 0]
