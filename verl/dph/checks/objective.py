"""Rules on the objective of a run: the D_pef store, the divergence, eta, the baselines (rules.py lists them)."""

import math
from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.configuration.divergences import DIVERGENCES
from rl.configuration.training import Baselines, Eta, Rehearsal
from verl.dph.checks.model import data_parallel_ranks, roles
from verl.dph.objective.advantages import MAXRL, PKPO, W_REINFORCE
from verl.dph.objective.eta import WITH_WARMUP
from verl.dph.objective.terms import MODES, TAIL_FORMS
from verl.dph.sampling.rollout_engine import RANKS
from verl.dph.training.config import (
    active_forms,
    anchor_rows,
    has_anchor,
    has_critic,
    mini_batch_rows,
    mini_batches,
    rehearses,
)

# verl's policy losses that divide by a number of responses, whatever loss_agg_mode says.
RESPONSE_MEANS = ("geo_mean", "sapo")

CONTROL = "actor.sft_loss_control"
# Which of its types read a setting of it.
READ_BY = {"warmup_steps": WITH_WARMUP, "final_ratio": ("cosine",)}


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
    if not data.sft_top_k:
        return
    ulysses = next(roles(config)).ulysses
    if ulysses > 1:
        yield (
            f"data.sft_top_k={data.sft_top_k} is taken from whole sequences, and "
            f"actor.ulysses_sequence_parallel_size={ulysses} cuts them: write the store with size 1, it fits every "
            "size."
        )
    yield from _without_logits(config, f"data.sft_top_k={data.sft_top_k}", "set data.sft_top_k=0")


def _without_logits(config: DictConfig, setting: str, instead: str) -> Iterator[str]:
    model, engine = config.actor_rollout_ref.model, config.actor_rollout_ref.actor.fsdp_config
    for key, holder in (("use_fused_kernels", model), ("pad_to_length", engine)):
        if holder.get(key):
            yield (
                f"{key}={holder.get(key)} does not go with {setting}: verl gives no logits then; switch it off, or "
                f"{instead}."
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


def divergence(config: DictConfig) -> Iterator[str]:
    """What a mode needs and what it cannot use (docs/explanation/method.md, "Modes")."""
    actor = config.actor_rollout_ref.actor
    yield from _of_another_mode(actor)
    if actor.sft_loss_mode == "none":
        yield from _of_no_mode(config)
        return
    mode = f"actor.sft_loss_mode={actor.sft_loss_mode}"
    mode += "" if actor.sft_loss_form == "auto" else f" with sft_loss_form={actor.sft_loss_form}"
    yield from _beside_divergence(config, mode)
    yield from _forms(config, mode)
    yield from _estimator(config, mode)


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
    if actor.strategy not in ("fsdp", "fsdp2"):
        yield f"actor.strategy={actor.strategy} does not go with {mode}: use fsdp or fsdp2."
    if config.get("distillation") and config.distillation.enabled:
        yield f"{mode} does not go with distillation.enabled=True, which has a loss of its own: switch one off."
    if adapter := config.actor_rollout_ref.model.lora_adapter_path:
        yield (
            f"{mode} compares with the initial policy, and with actor_rollout_ref.model.lora_adapter_path={adapter} "
            "verl's reference and the D_pef store are of the model without the adapter: merge it into the model first."
        )


def _forms(config: DictConfig, mode: str) -> Iterator[str]:
    """What the terms on D_pef and on D_exp need, and settings of the term that the mode lacks."""
    actor, data = config.actor_rollout_ref.actor, config.data
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
    if actor.sft_loss_mode == "js" and actor.sft_js_exp_weight is not None and not (on_pef and on_exp):
        yield (
            f"actor.sft_js_exp_weight={actor.sft_js_exp_weight} weighs one half of the divergence against the other, "
            f"and {mode} has a single one: leave it out."
        )
    if not on_exp:
        for name in ("sft_importance_max", "sft_policy_log_ratio_max"):
            if actor[name] != Rehearsal.default(name):
                yield f"actor.{name}={actor[name]} is of rows of D_exp, and {mode} has no term on them: leave it out."


def _estimator(config: DictConfig, mode: str) -> Iterator[str]:
    """Settings of the term on D_pef, by its estimator."""
    actor = config.actor_rollout_ref.actor
    on_pef, _ = active_forms(config)
    bound = actor.sft_log_ratio_max not in (None, Rehearsal.default("sft_log_ratio_max"))
    if bound and not on_pef:
        yield (
            f"actor.sft_log_ratio_max={actor.sft_log_ratio_max} bounds tokens of D_pef, and {mode} has no term on "
            "them: leave it out (actor.sft_policy_log_ratio_max is of D_exp)."
        )
    if actor.sft_loss_estimator != "topk":
        if bound and (actor.sft_loss_mode, actor.sft_kl_estimator) == ("forward", "k1"):
            yield (
                f"actor.sft_log_ratio_max={actor.sft_log_ratio_max} does nothing with sft_kl_estimator=k1, which is "
                "linear everywhere: leave it out, or use k3."
            )
        return
    if actor.sft_kl_estimator != Rehearsal.default("sft_kl_estimator"):
        yield (
            f"actor.sft_kl_estimator={actor.sft_kl_estimator} is of sampled tokens, and "
            "actor.sft_loss_estimator=topk compares whole distributions: leave it out, or use sampled."
        )
    if bound:
        yield (
            f"actor.sft_log_ratio_max={actor.sft_log_ratio_max} bounds sampled tokens, and "
            "actor.sft_loss_estimator=topk compares whole distributions: leave it out, or use sampled."
        )
    if not on_pef:
        yield f"actor.sft_loss_estimator=topk compares stored distributions, and {mode} uses none: use sampled."
    yield from _without_logits(config, "actor.sft_loss_estimator=topk", "use sft_loss_estimator=sampled")


def _of_no_mode(config: DictConfig) -> Iterator[str]:
    """Settings of a rehearsal that a run without one would take for its own, as if it rehearsed."""
    actor, data = config.actor_rollout_ref.actor, config.data
    if actor.policy_loss_coeff != 1:
        yield (
            f"actor.policy_loss_coeff={actor.policy_loss_coeff} weighs the policy loss against a rehearsal, and "
            "sft_loss_mode=none has none: choose a mode, or leave it at 1."
        )
    names = ["sft_log_ratio_max", "sft_importance_max", "sft_policy_log_ratio_max", "sft_baseline"]
    others = {}
    if not actor.generate_sft:
        names += ["sft_loss_coeff", "sft_loss_normalization", "sft_loss_form", "sft_loss_estimator"]
        kind = actor.sft_loss_control.type
        others = {f"data.sft_pt={data.sft_pt}": data.sft_pt, f"{CONTROL}.type={kind}": kind != Eta.default("type")}
    found = {f"actor.{name}={actor[name]}": actor[name] not in (None, Rehearsal.default(name)) for name in names}
    for setting, given in (found | others).items():
        if given:
            yield (
                f"{setting} is of a rehearsal, and actor.sft_loss_mode=none, the default, has none: choose a mode, or "
                "leave it out."
            )


def _of_another_mode(actor: DictConfig) -> Iterator[str]:
    """Settings that only another mode reads."""
    for other in DIVERGENCES.values():
        for name in () if other.mode == actor.sft_loss_mode else other.reads:
            if actor[name] != Rehearsal.default(name):
                yield (
                    f"actor.{name}={actor[name]} is read by sft_loss_mode={other.mode} only, and the mode is "
                    f"{actor.sft_loss_mode}: leave it out, or choose that mode."
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


def advantages(config: DictConfig) -> Iterator[str]:
    """Settings that would silently change a baseline's advantage estimator (docs/explanation/baselines.md)."""
    algorithm, reward, n = config.algorithm, config.reward, config.actor_rollout_ref.rollout.n
    estimator = f"algorithm.adv_estimator={algorithm.adv_estimator}"
    yield from _success_cap(config)
    if algorithm.adv_estimator != PKPO and algorithm.pkpo_k != Baselines.default("pkpo_k"):
        yield f"algorithm.pkpo_k={algorithm.pkpo_k} is of adv_estimator=pkpo, and this is {estimator}: leave it out."
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
    if algorithm.filter_groups.enable and OmegaConf.select(config, "trainer.v1.sampler.custom_sampler.path"):
        yield (
            f"{cap} with algorithm.filter_groups.enable=True drops groups from verl's own replay buffer, which "
            "trainer.v1.sampler.custom_sampler replaces: leave the sampler out, or set filter_groups.enable=False."
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
    control = config.actor_rollout_ref.actor.sft_loss_control
    kind = control.type
    if kind == "warmup" and control.warmup_steps == 0:
        yield f"{CONTROL}.warmup_steps=0 must be at least 1 with type=warmup."
    for name, types in READ_BY.items():
        if kind not in types and control[name] != Eta.default(name):
            of = " or ".join(types)
            yield f"{CONTROL}.{name}={control[name]} is of type={of}, and the type is {kind}: leave it out."


def whole_mini_batches(config: DictConfig) -> Iterator[str]:
    """verl pads a step to whole mini-batches of the critic too. D_pef rows would then fill one without a D_exp row."""
    prompts, critic = config.data.train_batch_size, config.critic
    if rehearses(config) and has_critic(config) and prompts % critic.ppo_mini_batch_size:
        size = critic.ppo_mini_batch_size
        yield f"data.train_batch_size={prompts} is not a multiple of critic.ppo_mini_batch_size={size}."


def ranks_of_d_exp(config: DictConfig) -> Iterator[str]:
    """verl cuts every mini-batch into as many equal parts as there are data-parallel ranks."""
    actor, n = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    rows, ranks = mini_batch_rows(config)[0], data_parallel_ranks(config)
    if rows % ranks and not actor.generate_sft:
        step = ranks // math.gcd(ranks, n)
        nearest = max(step, round(actor.ppo_mini_batch_size / step) * step)
        yield (
            f"{ranks} data-parallel ranks ({RANKS}) do not divide the {rows} D_exp "
            f"rows of a mini-batch (actor.ppo_mini_batch_size={actor.ppo_mini_batch_size} x rollout.n={n}): use a "
            f"number of ranks that divides {rows}, or ppo_mini_batch_size={nearest}."
        )


def rehearsal_shares(config: DictConfig) -> Iterator[str]:
    """Stored rows must divide evenly over mini-batches and ranks."""
    found = {"sft_batch_size": config.data.sft_batch_size} if rehearses(config) else {}
    found |= {"sft_anchor_batch_size": anchor_rows(config)} if has_anchor(config) else {}
    for name, rows in found.items():
        ranks = data_parallel_ranks(config)
        parts = mini_batches(config) * ranks
        if rows % parts:
            yield (
                f"data.{name}={rows} does not divide over {mini_batches(config)} mini-batches x {ranks} "
                f"data-parallel ranks: use a positive multiple of {parts}."
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
