"""verl's synchronous trainer with rehearsal: D_pef rows in every optimizer mini-batch, and their order in checkpoints.

Only hooks are overridden (VERL.md). `_update_actor` is the one method of verl's that had to be written again, because
it fixes the mini-batch size; tests/trainer/test_upstream.py fails when upstream's changes.
"""

import itertools
import json
import logging
import os
from collections.abc import Callable
from functools import partial

import numpy as np
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from verl.dph import pef_batch, settings
from verl.dph.engine import client_of
from verl.dph.errors import UserError
from verl.dph.loss import rehearsal_loss
from verl.dph.rehearsal import RehearsalOrder
from verl.dph.store import Row, Store
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.rollout.llm_server import LLMServerClient

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))

# How often the trainer looks whether all rollouts are in. verl's 2 s is a loss on every step of a small model, and
# nothing in verl's configuration sets it; one look costs about a millisecond.
POLL_SECONDS = 0.03

STATE_FILE = "dph_state.json"

# In verl's error when not one rollout of a step came back (replay_buffer.py, sample).
NOTHING_CAME = "no materializable trajectories"


class DPHTrainer(PPOTrainerSync):
    """PPOTrainerSync plus rehearsal on D_pef when `actor.sft_loss_mode` is not none."""

    def __init__(self, config: DictConfig):
        super().__init__(config)
        self.prompt_numbers = itertools.count()
        self.store: Store | None = None
        if settings.rehearses(config):
            self.store = Store.load(os.path.expanduser(config.data.sft_pt))
            self.order = RehearsalOrder(len(self.store), config.data.sft_seed)
            self.rows_a_mini_batch = config.data.sft_batch_size // settings.mini_batches(config)

    def on_init_end(self):
        if self.store is not None:
            actor_config = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
            self.actor_rollout_wg.set_loss_fn(partial(rehearsal_loss, config=actor_config))
            logger.info(
                "rehearsing %s on %d rows (%d response tokens) of %s, %d a mini-batch",
                actor_config.sft_loss_mode,
                len(self.store),
                self.store.num_tokens,
                self.config.data.sft_pt,
                self.rows_a_mini_batch,
            )
        super().on_init_end()

    def get_llm_client(self) -> LLMServerClient:
        return client_of(self.llm_server_manager)

    def fit(self, agent_loop_manager):
        if not self.config.actor_rollout_ref.actor.generate_sft:
            return super().fit(agent_loop_manager)
        from verl.dph.reference import write_store

        write_store(self)

    # ------------------------------------------------------------------------------------------------ one step

    def _fetch_one_gen_batch(self) -> TensorDict:
        """Number the prompts instead of naming them at random, so that a batch can be put in order."""
        batch = super()._fetch_one_gen_batch()
        names = [f"prompt{next(self.prompt_numbers):012d}" for _ in range(len(batch))]
        batch["uid"] = tu.get_tensordict({"uid": np.array(names, dtype=object)})["uid"]
        return batch

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = POLL_SECONDS
        buffer.sample = partial(self._sample_whole_groups, buffer.sample)
        return buffer

    def _sample_whole_groups(self, sample: Callable, *, global_steps: int, partition_id: str, batch_size: int):
        """The replay buffer's sample, in training and validation, unless rollouts are missing from it.

        verl pads what is missing in training and counts it as wrong in validation; a reward that could not be had must
        not pass so.

        Raises:
            UserError: more than trainer.max_failed_rollouts are missing.
        """
        rollout = self.config.actor_rollout_ref.rollout
        expected = batch_size * (rollout.val_kwargs.n if partition_id == "val" else rollout.n)
        try:
            batch, metrics = sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        except RuntimeError as error:
            if NOTHING_CAME not in str(error):
                raise
            raise self._too_many_failed(expected, expected, global_steps) from None
        failed = expected - len({key.rsplit("_", 1)[0] for key in batch.keys})  # "<prompt>_<sample>_<output>"
        if failed > self.config.trainer.max_failed_rollouts:
            raise self._too_many_failed(failed, expected, global_steps)
        return batch, metrics | {"dph/failed_rollouts": failed}

    @staticmethod
    def _too_many_failed(failed: int, expected: int, step: int) -> UserError:
        return UserError(
            f"{failed} of {expected} rollouts failed in step {step} (their errors stand above; a scorer that is down?): "
            "mend the cause and start again, training resumes from the last checkpoint; trainer.max_failed_rollouts allows "
            "more."
        )

    def _balance_batch(self, batch: KVBatchMeta, metrics, *args, **kwargs) -> KVBatchMeta:
        # Rollouts come in the order in which they end, which is another one every time. In the order of the data, mini-
        # batches are the same for the same seed. verl names the i-th output of the s-th sample "<prompt>_<s>_<i>".
        parts = [key.split("_") for key in batch.keys]
        batch.reorder(sorted(range(len(parts)), key=lambda row: (parts[row][0], *map(int, parts[row][1:]))))
        return super()._balance_batch(batch, metrics, *args, **kwargs)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if self.store is None:
            return super()._update_actor(batch, metrics)
        actor = self.config.actor_rollout_ref.actor
        mini_batch_rows = actor.ppo_mini_batch_size * self.config.actor_rollout_ref.rollout.n
        pef = [self._next_rows() for _ in range(len(batch.keys) // mini_batch_rows)]
        with pef_batch.mixed(batch, pef, ranks=self.data_parallel_size()) as mixed:
            mixed.extra_info.update(
                calculate_entropy=actor.calculate_entropy or actor.entropy_coeff != 0.0,
                distillation_use_topk=False,
                distillation_only=False,
                global_batch_size=mini_batch_rows,  # divides sequence means: D_exp rows only
                mini_batch_size=mini_batch_rows + self.rows_a_mini_batch,
                epochs=actor.ppo_epochs,
                seed=actor.data_loader_seed,
                dataloader_kwargs={"shuffle": False},
                temperature=self.config.actor_rollout_ref.rollout.temperature,
            )
            output = self.actor_rollout_wg.update_actor(mixed)
        output = rename_dict(output["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        output = {name.removeprefix("actor/") if name.startswith("actor/dph/") else name: v for name, v in output.items()}
        metrics.update(reduce_metrics(output))
        metrics["dph/rows"] = sum(len(rows) for rows in pef)
        metrics["dph/epoch"] = self.order.epoch + self.order.position / self.order.num_rows
        return batch  # without the D_pef rows: verl's metrics and clean-up see D_exp only

    def data_parallel_size(self) -> int:
        """Ranks that see different rows."""
        return max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1

    def _next_rows(self) -> list[Row]:
        return [self.store.rows[i] for i in self.order.take(self.rows_a_mini_batch)]

    # ------------------------------------------------------------------------------------------------ checkpoints

    def _save_checkpoint(self):
        # Before super(): it writes the file that names the newest checkpoint last.
        if self.store is not None:
            folder = os.path.join(self.config.trainer.default_local_dir, f"global_step_{self.global_steps}")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, STATE_FILE)
            with open(path + ".tmp", "w") as file:
                json.dump(self.order.state_dict(), file)
            os.replace(path + ".tmp", path)
        super()._save_checkpoint()

    def _load_checkpoint(self):
        super()._load_checkpoint()
        if self.store is None or self.global_steps == 0:
            return
        trainer = self.config.trainer
        folder = (
            trainer.resume_from_path
            if trainer.resume_mode == "resume_path"
            else os.path.join(trainer.default_local_dir, f"global_step_{self.global_steps}")
        )
        path = os.path.join(folder, STATE_FILE)
        try:
            with open(path) as file:
                self.order.load_state_dict(json.load(file))
        except FileNotFoundError:
            raise UserError(
                f"{path} is missing: the checkpoint was written without rehearsal; start another run "
                "(trainer.default_local_dir) or continue with sft_loss_mode=none."
            ) from None
        except ValueError as error:
            raise UserError(f"{path} does not fit this run: {error}; resume with the same store and sft_seed.") from error
