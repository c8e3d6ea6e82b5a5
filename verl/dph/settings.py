"""The settings of DPH-RL: the actor's dataclass, and every check that can be made before anything is started."""

import os
from dataclasses import dataclass

from omegaconf import DictConfig

from verl.dph.errors import UserError
from verl.workers.config import FSDPActorConfig

# The D_pef form of each mode; "none" is plain GRPO or DAPO (METHOD.md, "Modes").
REHEARSAL_MODES = ("forward", "js_low_var", "alpha")
# These add a policy-form term on D_exp and a reference model online.
MODES_WITH_REFERENCE_MODEL = ("js", "reverse_kl")
NORMALIZATIONS = ("joint", "per_set")
KL_ESTIMATORS = ("k1", "k3")


@dataclass
class DPHActorConfig(FSDPActorConfig):
    """verl's FSDP actor settings and the rehearsal's (see verl/dph/config/dph_trainer.yaml for each)."""

    sft_loss_mode: str = "none"
    sft_loss_coeff: float = 0.01
    sft_loss_normalization: str = "joint"
    sft_kl_estimator: str = "k1"
    alpha_coeff: float = 0.2
    generate_sft: bool = False


def rehearses(config: DictConfig) -> bool:
    """Whether this run trains with D_pef rows."""
    actor = config.actor_rollout_ref.actor
    return actor.sft_loss_mode in REHEARSAL_MODES and not actor.generate_sft


def check(config: DictConfig) -> None:
    """Refuse, before Ray starts, what cannot work.

    Raises:
        UserError: naming the setting, what was found and what to do.
    """
    check_platform(config)
    _check_mode(config)
    _check_model(config)
    _check_actor(config.actor_rollout_ref.actor)
    if config.actor_rollout_ref.actor.generate_sft:
        _require_files(config, "sft_files", "sft_wrong_files")
        if not config.data.sft_pt:
            raise UserError("actor.generate_sft=True writes the D_pef store, but data.sft_pt is not set: name the .pt file.")
    else:
        _require_files(config, "train_files", "val_files")
    if rehearses(config):
        _require_files(config, "sft_files", "sft_pt")
        _check_shares(config)


def check_platform(config: DictConfig) -> None:
    """Refuse a device setting that does not go with the platform that verl chose when it was imported.

    Raises:
        UserError: naming both.
    """
    wanted, found = config.trainer.device, os.environ.get("VERL_PLATFORM")
    if (wanted == "cpu") != (found == "cpu"):
        raise UserError(
            f"trainer.device={wanted} does not go with VERL_PLATFORM={found!r} in the environment: for a machine without GPU "
            "set VERL_PLATFORM=cpu and device=cpu, else neither."
        )


def _check_mode(config: DictConfig) -> None:
    if config.trainer.v1.trainer_mode != "sync":
        raise UserError(
            f"trainer.v1.trainer_mode={config.trainer.v1.trainer_mode} is not supported with DPH-RL yet: use sync."
        )


def _check_model(config: DictConfig) -> None:
    path = config.actor_rollout_ref.model.path
    looks_local = str(path).startswith(("/", ".", "~")) or str(path).count("/") > 1
    if looks_local and not os.path.isfile(os.path.join(os.path.expanduser(path), "config.json")):
        raise UserError(
            f"actor_rollout_ref.model.path={path} holds no config.json: give the folder of a Hugging Face model."
        )


def _check_actor(actor: DictConfig) -> None:
    mode = actor.sft_loss_mode
    if mode in MODES_WITH_REFERENCE_MODEL:
        raise UserError(
            f"actor.sft_loss_mode={mode} needs the policy form with a reference model, which this version does not have "
            f"yet: use one of none, {', '.join(REHEARSAL_MODES)}."
        )
    if mode not in ("none", *REHEARSAL_MODES):
        raise UserError(f"actor.sft_loss_mode={mode!r} is unknown: use one of none, {', '.join(REHEARSAL_MODES)}.")
    if mode == "none":
        return
    if actor.sft_loss_normalization not in NORMALIZATIONS:
        raise UserError(
            f"actor.sft_loss_normalization={actor.sft_loss_normalization!r} is unknown: use one of "
            f"{', '.join(NORMALIZATIONS)}."
        )
    if actor.sft_kl_estimator not in KL_ESTIMATORS:
        raise UserError(
            f"actor.sft_kl_estimator={actor.sft_kl_estimator!r} is unknown: use one of {', '.join(KL_ESTIMATORS)}."
        )
    if actor.sft_loss_coeff < 0:
        raise UserError(f"actor.sft_loss_coeff={actor.sft_loss_coeff} is negative: it weighs a divergence, use 0 or more.")
    if mode == "alpha" and not 0 < actor.alpha_coeff < 1:
        raise UserError(f"actor.alpha_coeff={actor.alpha_coeff} must lie strictly between 0 and 1.")
    if actor.loss_agg_mode != "token-mean":
        raise UserError(
            f"actor.loss_agg_mode={actor.loss_agg_mode} does not go with sft_loss_mode={mode}: its normalisations are "
            "token means, use loss_agg_mode=token-mean."
        )
    if actor.strategy not in ("fsdp", "fsdp2"):
        raise UserError(f"actor.strategy={actor.strategy} does not go with sft_loss_mode={mode}: use fsdp or fsdp2.")
    if actor.shuffle:
        raise UserError(
            "actor.shuffle=True would break the fixed share of D_pef rows in each mini-batch: set it to False."
        )


def _require_files(config: DictConfig, *keys: str) -> None:
    for key in keys:
        value = config.data[key]
        paths = [value] if isinstance(value, str) else list(value or [])
        if not paths:
            raise UserError(f"data.{key} is not set, and this run needs it: name the file.")
        for path in paths:
            if not os.path.isfile(os.path.expanduser(path)):
                raise UserError(f"data.{key}={path} does not exist: {_ORIGIN[key]}.")


_ORIGIN = {
    "train_files": "give a parquet of prompts, or run data/sql/process_data/exact_correct_id.py for train_wrong.parquet",
    "val_files": "give a parquet of prompts",
    "sft_files": "run data/sql/process_data/exact_correct_id.py, which writes train_correct.parquet",
    "sft_wrong_files": "run data/sql/process_data/exact_correct_id.py, which writes train_wrong.parquet",
    "sft_pt": "run scripts/llama/get_correct_data_tensor.sh, which writes it",
}


def mini_batches(config: DictConfig) -> int:
    """Optimizer mini-batches of one training step."""
    return config.data.train_batch_size // config.actor_rollout_ref.actor.ppo_mini_batch_size


def _check_shares(config: DictConfig) -> None:
    """D_pef rows must divide evenly over mini-batches and ranks, and into micro-batches of a fixed size."""
    actor, rows = config.actor_rollout_ref.actor, config.data.sft_batch_size
    prompts, mini = config.data.train_batch_size, actor.ppo_mini_batch_size
    if prompts % mini:
        raise UserError(f"data.train_batch_size={prompts} is not a multiple of actor.ppo_mini_batch_size={mini}.")
    ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes // actor.ulysses_sequence_parallel_size
    parts = mini_batches(config) * ranks
    if rows <= 0 or rows % parts:
        raise UserError(
            f"data.sft_batch_size={rows} does not divide over {mini_batches(config)} mini-batches x {ranks} "
            f"data-parallel ranks: use a positive multiple of {parts}."
        )
    micro = actor.ppo_micro_batch_size_per_gpu
    rows_a_rank = rows // parts + mini * config.actor_rollout_ref.rollout.n // ranks
    if not actor.use_dynamic_bsz and micro and rows_a_rank % micro:
        raise UserError(
            f"actor.ppo_micro_batch_size_per_gpu={micro} does not divide the {rows_a_rank} rows of a mini-batch on a rank "
            "(D_exp and D_pef together): use a divisor, or actor.use_dynamic_bsz=True."
        )
