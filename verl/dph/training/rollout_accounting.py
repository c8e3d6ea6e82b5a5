"""Rollout accounting: failures, scorer cost, deterministic order."""

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1.replay_buffer import DAPO_FILTERED_REWARD_COUNTS_KEY, ReplayBuffer
from verl.utils import tensordict_utils as tu

from rl.common.errors import UserError
from verl.dph.reward.metrics import reward_metrics
from verl.dph.training.advantages import W_REINFORCE, check_rewards
from verl.dph.training.diversity import response_of, rollout_metrics, validation_metrics
from verl.dph.training.validation_dump import Described, describe, with_columns

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))

# How often the trainer looks whether all rollouts are in. verl's 2 s is a loss on every step of a small model, and
# nothing in verl's configuration sets it. A look lists all keys of TransferQueue, whose controller serves nobody else
# meanwhile: a millisecond for a small step, over 100 for 16,384 rollouts. So it gets at most a twentieth of the time.
POLL_SECONDS = 0.03
PAUSE_PER_LOOK = 20

# Advantage estimators that would take a score of 0 which judges nothing for a wrong response, in a group of zeros too.
LEARN_FROM_ZEROS = (W_REINFORCE, AdvantageEstimator.GAE)

# In verl's error when not one rollout of a step came back (replay_buffer.py, sample).
NOTHING_CAME = "no materializable trajectories"


class Scored(NamedTuple):
    """A sample's last output: its key, data source, reward, and what the reward function returned beside it."""

    key: str
    data_source: str
    reward: float
    info: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The name of its prompt."""
        return self.key.split("_")[0]


class CheckedRollouts(Base):
    """Mixin of a trainer, before verl's PPOTrainer in its bases."""

    def __init__(self, config: DictConfig):
        self.prompts_named: dict[int, int] = {}  # the last step that fetched prompts: how many
        self.failed_rollouts: Counter[int] = Counter()  # by training step
        self.validated: dict[str, Described] = {}  # what verl's dump of the validation under way lacks
        # Of the step, which has several mini-batches in separate_async:
        self.scored: list[Scored] = []  # what is trained on
        self.reward_infos: list[dict] = []  # of the rollouts that are masked too
        self.unjudged_rollouts = 0
        super().__init__(config)

    def _fetch_one_gen_batch(self) -> TensorDict:
        """Name prompts by the step and their number in it instead of at random.

        A batch can be put in order by the names, samples take their seeds from them (verl/dph/cpu/agent_loop.py), and a
        resumed run gives the same names without meeting those of prompts that its checkpoint brings back.
        """
        step = self.global_steps
        first = self.prompts_named.get(step, 0)
        batch = super()._fetch_one_gen_batch()
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
        metrics["dph/unjudged_rollouts"], self.unjudged_rollouts = self.unjudged_rollouts, 0
        return batch

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict, *args, **kwargs) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        metrics.update(reward_metrics(self.reward_infos))
        rows = sorted(self.scored, key=lambda row: _place(row.key))
        self.reward_infos, self.scored = [], []
        responses = [(row.prompt, response_of(row.data_source, row.reward, row.info)) for row in rows]
        filtered = metrics.get(DAPO_FILTERED_REWARD_COUNTS_KEY, {})
        metrics.update(rollout_metrics(responses, self.config.actor_rollout_ref.rollout.n, filtered))

    def _val_metrics_update(
        self, data_sources: list, sample_uids: list, infos: dict, turns: list, expected_acc_counts: dict
    ) -> dict:
        """verl's validation metrics and ours over the rollouts that were scored: verl counts the others as wrong.

        Args:
            expected_acc_counts: rollouts of each (data source, prompt), in the order of the data.

        Raises:
            UserError: more than trainer.max_failed_rollouts are missing.
        """
        metrics = super()._val_metrics_update(data_sources, sample_uids, infos, turns)
        expected = sum(expected_acc_counts.values())  # a row's column __rollout_n__ counts before val_kwargs.n
        failed = metrics["dph/failed_validation_rollouts"] = expected - len(sample_uids)
        if failed:
            self._check_failed(failed, expected, self.global_steps)
        n = self.config.actor_rollout_ref.rollout.val_kwargs.n
        order = (prompt for _, prompt in expected_acc_counts)
        metrics.update(validation_metrics(data_sources, sample_uids, infos, order, n))
        return metrics

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict: dict, dump_path: str) -> None:
        infos = reward_extra_infos_dict
        if self.validated and dump_path == self.config.trainer.validation_data_dir:
            infos = with_columns(infos, self.validated)
            self.validated = {}
        super()._dump_generations(inputs, outputs, gts, scores, infos, dump_path)

    def _sample_whole_groups(
        self, sample: Callable, *, global_steps: int, partition_id: str, batch_size: int, samples: int | None = None
    ):
        """The replay buffer's sample, in training and validation, unless rollouts are missing from it.

        What is missing is masked: verl fills up a training batch with rows without a token that counts, and validation
        goes without it (_val_metrics_update). An asynchronous trainer takes another prompt (_evict_groups). The last
        rollout of a group of which all others failed goes with them: without a group there is no baseline, and verl
        would take its reward for its advantage (_without_masked).

        Args:
            samples: per prompt, if not the number that the settings give for the partition.

        Raises:
            UserError: more than trainer.max_failed_rollouts are missing.
        """
        rollout = self.config.actor_rollout_ref.rollout
        n = samples or (rollout.val_kwargs.n if partition_id == "val" else rollout.n)
        expected = batch_size * n
        try:
            batch, metrics = sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        except RuntimeError as error:
            if NOTHING_CAME not in str(error):
                raise
            raise self._too_many_failed(expected, expected, global_steps) from None
        if partition_id == "val" and samples is None and self.config.trainer.validation_data_dir:
            self.validated |= describe(batch)
        there = _samples_there(batch.keys)
        lone = _lone(there, n) if partition_id == "train" else set()
        failed = expected - there.total() + len(lone)
        if partition_id == "train":
            self._count_failed(failed, global_steps)
            if lone == there.keys():
                raise self._too_many_failed(expected, expected, global_steps)
        elif samples is not None and failed:  # of the keep probe; verl's validation is checked as a whole
            self._check_failed(failed, expected, global_steps)
        return batch, metrics

    def _without_masked(self, batch: KVBatchMeta) -> KVBatchMeta:
        """A step's rows but for groups of one rollout, and groups whose reference cannot be evaluated.

        The rollouts of these have a score of 0, which says nothing about them. They stay if there is nothing else, as
        a step needs rows.

        Raises:
            UserError: w_reinforce or a critic would take what is not judged, or w_reinforce what is correct, for wrong.
        """
        rows, estimator = scored(batch), self.config.algorithm.adv_estimator
        masked = _lone(_samples_there(batch.keys), self.config.actor_rollout_ref.rollout.n)
        self.reward_infos += [row.info for row in rows]
        if estimator == W_REINFORCE:
            check_rewards(row.info for row in rows)
        judged = {row.prompt for row in rows if row.prompt not in masked}
        unjudged = {row.prompt for row in rows if row.info.get("gold_error")} & judged
        self.unjudged_rollouts += sum(row.prompt in unjudged for row in rows)
        if unjudged != judged:
            masked |= unjudged
        elif estimator in LEARN_FROM_ZEROS:
            raise UserError(
                f"No reference of step {self.global_steps} can be evaluated, and {estimator} would take every "
                "response of it for wrong: leave such prompts out, `dph audit` lists them."
            )
        else:
            logger.warning("No reference of step %d can be evaluated; `dph audit` lists them", self.global_steps)
        self.scored += [row for row in rows if row.prompt not in masked]
        if not masked:
            return batch
        kept = [key for key in batch.keys if key.split("_")[0] not in masked]
        tq.kv_clear(keys=sorted(set(batch.keys) - set(kept)), partition_id=batch.partition_id)
        return batch.select_keys(kept)

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
        if reasons[2]:
            there, n = _samples_there(buffer.partitions[partition_id]), self.config.actor_rollout_ref.rollout.n
            self._count_failed(sum(n - there[prompt] for prompt in reasons[2]), global_steps)
        return evict(global_steps, partition_id, reasons)

    def _count_failed(self, failed: int, step: int) -> None:
        """Add to the failed rollouts of a training step.

        Raises:
            UserError: they are more than trainer.max_failed_rollouts.
        """
        if failed:
            self.failed_rollouts[step] += failed
            rollouts = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
            self._check_failed(self.failed_rollouts[step], rollouts, step)

    def _check_failed(self, failed: int, rollouts: int, step: int) -> None:
        if failed > self._may_fail(rollouts):
            raise self._too_many_failed(failed, rollouts, step)
        left_out = "%d of %d rollouts failed in step %d and are left out (their errors are above)"
        logger.warning(left_out, failed, rollouts, step)

    def _may_fail(self, rollouts: int) -> int:
        """trainer.max_failed_rollouts of so many: an int is a count, a float a share, rounded down."""
        limit = self.config.trainer.max_failed_rollouts
        return limit if isinstance(limit, int) else math.floor(limit * rollouts)

    def _too_many_failed(self, failed: int, rollouts: int, step: int) -> UserError:
        return UserError(
            f"{failed} of {rollouts} rollouts failed in step {step} (their errors are above; a scorer that is down?), "
            f"and trainer.max_failed_rollouts={self.config.trainer.max_failed_rollouts} allows "
            f"{self._may_fail(rollouts)}: fix the cause and re-run the same command, training resumes from the last "
            "checkpoint."
        )

    def _balance_batch(self, batch: KVBatchMeta, metrics, *args, **kwargs) -> KVBatchMeta:
        # Rollouts come in the order in which they end, which differs every time. In the order of the data, mini-batches
        # are the same for the same seed.
        batch.reorder(sorted(range(len(batch.keys)), key=lambda row: _place(batch.keys[row])))
        return super()._balance_batch(self._without_masked(batch), metrics, *args, **kwargs)


def _samples_there(keys: Iterable[str]) -> Counter[str]:
    """How many samples of each prompt are among keys "<prompt>_<sample>_<output>"."""
    return Counter(sample.split("_")[0] for sample in {key.rsplit("_", 1)[0] for key in keys})


def _lone(there: Counter[str], n: int) -> set[str]:
    """Prompts of which all rollouts but one failed."""
    return {prompt for prompt, count in there.items() if count == 1 < n}


def scored(batch: KVBatchMeta) -> list[Scored]:
    """A step's samples in their order; to be called before verl adds rows of padding."""
    last = {key.rsplit("_", 1)[0]: key for key in sorted(batch.keys, key=_place)}
    keys, fields = list(last.values()), ["data_source", "rm_scores", "extra_fields"]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    infos = [extra.get("reward_extra_info", {}) for extra in data["extra_fields"]]
    rewards = data["rm_scores"].sum(dim=1).tolist()
    return list(map(Scored, keys, data["data_source"], rewards, infos))


def _place(key: str) -> tuple[str, int, int]:
    """Prompt, sample and output of a key: verl names the i-th output of the s-th sample "<prompt>_<s>_<i>"."""
    prompt, sample, output = key.split("_")
    return prompt, int(sample), int(output)


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
