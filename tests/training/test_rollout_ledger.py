"""verl's replay buffer under the ledger: failures and dropped groups are counted, and prompts come in order."""

from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import replay_buffer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rl.common.errors import UserError
from verl.dph.objective import success_cap
from verl.dph.training import rollout_ledger
from verl.dph.training.rollout_ledger import RolloutLedger
from verl.dph.training.trainer import DPHTrainer

N = 2


class Queue:
    """transfer_queue's list of keys and tags, and what is cleared from it."""

    def __init__(self):
        self.items: dict[str, dict] = {}
        self.unjudged: set[str] = set()  # prompts whose reference cannot be evaluated
        self.graded: dict = {}  # what else the reward function returns for every response
        self.verdicts: dict[str, tuple[float, ...]] = {}  # of a prompt's responses; 0 without

    def add(self, prompt: str, *, n: int = N, failed: int = 0, step: int = 1) -> None:
        status = "failure" if failed else "finished"
        self.items[prompt] = {"is_prompt": True, "status": status, "global_steps": step}
        for sample in range(failed, n):
            self.items[f"{prompt}_{sample}_0"] = {"status": "success"}

    def kv_list(self):
        return {"train": dict(self.items)}

    def kv_batch_get(self, keys, partition_id, select_fields):
        rows = [key.split("_") for key in keys]
        accuracies = [self.verdicts.get(prompt, (0.0,) * 9)[int(sample)] for prompt, sample, _ in rows]
        infos = [
            {"acc": accuracy} | self.graded | {"gold_error": int(prompt in self.unjudged)}
            for accuracy, (prompt, *_) in zip(accuracies, rows, strict=True)
        ]
        scores = {"data_source": ["sql"] * len(keys), "rm_scores": torch.tensor(accuracies)[:, None]}
        return scores | {"extra_fields": [{"reward_extra_info": info} for info in infos]}

    def kv_clear(self, keys, partition_id):
        for key in keys:
            self.items.pop(key)


class Trainer:
    """The part of the trainer that makes the replay buffer and samples a step from it."""

    def __init__(self, config, queue):
        self.config, self.queue, self.global_steps, self.refilled = config, queue, 1, 0
        self.ledger = RolloutLedger(config)
        self.build_replay_buffer()

    def build_replay_buffer(self, **settings):
        self.replay_buffer = ReplayBuffer(
            trainer_mode="sync",
            trainer_config={},
            max_off_policy_threshold=2,
            max_off_policy_strategy="drop",
            sampler_kwargs={},
            refill_fn=self._refill,
            filter_groups_metric="acc" if self.config.algorithm.filter_groups.enable else None,
            train_batch_size=self.config.data.train_batch_size,
            gen_batch_size=1,
            **settings,
        )
        self.ledger.watch(self.replay_buffer)

    def _refill(self, count):
        for _ in range(count):
            self.refilled += 1
            n = self.config.actor_rollout_ref.rollout.n
            self.queue.add(f"new{self.refilled}", n=n, step=self.global_steps)

    def sample(self):
        size = self.config.data.train_batch_size
        batch, _ = self.replay_buffer.sample(global_steps=self.global_steps, partition_id="train", batch_size=size)
        return self.ledger.trainable(batch, self.global_steps)


CONFIG = {
    "trainer": {"max_failed_rollouts": 0, "device": "cpu"},
    "data": {"train_batch_size": 2},
    "actor_rollout_ref": {"rollout": {"n": N}},
    "algorithm": {"adv_estimator": "grpo", "filter_groups": {"enable": False}},
}


@pytest.fixture
def trainer(monkeypatch):
    queue = Queue()
    for module in replay_buffer, rollout_ledger:
        monkeypatch.setattr(module, "tq", queue)
    return Trainer(OmegaConf.create(CONFIG), queue)


def step(trainer) -> SimpleNamespace:
    batch = trainer.sample()
    metrics = trainer.ledger.take_counts(trainer.global_steps)
    trainer.global_steps += 1
    failed, unjudged = metrics["dph/failed_rollouts"], metrics["dph/unjudged_rollouts"]
    return SimpleNamespace(keys=sorted(batch.keys), failed=failed, unjudged=unjudged)


def test_a_failed_group_ends_the_run(trainer):
    trainer.queue.add("a")
    trainer.queue.add("b", failed=1)
    with pytest.raises(UserError, match="2 of 4 rollouts failed in step 1"):  # the other one of b has no baseline
        step(trainer)


def test_failed_groups_that_are_allowed_are_replaced_and_counted_by_step(trainer):
    trainer.build_replay_buffer(sync_refill_failed_groups=True)
    trainer.config.trainer.max_failed_rollouts = 2
    trainer.queue.add("a")
    trainer.queue.add("b", failed=2)
    first = step(trainer)
    assert first.failed == 2
    assert first.keys == ["a_0_0", "a_1_0", "new1_0_0", "new1_1_0"]
    for key in first.keys:
        trainer.queue.items.pop(key)
    for prompt in ("d", "e"):
        trainer.queue.add(prompt, step=2)
    second = step(trainer)
    assert second.failed == 0 and second.keys == ["d_0_0", "d_1_0", "e_0_0", "e_1_0"]


def test_a_reward_that_is_no_number_ends_the_run(trainer):
    trainer.queue.add("a")
    trainer.queue.add("b")
    trainer.queue.verdicts["b"] = (1.0, float("nan"))
    with pytest.raises(UserError, match="The reward function gave nan for a response of data source sql"):
        step(trainer)


@pytest.mark.parametrize(("limit", "allowed"), [(0.5, 3), (0.49, 2), (0.01, 0), (2, 2), (3, 3)])
def test_a_limit_is_a_count_or_a_share_of_the_step_rounded_down(trainer, limit, allowed):
    trainer.config.actor_rollout_ref.rollout.n = 3
    trainer.config.trainer.max_failed_rollouts = limit  # of 6 rollouts
    assert trainer.ledger.may_fail(6) == allowed
    trainer.ledger.count_failed(allowed, step=1)
    with pytest.raises(UserError, match=f"{allowed + 1} of 6 rollouts failed in step 1 .* allows {allowed}"):
        trainer.ledger.count_failed(1, step=1)
    trainer.ledger.count_failed(allowed, step=2)


@pytest.fixture
def groups_of_3(trainer):
    """A trainer of 3 prompts a step, which trains on what is left of a group."""
    trainer.config.actor_rollout_ref.rollout.n = trainer.config.data.train_batch_size = 3
    trainer.config.trainer.max_failed_rollouts = 9
    return trainer


@pytest.mark.parametrize("unjudged", [set(), {"b"}], ids=["all judged", "b without a judgement"])
def test_groups_without_a_baseline_or_a_judgement_are_masked(groups_of_3, unjudged):
    """verl would use the reward of the one rollout that is left as its advantage. Unjudged ones are not failures."""
    for prompt, failed in ("a", 0), ("b", 1), ("c", 2):
        groups_of_3.queue.add(prompt, n=3, failed=failed)
    groups_of_3.queue.unjudged = unjudged
    result = step(groups_of_3)
    of_b = {"b_1_0", "b_2_0"}
    assert result.keys == ["a_0_0", "a_1_0", "a_2_0", *(() if unjudged else sorted(of_b))]
    assert (result.failed, result.unjudged) == (1 + 2 + 1, 2 if unjudged else 0)
    assert groups_of_3.queue.items.keys() & (of_b | {"c_2_0"}) == (set() if unjudged else of_b)
    for prompt in "def":
        groups_of_3.queue.add(prompt, n=3, step=2)
    result = step(groups_of_3)
    assert len(result.keys) == 9 and result.unjudged == 0


def test_a_step_of_groups_without_a_judgement_keeps_its_rows(groups_of_3, caplog):
    for prompt in "abc":
        groups_of_3.queue.add(prompt, n=3)
    groups_of_3.queue.unjudged = {"a", "b", "c"}
    result = step(groups_of_3)
    assert len(result.keys) == 9 and result.unjudged == 9
    assert "No reference of step 1 can be evaluated" in caplog.text


@pytest.mark.parametrize(
    ("estimator", "unjudged", "graded", "sentence"),
    [
        ("gae", "abc", {}, "evaluated, and gae would count all of its responses"),
        ("w_reinforce", "abc", {}, "No reference of step 1 can be evaluated, and w_reinforce would count all of its"),
        (
            "w_reinforce",
            "",
            {"score": 0.75, "acc": 1},
            "A correct response has a reward of 0.75, and ",
        ),
        ("w_reinforce", "", {"score": 0.8, "acc": 0}, None),
        ("w_reinforce", "", {"score": 1.0, "acc": 1}, None),
    ],
)
def test_a_correct_or_unjudged_response_never_counts_as_wrong(groups_of_3, estimator, unjudged, graded, sentence):
    groups_of_3.config.algorithm.adv_estimator = estimator
    for prompt in "abc":
        groups_of_3.queue.add(prompt, n=3)
    groups_of_3.queue.unjudged, groups_of_3.queue.graded = set(unjudged), graded
    if sentence is None:
        assert len(step(groups_of_3).keys) == 9
        return
    with pytest.raises(UserError, match=sentence):
        step(groups_of_3)


@pytest.mark.parametrize("estimator", ["grpo", "grpo_vectorized"])
def test_groups_of_equal_rewards_teach_nothing(groups_of_3, monkeypatch, estimator):
    """verl divides a rounding by the deviation, a rounding too: 16 rewards of 0.7 would have an advantage of .11."""
    for prompt in "abc":
        groups_of_3.queue.add(prompt, n=3)
    groups_of_3.queue.verdicts = {"a": (0.7,) * 3, "b": (0.7, 0.7, 0.6)}
    groups_of_3.config.algorithm = {"adv_estimator": estimator, "use_kl_in_reward": False, "success_cap": None}
    trainer, zeroed = object.__new__(DPHTrainer), []
    trainer.config, trainer.ledger = groups_of_3.config, groups_of_3.ledger
    monkeypatch.setattr(PPOTrainerSync, "_compute_advantage", lambda self, batch, metrics: batch)
    monkeypatch.setattr(success_cap, "apply", lambda batch, prompts: zeroed.append(prompts))
    monkeypatch.setattr(success_cap, "share_that_teaches", lambda batch: 1.0)
    trainer._compute_advantage(groups_of_3.sample(), {})
    assert zeroed == [{"a", "c"}]


def test_groups_that_dynamic_sampling_drops_or_does_not_need_count_in_pass_at_k(trainer):
    """verl drops a, b and f, whose rewards are equal, and draws two others; the step has room for one."""
    config, queue = trainer.config, trainer.queue
    config.algorithm.filter_groups.enable, config.actor_rollout_ref.rollout.n = True, 4
    config.trainer.max_failed_rollouts = 1
    queue.verdicts = {"a": (1,) * 4, "b": (0,) * 4, "d": (1, 1, 0, 0), "new1": (0, 0, 0, 1), "new2": (0, 0, 0, 1)}
    queue.unjudged = {"f"}
    trainer.build_replay_buffer()
    for prompt in "abdf":
        queue.add(prompt, n=4)
    assert {key.split("_")[0] for key in trainer.sample().keys} == {"d", "new1"}
    assert not {key.split("_")[0] for key in queue.items} & set("abf")
    assert trainer.ledger.take_counts(1)["dph/unjudged_rollouts"] == 4
    metrics = trainer.ledger.take_metrics()
    assert metrics["dph/pass@1"] == pytest.approx((4 + 0 + 2 + 1 + 1) / 4 / 5)


@pytest.mark.parametrize("failed", [2, 3])
def test_a_step_without_a_group_ends_the_run_whatever_is_allowed(groups_of_3, failed):
    for prompt in "abc":
        groups_of_3.queue.add(prompt, n=3, failed=failed)
    with pytest.raises(UserError, match="9 of 9 rollouts failed in step 1"):
        step(groups_of_3)


def test_a_validation_without_a_rollout_ends_the_run_whatever_is_allowed(groups_of_3, monkeypatch):
    groups_of_3.config.actor_rollout_ref.rollout.val_kwargs = {"n": 2}
    failed = {prompt: {"is_prompt": True, "status": "failure", "global_steps": 1} for prompt in "abc"}
    monkeypatch.setattr(groups_of_3.queue, "kv_list", lambda: {"val": failed})
    monkeypatch.setattr(groups_of_3.queue, "kv_clear", lambda keys, partition_id: None)
    with pytest.raises(UserError, match="6 of 6 rollouts failed in step 1"):
        groups_of_3.replay_buffer.sample(global_steps=1, partition_id="val", batch_size=3)


def test_prompts_come_in_the_order_of_the_data(trainer):
    names = [f"step1-{number:02d}" for number in range(10)]
    for name in reversed(names):
        trainer.queue.add(name)
    taken = []
    for _ in range(5):
        batch = trainer.sample()
        taken += sorted({key.split("_")[0] for key in batch.keys})
        for key in batch.keys:
            trainer.queue.items.pop(key)
    assert taken == names
