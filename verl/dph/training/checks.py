"""Every check of the settings that can be made before anything is started."""

from omegaconf import DictConfig

from rl.common.errors import UserError
from verl.dph.divergence import eta_schedule
from verl.dph.divergence.loss_modes import FORMS, MODES
from verl.dph.sampling.rollout_engine import check_platform
from verl.dph.training import keep_probe, model_checks, store_checks
from verl.dph.training.config import active_forms, mini_batches, rehearses
from verl.dph.training.required_files import require_files

TRAINER_MODES = ("sync", "colocate_async", "separate_async")
NORMALIZATIONS = ("joint", "per_set")
KL_ESTIMATORS = ("k1", "k3")
ESTIMATORS = ("sampled", "topk")

# What verl reserves with Ray: for each rank (single_controller/ray/base.py, ResourcePoolManager), and for its task
# runner and TransferQueue.
CPUS_PER_RANK, CPUS_OF_OTHERS = 3, 3


def read_none(config: DictConfig) -> None:
    """The paper's README writes data.sft_files=None data.sft_pt=None, which Hydra takes for a word: null is meant."""
    for key in ("sft_files", "sft_pt", "sft_wrong_files"):
        if config.data[key] == "None":
            config.data[key] = None


def check(config: DictConfig) -> None:
    """Refuse, before Ray starts, what cannot work.

    Raises:
        UserError: naming the setting, what was found and what to do.
    """
    check_platform(config)
    _check_mode(config)
    _check_cpus(config)
    model_checks.check(config)
    _check_actor(config.actor_rollout_ref.actor)
    _check_needs(config)
    if config.actor_rollout_ref.actor.generate_sft:
        store_checks.check(config)
    else:
        require_files(config, "train_files", "val_files")
    if rehearses(config):
        require_files(config, "sft_files", "sft_pt")
        _check_shares(config)
    elif not config.actor_rollout_ref.actor.generate_sft:
        _check_no_kl_budget(config.actor_rollout_ref.actor)
    keep_probe.check(config)


def _check_no_kl_budget(actor: DictConfig) -> None:
    if actor.sft_loss_control.type == "target_kl":
        raise UserError(
            f"actor.sft_loss_control.type=target_kl follows the KL on D_pef rows, which "
            f"sft_loss_mode={actor.sft_loss_mode} "
            "does not use here: choose another type."
        )


def _check_cpus(config: DictConfig) -> None:
    """On a CPU Ray's CPUs are only names too, but ranks that reserve more than there are wait for ever."""
    trainer, rollout = config.trainer, config.actor_rollout_ref.rollout
    found = config.ray_kwargs.ray_init.num_cpus
    if trainer.device != "cpu" or found is None:
        return
    ranks = trainer.nnodes * trainer.n_gpus_per_node
    ranks += rollout.nnodes * rollout.n_gpus_per_node if trainer.v1.trainer_mode == "separate_async" else 0
    needed = ranks * CPUS_PER_RANK + CPUS_OF_OTHERS
    if needed > found:
        raise UserError(
            f"{ranks} ranks (trainer.nnodes x trainer.n_gpus_per_node, and the rollout's in separate_async) reserve "
            f"{needed} of Ray's CPUs, but ray_kwargs.ray_init.num_cpus={found}: use fewer ranks (GPUS_PER_NODE in the "
            "scripts), or raise num_cpus."
        )


def _check_mode(config: DictConfig) -> None:
    mode = config.trainer.v1.trainer_mode
    if mode not in TRAINER_MODES:
        raise UserError(f"trainer.v1.trainer_mode={mode!r} is unknown: use one of {', '.join(TRAINER_MODES)}.")
    if mode != "sync" and config.actor_rollout_ref.actor.generate_sft:
        raise UserError(
            f"actor.generate_sft=True trains nothing and needs no trainer.v1.trainer_mode={mode}: use sync."
        )
    if mode == "separate_async":
        _check_separate(config)


def _check_separate(config: DictConfig) -> None:
    """Rollouts on devices of their own: how many, how weights get there, and how many mini-batches a step."""
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    prompts, mini = config.data.train_batch_size, actor.ppo_mini_batch_size
    updates = config.trainer.v1.separate_async.parameter_sync_step
    if prompts != updates * mini:
        raise UserError(
            f"data.train_batch_size={prompts} is not trainer.v1.separate_async.parameter_sync_step={updates} x "
            f"actor.ppo_mini_batch_size={mini}, and separate_async updates the policy once a mini-batch: make it so."
        )
    if rollout.nnodes < 1 or rollout.n_gpus_per_node < 1:
        raise UserError(
            "trainer.v1.trainer_mode=separate_async gives rollouts devices of their own: set "
            "actor_rollout_ref.rollout.nnodes and rollout.n_gpus_per_node, both above 0."
        )
    backend, on_cpu = rollout.checkpoint_engine.backend, config.trainer.device == "cpu"
    if backend == "naive" or on_cpu != (backend == "gloo"):
        raise UserError(
            f"actor_rollout_ref.rollout.checkpoint_engine.backend={backend} does not carry weights to rollouts on "
            f"devices of their own: use {'gloo' if on_cpu else 'nccl, or another one of verl for this device'}."
        )


def _check_actor(actor: DictConfig) -> None:
    mode = actor.sft_loss_mode
    _one_of(actor, "sft_loss_mode", ("none", *MODES))
    if mode == "none":
        return
    _one_of(actor, "sft_loss_form", FORMS)
    _one_of(actor, "sft_loss_normalization", NORMALIZATIONS)
    _one_of(actor, "sft_loss_estimator", ESTIMATORS)
    _one_of(actor, "sft_kl_estimator", KL_ESTIMATORS)
    if actor.sft_loss_coeff < 0:
        raise UserError(
            f"actor.sft_loss_coeff={actor.sft_loss_coeff} is negative: it weighs a divergence, use 0 or more."
        )
    eta_schedule.check(actor.sft_loss_control, actor.sft_loss_coeff)
    if mode == "alpha" and not 0 < actor.alpha_coeff < 1:
        raise UserError(f"actor.alpha_coeff={actor.alpha_coeff} must lie strictly between 0 and 1.")
    if actor.sft_grad_norm_freq < 0:
        raise UserError(
            f"actor.sft_grad_norm_freq={actor.sft_grad_norm_freq} is negative: steps between two, or 0 for never."
        )
    if actor.loss_agg_mode != "token-mean":
        raise UserError(
            f"actor.loss_agg_mode={actor.loss_agg_mode} does not go with sft_loss_mode={mode}: its normalisations are "
            "token means, use loss_agg_mode=token-mean."
        )
    if actor.strategy not in ("fsdp", "fsdp2"):
        raise UserError(f"actor.strategy={actor.strategy} does not go with sft_loss_mode={mode}: use fsdp or fsdp2.")


def _one_of(actor: DictConfig, key: str, values: tuple[str, ...]) -> None:
    if actor[key] not in values:
        raise UserError(f"actor.{key}={actor[key]!r} is unknown: use one of {', '.join(values)}.")


def _check_needs(config: DictConfig) -> None:
    """What a mode needs and what it cannot use (METHOD.md, "Modes")."""
    actor, data = config.actor_rollout_ref.actor, config.data
    mode = f"actor.sft_loss_mode={actor.sft_loss_mode}"
    mode += "" if actor.sft_loss_form == "auto" else f" with sft_loss_form={actor.sft_loss_form}"
    on_pef, on_exp = active_forms(config)
    if on_exp and not actor.use_kl_loss:
        has_both = (actor.sft_loss_mode, actor.sft_loss_form) == ("alpha", "auto")
        hint = " (or name the D_pef store in data.sft_pt)" if has_both else ""
        raise UserError(
            f"{mode} compares the policy's own samples with the initial policy and needs a reference model: set "
            f"actor.use_kl_loss=True{hint}; verl's own KL term is left out."
        )
    if actor.sft_loss_mode != "none" and not on_pef and (data.sft_files or data.sft_pt):
        raise UserError(
            f"{mode} has no term on D_pef, but data.sft_files={data.sft_files} and data.sft_pt={data.sft_pt} are "
            "set: set both "
            "to null."
        )
    if config.get("distillation") and config.distillation.enabled and actor.sft_loss_mode != "none":
        raise UserError(
            f"{mode} does not go with distillation.enabled=True, which has a loss of its own: switch one off."
        )
    if actor.sft_loss_mode == "none" or actor.sft_loss_estimator == "sampled":
        return
    if not on_pef:
        raise UserError(
            f"actor.sft_loss_estimator=topk compares stored distributions, and {mode} uses none: use sampled."
        )
    for key, holder in (("use_fused_kernels", config.actor_rollout_ref.model), ("pad_to_length", actor.fsdp_config)):
        if holder.get(key):
            raise UserError(
                f"{key}={holder.get(key)} does not go with actor.sft_loss_estimator=topk: verl hands out no logits "
                "then; "
                "switch it off, or use sft_loss_estimator=sampled."
            )


def _check_shares(config: DictConfig) -> None:
    """D_pef rows must divide evenly over mini-batches and ranks, and into micro-batches of a fixed size."""
    actor, rows = config.actor_rollout_ref.actor, config.data.sft_batch_size
    prompts, mini = config.data.train_batch_size, actor.ppo_mini_batch_size
    if prompts % mini:
        raise UserError(f"data.train_batch_size={prompts} is not a multiple of actor.ppo_mini_batch_size={mini}.")
    ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes // model_checks.actor(config).ulysses
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
            f"actor.ppo_micro_batch_size_per_gpu={micro} does not divide the {rows_a_rank} rows of a mini-batch on "
            "a rank "
            "(D_exp and D_pef together): use a divisor, or actor.use_dynamic_bsz=True."
        )
