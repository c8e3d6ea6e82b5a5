"""Rehearsal beside verl's other features, in real runs of a random model (conftest.py)."""

import json
from collections import Counter, defaultdict
from types import SimpleNamespace

import pandas as pd
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

# About half of the answers of 50 words are right, whatever the policy of a few steps. Each is recorded with its prompt.
RECORDED_REWARD = """
import json

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    right = sum(map(ord, solution_str)) % 2
    with open(__file__ + ".jsonl", "a") as record:
        record.write(json.dumps([ground_truth["gold_sql"], solution_str, right]) + "\\n")
    return {"score": float(right), "acc": right}
"""
PROMPTS, N = 4, 4  # of a step; answers to each


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


@pytest.fixture(scope="module")
def of_lora(training):
    """The metrics of a run with an adapter, and with dynamic sampling and the success cap."""
    reward, data = training.folder / "recorded_reward.py", training.folder / "named.parquet"
    reward.write_text(RECORDED_REWARD)
    rows = pd.read_parquet(training.data)
    for prompt, of_reward in zip(rows["prompt"], rows["reward_model"], strict=True):
        of_reward["ground_truth"]["gold_sql"] = prompt[0]["content"]
    rows.to_parquet(data)
    return training.train(
        "lora",
        reward__custom_reward_function__path=reward,
        data__train_files=data,
        data__shuffle=False,  # a prompt comes again when its group is complete
        data__max_response_length=50,
        actor_rollout_ref__rollout__n=N,
        algorithm__filter_groups__enable=True,
        algorithm__success_cap=0.5,
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


def test_dynamic_sampling_drops_the_groups_at_the_cap(training, of_lora):
    """Half of all answers are right: a group of four teaches if one of them is, and is drawn again else."""
    answers = defaultdict(list)
    for line in (training.folder / "recorded_reward.py.jsonl").read_text().splitlines():
        prompt, answer, right = json.loads(line)
        answers[prompt].append((answer, right))
    groups = [found[i : i + N] for found in answers.values() for i in range(0, len(found), N)]
    right = Counter(sum(right for _, right in group) for group in groups)
    assert right[2] + right[3] == sum(metrics["dph/groups_dropped_by_cap"] for metrics in of_lora.values()) > 0
    evicted, surplus = (
        [metrics.get(f"training/filter_groups/{kind}_samples", 0) for metrics in of_lora.values()]
        for kind in ("evicted", "discarded_surplus")
    )
    assert sum(evicted) == len(groups) - right[1]
    assert right[1] == sum(surplus) + PROMPTS * len(of_lora)
    # Pass@1 is of all groups that were sampled.
    sampled = [PROMPTS + out + beyond for out, beyond in zip(evicted, surplus, strict=True)]
    shares = [metrics["dph/pass@1"] * size for metrics, size in zip(of_lora.values(), sampled, strict=True)]
    assert sum(shares) * N == pytest.approx(sum(m * count for m, count in right.items()))
    that_teach = [sorted(answer for answer, _ in group) for group in groups if sum(right for _, right in group) == 1]
    for step, metrics in of_lora.items():
        trained = defaultdict(list)
        for row in training.dumped("lora", "rollouts", step):
            trained[row["uid"].split("_")[0]].append(row["output"])
        assert len(trained) == PROMPTS and all(sorted(found) in that_teach for found in trained.values())
        # GRPO's: 1 and three times 0 have a mean of 1/4 and a standard deviation of 1/2
        assert metrics["critic/advantages/min"] == pytest.approx(-0.5, rel=1e-4)
        assert metrics["critic/advantages/max"] == pytest.approx(1.5, rel=1e-4)
        assert metrics["dph/teaching_tokens"] == 1 and metrics["dph/capped_groups"] == 0


def test_lora_has_its_reference_model_under_the_adapter(training, of_lora):
    """js compares D_exp with the initial policy, which is the base without its adapter: no second model is loaded."""
    name, steps = "lora", of_lora
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
