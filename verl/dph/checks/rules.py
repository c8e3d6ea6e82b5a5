"""The rules between the settings of a training run: functions, listed in RULES, that yield a sentence per violation."""

from collections.abc import Iterator
from itertools import chain

import ray
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

from rl.checks.files import check_model, check_set
from rl.common.errors import UserError
from rl.common.ray_cpus import OF_OTHERS, PER_RANK
from rl.configuration.names import GREEDY_TEMPERATURE
from verl.dph.checks import model, objective
from verl.dph.config import attention
from verl.dph.sampling.rollout_engine import RANKS, check_platform, ranks_of
from verl.dph.training.config import has_critic, rehearses


def check(config: DictConfig) -> None:
    """Reject settings that contradict each other: the first rule that is broken.

    The attention of the models (config/attention.py) is settled first, because rules depend on it.

    Args:
        config: its values have the right types (rl/checks/run.py).
    """
    check_platform(config)
    for role in ("actor_rollout_ref", *["critic"] * has_critic(config)):  # transformers would ask the Hub for 30 s
        check_model(f"{role}.model.path", str(config[role].model.path))
    attention.complete(config)
    for violation in chain.from_iterable(rule(config) for rule in RULES):
        raise UserError(violation)
    if rehearses(config):
        check_set(config, "data.sft_files")
        check_set(config, "data.sft_pt")


def names(config: DictConfig) -> Iterator[str]:
    """Names that verl looks up after the first step's rollouts."""
    if config.actor_rollout_ref.model.external_lib:
        return  # the workers import it, and it may register others
    registries = {
        "algorithm.adv_estimator": ADV_ESTIMATOR_REGISTRY,
        "actor_rollout_ref.actor.policy_loss.loss_mode": POLICY_LOSS_REGISTRY,
    }
    for key, registry in registries.items():
        if (name := OmegaConf.select(config, key)) not in registry:
            yield f"{key}={name} is unknown: use one of {', '.join(registry)}."


def reward_manager(config: DictConfig) -> Iterator[str]:
    """verl's rate_limited gives a response whose reward function failed a reward of 0 (reward_manager/limited.py)."""
    if config.reward.reward_manager.name == "rate_limited":
        yield (
            "reward.reward_manager.name=rate_limited turns a failure of the scorer into a reward of 0: use naive or "
            "dapo; the client of the scorer limits its requests itself."
        )


def rollout_correction(config: DictConfig) -> Iterator[str]:
    """verl corrects nothing without the rollout's log-probs, nor where these are the old policy's (trainer_base.py)."""
    rollout, correction = config.actor_rollout_ref.rollout, config.algorithm.rollout_correction
    for name in ("bypass_mode", "rollout_is", "rollout_rs") if correction else ():
        if correction[name] and not rollout.calculate_log_probs:
            yield (
                f"algorithm.rollout_correction.{name}={correction[name]} needs the rollout's log-probs: set "
                "actor_rollout_ref.rollout.calculate_log_probs=True."
            )
    # An engine's log-probs are of what top-p and top-k leave (processed), or of logits before the temperature (raw).
    raw = rollout.logprobs_mode == "raw_logprobs"
    other = rollout.temperature != 1 if raw else rollout.top_p < 1 or rollout.top_k > 0
    if correction and correction.bypass_mode and rollout.name != "hf" and other:
        yield (
            "algorithm.rollout_correction.bypass_mode=True takes the rollout's log-probs for the old policy's, and "
            f"{rollout.name}'s are of another distribution here: set it to False, or sample with top_p=1, top_k=-1 and "
            "processed_logprobs."
        )


def samples(config: DictConfig) -> Iterator[str]:
    """What changes all responses, and is not in the metadata of samples (sampling/job.py)."""
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    if rollout.ignore_eos:
        yield "actor_rollout_ref.rollout.ignore_eos=True samples on after the end of a response: set it to False."
    if model.lora_adapter_path:
        yield (
            "The model of actor_rollout_ref.model.path is sampled, and "
            f"actor_rollout_ref.model.lora_adapter_path={model.lora_adapter_path} would change it: set it to null, and "
            "for samples of the adapter name a model into which it is merged."
        )


def samples_of_store(config: DictConfig) -> Iterator[str]:
    if config.actor_rollout_ref.actor.generate_sft:
        yield from samples(config)


def of_no_checkpoint(config: DictConfig) -> Iterator[str]:
    """What a resumed run would have lost (verl's trainer_base.py)."""
    if config.actor_rollout_ref.actor.checkpoint.get("async_save"):
        yield (
            "actor.checkpoint.async_save=True is of Megatron: with it verl does not note which checkpoint is the "
            "newest, and a resumed run would start anew; leave it out."
        )
    control = config.algorithm.kl_ctrl
    if config.algorithm.use_kl_in_reward and control.type == "adaptive":
        yield (
            "algorithm.kl_ctrl.type=adaptive changes its coefficient in every step, and no checkpoint has it: a "
            f"resumed run would start again at kl_coef={control.kl_coef}; use fixed."
        )


def trainer_mode(config: DictConfig) -> Iterator[str]:
    """In another mode verl would train with its own trainer, and without D_pef."""
    if (mode := config.trainer.v1.trainer_mode) != "sync":
        yield f"trainer.v1.trainer_mode={mode} would rehearse nothing: use sync, the only mode with rehearsal."


def greedy_validation(config: DictConfig) -> Iterator[str]:
    """Only the temperature decides: verl's agent loops do not read do_sample (trainer/ppo/v1/agent_loop_tq.py)."""
    validation, trainer = config.actor_rollout_ref.rollout.val_kwargs, config.trainer
    validates = trainer.test_freq > 0 or trainer.val_before_train or trainer.val_only
    if validates and validation.temperature > GREEDY_TEMPERATURE and not validation.do_sample:
        yield (
            "actor_rollout_ref.rollout.val_kwargs.do_sample=False would sample all the same, at "
            f"val_kwargs.temperature={validation.temperature}: set the temperature to 0, or do_sample=True."
        )


def check_ray(config: DictConfig) -> None:
    """Reject a Ray that runs with too few CPUs; verl's ResourcePoolManager counts the GPUs."""
    queue = config.transfer_queue.backend
    units = queue.SimpleStorage.num_data_storage_units if queue.storage_backend == "SimpleStorage" else 0
    ranks, found = ranks_of(config), ray.cluster_resources().get("CPU", 0)
    needed = ranks * PER_RANK + units + OF_OTHERS
    if needed > found:
        raise UserError(
            f"{ranks} ranks ({RANKS}) and TransferQueue ({units} storage units) reserve {needed} of Ray's CPUs, and "
            f"Ray has {found:g} and would wait for the others forever: use fewer ranks (GPUS_PER_NODE in the scripts), "
            "raise ray_kwargs.ray_init.num_cpus, which may be more than there are cores, or use nodes with more CPUs "
            "(ray start --num-cpus)."
        )


# The order matters: a rule may rely on the ones before it.
RULES = (
    names,
    reward_manager,
    rollout_correction,
    of_no_checkpoint,
    trainer_mode,
    model.sampled_as_trained,
    model.ulysses,
    model.micro_batches,
    model.context,
    model.soft_capping,
    model.lora,
    greedy_validation,
    samples_of_store,
    objective.store_writing,
    objective.divergence,
    objective.unread,
    objective.loss_of_micro_batches,
    objective.advantages,
    model.text_only,
    objective.whole_mini_batches,
    objective.whole_shares,
    objective.anchor,
)
