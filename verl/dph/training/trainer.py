"""verl's trainers with rehearsal: D_pef rows in every optimizer mini-batch, their weight eta, and both in checkpoints.

Only hooks are overridden. `_update_actor` is the one method of verl's that had to be written again, because it fixes
the mini-batch size; tests/trainer/test_upstream.py fails when upstream's changes.
"""

import json
import logging
import math
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import ray
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.rollout.llm_server import LLMServerClient

from rl.common import atomic_write
from verl.dph.divergence.eta_schedule import Coefficient
from verl.dph.divergence.log_ratio_histogram import quantiles
from verl.dph.pef.row_filter import usable
from verl.dph.pef.store import Row, Store
from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.sampling.rollout_engine import client_of
from verl.dph.training import mixed_batch, resume
from verl.dph.training.actor_worker import DPHCriticWorker, DPHDetachWorker, DPHReferenceWorker, DPHWorker
from verl.dph.training.config import has_divergence, has_keep_probe, mini_batches, rehearses
from verl.dph.training.disk import full_disk_explained
from verl.dph.training.keep_probe import KeepProbe
from verl.dph.training.rehearsal_loss import HISTOGRAM, REMOVED_WEIGHT, UNBOUNDED_WEIGHT, rehearsal_loss
from verl.dph.training.rollout_accounting import CheckedRollouts
from verl.dph.training.run_manifest import Manifest
from verl.dph.training.run_record import RunRecord

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))


class Rehearsal(CheckedRollouts, PPOTrainer):
    """Rehearsal on D_pef when `actor.sft_loss_mode` is not none, for each of verl's trainers.

    Attributes:
        store: the rows of D_pef that this run can use; None if it does not rehearse.
        order: in which they are visited.
    """

    store: Store | None = None
    keep_probe: KeepProbe | None = None

    def __init__(self, config: DictConfig):
        super().__init__(config)
        self.has_divergence = has_divergence(config)
        self.manifest = Manifest(config)
        self.record = RunRecord.load(Path(config.trainer.default_local_dir))
        self._recorded_at = time.monotonic()
        if rehearses(config):
            self.store = usable(Store.load(os.path.expanduser(config.data.sft_pt)), config).store
            self.order = resume.visit_order(self.store, config)
            self.rows_per_mini_batch = config.data.sft_batch_size // mini_batches(config)

    def _init_dataloader(self):
        super()._init_dataloader()  # counts the run's steps
        of_all_epochs = self.steps_per_epoch * self.config.trainer.total_epochs
        self.record.steps_per_epoch = self.steps_per_epoch
        self.record.total_steps = min(self.total_training_steps, of_all_epochs)
        if has_keep_probe(self.config):
            stored = None if self.store is None else {row.id for row in self.store.rows}
            self.keep_probe = KeepProbe(self.config, self.tokenizer, self.processor, stored)
        if self.has_divergence:
            actor_config = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
            self.coefficient = Coefficient(
                actor_config.sft_loss_control, actor_config.sft_loss_coeff, self.record.total_steps
            )

    def _init_resource_pool_mgr(self):
        super()._init_resource_pool_mgr()
        detached = self.trainer_mode == "separate_async"
        actor = DPHDetachWorker if detached else DPHWorker
        workers = dict.fromkeys((Role.Actor, Role.ActorRollout, Role.ActorRolloutRef), actor)
        workers |= {Role.RefPolicy: DPHReferenceWorker, Role.Critic: DPHCriticWorker}
        self.role_worker_mapping |= {
            role: ray.remote(worker) for role, worker in workers.items() if role in self.role_worker_mapping
        }

    def on_init_end(self):
        actor_config = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        if self.has_divergence:
            self.actor_rollout_wg.set_loss_fn(partial(rehearsal_loss, config=actor_config))
        if self.store is not None:
            logger.info(
                "rehearsing %s on %d rows (%d response tokens) of %s, %d per mini-batch",
                actor_config.sft_loss_mode,
                len(self.store),
                self.store.num_tokens,
                self.config.data.sft_pt,
                self.rows_per_mini_batch,
            )
        super().on_init_end()

    def fit(self, agent_loop_manager):
        if not self.config.actor_rollout_ref.actor.generate_sft:
            self.manifest.start()
            self._recorded_at = time.monotonic()
            logger.info("The model is loaded: step %d of %d begins.", self.global_steps + 1, self.record.total_steps)
            self._save_record()  # dph watch reads how many steps there will be
            super().fit(agent_loop_manager)
            self._save_record()
            return
        from verl.dph.pef.build import write_store

        write_store(self)

    def _save_record(self) -> None:
        now = time.monotonic()
        self.record.seconds, self._recorded_at = self.record.seconds + now - self._recorded_at, now
        self.record.save()

    # ------------------------------------------------------------------------------------------------ one step

    def step(self, metrics: dict, timing_raw: dict) -> KVBatchMeta:
        batch = super().step(metrics, timing_raw)
        self.record.step = self.global_steps
        self.record.failed_rollouts += metrics["dph/failed_rollouts"]
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if not self.has_divergence:
            return super()._update_actor(batch, metrics)
        config, actor = self.config, self.config.actor_rollout_ref.actor
        if actor.shuffle:
            self._shuffle(batch)
        mini_batch_rows = actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
        pef = [self._next_rows() for _ in range(len(batch.keys) // mini_batch_rows)]
        coefficient = self.coefficient.value(self.global_steps)
        topk = actor.sft_loss_estimator == "topk"
        with mixed_batch.mixed(batch, pef, ranks=self.data_parallel_size(), top_k=topk) as mixed:
            mixed.extra_info.update(
                calculate_entropy=actor.calculate_entropy or actor.entropy_coeff != 0.0,
                distillation_use_topk=topk,
                distillation_only=topk,
                global_batch_size=mini_batch_rows,  # divides sequence means: D_exp rows only
                mini_batch_size=mini_batch_rows + len(pef[0]),
                epochs=actor.ppo_epochs,
                seed=actor.data_loader_seed,
                dataloader_kwargs={"shuffle": False},
                temperature=config.actor_rollout_ref.rollout.temperature,
                sft_loss_coeff=coefficient,
            )
            if actor.sft_grad_norm_freq and self.global_steps % actor.sft_grad_norm_freq == 0:
                metrics.update(self._gradient_norms(mixed))
            output = self.actor_rollout_wg.update_actor(mixed)
        metrics.update(_update_metrics(output["metrics"]))
        metrics["dph/coefficient"] = coefficient
        if self.store is not None:
            self.coefficient.observe(metrics["dph/kl_ref_policy"])
            metrics["dph/rows"] = sum(len(rows) for rows in pef)
            metrics["dph/epoch"] = self.order.epochs
        return batch  # without the D_pef rows: verl's metrics and clean-up see D_exp only

    def _shuffle(self, batch: KVBatchMeta) -> None:
        """actor.shuffle: draw anew in every step which of a rank's D_exp rows are in which mini-batch.

        verl's own shuffle, in the workers, would break the fixed share of D_pef rows in each mini-batch.
        """
        seed = [self.config.actor_rollout_ref.actor.data_loader_seed, self.global_steps, self.local_trigger_step]
        random = np.random.default_rng(seed)
        size = len(batch.keys) // self.data_parallel_size()
        batch.reorder([start + i for start in range(0, len(batch.keys), size) for i in random.permutation(size)])

    def _gradient_norms(self, batch: KVBatchMeta) -> dict[str, float]:
        """Of the policy loss and of the rehearsal, each alone, on the first mini-batch of the step."""
        ranks = self.data_parallel_size()
        size, chunk = batch.extra_info["mini_batch_size"] // ranks, len(batch.keys) // ranks
        rows = [start + i for start in range(0, len(batch.keys), chunk) for i in range(size)]
        first = batch.select_keys([batch.keys[row] for row in rows])
        first.extra_info = dict(batch.extra_info)
        return self.actor_rollout_wg.component_gradient_norms(first)["metrics"]

    def data_parallel_size(self) -> int:
        """Ranks that see different rows."""
        return max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1

    def _next_rows(self) -> list[Row]:
        if self.store is None:
            return []
        return [self.store.rows[i] for i in self.order.take(self.rows_per_mini_batch)]

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        if self.keep_probe is not None:
            metrics |= self.keep_probe.measure(self)
        missing = self.record.validated(self.global_steps, metrics, self.config.trainer.best_metric)
        if missing:
            logger.warning(missing)
        self._save_record()
        return metrics

    # ------------------------------------------------------------------------------------------------ checkpoints

    def _state(self) -> dict[str, RehearsalOrder | Coefficient]:
        """What is saved beside verl's checkpoint and verified on resume, by name."""
        state = {"coefficient": self.coefficient}
        return state if self.store is None else state | {"order": self.order}

    def _save_checkpoint(self):
        # Before super(): it writes the file that names the newest checkpoint last.
        folder = Path(self.config.trainer.default_local_dir, f"global_step_{self.global_steps}")
        with full_disk_explained(folder, resume.newest(folder.parent)):
            self.manifest.write(folder, step=self.global_steps, resources=ray.cluster_resources())
            if self.has_divergence:
                state = {name: part.state_dict() for name, part in self._state().items()}
                atomic_write.write_text(folder / resume.STATE_FILE, json.dumps(state))
            super()._save_checkpoint()
        self.record.saved(self.global_steps)
        self._save_record()

    def _load_checkpoint(self):
        super()._load_checkpoint()
        self.record.resumed_at(self.global_steps)
        folder = resume.checkpoint_of(self.config)
        if self.has_divergence and folder is not None:
            resume.load_state(folder, self._state())


def _update_metrics(output: dict) -> dict:
    """The workers' metrics of an update (one list per key) reduced to the step; ours without verl's prefix."""
    histograms = output.pop(HISTOGRAM, None)
    output = rename_dict(output, "actor/")
    output["perf/mfu/actor"] = output.pop("actor/mfu")
    output = {name.removeprefix("actor/") if name.startswith("actor/dph/") else name: v for name, v in output.items()}
    metrics = reduce_metrics(output)
    if UNBOUNDED_WEIGHT in metrics:
        removed, unbounded = metrics.pop(REMOVED_WEIGHT), metrics.pop(UNBOUNDED_WEIGHT)
        metrics["dph/clip_weight"] = removed / unbounded if unbounded else 0.0
    if histograms is not None:
        metrics |= {f"dph/ratio_{name}": math.exp(d) for name, d in quantiles(sum(histograms)).items()}
    return metrics


class SyncTrainer(Rehearsal, PPOTrainerSync):
    """Rollouts and updates take turns on the same devices."""

    def get_llm_client(self) -> LLMServerClient:
        return client_of(self.llm_server_manager)


class ColocateAsyncTrainer(Rehearsal, PPOTrainerColocateAsync):
    """Partial rollouts carry over to the next step."""


class SeparateAsyncTrainer(Rehearsal, PPOTrainerSeparateAsync):
    """Rollouts have devices of their own and continue during the update."""

    def _setup(self):
        # With hybrid_engine=False verl 0.9.1 ends its set-up with a message that Python's logging rejects (an argument
        # `flush`), unless messages of this level are off.
        verls_logger = logging.getLogger(PPOTrainerSeparateAsync.__module__)
        level = verls_logger.level
        verls_logger.setLevel(logging.WARNING)
        super()._setup()
        verls_logger.setLevel(level)

    def step(self, metrics: dict, timing_raw: dict) -> KVBatchMeta:
        batch = super().step(metrics, timing_raw)
        if "dph/rows" in metrics:  # verl averages over the mini-batches of a step; these two are the step's
            metrics["dph/rows"] *= self.parameter_sync_step
            metrics["dph/epoch"] = self.order.epochs
        return batch


TRAINERS = {"sync": SyncTrainer, "colocate_async": ColocateAsyncTrainer, "separate_async": SeparateAsyncTrainer}
