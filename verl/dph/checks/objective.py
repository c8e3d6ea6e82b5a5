"""Rules on the objective of a run: the D_pef store, the divergence, eta, the baselines (rules.py lists them)."""

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.configuration import ACTOR
from rl.configuration.setting import settings_of
from rl.configuration.training import DIVERGENCES, ETA, TRAINING
from verl.dph.checks.model import data_parallel_ranks
from verl.dph.objective.advantages import MAXRL, PKPO, W_REINFORCE
from verl.dph.objective.eta import WITH_WARMUP
from verl.dph.objective.terms import MODES, TAIL_FORMS
from verl.dph.sampling.rollout_engine import RANKS
from verl.dph.training.config import (
    active_forms,
    anchor_rows,
    has_anchor,
    has_critic,
    mini_batches,
    rehearses,
)

# verl's policy losses that divide by a number of responses, whatever loss_agg_mode says.
RESPONSE_MEANS = ("geo_mean", "sapo")


def store_writing(config: DictConfig) -> Iterator[str]:
    data = config.data
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
    if len(files_of(data.sft_files)) > 1:
        yield f"actor.generate_sft=True refines one file of prompts, and data.sft_files={data.sft_files}: name one."
    if data.sft_responses and data.sft_coverage != "mastered":
        yield (
            f"data.sft_responses={data.sft_responses} gives the store its rows, and data.sft_coverage="
            f"{data.sft_coverage} would "
            "take them from the pre-sampling: leave sft_coverage=mastered, or sft_responses=null."
        )


def loss_of_micro_batches(config: DictConfig) -> Iterator[str]:
    """verl adds up the losses of micro-batches, so that a mean over one of them depends on how many there are."""
    actor = config.actor_rollout_ref.actor
    if actor.generate_sft:
        return
    if actor.policy_loss.loss_mode == "geo_mean":
        yield (
            "actor.policy_loss.loss_mode=geo_mean is a mean over a micro-batch, and verl 0.9.1 adds micro-batches up: "
            "its gradient grows with their number; use another loss, such as gspo."
        )
    critic = {"critic": config.critic} if has_critic(config) else {}
    for name, role in ({"actor": actor} | critic).items():
        if role.loss_agg_mode == "seq-mean-token-sum-norm" and role.loss_scale_factor is None:
            yield (
                f"{name}.loss_agg_mode=seq-mean-token-sum-norm divides by the longest response of a micro-batch if "
                f"{name}.loss_scale_factor is not set: set it, for example to data.max_response_length."
            )


def unread(config: DictConfig) -> Iterator[str]:
    """Settings that this run does not read: its user would take it for another run."""
    actor, estimator = config.actor_rollout_ref.actor, config.algorithm.adv_estimator
    if actor.generate_sft:
        return
    on_pef, on_exp = active_forms(config)
    has_term = on_pef or on_exp
    linear = (actor.sft_loss_mode, actor.sft_kl_estimator) == ("forward", "k1")
    reads = {name: mode == actor.sft_loss_mode for mode, other in DIVERGENCES.items() for name in other.reads}
    reads["sft_js_exp_weight"] &= on_pef and on_exp
    reads["sft_kl_estimator"] &= on_pef
    reads |= dict.fromkeys(("sft_loss_coeff", "sft_loss_normalization", "sft_loss_form", "policy_loss_coeff"), has_term)
    reads |= {"sft_baseline": on_pef, "sft_log_ratio_max": on_pef and not linear}
    reads |= dict.fromkeys(("sft_importance_max", "sft_policy_log_ratio_max"), on_exp)
    keys = {f"{ACTOR}.{name}": read for name, read in reads.items()} | {
        f"{ETA}.type": has_term,
        f"{ETA}.warmup_steps": actor.sft_loss_control.type in WITH_WARMUP,
        f"{ETA}.final_ratio": actor.sft_loss_control.type == "cosine",
        "algorithm.pkpo_k": estimator == PKPO,
        "algorithm.w_reinforce_lambda": estimator == W_REINFORCE,
        "data.sft_pt": on_pef,
        f"{ACTOR}.sft_anchor_coeff": has_anchor(config),
        "data.sft_anchor_batch_size": has_anchor(config),
    }
    defaults = {setting.key: setting.default for setting in settings_of(TRAINING)}
    for key, read in keys.items():
        value = OmegaConf.select(config, key)
        if not read and value not in (None, defaults[key]):
            yield (
                f"{key}={value} has no effect with {_mode(actor)} and adv_estimator={estimator}: remove it, or choose "
                "what reads it."
            )


def _mode(actor: DictConfig) -> str:
    form = "" if actor.sft_loss_form == "auto" else f" with sft_loss_form={actor.sft_loss_form}"
    return f"actor.sft_loss_mode={actor.sft_loss_mode}{form}"


def divergence(config: DictConfig) -> Iterator[str]:
    """What a mode needs and what it cannot use (docs/explanation/method.md, "Modes")."""
    actor, (_, on_exp) = config.actor_rollout_ref.actor, active_forms(config)
    if actor.sft_loss_mode == "none":
        return
    mode = _mode(actor)
    yield from _beside_divergence(config, mode)
    if on_exp and not actor.use_kl_loss:
        has_both = (actor.sft_loss_mode, actor.sft_loss_form) == ("alpha", "auto")
        hint = " (or name the D_pef store in data.sft_pt)" if has_both else ""
        yield (
            f"{mode} compares the policy's own samples with the initial policy and needs a reference model: set "
            f"actor.use_kl_loss=True{hint}; verl's own KL term is left out."
        )
    yield from _baseline(actor, mode)
    control = actor.sft_loss_control
    if control.type == "warmup" and control.warmup_steps == 0:
        yield "actor.sft_loss_control.warmup_steps=0 must be at least 1 with type=warmup."


def _beside_divergence(config: DictConfig, mode: str) -> Iterator[str]:
    """Settings of verl that no divergence goes with."""
    actor = config.actor_rollout_ref.actor
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
    if actor.shuffle:
        yield f"actor.shuffle=True does not go with {mode}: a mini-batch has a fixed share of D_pef rows; leave it out."
    if actor.strategy not in ("fsdp", "fsdp2"):
        yield f"actor.strategy={actor.strategy} does not go with {mode}: use fsdp or fsdp2."
    if config.get("distillation") and config.distillation.enabled:
        yield f"{mode} does not go with distillation.enabled=True, which has a loss of its own: switch one off."
    if adapter := config.actor_rollout_ref.model.lora_adapter_path:
        yield (
            f"{mode} compares with the initial policy, and with actor_rollout_ref.model.lora_adapter_path={adapter} "
            "verl's reference and the D_pef store are of the model without the adapter: merge it into the model first."
        )


def _baseline(actor: DictConfig, mode: str) -> Iterator[str]:
    setting = f"actor.sft_baseline={actor.sft_baseline}"
    if actor.sft_baseline == "centred":
        return
    if actor.sft_loss_mode == "forward":
        yield f"{setting} is what actor.sft_kl_estimator=k1, the default, gives {mode}: use centred."
    elif MODES[actor.sft_loss_mode] not in TAIL_FORMS:
        yield f"{setting} does not exist for {mode}, whose f'(inf) is infinite: use centred."
    elif actor.sft_log_ratio_max is not None:
        yield (
            f"{setting} takes the bound's place, and actor.sft_log_ratio_max={actor.sft_log_ratio_max} would bias it: "
            "set actor.sft_log_ratio_max=null."
        )


def advantages(config: DictConfig) -> Iterator[str]:
    """Settings that would silently change a baseline's advantage estimator (docs/explanation/baselines.md)."""
    algorithm, reward, n = config.algorithm, config.reward, config.actor_rollout_ref.rollout.n
    estimator = f"algorithm.adv_estimator={algorithm.adv_estimator}"
    yield from _success_cap(config)
    if algorithm.adv_estimator == PKPO and algorithm.pkpo_k > n:
        yield f"algorithm.pkpo_k={algorithm.pkpo_k} is more than the rollout.n={n} samples of a prompt: lower it."
    if algorithm.adv_estimator == MAXRL and algorithm.use_kl_in_reward:
        yield (
            f"{estimator} takes the scorer's verdicts and no rewards, so algorithm.use_kl_in_reward=True would change "
            "nothing: switch it off."
        )
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


def _success_cap(config: DictConfig) -> Iterator[str]:
    algorithm, n = config.algorithm, config.actor_rollout_ref.rollout.n
    cap = f"algorithm.success_cap={algorithm.success_cap}"
    if algorithm.success_cap is None:
        return
    if n < 2:
        yield f"{cap} counts the correct responses of a group, but rollout.n={n} makes none: use 2 or more, or null."
    if algorithm.adv_estimator == "gae":
        yield (
            f"{cap} sets the advantages of whole groups to 0, and algorithm.adv_estimator=gae has a critic instead of "
            "groups: use grpo, or success_cap=null."
        )


def whole_mini_batches(config: DictConfig) -> Iterator[str]:
    """verl pads a step to whole mini-batches of the critic too. D_pef rows would then fill one without a D_exp row."""
    prompts, critic = config.data.train_batch_size, config.critic
    if rehearses(config) and has_critic(config) and prompts % critic.ppo_mini_batch_size:
        size = critic.ppo_mini_batch_size
        yield f"data.train_batch_size={prompts} is not a multiple of critic.ppo_mini_batch_size={size}."


def whole_shares(config: DictConfig) -> Iterator[str]:
    """verl cuts every mini-batch into as many equal parts as there are data-parallel ranks."""
    data, ranks = config.data, data_parallel_ranks(config)
    if config.actor_rollout_ref.actor.generate_sft or not mini_batches(config):  # rl/checks/run.py says the latter
        return
    found = {"data.train_batch_size x rollout.n": data.train_batch_size * config.actor_rollout_ref.rollout.n}
    found |= {"data.sft_batch_size": data.sft_batch_size} if rehearses(config) else {}
    found |= {"data.sft_anchor_batch_size": anchor_rows(config)} if has_anchor(config) else {}
    parts = mini_batches(config) * ranks
    for name, rows in found.items():
        if rows % parts:
            yield (
                f"{name}={rows} does not divide over {mini_batches(config)} mini-batches x {ranks} data-parallel ranks "
                f"({RANKS}): use a positive multiple of {parts}, or another number of ranks."
            )


def anchor(config: DictConfig) -> Iterator[str]:
    """The anchor is rehearsed in the generator form beside D_pef, and has no half on D_exp."""
    data, actor = config.data, config.actor_rollout_ref.actor
    if not data.sft_anchor_pt or actor.generate_sft:
        return
    given = f"data.sft_anchor_pt={data.sft_anchor_pt}"
    if not rehearses(config):
        yield f"{given} is rehearsed beside data.sft_pt, which this run does not read: name the anchor there instead."
    elif active_forms(config)[1]:
        yield (
            f"{given} has stored rows alone, and sft_loss_mode={actor.sft_loss_mode} has a half on D_exp: use another "
            "mode, such as js_low_var, or sft_loss_form=generator."
        )
