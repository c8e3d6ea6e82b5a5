"""verl's synchronous trainer with rehearsal. It owns a ledger of rollouts and a feed of D_pef.

Only hooks are overridden, each once. `_update_actor` replaces verl's method, which fixes the mini-batch size;
tests/training/test_upstream.py fails when verl's method changes.
"""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerClient

from rl.checks.disk import full_disk_explained
from rl.data.training_run import checkpoint_folder, newest_checkpoint
from verl.dph.cpu.in_process import queue_settings
from verl.dph.objective import advantages, success_cap
from verl.dph.objective.rehearsal import rehearsal_loss, update_metrics
from verl.dph.pef.build import write_store
from verl.dph.pef.ref_logprobs import reference_of
from verl.dph.sampling.rollout_engine import client_of
from verl.dph.training import checkpoint_parts, mixed_batch, resume
from verl.dph.training.actor_worker import DPHCriticWorker, DPHWorker
from verl.dph.training.config import mini_batch_rows, terms
from verl.dph.training.pef_feed import PefFeed
from verl.dph.training.rollout_ledger import RolloutLedger
from verl.dph.training.run_manifest import manifest_of, write_manifest
from verl.dph.training.run_record import RunRecord, validation_source

logger = logging.getLogger(__name__)


class DPHTrainer(PPOTrainerSync):
    """What each of verl's hooks calls, and in which order. Rollouts and updates take turns on the same devices.

    Attributes:
        ledger: the rollouts.
        feed: D_pef rows and eta; None without a divergence.
        parts: the parts with state in a checkpoint, by name.
        record: the progress of the run.
        manifest: code, data and settings, for checkpoints; from `fit` on.
        validated_on: what validations depend on beside the policy.
    """

    def __init__(self, config: DictConfig):
        self.ledger = RolloutLedger(config)  # verl's constructor makes the replay buffer
        super().__init__(config)
        self.feed = PefFeed.of(config)
        self.parts = checkpoint_parts.parts_of(self.feed)
        self.record = RunRecord.load(Path(config.trainer.default_local_dir))
        self.validated_on = validation_source(config)

    # ------------------------------------------------------------------------------------------------ set-up

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        self.ledger.watch(buffer)
        return buffer

    def _init_dataloader(self):
        super()._init_dataloader()  # counts the run's steps
        of_all_epochs = self.steps_per_epoch * self.config.trainer.total_epochs
        if self.total_training_steps > of_all_epochs and not self.config.actor_rollout_ref.actor.generate_sft:
            self._end_after(of_all_epochs)
        self.record.steps_per_epoch = self.steps_per_epoch
        self.record.total_steps = self.total_training_steps
        if self.feed is not None:
            self.feed.eta.span(self.record.total_steps)

    def _end_after(self, steps: int) -> None:
        """Let the run end with its last epoch.

        verl would end there without the last checkpoint and validation, and a learning rate that decays would not have.
        """
        logger.warning(
            "trainer.total_training_steps=%d is more than the %d steps of trainer.total_epochs=%d: the run ends after "
            "step %d.",
            *(self.config.trainer.total_training_steps, steps, self.config.trainer.total_epochs, steps),
        )
        self.total_training_steps = steps
        with open_dict(self.config):
            for section in (self.config.actor_rollout_ref.actor, self.config.critic):
                section.optim.total_training_steps = steps

    def _init_resource_pool_mgr(self):
        super()._init_resource_pool_mgr()
        workers = dict.fromkeys((Role.Actor, Role.ActorRollout, Role.ActorRolloutRef, Role.RefPolicy), DPHWorker)
        workers[Role.Critic] = DPHCriticWorker
        self.role_worker_mapping |= {
            role: ray.remote(worker) for role, worker in workers.items() if role in self.role_worker_mapping
        }

    def on_init_end(self):
        if self.config.trainer.device == "cpu":
            self.actor_rollout_wg.join_queue(queue_settings())  # reference and critic share its processes
        if self.feed is not None:
            actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
            self.actor_rollout_wg.set_loss_fn(partial(rehearsal_loss, config=actor, terms=terms(self.config)))
        super().on_init_end()

    def get_llm_client(self) -> LLMServerClient:
        return client_of(self.llm_server_manager)

    def fit(self, agent_loop_manager):
        if self.config.actor_rollout_ref.actor.generate_sft:
            workers, rollout = self.actor_rollout_wg, self.config.actor_rollout_ref.rollout
            write_store(
                self.config,
                client=self.get_llm_client,
                # As verl's trainers do between sampling and training (PPOTrainerSync.on_sample_end).
                free_rollouts=self.checkpoint_manager.sleep_replicas,
                reference=partial(reference_of, workers, rollout, ranks=self.data_parallel_size()),
            )
            return
        self.manifest = manifest_of(self.config)
        logger.info("The model is loaded: step %d of %d begins.", self.global_steps + 1, self.record.total_steps)
        self.record.save()  # dph compare reads how many steps there will be
        super().fit(agent_loop_manager)
        self.record.save()

    # ------------------------------------------------------------------------------------------------ one step

    def _fetch_one_gen_batch(self) -> TensorDict:
        batch = super()._fetch_one_gen_batch()
        self.ledger.name_prompts(batch, self.global_steps)
        return batch

    def step(self, metrics: dict, timing_raw: dict) -> KVBatchMeta:
        batch = super().step(metrics, timing_raw)
        metrics |= self.ledger.take_counts(self.global_steps)
        if self.feed is not None:
            metrics |= self.feed.take_metrics()
        self.record.step = self.global_steps
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics, *args, **kwargs) -> KVBatchMeta:
        return super()._balance_batch(self.ledger.trainable(batch, self.global_steps), metrics, *args, **kwargs)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        algorithm = self.config.algorithm
        if algorithm.adv_estimator == advantages.MAXRL:
            advantages.give_verdicts(batch.keys, self.ledger.accuracies(batch))
        batch = super()._compute_advantage(batch, metrics)
        if algorithm.adv_estimator in ("grpo", "grpo_vectorized") and not algorithm.use_kl_in_reward:
            # verl's mean of equal rewards may be off by a rounding, which its division by the deviation, a rounding
            # too, makes an advantage of up to .11 with one sign for the whole group.
            success_cap.apply(batch, self.ledger.prompts_of_equal_rewards(batch))
        if algorithm.success_cap is not None:
            prompts, groups = success_cap.capped(self.ledger.accuracies(batch), algorithm.success_cap)
            success_cap.apply(batch, prompts)
            metrics["dph/capped_groups"] = len(prompts) / groups if groups else 0.0
        metrics["dph/teaching_tokens"] = success_cap.share_that_teaches(batch)
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if self.feed is None:
            # verl sends the workers all fields, also the data's, and the workers cut them into micro-batches.
            media = mixed_batch.WITH_MEDIA if self.processor is not None else []
            fields = mixed_batch.fields_of_update(batch.fields, *mixed_batch.WITHOUT_PEF, *media)
            super()._update_actor(replace(batch, fields=fields), metrics)
            return batch
        config, actor = self.config, self.config.actor_rollout_ref.actor
        explored = mini_batch_rows(config)[0]
        stored = self.feed.take(len(batch.keys) // explored)
        eta = self.feed.eta.value(self.global_steps)
        with mixed_batch.mixed(batch, stored, ranks=self.data_parallel_size()) as mixed:
            mixed.extra_info.update(
                calculate_entropy=actor.calculate_entropy or actor.entropy_coeff != 0.0,
                global_batch_size=explored,  # divides sequence means: D_exp rows only
                mini_batch_size=explored + sum(map(len, stored[0])),
                epochs=actor.ppo_epochs,
                seed=actor.data_loader_seed,
                dataloader_kwargs={"shuffle": False},
                temperature=config.actor_rollout_ref.rollout.temperature,
                sft_loss_coeff=eta,
            )
            output = self.actor_rollout_wg.update_actor(mixed)
        metrics |= update_metrics(output["metrics"]) | {"dph/coefficient": eta}
        return batch  # without the D_pef rows: verl's metrics and clean-up see D_exp only

    def data_parallel_size(self) -> int:
        """Ranks that see different rows."""
        return max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict, *args, **kwargs) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        metrics |= self.ledger.take_metrics()

    # ------------------------------------------------------------------------------------------------ validation

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        best_metric = self.config.trainer.best_metric
        missing = self.record.validated(self.global_steps, metrics, best_metric, self.validated_on)
        if missing:
            logger.warning(missing)
        self.record.save()
        return metrics

    def _val_metrics_update(
        self, data_sources: list, sample_uids: list, infos: dict, turns: list, expected_acc_counts: dict
    ) -> dict:
        # Without expected_acc_counts verl averages over the rollouts that were scored.
        metrics = super()._val_metrics_update(data_sources, sample_uids, infos, turns)
        step, expected = self.global_steps, expected_acc_counts
        return metrics | self.ledger.validation_metrics(step, data_sources, sample_uids, infos, expected)

    # ------------------------------------------------------------------------------------------------ checkpoints

    def _save_checkpoint(self):
        # Before super(): it writes the file that names the newest checkpoint last.
        run, config = Path(self.config.trainer.default_local_dir), self.config
        folder = checkpoint_folder(run, self.global_steps)
        kept = {role: config.trainer[f"max_{role}_ckpt_to_keep"] for role in ("actor", "critic")}
        # verl would delete the only one before the file names its successor.
        only = {f"max_{role}_ckpt_to_keep": None for role, count in kept.items() if count == 1}
        with full_disk_explained(folder, newest_checkpoint(run)):
            write_manifest(self.manifest, folder, step=self.global_steps, resources=ray.cluster_resources())
            checkpoint_parts.save(folder, self.parts)
            self.config = OmegaConf.merge(config, {"trainer": only})
            super()._save_checkpoint()
        self.config = config
        self.record.saved(self.global_steps)
        for role, count in kept.items():
            self.record.delete_older(role, count)
        self.record.save()

    def _load_checkpoint(self):
        super()._load_checkpoint()
        self.record.resumed_at(self.global_steps)
        folder = resume.checkpoint_of(self.config)
        if folder is not None:
            checkpoint_parts.load(folder, self.parts)
