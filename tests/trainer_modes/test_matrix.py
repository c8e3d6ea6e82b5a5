"""Rehearsal beside verl's other features, in real runs of a random model (tests/resume)."""

from collections import defaultdict

import pytest
import torch
import torch.distributed.tensor  # makes sharded tensors known to torch.load
from transformers import LlamaForCausalLM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MINI_BATCHES, EPOCHS, STEPS = 2, 2, 2

# A quarter of all answers is right: most groups of 2 have the same reward twice, and dynamic sampling drops them.
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {"score": float(sum(map(ord, solution_str)) % 4 == 0)}
"""


def test_critic_dynamic_sampling_and_two_epochs(place):
    """One run of critic-based PPO with everything at once; 4 of the 10 stored rows per step."""
    name, reward = "critic", place.folder / "sparse_reward.py"
    reward.write_text(REWARD)
    settings = {
        "reward.custom_reward_function.path": reward,
        "algorithm.adv_estimator": "gae",
        "algorithm.filter_groups.enable": True,
        "critic.model.path": place.folder / "model",
        "critic.optim.lr": 1e-3,
        "actor_rollout_ref.rollout.n": 2,
        "actor_rollout_ref.actor.ppo_epochs": EPOCHS,
        "trainer.save_freq": STEPS,
    }
    place.train("js_kl", name, "0.2", steps=STEPS, **settings)
    steps = place.metrics(name)
    assert sorted(steps) == [1, 2]
    for step, metrics in steps.items():
        # fetched once a step, and visited in both epochs
        assert metrics["dph/rows"] == 4 and metrics["dph/tokens"] > 0
        assert metrics["dph/epoch"] == pytest.approx(step * 4 / 10)
        assert metrics["dph/failed_rollouts"] == 0
        assert metrics["critic/vf_loss"] > 0 and metrics["critic/grad_norm"] > 0
        # Which rows are visited differs from step to step, and so it need not grow.
        assert metrics["dph/divergence"] > 0
    assert sum(metrics.get("training/filter_groups/evicted_samples", 0) for metrics in steps.values()) > 0
    for step in steps:
        scores = defaultdict(list)
        for answer in place.dumped(name, step):
            scores[answer["input"]].append(answer["score"])
        # 4 groups of one right and one wrong answer; the next epoch may bring a prompt again within the step
        assert sum(len(found) for found in scores.values()) == 4 * 2
        assert all(found.count(0.0) == found.count(1.0) for found in scores.values())
    for role in ("actor", "critic"):
        folder = place.checkpoint(name, STEPS).with_name(role)
        assert optimizer_steps(folder) == STEPS * EPOCHS * MINI_BATCHES


def optimizer_steps(folder) -> int:
    state = torch.load(folder / "optim_world_size_1_rank_0.pt", weights_only=True)["state"]
    (count,) = {int(entry["step"]) for entry in state.values()}
    return count


def test_lora_has_its_reference_model_under_the_adapter(place):
    """js compares D_exp with the initial policy, which is the base without its adapter: no second model is loaded."""
    name = "lora"
    settings = {
        "actor_rollout_ref.actor.ppo_epochs": EPOCHS,
        "actor_rollout_ref.actor.optim.lr": 1e-2,
        "actor_rollout_ref.actor.optim.lr_warmup_steps": 0,
        "actor_rollout_ref.actor.checkpoint.save_contents": "[model,optimizer,extra]",
        "actor_rollout_ref.model.lora_rank": 4,
        "actor_rollout_ref.model.lora.merge": True,
        # verl then logs the KL between the policy that sampled and the reference, here without an effect on rewards
        "algorithm.use_kl_in_reward": True,
        "algorithm.kl_ctrl.kl_coef": 0.0,
    }
    place.train("js_definition", name, "0.2", steps=3, **settings)
    steps = place.metrics(name)
    for metrics in steps.values():
        # The rollout has the adapter, rounded to bfloat16 on its way: it is as near as in step 1, where it is 0.
        difference = "training/rollout_probs_diff_mean"
        assert metrics[difference] < 3 * steps[1][difference] < 3e-3
    assert abs(steps[1]["actor/reward_kl_penalty"]) < 1e-6
    assert steps[2]["actor/reward_kl_penalty"] > 0.05 and steps[3]["actor/reward_kl_penalty"] > 0.05
    for metric in ("dph/policy_divergence", "dph/kl_policy_ref", "dph/divergence", "dph/kl_ref_policy"):
        assert all(metrics[metric] > 1e-5 for metrics in steps.values()), metric
    check_only_the_adapter_was_trained(place.checkpoint(name, 3), place.folder / "model")


def check_only_the_adapter_was_trained(checkpoint, model):
    """Merging for the rollout and taking the adapter out again leaves the base as it was, bit by bit."""
    saved = torch.load(checkpoint / "model_world_size_1_rank_0.pt", weights_only=True)
    saved = {key.removeprefix("base_model.model."): value.to_local() for key, value in saved.items()}
    adapter = [value for key, value in saved.items() if ".lora_B." in key]
    assert len(adapter) == 2 * 7 and all(value.abs().max() > 1e-3 for value in adapter)
    for key, value in LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).state_dict().items():
        layer = key.removesuffix(".weight") + ".base_layer.weight"
        assert torch.equal(saved[layer if layer in saved else key], value), key
