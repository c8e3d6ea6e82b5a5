"""Rehearsal beside verl's other features, in real runs of a random model (conftest.py)."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
import torch.distributed.tensor  # makes sharded tensors known to torch.load
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from transformers import LlamaForCausalLM

from verl.dph.training.trainer import DPHTrainer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MINI_BATCHES, EPOCHS, STEPS = 2, 2, 2

# A quarter of all answers is right: most groups of 2 have the same reward twice, and dynamic sampling drops them.
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {"score": float(sum(map(ord, solution_str)) % 4 == 0)}
"""


def test_critic_dynamic_sampling_two_epochs_and_shuffling(training):
    """One run of critic-based PPO with everything at once; 4 of the 12 stored rows per step, 5 tokens each."""
    name, reward = "critic", training.folder / "sparse_reward.py"
    reward.write_text(REWARD)
    steps = training.train(
        name,
        reward__custom_reward_function__path=reward,
        data__max_response_length=50,
        algorithm__adv_estimator="gae",
        algorithm__filter_groups__enable=True,
        critic__model__path=training.model,
        critic__optim__lr=1e-3,
        actor_rollout_ref__actor__ppo_epochs=EPOCHS,
        actor_rollout_ref__actor__shuffle=True,
        trainer__total_training_steps=STEPS,
        trainer__save_freq=STEPS,
    )
    assert sorted(steps) == [1, 2]
    for step, metrics in steps.items():
        # fetched once a step, and visited in both epochs
        assert metrics["dph/rows"] == 4 and metrics["dph/tokens"] == 10
        assert metrics["dph/epoch"] == pytest.approx(step * 4 / 12)
        assert metrics["dph/failed_rollouts"] == 0
        assert metrics["critic/vf_loss"] > 0 and metrics["critic/grad_norm"] > 0
        # Which rows are visited differs from step to step, and so it need not grow.
        assert metrics["dph/divergence"] > 0
    assert sum(metrics.get("training/filter_groups/evicted_samples", 0) for metrics in steps.values()) > 0
    for step in steps:
        scores = defaultdict(list)
        for answer in training.dumped(name, "rollouts", step):
            scores[answer["input"]].append(answer["score"])
        # 4 groups of one right and one wrong answer; the next epoch may bring a prompt again within the step
        assert sum(len(found) for found in scores.values()) == 4 * 2
        assert all(found.count(0.0) == found.count(1.0) for found in scores.values())
    for role in ("actor", "critic"):
        assert optimizer_steps(training.folder / name / f"global_step_{STEPS}" / role) == STEPS * EPOCHS * MINI_BATCHES


def optimizer_steps(folder) -> int:
    state = torch.load(folder / "optim_world_size_1_rank_0.pt", weights_only=True)["state"]
    (count,) = {int(entry["step"]) for entry in state.values()}
    return count


def test_lora_has_its_reference_model_under_the_adapter(training):
    """js compares D_exp with the initial policy, which is the base without its adapter: no second model is loaded."""
    name = "lora"
    steps = training.train(
        name,
        data__max_response_length=50,
        actor_rollout_ref__rollout__n=4,
        actor_rollout_ref__actor__sft_loss_mode="js",
        actor_rollout_ref__actor__use_kl_loss=True,
        actor_rollout_ref__actor__ppo_epochs=EPOCHS,
        actor_rollout_ref__actor__checkpoint__save_contents="[model,optimizer,extra]",
        actor_rollout_ref__model__lora_rank=4,
        actor_rollout_ref__model__lora__merge=True,
        # verl then logs the KL between the policy that sampled and the reference, here without an effect on rewards
        algorithm__use_kl_in_reward=True,
        algorithm__kl_ctrl__kl_coef=0.0,
        trainer__total_training_steps=3,
        trainer__save_freq=3,
    )
    for metrics in steps.values():
        assert metrics["dph/rows"] == 4 and metrics["dph/tokens"] == 10
        # the rollout has the adapter, rounded to bfloat16 on its way; without it this were 100 times as large
        assert metrics["training/rollout_probs_diff_mean"] < 1e-4
    assert abs(steps[1]["actor/reward_kl_penalty"]) < 1e-6
    assert steps[2]["actor/reward_kl_penalty"] > 1e-3 and steps[3]["actor/reward_kl_penalty"] > 1e-3
    for metric in ("dph/policy_divergence", "dph/kl_policy_ref", "dph/divergence", "dph/kl_ref_policy"):
        assert all(metrics[metric] > 1e-5 for metrics in steps.values()), metric
    check_only_the_adapter_was_trained(training, name, 3)


def check_only_the_adapter_was_trained(training, name, step):
    """Merging for the rollout and taking the adapter out again leaves the base as it was, bit by bit."""
    saved = torch.load(
        training.folder / name / f"global_step_{step}" / "actor" / "model_world_size_1_rank_0.pt", weights_only=True
    )
    saved = {key.removeprefix("base_model.model."): value.to_local() for key, value in saved.items()}
    adapter = [value for key, value in saved.items() if ".lora_B." in key]
    assert len(adapter) == 2 * 7 and all(value.abs().max() > 1e-3 for value in adapter)
    for key, value in LlamaForCausalLM.from_pretrained(training.model, dtype=torch.float32).state_dict().items():
        layer = key.removesuffix(".weight") + ".base_layer.weight"
        assert torch.equal(saved[layer if layer in saved else key], value), key


def test_shuffling_keeps_a_ranks_rows_on_the_rank():
    """actor.shuffle: another order in every step, the same when a step is repeated."""
    config = OmegaConf.create({"actor_rollout_ref": {"actor": {"data_loader_seed": 42}}})

    def shuffled(step):
        trainer = SimpleNamespace(config=config, global_steps=step, local_trigger_step=0, data_parallel_size=lambda: 2)
        keys = [f"row{i:02d}" for i in range(16)]
        batch = KVBatchMeta(keys=list(keys), tags=[{"row": key} for key in keys], partition_id="train")
        DPHTrainer._shuffle(trainer, batch)
        assert [tag["row"] for tag in batch.tags] == batch.keys
        assert sorted(batch.keys[:8]) == keys[:8] and sorted(batch.keys[8:]) == keys[8:]
        return batch.keys

    assert shuffled(1) == shuffled(1) != shuffled(2)
