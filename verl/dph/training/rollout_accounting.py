"""Rollout accounting: failures, scorer cost, deterministic order."""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils as tu

from rl.common.errors import UserError
from verl.dph.reward.metrics import reward_metrics

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object

# How often the trainer looks whether all rollouts are in. verl's 2 s is a loss on every step of a small model, and
# nothing in verl's configuration sets it. A look lists all keys of TransferQueue, whose controller serves nobody else
# meanwhile: a millisecond for a small step, over 100 for 16,384 rollouts. So it gets at most a twentieth of the time.
POLL_SECONDS = 0.03
PAUSE_PER_LOOK = 20

# In verl's error when not one rollout of a step came back (replay_buffer.py, sample).
NOTHING_CAME = "no materializable trajectories"


class CheckedRollouts(Base):
    """Mixin of a trainer, before verl's PPOTrainer in its bases."""

    def __init__(self, config: DictConfig):
        self.prompts_named: dict[int, int] = {}  # the last step that fetched prompts: how many
        self.failed_rollouts: Counter[int] = Counter()  # by training step
        super().__init__(config)

    def _fetch_one_gen_batch(self) -> TensorDict:
        """Name prompts by the step and their number in it instead of at random.

        A batch can be put in order by the names, samples take their seeds from them (verl/dph/cpu/agent_loop.py), and a
        resumed run gives the same names without meeting those of prompts that its checkpoint brings back.
        """
        batch = super()._fetch_one_gen_batch()
        step = self.global_steps
        first = self.prompts_named.get(step, 0)
        self.prompts_named = {step: first + len(batch)}
        names = [f"step{step:08d}-{number:06d}" for number in range(first, first + len(batch))]
        batch["uid"] = tu.get_tensordict({"uid": np.array(names, dtype=object)})["uid"]
        return batch

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        if self.trainer_mode != "separate_async":  # compares its idle time with verl's interval (_step_had_idle)
            look = partial(_timed_look, buffer, buffer._sync_metadata_from_transfer_queue, buffer.poll_interval)
            buffer._sync_metadata_from_transfer_queue = look
        buffer.sample = partial(self._sample_whole_groups, buffer.sample)
        buffer._evict_terminal_groups = partial(self._evict_groups, buffer, buffer._evict_terminal_groups)
        buffer._select_prompt_uids = partial(_select_in_order, buffer._select_prompt_uids)
        return buffer

    def step(self, metrics: dict, timing_raw: dict) -> KVBatchMeta:
        batch = super().step(metrics, timing_raw)
        metrics["dph/failed_rollouts"] = self.failed_rollouts.pop(self.global_steps, 0)
        return batch

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict, *args, **kwargs) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        metrics.update(reward_metrics(_reward_infos(batch)))

    def _val_metrics_update(
        self, data_sources: list, sample_uids: list, infos: dict, turns: list, expected_acc_counts: dict
    ) -> dict:
        """verl's validation metrics over the rollouts that were scored: verl counts the others as wrong.

        Args:
            expected_acc_counts: rollouts of each prompt.
        """
        metrics = super()._val_metrics_update(data_sources, sample_uids, infos, turns)
        metrics["dph/failed_validation_rollouts"] = sum(expected_acc_counts.values()) - len(sample_uids)
        return metrics

    def _sample_whole_groups(
        self, sample: Callable, *, global_steps: int, partition_id: str, batch_size: int, samples: int | None = None
    ):
        """The replay buffer's sample, in training and validation, unless rollouts are missing from it.

        What is missing is masked: verl fills up a training batch with rows without a token that counts, and validation
        goes without it (_val_metrics_update). An asynchronous trainer takes another prompt (_evict_groups).

        Args:
            samples: per prompt, if not the number that the settings give for the partition.

        Raises:
            UserError: more than trainer.max_failed_rollouts are missing.
        """
        rollout = self.config.actor_rollout_ref.rollout
        expected = batch_size * (samples or (rollout.val_kwargs.n if partition_id == "val" else rollout.n))
        try:
            batch, metrics = sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        except RuntimeError as error:
            if NOTHING_CAME not in str(error):
                raise
            raise self._too_many_failed(expected, expected, global_steps) from None
        failed = expected - len({key.rsplit("_", 1)[0] for key in batch.keys})  # "<prompt>_<sample>_<output>"
        if partition_id == "train":
            self.failed_rollouts[global_steps] += failed
            failed = self.failed_rollouts[global_steps]
        if failed > self.config.trainer.max_failed_rollouts:
            raise self._too_many_failed(failed, expected, global_steps)
        return batch, metrics

    def _evict_groups(
        self, buffer: ReplayBuffer, evict: Callable, global_steps: int, partition_id: str, reasons: tuple
    ) -> tuple:
        """The replay buffer's eviction. Of a failed group, the rollouts that failed count in this step.

        An asynchronous trainer (and sync with sampler.sync_refill_failed_groups) replaces a group of which a rollout
        failed by another prompt, for ever: a scorer that is down would not be noticed.

        Args:
            reasons: prompts that are stale, that dynamic sampling filters out, and that failed; and a count.

        Raises:
            UserError: more than trainer.max_failed_rollouts failed in this step.
        """
        failed_prompts, n = reasons[2], self.config.actor_rollout_ref.rollout.n
        samples = {key.rsplit("_", 1)[0] for key in buffer.partitions[partition_id]}
        there = Counter(sample.split("_")[0] for sample in samples)
        self.failed_rollouts[global_steps] += sum(n - there[prompt] for prompt in failed_prompts)
        if self.failed_rollouts[global_steps] > self.config.trainer.max_failed_rollouts:
            expected = self.config.data.train_batch_size * n
            raise self._too_many_failed(self.failed_rollouts[global_steps], expected, global_steps)
        return evict(global_steps, partition_id, reasons)

    @staticmethod
    def _too_many_failed(failed: int, expected: int, step: int) -> UserError:
        return UserError(
            f"{failed} of {expected} rollouts failed in step {step} (their errors are above; a scorer that is down?): "
            "fix the cause and re-run the same command, training resumes from the last checkpoint; "
            "trainer.max_failed_rollouts allows more."
        )

    def _balance_batch(self, batch: KVBatchMeta, metrics, *args, **kwargs) -> KVBatchMeta:
        # Rollouts come in the order in which they end, which differs every time. In the order of the data, mini-batches
        # are the same for the same seed. verl names the i-th output of the s-th sample "<prompt>_<s>_<i>".
        parts = [key.split("_") for key in batch.keys]
        batch.reorder(sorted(range(len(parts)), key=lambda row: (parts[row][0], *map(int, parts[row][1:]))))
        return super()._balance_batch(batch, metrics, *args, **kwargs)


def _reward_infos(batch: KVBatchMeta) -> list[dict]:
    """What the reward function returned for each sample of a step."""
    last = {
        key.rsplit("_", 1)[0]: key for key, tag in zip(batch.keys, batch.tags, strict=True) if "is_padding" not in tag
    }
    data = tq.kv_batch_get(keys=list(last.values()), partition_id=batch.partition_id, select_fields=["extra_fields"])
    return [extra.get("reward_extra_info", {}) for extra in data["extra_fields"]]


def _timed_look(buffer: ReplayBuffer, look: Callable, longest: float) -> None:
    """The replay buffer's look at TransferQueue; how long it took decides when the next one is.

    Args:
        longest: seconds between two looks, verl's interval.
    """
    started = time.perf_counter()
    look()
    pause = PAUSE_PER_LOOK * (time.perf_counter() - started)
    buffer.poll_interval = min(max(POLL_SECONDS, pause), longest)


def _select_in_order(select: Callable, partition_id: str, prompts: set[str], batch_size: int) -> tuple:
    """The replay buffer's selection of the oldest prompts; among those of one step, the first of the data.

    verl takes these in the order of a set of strings, which is another one in every process.
    """
    return select(partition_id, sorted(prompts), batch_size)
