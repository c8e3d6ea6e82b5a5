"""The rollouts of a run: their names and order, which failed, which are trained on, and their metrics."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils as tu

from rl.common.errors import UserError
from rl.metrics.response_groups import Response
from verl.dph.objective.advantages import W_REINFORCE, check_rewards
from verl.dph.training.rollout_metrics import response_of, reward_metrics, rollout_metrics, validation_metrics

logger = logging.getLogger(__name__)

# How often the trainer looks whether all rollouts have arrived, on a CPU. verl's interval of 2 s, which no setting
# changes, slows every step of a small model.
POLL_SECONDS = 0.03

# Advantage estimators that would mistake a score of 0 that judges nothing for a wrong response, even if the whole group
# has 0.
LEARN_FROM_ZEROS = (W_REINFORCE, AdvantageEstimator.GAE)

# In verl's error when not one rollout of a step came back (replay_buffer.py, sample).
NOTHING_CAME = "no materializable trajectories"


class Scored(NamedTuple):
    """A sample's last output: its key, data source, reward, and what else the reward function returned."""

    key: str
    data_source: str
    reward: float
    info: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The name of its prompt."""
        return self.key.split("_")[0]


class RolloutLedger:
    """The rollouts of a run, from the prompts that are sampled to the rows that a step trains on.

    The trainer (training/trainer.py) calls it in verl's hooks. It has no state in checkpoints, because it is empty
    between steps.

    Args:
        config: verl's trainer settings.
    """

    def __init__(self, config: DictConfig):
        self.config = config
        self._prompts_named: dict[int, int] = {}  # {the last step that fetched prompts: prompts so far}
        self._failed: Counter[int] = Counter()  # by training step
        # Of the current step:
        self._scored: list[Scored] = []  # what is trained on
        self._reward_infos: list[dict] = []  # also of masked rollouts
        self._unjudged = 0
        self._dropped: list[Scored] = []  # by dynamic sampling, also those drawn beyond the batch

    # ------------------------------------------------------------------------------------------------ sampling

    def name_prompts(self, batch: TensorDict, step: int) -> None:
        """Name prompts by the step and their number in it instead of at random.

        The names order a batch and seed its samples (verl/dph/cpu/agent_loop.py). A resumed run gives the same names,
        and never one of the prompts in its checkpoint.
        """
        first = self._prompts_named.get(step, 0)
        self._prompts_named = {step: first + len(batch)}
        names = [f"step{step:08d}-{number:06d}" for number in range(first, first + len(batch))]
        batch["uid"] = tu.get_tensordict({"uid": np.array(names, dtype=object)})["uid"]

    def watch(self, buffer: ReplayBuffer) -> None:
        """Wrap the replay buffer's sampling, eviction and selection of prompts with ours."""
        if self.config.trainer.device == "cpu":
            buffer.poll_interval = POLL_SECONDS
        buffer.sample = partial(self._sample, buffer.sample)
        buffer._evict_terminal_groups = partial(self._evict, buffer, buffer._evict_terminal_groups)
        buffer._clear_groups = partial(self._clear, buffer, buffer._clear_groups)
        buffer._select_prompt_uids = partial(_select_in_order, buffer._select_prompt_uids)

    def _sample(
        self, sample: Callable, *, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict]:
        """The replay buffer's sample, in training and validation, unless too many rollouts are missing from it.

        Missing rollouts are masked: verl fills a training batch with padding rows, and validation leaves them out
        (`validation_metrics`). If only one rollout of a group is left, it is left out too (`trainable`): it has no
        baseline, and verl would use its reward as its advantage.

        Raises:
            UserError: more than trainer.max_failed_rollouts are missing, or all of them.
        """
        rollout = self.config.actor_rollout_ref.rollout
        n = rollout.val_kwargs.n if partition_id == "val" else rollout.n
        expected = batch_size * n
        try:
            batch, metrics = sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        except RuntimeError as error:
            if NOTHING_CAME not in str(error):
                raise
            raise self._too_many_failed(expected, expected, global_steps) from None
        there = _samples_there(batch.keys)
        if not there:  # in validation verl raises no error, and asks TransferQueue for no rows, which does
            raise self._too_many_failed(expected, expected, global_steps)
        if partition_id == "train":  # validation is checked as a whole (`validation_metrics`)
            lone = _lone(there, n)
            self.count_failed(expected - there.total() + len(lone), global_steps)
            if lone == there.keys():
                raise self._too_many_failed(expected, expected, global_steps)
        return batch, metrics

    def _evict(
        self, buffer: ReplayBuffer, evict: Callable, global_steps: int, partition_id: str, reasons: tuple
    ) -> tuple:
        """The replay buffer's eviction, which also counts failed rollouts.

        With sampler.sync_refill_failed_groups verl replaces a group whose rollouts all failed by another prompt,
        without limit, so nobody would notice that the scorer is down.

        Args:
            reasons: stale prompts, prompts that dynamic sampling drops, failed prompts, and a count.

        Raises:
            UserError: more than trainer.max_failed_rollouts failed in this step.
        """
        if reasons[2]:
            there, n = _samples_there(buffer.partitions[partition_id]), self.config.actor_rollout_ref.rollout.n
            self.count_failed(sum(n - there[prompt] for prompt in reasons[2]), global_steps)
        return evict(global_steps, partition_id, reasons)

    def _clear(self, buffer: ReplayBuffer, clear: Callable, partition_id: str, prompts: set[str]) -> None:
        """The replay buffer's removal of groups that dynamic sampling drops or has drawn beyond the batch.

        Their verdicts are kept: without them Pass@k would describe a part of the groups. Those without a verdict are
        counted; their rewards of 0 are equal.
        """
        rows = _rows_of(buffer, partition_id, prompts) if partition_id == "train" else []
        judged = [row for row in rows if not row.info.get("gold_error")]
        self._dropped += judged
        self._unjudged += len(rows) - len(judged)
        clear(partition_id, prompts)

    # ------------------------------------------------------------------------------------------------ a step's rows

    def trainable(self, batch: KVBatchMeta, step: int) -> KVBatchMeta:
        """A step's rows, without groups of one rollout and groups whose reference cannot be evaluated.

        These leave TransferQueue: a response without a reference has a score of 0 that says nothing about it. If no
        reference can be evaluated, all stay, because a step needs rows. Rollouts arrive in another order every time; in
        the order of the data, mini-batches are the same for the same seed.

        Raises:
            UserError: w_reinforce or a critic would count unjudged responses as wrong, or w_reinforce would count
                correct ones as wrong.
        """
        batch.reorder(sorted(range(len(batch.keys)), key=lambda row: _place(batch.keys[row])))
        rows, estimator = scored(batch), self.config.algorithm.adv_estimator
        masked = _lone(_samples_there(batch.keys), self.config.actor_rollout_ref.rollout.n)
        self._reward_infos += [row.info for row in rows]
        if estimator == W_REINFORCE:
            check_rewards(row.info for row in rows)
        judged = {row.prompt for row in rows if row.prompt not in masked}
        unjudged = {row.prompt for row in rows if row.info.get("gold_error")} & judged
        self._unjudged += sum(row.prompt in unjudged for row in rows)
        if unjudged != judged:
            masked |= unjudged
        elif estimator in LEARN_FROM_ZEROS:
            raise UserError(
                f"No reference of step {step} can be evaluated, and {estimator} would count all of its responses as "
                "wrong: leave such prompts out, `dph audit` lists them."
            )
        else:
            logger.warning("No reference of step %d can be evaluated; `dph audit` lists them", step)
        self._scored += [row for row in rows if row.prompt not in masked]
        if not masked:
            return batch
        kept = [key for key in batch.keys if key.split("_")[0] not in masked]
        tq.kv_clear(keys=sorted(set(batch.keys) - set(kept)), partition_id=batch.partition_id)
        return batch.select_keys(kept)

    def accuracies(self, batch: KVBatchMeta) -> dict[str, float | None]:
        """`acc` of the scorer by sample, "<prompt>_<sample>", of the rollouts of a batch that are trained on and were
        judged; None where the reward function gave none."""
        rows = self._rows(batch)
        return {row.key.rsplit("_", 1)[0]: row.info.get("acc") for row in rows if not row.info.get("gold_error")}

    def prompts_of_equal_rewards(self, batch: KVBatchMeta) -> set[str]:
        """The prompts of a batch whose responses all have the same reward."""
        rewards: dict[str, set[float]] = {}
        for row in self._rows(batch):
            rewards.setdefault(row.prompt, set()).add(row.reward)
        return {prompt for prompt, found in rewards.items() if len(found) == 1}

    def _rows(self, batch: KVBatchMeta) -> list[Scored]:
        there = {key.split("_")[0] for key in batch.keys}
        return [row for row in self._scored if row.prompt in there]

    # ------------------------------------------------------------------------------------------------ failures

    def count_failed(self, failed: int, step: int) -> None:
        """Add to the failed rollouts of a training step.

        Raises:
            UserError: they are more than trainer.max_failed_rollouts.
        """
        if failed:
            self._failed[step] += failed
            rollouts = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
            self._check_failed(self._failed[step], rollouts, step)

    def _check_failed(self, failed: int, rollouts: int, step: int) -> None:
        if failed > self.may_fail(rollouts):
            raise self._too_many_failed(failed, rollouts, step)
        left_out = "%d of %d rollouts failed in step %d and are left out (their errors are above)"
        logger.warning(left_out, failed, rollouts, step)

    def may_fail(self, rollouts: int) -> int:
        """How many of `rollouts` trainer.max_failed_rollouts allows: an int is a count, a float a share."""
        limit = self.config.trainer.max_failed_rollouts
        return limit if isinstance(limit, int) else math.floor(limit * rollouts)

    def _too_many_failed(self, failed: int, rollouts: int, step: int) -> UserError:
        return UserError(
            f"{failed} of {rollouts} rollouts failed in step {step} (their errors are above; a scorer that is down?), "
            f"and trainer.max_failed_rollouts={self.config.trainer.max_failed_rollouts} allows "
            f"{self.may_fail(rollouts)}: fix the cause and re-run the same command, training resumes from the last "
            "checkpoint."
        )

    # ------------------------------------------------------------------------------------------------ metrics

    def take_counts(self, step: int) -> dict[str, int]:
        """dph/failed_rollouts and dph/unjudged_rollouts of a step that has ended."""
        unjudged, self._unjudged = self._unjudged, 0
        return {"dph/failed_rollouts": self._failed.pop(step, 0), "dph/unjudged_rollouts": unjudged}

    def take_metrics(self) -> dict[str, float]:
        """Rewards, scoring effort and diversity of a step that has ended."""
        rows = sorted(self._scored, key=lambda row: _place(row.key))
        n = self.config.actor_rollout_ref.rollout.n
        metrics = rollout_metrics(_responses(rows), n, _responses(self._dropped))
        metrics |= reward_metrics(self._reward_infos)
        self._scored, self._reward_infos, self._dropped = [], [], []
        return metrics

    def validation_metrics(
        self, step: int, data_sources: list, sample_uids: list, infos: dict, expected: dict[tuple[str, str], int]
    ) -> dict[str, float]:
        """Metrics over the rollouts that were scored; verl counts the others as wrong.

        Args:
            step: the step before the validation.
            data_sources, sample_uids: the data source and prompt of each response that was scored.
            infos: columns of what the reward function returned.
            expected: rollouts of each (data source, prompt), in the order of the data. A row's column __rollout_n__
                overrides val_kwargs.n.

        Raises:
            UserError: more than trainer.max_failed_rollouts are missing.
        """
        total = sum(expected.values())
        failed = total - len(sample_uids)
        if failed:
            self._check_failed(failed, total, step)
        n, order = self.config.actor_rollout_ref.rollout.val_kwargs.n, (prompt for _, prompt in expected)
        found = validation_metrics(data_sources, sample_uids, infos, order, n)
        return {"dph/failed_validation_rollouts": failed} | found


def _samples_there(keys: Iterable[str]) -> Counter[str]:
    """How many samples of each prompt are among keys "<prompt>_<sample>_<output>"."""
    return Counter(sample.split("_")[0] for sample in {key.rsplit("_", 1)[0] for key in keys})


def _lone(there: Counter[str], n: int) -> set[str]:
    """Prompts with one rollout left."""
    return {prompt for prompt, count in there.items() if count == 1 < n}


def scored(batch: KVBatchMeta) -> list[Scored]:
    """A step's samples in order. Call it before verl adds padding rows.

    Raises:
        UserError: a reward is not a number, which would make the loss of its mini-batch none either.
    """
    last = {key.rsplit("_", 1)[0]: key for key in sorted(batch.keys, key=_place)}
    keys, fields = list(last.values()), ["data_source", "rm_scores", "extra_fields"]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    infos = [extra.get("reward_extra_info", {}) for extra in data["extra_fields"]]
    rewards = data["rm_scores"].sum(dim=1).tolist()
    for source, reward in zip(data["data_source"], rewards, strict=True):
        if not math.isfinite(reward):
            raise UserError(
                f"The reward function gave {reward} for a response of data source {source}: let it return a finite "
                "number, or raise an error, which counts as a failed rollout."
            )
    return list(map(Scored, keys, data["data_source"], rewards, infos))


def _rows_of(buffer: ReplayBuffer, partition_id: str, prompts: Collection[str]) -> list[Scored]:
    """The samples of finished groups that are still in the replay buffer."""
    keys = [key for key in buffer.partitions[partition_id] if key.split("_")[0] in prompts] if prompts else []
    return scored(KVBatchMeta(keys=keys, tags=[{} for _ in keys], partition_id=partition_id)) if keys else []


def _responses(rows: Iterable[Scored]) -> list[tuple[str, Response]]:
    return [(row.prompt, response_of(row.data_source, row.reward, row.info)) for row in rows]


def _place(key: str) -> tuple[str, int, int]:
    """Prompt, sample and output of a key: verl names the i-th output of the s-th sample "<prompt>_<s>_<i>"."""
    prompt, sample, output = key.split("_")
    return prompt, int(sample), int(output)


def _select_in_order(select: Callable, partition_id: str, prompts: set[str], batch_size: int) -> tuple:
    """The replay buffer's selection of the oldest prompts, in the order of the data within a step.

    verl takes them in the order of a set of strings, which differs between processes.
    """
    return select(partition_id, sorted(prompts), batch_size)
