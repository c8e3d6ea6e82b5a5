"""Validate a training run's settings before anything starts: each by itself (settings.py), then rules across several.

A new rule is a function that yields a sentence for what is wrong, listed in RULES.
"""

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import ray
from omegaconf import DictConfig, OmegaConf
from transformers import AutoConfig, PretrainedConfig
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.fs import copy_to_local
from verl.utils.torch_dtypes import PrecisionType

from rl.common.errors import UserError
from rl.common.ray_cpus import cpus_of_machine, cpus_reserved
from verl.dph.config import attention
from verl.dph.config.schema import check_schema
from verl.dph.divergence.loss_modes import MODES, TAIL_FORMS
from verl.dph.sampling.rollout_engine import check_platform
from verl.dph.training import preflight
from verl.dph.training.advantages import GRPO_PASSK, PKPO, W_REINFORCE
from verl.dph.training.config import (
    DPHActorConfig,
    active_forms,
    has_divergence,
    has_keep_probe,
    mini_batches,
    rehearses,
)
from verl.dph.training.settings import ETA, SCHEMA

# verl's policy losses that divide by a number of responses, whatever loss_agg_mode says.
RESPONSE_MEANS = ("geo_mean", "sapo")


def read_none(config: DictConfig) -> None:
    """The paper's README writes data.sft_files=None data.sft_pt=None, which Hydra takes for a word: null is meant."""
    for key in ("sft_files", "sft_pt", "sft_wrong_files"):
        if config.data[key] == "None":
            config.data[key] = None


def check(config: DictConfig) -> None:
    """Reject, before Ray starts, what cannot work: every wrong value, else the first rule that is broken, then files.

    What the models' attention decides (config/attention.py) is settled between the two.

    Raises:
        UserError: one line per violation, naming the setting, what was found and what to do.
    """
    check_platform(config)
    check_schema(config, SCHEMA)
    attention.complete(config)
    for violation in chain.from_iterable(rule(config) for rule in RULES):
        raise UserError(violation)
    preflight.check_files(config)


# ------------------------------------------------------------------------------------------- the trainer and its ranks


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


def keep_probe(config: DictConfig) -> Iterator[str]:
    """It is measured in validations."""
    trainer = config.trainer
    if has_keep_probe(config) and trainer.test_freq <= 0 and not (trainer.val_before_train or trainer.val_only):
        yield (
            f"trainer.keep_probe.prompts={trainer.keep_probe.prompts} is measured in validations, and there is none "
            "(data.val_files, trainer.test_freq, trainer.val_before_train): validate, or set prompts to 0."
        )


def ray_cpus(config: DictConfig) -> Iterator[str]:
    """Of the Ray that this run starts; check_running_ray asks one that runs already."""
    if os.environ.get("RAY_ADDRESS"):
        return
    found = config.ray_kwargs.ray_init.num_cpus
    if (sentence := _too_few_cpus(config, cpus_of_machine() if found is None else found)) is not None:
        on_cpu = config.trainer.device == "cpu"  # where Ray's CPUs are only names
        yield f"{sentence}: use fewer ranks (GPUS_PER_NODE in the scripts), or " + (
            "raise ray_kwargs.ray_init.num_cpus." if on_cpu else "give the machine or container more CPUs."
        )


def check_running_ray(config: DictConfig) -> None:
    """Reject a Ray, once it runs, that has too few CPUs on all of its nodes together.

    Raises:
        UserError: saying how many there are.
    """
    sentence = _too_few_cpus(config, ray.cluster_resources().get("CPU", 0))
    if sentence is not None:
        raise UserError(f"{sentence}: use fewer ranks, or nodes with more CPUs (ray start --num-cpus).")


def _too_few_cpus(config: DictConfig, found: float) -> str | None:
    trainer, rollout = config.trainer, config.actor_rollout_ref.rollout
    ranks = trainer.nnodes * trainer.n_gpus_per_node
    separate = rollout.nnodes * rollout.n_gpus_per_node if trainer.v1.trainer_mode == "separate_async" else 0
    queue = config.transfer_queue.backend
    units = queue.SimpleStorage.num_data_storage_units if queue.storage_backend == "SimpleStorage" else 0
    needed = cpus_reserved(ranks, units, separate)
    if needed <= found:
        return None
    others = f", {separate} ranks of rollouts" if separate else ""
    return (
        f"{ranks} ranks (trainer.nnodes x trainer.n_gpus_per_node){others} and TransferQueue ({units} storage units) "
        f"reserve {needed} of Ray's CPUs, and Ray has {found:g} and would wait for the others for ever"
    )


# --------------------------------------------------------------- how models are built, and spread over the ranks


@dataclass
class Role:
    """A trained or frozen model of the run, and where its settings stand."""

    name: str
    settings: DictConfig
    engine: DictConfig
    model_name: str
    model: DictConfig

    @property
    def ulysses(self) -> int:
        """Ranks that share one sequence; verl has an old and a new name for it, and the old one wins."""
        old = self.settings.ulysses_sequence_parallel_size
        return old if old > 1 else self.engine.ulysses_sequence_parallel_size

    @property
    def attention(self) -> str:
        """verl's default is in its HFModelConfig (workers/config/model.py)."""
        return self.model.override_config.get("attn_implementation", attention.FLASH)


def roles(config: DictConfig) -> Iterator[Role]:
    """The models that this run builds, the actor first; with LoRA the reference is the actor's base."""
    model_name, model = "actor_rollout_ref.model", config.actor_rollout_ref.model
    names = ["actor"] + (["ref"] if need_reference_policy(config) and not model.lora_rank else [])
    for name in names:
        settings = config.actor_rollout_ref[name]
        yield Role(f"actor_rollout_ref.{name}", settings, settings.fsdp_config, model_name, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl warns at every look that there is no critic
        if need_critic(config):
            yield Role("critic", config.critic, config.critic.fsdp, "critic.model", config.critic.model)


def models(config: DictConfig) -> Iterator[str]:
    """What would fail in the workers, or would silently compute something else."""
    device, ranks = config.trainer.device, config.trainer.n_gpus_per_node * config.trainer.nnodes
    for role in roles(config):
        if not preflight.is_model(str(role.model.path)):
            yield (
                f"{role.model_name}.path={role.model.path} holds no config.json: give the folder of a Hugging Face "
                "model."
            )
        if device == "cpu" and role.settings.strategy != "fsdp2":
            yield (
                f"{role.name}.strategy={role.settings.strategy} does not run with trainer.device=cpu, because torch "
                "distributes FSDP1's initial weights on GPUs only: use fsdp2."
            )
        if role.ulysses > 1:
            yield from _ulysses(role, ranks)


def _ulysses(role: Role, ranks: int) -> Iterator[str]:
    setting = f"{role.name}.ulysses_sequence_parallel_size={role.ulysses}"
    if ranks % role.ulysses:
        yield f"{setting} does not divide the trainer's {ranks} ranks: use a divisor of {ranks}."
    if not role.model.use_remove_padding:
        yield f"{setting} cuts packed sequences into pieces: set {role.model_name}.use_remove_padding=True."
    # verl exchanges the pieces in the call of flash attention's kernel (models/transformers/monkey_patch.py).
    if "flash" not in role.attention:
        yield (
            f"{setting} needs flash attention, that is, GPUs: with "
            f"{role.model_name}.override_config.attn_implementation={role.attention} every rank would see its own "
            "piece of a sequence only; install flash-attn, or use size 1."
        )


def text_only(config: DictConfig) -> Iterator[str]:
    """D_pef rows, and D_exp rows beside them, are sent to the actor as token ids alone."""
    actor, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
    if not (actor.generate_sft or has_divergence(config)):
        return
    described = config_json(model)
    inputs = [kind for kind in ("vision", "audio") if hasattr(described, f"{kind}_config")]
    if inputs:
        setting = "actor.generate_sft=True" if actor.generate_sft else f"actor.sft_loss_mode={actor.sft_loss_mode}"
        yield (
            f"{setting} trains on token ids alone, and {model.path} ({described.model_type}) also takes "
            f"{' and '.join(inputs)} inputs, which would be left out: use a text model, or sft_loss_mode=none."
        )


def config_json(model: DictConfig) -> PretrainedConfig:
    """The model's config.json.

    Raises:
        UserError: it cannot be read, or transformers does not know such a model.
    """
    try:
        return AutoConfig.from_pretrained(copy_to_local(model.path), trust_remote_code=model.trust_remote_code)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"The config.json of actor_rollout_ref.model.path={model.path} cannot be used: {reason}"
        ) from error


def lora(config: DictConfig) -> Iterator[str]:
    prefix, model = "actor_rollout_ref.model", config.actor_rollout_ref.model
    if not model.lora_rank:
        for name, value in (("lora.rank", model.lora.rank), ("lora_adapter_path", model.lora_adapter_path)):
            if value:
                yield (
                    f"{prefix}.{name}={value} makes no adapter with FSDP, which goes by lora_rank: set "
                    f"{prefix}.lora_rank."
                )
        return
    if config.actor_rollout_ref.rollout.name == "hf" and not model.lora.merge:
        yield (
            f"{prefix}.lora_rank={model.lora_rank} does not go with the hf rollout, which takes whole weights, unless "
            f"they are merged: set {prefix}.lora.merge=True."
        )
    if "hf_model" in config.actor_rollout_ref.actor.checkpoint.save_contents:
        yield (
            f"actor.checkpoint.save_contents has hf_model, which with {prefix}.lora_rank={model.lora_rank} verl writes "
            "unmerged and under names that no program loads: leave it out, and use python -m verl.model_merger on the "
            "checkpoint."
        )


def weight_transfer(config: DictConfig) -> Iterator[str]:
    """verl sends vLLM the weights in buckets, and what does not fit into one depends on the way they take.

    On a GPU a larger tensor goes by a CUDA IPC handle of its own (vllm_rollout/bucketed_weight_transfer.py), and nccl
    and nixl cut it into pieces (checkpoint_engine/base.py, split_weight_chunks). In shared memory, on a CPU, the sender
    ends with an assertion and the run waits for ever.
    """
    rollout, actor, model = (config.actor_rollout_ref[name] for name in ("rollout", "actor", "model"))
    if config.trainer.device != "cpu" or rollout.name != "vllm":
        return
    described = config_json(model).get_text_config()
    element = PrecisionType.to_dtype(actor.fsdp_config.model_dtype).itemsize
    # The embedding is the largest tensor of a language model.
    needed = math.ceil(described.vocab_size * described.hidden_size * element / 2**20)
    setting = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    bucket = rollout.checkpoint_engine.update_weights_bucket_megabytes
    if needed > bucket:
        yield (
            f"{setting}={bucket} is less than the {needed} MiB of the model's embedding ({described.vocab_size} x "
            f"{described.hidden_size}, {actor.fsdp_config.model_dtype}), which vLLM on a CPU takes as a whole: set "
            f"{needed} or more."
        )


# ------------------------------------------------------------------------------------------------- writing the store


def store_writing(config: DictConfig) -> Iterator[str]:
    data, model = config.data, config.actor_rollout_ref.model
    if not config.actor_rollout_ref.actor.generate_sft:
        return
    if config.trainer.resume_mode == "resume_path":
        yield (
            f"actor.generate_sft=True stores the initial policy's log-probs, and trainer.resume_from_path="
            f"{config.trainer.resume_from_path} would load another policy: leave trainer.resume_mode=auto, which loads "
            "none here."
        )
    if not data.sft_pt:
        yield "actor.generate_sft=True writes the D_pef store, but data.sft_pt is not set: name its file."
    if data.sft_responses and data.sft_coverage == "solved":
        yield (
            f"data.sft_responses={data.sft_responses} gives the store its rows, and data.sft_coverage=solved would "
            "take them from the pre-sampling: leave sft_coverage=mastered, or sft_responses=null."
        )
    if model.lora_adapter_path:
        yield (
            "actor.generate_sft=True samples the model of actor_rollout_ref.model.path, and "
            f"actor_rollout_ref.model.lora_adapter_path={model.lora_adapter_path} would change it: set it to null."
        )
    if not data.sft_top_k:
        return
    ulysses = next(roles(config)).ulysses
    if ulysses > 1:
        yield (
            f"data.sft_top_k={data.sft_top_k} is taken from whole sequences, and "
            f"actor.ulysses_sequence_parallel_size={ulysses} cuts them: write the store with size 1, it fits every "
            "size."
        )
    vocabulary = config_json(model).get_text_config().vocab_size
    if data.sft_top_k > vocabulary:
        yield (
            f"data.sft_top_k={data.sft_top_k} is more than the {vocabulary} tokens of {model.path}: use {vocabulary} "
            "or less."
        )


# ------------------------------------------------------------------------------------------------------- the divergence


def divergence(config: DictConfig) -> Iterator[str]:
    """What a mode needs and what it cannot use (docs/explanation/method.md, "Modes")."""
    actor, data = config.actor_rollout_ref.actor, config.data
    if actor.sft_loss_mode == "none":
        if actor.policy_loss_coeff != 1:
            yield (
                f"actor.policy_loss_coeff={actor.policy_loss_coeff} weighs the policy loss against a rehearsal, and "
                "sft_loss_mode=none has none: choose a mode, or leave it at 1."
            )
        return
    mode = f"actor.sft_loss_mode={actor.sft_loss_mode}"
    mode += "" if actor.sft_loss_form == "auto" else f" with sft_loss_form={actor.sft_loss_form}"
    if actor.loss_agg_mode != "token-mean":
        yield (
            f"actor.loss_agg_mode={actor.loss_agg_mode} does not go with {mode}: its normalizations are token means, "
            "use loss_agg_mode=token-mean."
        )
    if actor.policy_loss.loss_mode in RESPONSE_MEANS:
        yield (
            f"actor.policy_loss.loss_mode={actor.policy_loss.loss_mode} does not go with {mode}: it is a mean over "
            "responses, where the normalizations are token means; use another loss, such as vanilla or kl_cov."
        )
    if actor.strategy not in ("fsdp", "fsdp2"):
        yield f"actor.strategy={actor.strategy} does not go with {mode}: use fsdp or fsdp2."
    if config.get("distillation") and config.distillation.enabled:
        yield f"{mode} does not go with distillation.enabled=True, which has a loss of its own: switch one off."
    on_pef, on_exp = active_forms(config)
    if on_exp and not actor.use_kl_loss:
        has_both = (actor.sft_loss_mode, actor.sft_loss_form) == ("alpha", "auto")
        hint = " (or name the D_pef store in data.sft_pt)" if has_both else ""
        yield (
            f"{mode} compares the policy's own samples with the initial policy and needs a reference model: set "
            f"actor.use_kl_loss=True{hint}; verl's own KL term is left out."
        )
    if not on_pef and (data.sft_files or data.sft_pt):
        yield (
            f"{mode} has no term on D_pef, but data.sft_files={data.sft_files} and data.sft_pt={data.sft_pt} are set: "
            "set both to null."
        )
    yield from _baseline(actor, mode, on_pef)
    if actor.sft_loss_estimator != "topk":
        return
    if actor.sft_log_ratio_max not in (None, DPHActorConfig.sft_log_ratio_max):
        yield (
            f"actor.sft_log_ratio_max={actor.sft_log_ratio_max} bounds sampled tokens, and "
            "actor.sft_loss_estimator=topk compares whole distributions: leave it out, or use sampled."
        )
    if not on_pef:
        yield f"actor.sft_loss_estimator=topk compares stored distributions, and {mode} uses none: use sampled."
    for key, holder in (("use_fused_kernels", config.actor_rollout_ref.model), ("pad_to_length", actor.fsdp_config)):
        if holder.get(key):
            yield (
                f"{key}={holder.get(key)} does not go with actor.sft_loss_estimator=topk: verl gives no logits then; "
                "switch it off, or use sft_loss_estimator=sampled."
            )


def _baseline(actor: DictConfig, mode: str, on_pef: bool) -> Iterator[str]:
    if actor.sft_baseline == "centred":
        return
    setting = f"actor.sft_baseline={actor.sft_baseline}"
    if not on_pef or actor.sft_loss_estimator == "topk":
        yield f"{setting} is for sampled tokens of D_pef, which {mode} does not compare here: use centred."
    elif actor.sft_loss_mode == "forward":
        yield f"{setting} is what actor.sft_kl_estimator=k1, the default, gives {mode}: use centred."
    elif MODES[actor.sft_loss_mode] not in TAIL_FORMS:
        yield f"{setting} does not exist for {mode}, whose f'(inf) is infinite: use centred."
    elif actor.sft_log_ratio_max is not None:
        yield (
            f"{setting} takes the bound's place, and actor.sft_log_ratio_max={actor.sft_log_ratio_max} would bias it: "
            "set actor.sft_log_ratio_max=null."
        )


def refresh(config: DictConfig) -> Iterator[str]:
    """What data.sft_refresh needs of a step: groups that are all correct, of the policy whose log-probs it computes."""
    actor, mode = config.actor_rollout_ref.actor, config.trainer.v1.trainer_mode
    if not config.data.sft_refresh or actor.generate_sft:
        return
    setting = f"data.sft_refresh={config.data.sft_refresh}"
    if not rehearses(config):
        yield (
            f"{setting} rehearses mastered prompts beside D_pef, and actor.sft_loss_mode={actor.sft_loss_mode} has no "
            "term on D_pef here: use another mode, or sft_refresh=0."
        )
    if actor.sft_loss_estimator == "topk":
        yield (
            f"{setting} does not go with actor.sft_loss_estimator=topk, which needs next-token distributions that "
            "rollouts do not have: use sampled, or sft_refresh=0."
        )
    if mode != "sync":
        yield (
            f"{setting} does not go with trainer.v1.trainer_mode={mode}, where a response may be of an older policy "
            "than its log-probs: use sync, or sft_refresh=0."
        )
    if config.algorithm.get("filter_groups") and config.algorithm.filter_groups.enable:
        yield (
            f"{setting} does not go with algorithm.filter_groups.enable=True, which discards the groups that are all "
            "correct: switch one off."
        )


def advantages(config: DictConfig) -> Iterator[str]:
    """What would change an advantage estimator of the baselines without a word (docs/explanation/baselines.md)."""
    algorithm, reward, n = config.algorithm, config.reward, config.actor_rollout_ref.rollout.n
    estimator = f"algorithm.adv_estimator={algorithm.adv_estimator}"
    if algorithm.adv_estimator == PKPO and algorithm.pkpo_k > n:
        yield f"algorithm.pkpo_k={algorithm.pkpo_k} is more than the rollout.n={n} samples of a prompt: lower it."
    if algorithm.adv_estimator == GRPO_PASSK and n < 2:
        yield f"{estimator} compares the best two responses of a prompt, and rollout.n={n}: use 2 or more."
    if algorithm.adv_estimator != W_REINFORCE:
        return
    if algorithm.use_kl_in_reward or OmegaConf.select(reward, "reward_kwargs.overlong_buffer_cfg.enable"):
        yield (
            f"{estimator} knows a correct response by its reward of 1, which algorithm.use_kl_in_reward and overlong "
            "shaping (reward.reward_kwargs.overlong_buffer_cfg) change: switch them off."
        )
    if algorithm.filter_groups.enable:
        yield (
            f"{estimator} learns from groups without a correct response, which algorithm.filter_groups.enable=True "
            "drops: switch it off."
        )


def clip_cov(config: DictConfig) -> Iterator[str]:
    policy_loss = config.actor_rollout_ref.actor.policy_loss
    if policy_loss.loss_mode == "clip_cov" and policy_loss.clip_cov_lb >= policy_loss.clip_cov_ub:
        yield (
            f"actor.policy_loss.clip_cov_lb={policy_loss.clip_cov_lb} is not below clip_cov_ub="
            f"{policy_loss.clip_cov_ub}, so that loss_mode=clip_cov leaves no token out: lower it."
        )


def eta_schedule(config: DictConfig) -> Iterator[str]:
    """Settings of actor.sft_loss_control that do nothing or contradict each other."""
    actor, control = config.actor_rollout_ref.actor, config.actor_rollout_ref.actor.sft_loss_control
    kind, steps, eta = control.type, control.warmup_steps, actor.sft_loss_coeff
    if kind == "warmup" and steps == 0:
        yield f"{ETA}.warmup_steps=0 must be at least 1 with type=warmup."
    if kind not in ("warmup", "cosine") and steps > 0:
        yield f"{ETA}.warmup_steps={steps} must be 0 with type={kind}, which has no warm-up."
    if kind != "target_kl" and control.target_kl is not None:
        yield f"{ETA}.target_kl={control.target_kl} must be null with type={kind}; use type=target_kl."
    if kind != "target_kl":
        return
    if control.target_kl is None:
        yield f"{ETA}.target_kl=None must be a positive budget in nats per token with type=target_kl."
    if control.max_coeff < control.min_coeff:
        yield f"{ETA}.max_coeff={control.max_coeff} must be at least min_coeff={control.min_coeff}."
    if not control.min_coeff <= eta <= control.max_coeff:
        yield (
            f"actor.sft_loss_coeff={eta} is where {ETA}.type=target_kl starts, and must lie between "
            f"min_coeff={control.min_coeff} and max_coeff={control.max_coeff}."
        )
    if not (rehearses(config) or actor.generate_sft):
        yield (
            f"{ETA}.type=target_kl follows the KL on D_pef rows, which sft_loss_mode={actor.sft_loss_mode} does not "
            "use here: choose another type."
        )


def ranks_of_d_exp(config: DictConfig) -> Iterator[str]:
    """verl cuts every mini-batch into as many equal parts as there are data-parallel ranks."""
    actor, n = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    rows, ranks = actor.ppo_mini_batch_size * n, data_parallel_ranks(config)
    if rows % ranks and not actor.generate_sft:
        step = ranks // math.gcd(ranks, n)
        nearest = max(step, round(actor.ppo_mini_batch_size / step) * step)
        yield (
            f"{ranks} data-parallel ranks (trainer.nnodes x trainer.n_gpus_per_node) do not divide the {rows} D_exp "
            f"rows of a mini-batch (actor.ppo_mini_batch_size={actor.ppo_mini_batch_size} x rollout.n={n}): use a "
            f"number of ranks that divides {rows}, or ppo_mini_batch_size={nearest}."
        )


def data_parallel_ranks(config: DictConfig) -> int:
    """Ranks that see different rows: those of a Ulysses group share theirs."""
    return config.trainer.n_gpus_per_node * config.trainer.nnodes // next(roles(config)).ulysses


def rehearsal_shares(config: DictConfig) -> Iterator[str]:
    """D_pef rows must divide evenly over mini-batches and ranks, and into micro-batches of a fixed size."""
    if not rehearses(config):
        return
    actor, rows = config.actor_rollout_ref.actor, config.data.sft_batch_size
    prompts, mini = config.data.train_batch_size, actor.ppo_mini_batch_size
    if prompts % mini:
        yield f"data.train_batch_size={prompts} is not a multiple of actor.ppo_mini_batch_size={mini}."
    ranks = data_parallel_ranks(config)
    parts = mini_batches(config) * ranks
    if rows % parts:
        yield (
            f"data.sft_batch_size={rows} does not divide over {mini_batches(config)} mini-batches x {ranks} "
            f"data-parallel ranks: use a positive multiple of {parts}."
        )
    micro = actor.ppo_micro_batch_size_per_gpu
    rows_per_rank = rows // parts + mini * config.actor_rollout_ref.rollout.n // ranks
    if not actor.use_dynamic_bsz and micro and rows_per_rank % micro:
        yield (
            f"actor.ppo_micro_batch_size_per_gpu={micro} does not divide the {rows_per_rank} rows of a mini-batch per "
            "rank (D_exp and D_pef together): use a divisor, or actor.use_dynamic_bsz=True."
        )


# In this order: a later rule may rely on what an earlier one holds.
RULES = (
    trainer_mode,
    ray_cpus,
    models,
    lora,
    weight_transfer,
    keep_probe,
    store_writing,
    divergence,
    refresh,
    advantages,
    clip_cov,
    text_only,
    eta_schedule,
    ranks_of_d_exp,
    rehearsal_shares,
)
