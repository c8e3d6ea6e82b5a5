"""verl's asynchronous trainers with rehearsal: real runs of a random model (conftest.py)."""

import json
import re
from collections import defaultdict

import pandas as pd
import pytest
import torch

from tests.trainer_modes.conftest import PROMPTS, REWARD, save_judged_prompts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# 16 answers are asked for, and the server works on 8 at a time. While the first 4 prompts are judged, it has begun the
# other answers, which are many times longer (they end at random, after 500 words in the mean) than judging takes.
SLOW_REWARD = f"""{REWARD}
import asyncio

async def judge(**kwargs):
    await asyncio.sleep(0.15)
    return compute_score(**kwargs)
"""
COLOCATE = {"trainer__v1__trainer_mode": "colocate_async"}
SEPARATE = {
    "trainer__v1__trainer_mode": "separate_async",
    "trainer__v1__separate_async__parameter_sync_step": 2,
    "actor_rollout_ref__rollout__nnodes": 1,
    "actor_rollout_ref__rollout__checkpoint_engine__backend": "gloo",
}
# Advantages of our estimators, which the groups of two responses show: many of them have one right answer.
W_REINFORCE = {"algorithm__adv_estimator": "w_reinforce", "algorithm__w_reinforce_lambda": 0.25}
PKPO = {"algorithm__adv_estimator": "pkpo", "algorithm__pkpo_k": 2}
CAP = {"algorithm__success_cap": 1.0}
KL_COV = {"actor_rollout_ref__actor__policy_loss__loss_mode": "kl_cov"}
STALENESS = "training/off_policy/trajectory_staleness_worst/max"
SPAN = "training/off_policy/trajectory_spans/max"
TOKENS_COMPARED = 20


def check_rehearsal(steps, count):
    """4 of the 12 stored rows per step, two mini-batches with 2 rows of 5 tokens each, and nothing failed."""
    assert sorted(steps) == list(range(1, count + 1))
    for step, metrics in steps.items():
        assert metrics["dph/rows"] == 4 and metrics["dph/tokens"] == 10
        assert metrics["dph/epoch"] == pytest.approx(step * 4 / 12)
        assert metrics["dph/failed_rollouts"] == 0
        assert metrics["actor/grad_norm"] > 0
        assert metrics["dph/pass@1"] == pytest.approx(metrics["critic/score/mean"])
        assert metrics["dph/pass@1"] <= metrics["dph/pass@2"]
    assert steps[1]["dph/divergence"] < steps[count]["dph/divergence"]


def check_advantages(steps, values):
    """The least and the largest of each step are of these values, and each of them occurs."""
    found = [metrics[f"critic/advantages/{kind}"] for metrics in steps.values() for kind in ("min", "max")]
    assert set(found) == set(values)


def check_capped(training, name, steps):
    """The groups of two whose answers are both right are capped."""
    for step, groups in groups_trained(training, name, steps).items():
        assert steps[step]["dph/capped_groups"] == pytest.approx(sum(map(all, groups)) / len(groups))


def groups_trained(training, name, steps):
    """{step: the scores of each prompt's answers}."""
    groups = {step: defaultdict(list) for step in steps}
    for step, scores in groups.items():
        for answer in training.dumped(name, "rollouts", step):
            scores[answer["input"]].append(answer["score"])
    return {step: list(scores.values()) for step, scores in groups.items()}


def check_rollout_policy(steps):
    """Log-probs of the rollout are the actor's where no token is older than the policy, and else are not."""
    stale = {step for step, metrics in steps.items() if metrics[STALENESS] > 0}
    for step, metrics in steps.items():
        if step not in stale:
            assert metrics["training/rollout_probs_diff_max"] < 1e-5
        assert metrics["training/rollout_probs_diff_max"] < 0.5
    assert max(steps[step]["training/rollout_probs_diff_max"] for step in stale) > 1e-3
    assert 1 not in stale


def check_rollouts_hold(training, name, step):
    """Greedy validation answers after a step are those of the policy that was saved then."""
    policy, tokenizer = training.policy(name, step), training.tokenizer()
    initial = training.policy(name, 0)
    differences = 0
    for answer in training.dumped(name, "validation", step):
        prompt = tokenizer(answer["input"], return_tensors="pt")["input_ids"]
        expected, before = (
            model.generate(prompt, do_sample=False, max_new_tokens=TOKENS_COMPARED)[0, prompt.shape[1] :]
            for model in (policy, initial)
        )
        words = tokenizer.decode(expected, skip_special_tokens=True).split()
        assert answer["output"].split()[: len(words)] == words
        differences += not torch.equal(expected, before)
    assert differences, "the policy answers as it did before training: this shows nothing"


def probe_of(training):
    """Settings of a keep-rate probe on prompts whose answers are all right or all wrong."""
    probe = {"trainer__keep_probe__prompts": 4, "trainer__keep_probe__n": 1}  # validation is greedy
    for files, judged, base_correct in (
        ("solved_files", {0: 1.0, 1: 1.0, 2: 0.0, 3: 1.0}, 8),
        ("unsolved_files", {20: 1.0, 21: 0.0}, 0),
    ):
        probe[f"trainer__keep_probe__{files}"] = training.folder / f"{files}.parquet"
        save_judged_prompts(training.folder / f"{files}.parquet", judged, base_correct)
    return probe


def check_rates(metrics):
    rates = {name: metrics[f"dph/{name}"] for name in ("keep_rate", "newly_solved", "keep_prompts")}
    assert rates == {"keep_rate": 3 / 4, "newly_solved": 1 / 2, "keep_prompts": 4}


def prompts_trained(training, name, steps):
    return [answer["input"] for step in steps for answer in training.dumped(name, "rollouts", step)]


def test_colocate_async_interrupts_rollouts_and_resumes_where_it_was_stopped(training):
    # On a fast machine it happens that no answer of a run's few steps was under way when the weights changed.
    spans = (train_in_colocate_async(training, f"colocate_{attempt}") for attempt in range(4))
    assert any(span >= 2 for span in spans), "no rollout went on in the next step"


def train_in_colocate_async(training, name):
    """Train, stop, resume and check. Returns the most steps in which one answer was sampled."""
    stopped, total = 3, 5
    prompts = training.folder / "colocate.parquet"
    save_judged_prompts(prompts, {id: 1.0 if id < 5 else None for id in range(PROMPTS)})
    validation = pd.read_parquet(training.validation)
    validation["__rollout_n__"] = as_often = [1, 2, 1, 1]  # how often verl samples each row
    validation.to_parquet(training.folder / "as_often.parquet")
    files = {"data__train_files": prompts, "data__val_files": training.folder / "as_often.parquet"}
    files["reward__custom_reward_function__path"] = training.folder / "slow_reward.py"
    files["reward__custom_reward_function__name"] = "judge"
    (training.folder / "slow_reward.py").write_text(SLOW_REWARD)
    for steps in (stopped, total):
        settings = COLOCATE | W_REINFORCE | CAP | probe_of(training) | files | {"trainer__total_training_steps": steps}
        metrics = training.train(name, **settings, trainer__save_freq=steps, trainer__test_freq=steps)
        check_rollouts_hold(training, name, steps)
        check_rates(metrics[steps])
        assert len(training.dumped(name, "validation", steps)) == sum(as_often)
        assert metrics[steps]["dph/failed_validation_rollouts"] == 0
    check_rehearsal(metrics, total)
    check_capped(training, name, metrics)
    # 20 of the 24 prompts are trained, so at least one of the 5 whose answers are always right.
    assert any(step["dph/capped_groups"] for step in metrics.values())
    for step, groups in groups_trained(training, name, metrics).items():
        expected = [0.0 if all(group) else 0.25 if score else -1.0 for group in groups for score in group]
        assert metrics[step]["critic/advantages/min"] == min(expected)
        assert metrics[step]["critic/advantages/max"] == max(expected)
    for step in metrics.values():  # only the cap makes an advantage 0 here
        assert (step["dph/teaching_tokens"] < 1) == (step["dph/capped_groups"] > 0)
    check_rollout_policy(metrics)
    state = json.loads((training.folder / name / f"global_step_{total}" / "dph_state.json").read_text())
    assert (state["order"]["epoch"], state["order"]["position"]) == (1, 8)
    # 20 of the 24 prompts, each twice: those that were in flight at the stop are neither lost nor asked again
    trained = prompts_trained(training, name, range(1, total + 1))
    assert len(trained) == 40 and len(set(trained)) == 20
    return max(step[SPAN] for step in metrics.values())


@pytest.mark.parametrize(
    "rollouts",
    [
        {"trainer__v1__separate_async__hybrid_rollout__enable_switch": True},
        {"actor_rollout_ref__hybrid_engine": False, "actor_rollout_ref__rollout__n_gpus_per_node": 2},
    ],
    ids=["with the trainer's devices when it waits", "on two devices of their own only"],
)
def test_separate_async(training, request, rollouts):
    name, total = request.node.callspec.id.replace(" ", "_").replace("'", ""), 4
    length = {f"trainer__{key}": total for key in ("total_training_steps", "save_freq", "test_freq")}
    steps = training.train(name, **SEPARATE, **PKPO, **KL_COV, **CAP, **probe_of(training), **rollouts, **length)
    check_rehearsal(steps, total)
    check_advantages(steps, {2.0, 0.0})
    check_capped(training, name, steps)
    # step 1 has two updates, and both mini-batches were sampled from the initial policy: old log-probs are its own
    assert steps[1][STALENESS] == 0 and steps[1]["training/rollout_probs_diff_max"] < 1e-5
    assert max(metrics[STALENESS] for metrics in steps.values()) > 0
    check_rollouts_hold(training, name, total)
    check_rates(steps[total])
    trained = prompts_trained(training, name, range(1, total + 1))
    assert len(trained) == 32 and len(set(trained)) == 16


def test_rewards_that_cannot_be_had_end_an_asynchronous_run(training):
    reward = training.folder / "no_reward.py"
    reward.write_text("def compute_score(*args, **kwargs):\n    raise ConnectionError('the scorer is down')\n")
    settings = COLOCATE | {"reward__custom_reward_function__path": reward, "data__max_response_length": 50}
    said = training.output("failing", code=2, **settings, trainer__total_training_steps=2)
    assert re.search(r"\d+ of 8 rollouts failed in step 1", said)
