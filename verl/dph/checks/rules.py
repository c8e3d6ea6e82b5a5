"""The rules between the settings of a training run: functions, listed in RULES, that yield a sentence per violation."""

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from typing import Any

import ray
import torch
from omegaconf import DictConfig, OmegaConf
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
from verl.experimental.reward_loop.reward_manager.registry import REWARD_MANAGER
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.utils.import_utils import import_external_libs
from verl.utils.tracking import Tracking
from verl.workers.rollout.replica import RolloutReplicaRegistry

from rl.checks.disk import CONTENT_BYTES
from rl.checks.files import check_set
from rl.common.errors import UserError
from rl.common.ray_cpus import cpus_of_machine, cpus_reserved
from rl.configuration.names import GREEDY_TEMPERATURE, joins_ray
from rl.configuration.nesting import flat
from verl.dph.checks import model, objective
from verl.dph.checks.scorer import OUR_REWARD
from verl.dph.config import attention
from verl.dph.sampling.rollout_engine import RANKS, check_gpus, check_platform, ranks_of, ranks_of_replica
from verl.dph.training.config import PROBE_METRICS, has_keep_probe, rehearses
from verl.dph.training.rollout_metrics import ACCURACY

OWN_RANKS = "rollout.nnodes x rollout.n_gpus_per_node"  # of rollouts on devices of their own
# Estimators whose inputs verl's trainer of version 1 does not compute: greedy responses, separate rewards, sums of
# squared probabilities.
OF_OLDER_TRAINER = ("remax", "gdpo", "optimal_token_baseline", "tir_optimal_token_baseline")
LOGGERS = (*Tracking.supported_backend, "tracking")
# The packages of rollout engines and loggers, where the name is another; "": part of verl or of this package.
_PACKAGES = {"hf": "", "trtllm": "tensorrt_llm"}
_TIMEOUT = "weights must load within torch's limit, 10 minutes: copy the model to each node's own disk"
# Settings that nothing reads: verl's default, and what to know.
_UNREAD: dict[str, tuple[Any, str]] = {
    "actor_rollout_ref.nccl_timeout": (600, _TIMEOUT),
    "actor_rollout_ref.rollout.over_sample_rate": (0, "no rollout is aborted"),
    "actor_rollout_ref.rollout.multi_stage_wake_up": (False, "the engine wakes up in stages anyway"),
    "algorithm.use_pf_ppo": (False, "rows are not resampled"),
    "trainer.balance_batch": (True, "rows are balanced over the ranks anyway"),
}
_PACKAGES |= {"console": "", "file": "", "tracking": "wandb", "vemlp_wandb": "volcengine_ml_platform"}


def check(config: DictConfig) -> None:
    """Reject settings that contradict each other: the first rule that is broken.

    The attention of the models (config/attention.py) is settled first, because rules depend on it.

    Args:
        config: its values have the right types (rl/checks/run.py).

    Raises:
        UserError: naming the settings, what was found and what to do.
    """
    check_platform(config)
    attention.complete(config)
    for violation in chain.from_iterable(rule(config) for rule in RULES):
        raise UserError(violation)
    if rehearses(config):
        check_set(config, "data.sft_files")
        check_set(config, "data.sft_pt")


def registered(config: DictConfig) -> Iterator[str]:
    """Settings whose values are names that verl knows, which rl/configuration cannot list without verl."""
    library = config.actor_rollout_ref.model.external_lib
    try:
        import_external_libs(library)  # it may register more, as in verl's workers
    except ImportError as error:
        yield f"actor_rollout_ref.model.external_lib={library} cannot be imported ({error}): install or correct it."
    choices = {
        "algorithm.adv_estimator": [name for name in ADV_ESTIMATOR_REGISTRY if name not in OF_OLDER_TRAINER],
        "actor_rollout_ref.actor.policy_loss.loss_mode": POLICY_LOSS_REGISTRY,
        "trainer.logger": LOGGERS,
        "actor_rollout_ref.rollout.name": RolloutReplicaRegistry._registry,
    }
    agent = config.actor_rollout_ref.rollout.agent
    if not agent.agent_loop_config_path:  # a file with loops of the user's own
        choices["actor_rollout_ref.rollout.agent.default_agent_loop"] = _agent_loop_registry
    for role in model.roles(config):
        for name in ("save_contents", "load_contents"):
            choices[f"{role.name}.checkpoint.{name}"] = CONTENT_BYTES
    for key, names in choices.items():
        value = OmegaConf.select(config, key)
        chosen = [value] if isinstance(value, str) else value or ()  # a frozen reference has no checkpoint
        if unknown := [name for name in chosen if name not in names]:
            why = "is of verl's older trainer" if unknown[0] in OF_OLDER_TRAINER else "is unknown"
            yield f"{key}={unknown[0]!r} {why}: use one of {', '.join(names)}."


def installed(config: DictConfig) -> Iterator[str]:
    """verl imports engines and loggers once the model is loaded. A Ray that is joined may have others installed."""
    if joins_ray():
        return
    loggers = config.trainer.logger
    chosen = {"actor_rollout_ref.rollout.name": [config.actor_rollout_ref.rollout.name]}
    chosen["trainer.logger"] = [loggers] if isinstance(loggers, str) else loggers
    for key, names in chosen.items():
        for name in names:
            package = _PACKAGES.get(name, name)
            if package and find_spec(package) is None:
                yield f"{key}={name} needs the package {package}, which is not installed: install it, or use another."


def of_older_verl(config: DictConfig) -> Iterator[str]:
    """Settings that verl 0.9.1 still has, and that its trainer of version 1 does not read (trainer/main_ppo.py)."""
    for section in ("custom_reward_function", "reward_model", "sandbox_fusion"):
        for key, value in flat(OmegaConf.to_container(config.get(section) or {}, resolve=True)):
            if value is not None:
                yield (
                    f"{section}.{key}={value} is of an older verl and would do nothing: it belongs below reward, such "
                    "as reward.custom_reward_function.path or reward.reward_manager.name."
                )
    for key, settings in (("actor_rollout_ref.actor", config.actor_rollout_ref.actor), ("critic", config.critic)):
        if settings.get("grad_clip") not in (None, 1.0):  # verl's default
            yield (
                f"{key}.grad_clip={settings.grad_clip} is of an older verl and would do nothing: set "
                f"{key}.optim.clip_grad, which is {settings.optim.clip_grad}."
            )
    for key, (default, fact) in _UNREAD.items():
        if (value := OmegaConf.select(config, key)) != default:
            yield f"{key}={value} would do nothing in verl 0.9.1 ({fact}): leave it out."
    if config.trainer.default_hdfs_dir:
        yield (
            f"trainer.default_hdfs_dir={config.trainer.default_hdfs_dir} would do nothing, because verl writes FSDP's "
            "checkpoints to trainer.default_local_dir alone: leave it out, and copy them."
        )
    if not config.trainer.get("use_v1", True):
        yield "trainer.use_v1=False asks for verl's old trainer, which has no D_pef: leave it out."


def reward_manager(config: DictConfig) -> Iterator[str]:
    """verl's rate_limited gives a response whose reward function failed a reward of 0 (reward_manager/limited.py)."""
    if config.reward.reward_manager.name == "rate_limited":
        yield (
            "reward.reward_manager.name=rate_limited turns a failure of the scorer into a reward of 0: use naive or "
            "dapo; the client of the scorer limits its requests itself."
        )
    manager = config.reward.reward_manager
    # The file of another reward function may register one.
    registers = manager.source != "register" or config.reward.custom_reward_function.path != OUR_REWARD
    if manager.name not in REWARD_MANAGER and not registers:
        yield f"reward.reward_manager.name={manager.name} is unknown: use naive or dapo."


def generation_batches(config: DictConfig) -> Iterator[str]:
    """Elsewhere verl fetches single prompts, whatever the setting says."""
    size, prompts = config.data.get("gen_batch_size") or 1, config.data.train_batch_size
    single = config.trainer.v1.trainer_mode != "sync" or config.algorithm.filter_groups.enable
    if prompts % size and not single:
        yield (
            f"data.gen_batch_size={size} does not divide data.train_batch_size={prompts}: use a divisor, or leave it "
            "out."
        )


def bypass_mode(config: DictConfig) -> Iterator[str]:
    """What goes with old log-probs that are the rollout's.

    With verl's default of logprobs_mode an engine's log-probs are of what top-p and top-k leave, and with raw_logprobs
    of logits before the temperature (vLLM's engine arguments); hf's are the actor's. verl's trainer of version 1
    corrects nothing in this mode (trainer_base.py), whose loss its older trainer chose.
    """
    rollout, correction = config.actor_rollout_ref.rollout, config.algorithm.rollout_correction
    unread = {"rollout_is": None, "rollout_rs": None, "loss_type": "ppo_clip"}
    for name, default in unread.items() if correction and correction.bypass_mode else ():
        if correction[name] != default:
            yield (
                f"algorithm.rollout_correction.{name}={correction[name]} does nothing with bypass_mode=True, which "
                "takes the rollout's log-probs for the old policy's: leave it out, or set bypass_mode=False."
            )
    truncated = rollout.top_p < 1 or rollout.top_k > 0
    processed = rollout.name != "hf" and rollout.logprobs_mode == "processed_logprobs"
    if correction and correction.bypass_mode and processed and truncated:
        yield (
            "algorithm.rollout_correction.bypass_mode=True takes the rollout's log-probs for the old policy's, and "
            f"with rollout.top_p={rollout.top_p} and top_k={rollout.top_k} {rollout.name}'s are of another "
            "distribution: set top_p=1 and top_k=-1, or bypass_mode=False."
        )
    raw = rollout.name != "hf" and rollout.logprobs_mode == "raw_logprobs"
    if correction and correction.bypass_mode and raw and rollout.temperature != 1:
        yield (
            "algorithm.rollout_correction.bypass_mode=True takes the rollout's log-probs for the old policy's, and "
            f"those of rollout.logprobs_mode=raw_logprobs leave out rollout.temperature={rollout.temperature}: use "
            "processed_logprobs, or bypass_mode=False."
        )


def rollout_correction(config: DictConfig) -> Iterator[str]:
    """verl corrects nothing without the rollout's log-probs, and reads these settings after the first rollouts."""
    correction = config.algorithm.rollout_correction
    if not correction:
        return
    for name in ("bypass_mode", "rollout_is", "rollout_rs"):
        if correction[name] and not config.actor_rollout_ref.rollout.calculate_log_probs:
            yield (
                f"algorithm.rollout_correction.{name}={correction[name]} needs the rollout's log-probs: set "
                "actor_rollout_ref.rollout.calculate_log_probs=True."
            )
    one = torch.ones(1, 1)
    token = DataProto.from_single_dict({"old_log_probs": one, "rollout_log_probs": one, "response_mask": one})
    try:
        compute_rollout_correction_and_add_to_batch(token, correction)
    except (TypeError, ValueError) as error:
        yield f"algorithm.rollout_correction cannot be used: {error}"


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
    """What a resumed run would lack (verl's trainer_base.py)."""
    control = config.algorithm.kl_ctrl
    if config.algorithm.use_kl_in_reward and control.type == "adaptive":
        yield (
            "algorithm.kl_ctrl.type=adaptive changes its coefficient in every step, and no checkpoint has it: a "
            f"resumed run would start again at kl_coef={control.kl_coef}; use fixed."
        )
    if config.actor_rollout_ref.actor.checkpoint.get("async_save"):
        yield (
            "actor.checkpoint.async_save=True is of Megatron: with it verl does not note which checkpoint is the "
            "newest, and a resumed run would start anew; leave it out."
        )


def trainer_mode(config: DictConfig) -> Iterator[str]:
    mode = config.trainer.v1.trainer_mode
    if mode != "sync" and config.actor_rollout_ref.actor.generate_sft:
        yield f"actor.generate_sft=True trains nothing and needs no trainer.v1.trainer_mode={mode}: use sync."
    if mode != "separate_async":
        return
    rollout, on_cpu = config.actor_rollout_ref.rollout, config.trainer.device == "cpu"
    prompts, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    updates, backend = config.trainer.v1.separate_async.parameter_sync_step, rollout.checkpoint_engine.backend
    if prompts != updates * mini:
        yield (
            f"data.train_batch_size={prompts} is not trainer.v1.separate_async.parameter_sync_step={updates} x "
            f"actor.ppo_mini_batch_size={mini}, and separate_async updates the policy once per mini-batch: make it so."
        )
    if rollout.nnodes < 1 or rollout.n_gpus_per_node < 1:
        yield (
            "trainer.v1.trainer_mode=separate_async gives rollouts devices of their own: set "
            "actor_rollout_ref.rollout.nnodes and rollout.n_gpus_per_node, both above 0."
        )
    if backend == "naive" or on_cpu != (backend == "gloo"):
        yield (
            f"actor_rollout_ref.rollout.checkpoint_engine.backend={backend} does not carry weights to rollouts on "
            f"devices of their own: use {'gloo' if on_cpu else 'nccl, or another one of verl for this device'}."
        )
    # To compute old log-probs, verl saves the weights, loads the weights of the step's start, and at last loads the
    # saved weights (trainer_separate_async.py). It copies no weights that are in main memory, so that these change too.
    actor, correction = config.actor_rollout_ref.actor, config.algorithm.rollout_correction
    offloaded = [name for name in ("param_offload", "offload_policy") if actor.fsdp_config[name]]
    if actor.strategy == "fsdp2" and offloaded and updates > 1 and not (correction and correction.bypass_mode):
        yield (
            f"actor.fsdp_config.{offloaded[0]}=True would lose updates with trainer.v1.trainer_mode=separate_async, "
            "because verl saves no copy of weights that are in main memory: set it to False, "
            f"or trainer.v1.separate_async.parameter_sync_step={updates} to 1."
        )


def replicas(config: DictConfig) -> Iterator[str]:
    """verl starts a rollout replica for every so many ranks, and fails or waits if some are left over."""
    rollout, ranks = config.actor_rollout_ref.rollout, {OWN_RANKS: _separate_ranks(config)}
    of_one = ranks_of_replica(rollout)
    sizes = "tensor_model_parallel_size x data_parallel_size x pipeline_model_parallel_size"
    words = f"actor_rollout_ref.rollout.{sizes}={of_one}"
    if rollout.name == "hf" and of_one != 1:
        yield f"{words}, and a replica of rollout.name=hf has one rank: set all three to 1."
    # Else no replica is on the trainer's ranks.
    if config.trainer.v1.trainer_mode != "separate_async" or config.actor_rollout_ref.hybrid_engine:
        ranks[RANKS] = ranks_of(config)
    for name, found in ranks.items():
        if of_one > 0 and found % of_one and not rollout.disaggregation.enabled:
            yield f"{words} does not divide {name}={found}: use a divisor of {found}."
    own, of_trainer = rollout.n_gpus_per_node, config.trainer.n_gpus_per_node
    if RANKS in ranks and own < of_one <= of_trainer:
        # verl takes the nodes of every replica from rollout.n_gpus_per_node (llm_server.py).
        yield (
            f"{words} is more than rollout.n_gpus_per_node={own}, so that verl would start a replica on the trainer's "
            f"{of_trainer} GPUs of one node as if it had several nodes: use at most {own}, or set "
            "actor_rollout_ref.hybrid_engine=False."
        )


def keep_probe(config: DictConfig) -> Iterator[str]:
    """The probe needs validations and both files of prompts."""
    trainer = config.trainer
    if not has_keep_probe(config):
        return
    prompts = f"trainer.keep_probe.prompts={trainer.keep_probe.prompts}"
    if not _validates(trainer):
        yield (
            f"{prompts} is measured in validations, and there is none (data.val_files, trainer.test_freq, "
            "trainer.val_before_train): validate, or set prompts to 0."
        )
    for key in ("solved_files", "unsolved_files"):
        if not trainer.keep_probe[key]:
            yield f"trainer.keep_probe.{key} is not set, and {prompts} needs it: name the file, or set prompts to 0."


def best_metric(config: DictConfig) -> Iterator[str]:
    """A validation logs the metric of the best checkpoint. The names of verl's own metrics depend on the data."""
    trainer, ours = config.trainer, (ACCURACY, *PROBE_METRICS)
    metric = trainer.best_metric
    if metric is None or config.actor_rollout_ref.actor.generate_sft:
        return
    setting = f"trainer.best_metric={metric}"
    if not _validates(trainer):
        yield f"{setting} is a metric of validations, and this run has none: set data.val_files and trainer.test_freq."
    if metric in PROBE_METRICS and not has_keep_probe(config):
        yield f"{setting} is measured by the keep probe, and this run has none: set trainer.keep_probe.prompts."
    if metric.startswith("dph/") and metric not in ours and not metric.startswith("dph/val/"):
        names = ", ".join((*ours, "dph/val/..."))
        yield f"{setting} is not a metric of validation: use one of {names} or verl's val-core/..."


def _validates(trainer: DictConfig) -> bool:
    return trainer.test_freq > 0 or trainer.val_before_train or trainer.val_only


def greedy_validation(config: DictConfig) -> Iterator[str]:
    """Several responses to a prompt differ only at a temperature above 0, which alone decides: verl 0.9.1's agent loops
    do not read val_kwargs.do_sample (trainer/ppo/v1/agent_loop_tq.py)."""
    trainer, validation = config.trainer, config.actor_rollout_ref.rollout.val_kwargs
    if not _validates(trainer):
        return
    if validation.temperature > GREEDY_TEMPERATURE:
        if not validation.do_sample:
            yield (
                "actor_rollout_ref.rollout.val_kwargs.do_sample=False would sample all the same, at "
                f"val_kwargs.temperature={validation.temperature}: set the temperature (VAL_TEMPERATURE in the "
                "scripts) to 0, or do_sample=True."
            )
        return
    counts = {"actor_rollout_ref.rollout.val_kwargs.n": validation.n}
    if has_keep_probe(config):
        counts["trainer.keep_probe.n"] = trainer.keep_probe.n
    for key, n in counts.items():
        if n > 1:
            yield (
                f"{key}={n} asks for as many equal responses, because validation has the temperature 0 "
                "(val_kwargs.temperature): set 1, or a temperature."
            )


def ray_cpus(config: DictConfig) -> Iterator[str]:
    """The CPUs of the Ray that starts on this node; check_running_ray checks a Ray that is running."""
    if joins_ray():
        return
    found, ranks = config.ray_kwargs.ray_init.num_cpus, config.trainer.n_gpus_per_node
    found = cpus_of_machine() if found is None else found
    separate = _separate_ranks(config) if config.trainer.nnodes == 1 else 0  # of several nodes, on any of them
    sentence = _too_few_cpus(config, ranks, "trainer.n_gpus_per_node", separate, found)
    if sentence is not None:
        more = "give the machine or container more CPUs"
        if config.ray_kwargs.ray_init.num_cpus is not None:
            more = f"raise ray_kwargs.ray_init.num_cpus={found}, which may be more than there are cores"
        yield f"{sentence}: use fewer ranks (GPUS_PER_NODE in the scripts), or {more}."


def check_running_ray(config: DictConfig) -> None:
    """Reject a running Ray whose nodes together have too few CPUs or GPUs.

    Raises:
        UserError: saying how many there are.
    """
    separate = _separate_ranks(config)
    sentence = _too_few_cpus(config, ranks_of(config), RANKS, separate, ray.cluster_resources().get("CPU", 0))
    if sentence is not None:
        raise UserError(f"{sentence}: use fewer ranks, or nodes with more CPUs (ray start --num-cpus).")
    check_gpus(ranks_of(config) + separate, f"{RANKS} and {OWN_RANKS}" if separate else RANKS)


def _separate_ranks(config: DictConfig) -> int:
    """The ranks of rollouts on devices of their own."""
    rollout = config.actor_rollout_ref.rollout
    return rollout.nnodes * rollout.n_gpus_per_node if config.trainer.v1.trainer_mode == "separate_async" else 0


def _too_few_cpus(config: DictConfig, ranks: int, named: str, separate: int, found: float) -> str | None:
    queue = config.transfer_queue.backend
    units = queue.SimpleStorage.num_data_storage_units if queue.storage_backend == "SimpleStorage" else 0
    needed = cpus_reserved(ranks, units, separate)
    if needed <= found:
        return None
    others = f", {separate} ranks of rollouts" if separate else ""
    return (
        f"{ranks} ranks ({named}){others} and TransferQueue ({units} storage units) "
        f"reserve {needed} of Ray's CPUs, and Ray has {found:g} and would wait for the others forever"
    )


# The order matters: a rule may rely on the ones before it.
RULES = (
    registered,
    of_older_verl,
    reward_manager,
    generation_batches,
    bypass_mode,
    rollout_correction,
    of_no_checkpoint,
    trainer_mode,
    replicas,
    ray_cpus,
    installed,
    model.models,
    model.tensor_parallel,
    model.sampled_as_trained,
    model.meshes,
    model.optimizers,
    model.precisions,
    model.micro_batches,
    model.context,
    model.sampled_by_hf,
    model.soft_capping,
    model.lora,
    model.weight_transfer,
    keep_probe,
    best_metric,
    greedy_validation,
    samples_of_store,
    objective.store_writing,
    objective.divergence,
    objective.loss_of_micro_batches,
    objective.advantages,
    objective.dynamic_sampling,
    objective.overlong,
    objective.clip_cov,
    objective.dro,
    objective.kl_penalties,
    model.text_only,
    objective.eta_schedule,
    objective.whole_mini_batches,
    objective.ranks_of_d_exp,
    objective.rehearsal_shares,
    objective.anchor,
    model.rows_of_micro_batches,
)
