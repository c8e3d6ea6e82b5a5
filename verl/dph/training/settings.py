"""Types and ranges of a training run's single settings. Rules across several settings are in checks.py."""

import math

from omegaconf import ListConfig
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
from verl.utils.tracking import Tracking

from verl.dph.config.schema import SCORER, Setting, choice, flag, number, paths, whole
from verl.dph.divergence.eta_schedule import GAIN_LIMIT, TYPES
from verl.dph.divergence.loss_modes import FORMS, MODES

# data.sft_top_k: below, the bucket of all other tokens is no small part; above, the store grows (6 bytes per token and
# position) and the divergence hardly changes.
TOP_K_MIN, TOP_K_MAX = 8, 128

ETA = "actor.sft_loss_control"

LOGGERS = (*Tracking.supported_backend, "tracking")

# Every key of dph_trainer.yaml, and those of verl's whose wrong values would be noticed late or not at all.
SCHEMA = (
    choice("trainer.v1.trainer_mode", "sync", "colocate_async", "separate_async"),
    whole("trainer.nnodes", 1),
    whole("trainer.n_gpus_per_node", 1),
    whole("trainer.total_epochs", 1),
    whole("trainer.total_training_steps", 1, nullable=True),
    whole("trainer.save_freq", -1),
    whole("trainer.test_freq", -1),
    whole("trainer.max_actor_ckpt_to_keep", 1, nullable=True),
    choice("trainer.resume_mode", "auto", "disable", "resume_path"),
    Setting(
        "trainer.logger",
        (str, ListConfig),
        lambda names: {names} <= set(LOGGERS) if isinstance(names, str) else set(names) <= set(LOGGERS),
        f"must be of {', '.join(LOGGERS)}",
    ),
    Setting("trainer.tags", (ListConfig,), lambda tags: True, "must be a list, such as [js,seed1]"),
    flag("trainer.resume_with_changes"),
    Setting("trainer.best_metric", (str,), lambda name: True, "must be the name of a metric, or null", nullable=True),
    Setting(
        "trainer.max_failed_rollouts",
        (int, float),
        lambda limit: 0 <= limit < (1 if isinstance(limit, float) else math.inf),
        "must be a number of rollouts (whole, 0 or more) or a share of a step's (below 1, such as 0.01)",
    ),
    whole("trainer.keep_probe.prompts", 0),
    whole("trainer.keep_probe.n", 1),
    paths("trainer.keep_probe.solved_files", several=True),
    paths("trainer.keep_probe.unsolved_files", several=True),
    *SCORER,
    paths("data.train_files", several=True),
    paths("data.val_files", several=True),
    paths("data.sft_files", several=True),
    paths("data.sft_pt"),
    paths("data.sft_wrong_files"),
    whole("data.train_batch_size", 1),
    whole("data.max_prompt_length", 1),
    whole("data.max_response_length", 1),
    whole("data.sft_batch_size", 1),
    whole("data.sft_seed", 0),
    Setting(
        "data.sft_top_k",
        (int,),
        lambda k: k == 0 or TOP_K_MIN <= k <= TOP_K_MAX,
        f"must be 0 (none) or {TOP_K_MIN} to {TOP_K_MAX}",
    ),
    choice("data.sft_refinement_failures", "move", "drop"),
    choice("data.sft_coverage", "mastered", "solved"),
    Setting(
        "data.sft_responses_per_prompt",
        (int, str),
        lambda count: count == "all" if isinstance(count, str) else count > 0,
        "must be a whole number, 1 or more, or all",
    ),
    paths("data.sft_samples"),
    paths("data.sft_responses"),
    flag("data.sft_verify_responses"),
    whole("data.sft_reference_rows", 1),
    number("data.sft_check_tolerance", lambda x: x > 0, "a number of nats above 0, or null", nullable=True),
    choice("algorithm.adv_estimator", *ADV_ESTIMATOR_REGISTRY),
    whole("algorithm.pkpo_k", 2),
    number("algorithm.w_reinforce_lambda", lambda x: x >= 0, "a number, 0 or more: the weight of correct responses"),
    whole("actor_rollout_ref.rollout.n", 1),
    number("actor_rollout_ref.rollout.temperature", lambda x: x > 0, "a number above 0"),
    number("actor_rollout_ref.rollout.top_p", lambda x: 0 < x <= 1, "a number above 0, at most 1"),
    number("actor.optim.lr", lambda x: x >= 0, "a number, 0 or more"),
    whole("actor.ppo_epochs", 1),
    whole("actor.ppo_mini_batch_size", 1),
    whole("actor.ppo_micro_batch_size_per_gpu", 1, nullable=True),
    whole("actor.ppo_max_token_len_per_gpu", 1, nullable=True),
    whole("critic.ppo_max_token_len_per_gpu", 1, nullable=True),
    choice("actor.policy_loss.loss_mode", *POLICY_LOSS_REGISTRY),
    number("actor.policy_loss.kl_cov_ratio", lambda x: 0 < x <= 1, "a share of the tokens above 0, at most 1"),
    number("actor.policy_loss.clip_cov_ratio", lambda x: 0 < x <= 1, "a share of the tokens above 0, at most 1"),
    choice("actor.sft_loss_mode", "none", *MODES),
    number("actor.sft_loss_coeff", lambda x: x >= 0, "a number, 0 or more: the weight of the divergence"),
    choice("actor.sft_loss_normalization", "joint", "per_set"),
    choice("actor.sft_loss_form", *FORMS),
    choice("actor.sft_loss_estimator", "sampled", "topk"),
    choice("actor.sft_kl_estimator", "k1", "k3"),
    number("actor.sft_log_ratio_max", lambda x: x > 0, "a log-ratio above 0, or null (no bound)", nullable=True),
    choice("actor.sft_baseline", "centred", "tail"),
    number("actor.sft_js_exp_weight", lambda x: x >= 0, "a number, 0 or more, or null (balanced)", nullable=True),
    number("actor.sft_importance_max", lambda x: x >= 1, "a number, 1 or more"),
    number("actor.sft_policy_log_ratio_max", lambda x: x > 0, "a log-ratio above 0"),
    number("actor.alpha_coeff", lambda x: 0 < x < 1, "a number strictly between 0 and 1"),
    whole("actor.sft_grad_norm_freq", 0),
    number("actor.policy_loss_coeff", lambda x: x >= 0, "a number, 0 or more: the weight of the policy loss"),
    flag("actor.generate_sft"),
    choice(f"{ETA}.type", *TYPES),
    whole(f"{ETA}.warmup_steps", 0),
    number(f"{ETA}.final_ratio", lambda x: 0 <= x <= 1, "a share of sft_loss_coeff, from 0 to 1"),
    number(f"{ETA}.target_kl", lambda x: x > 0, "a positive budget in nats per token, or null", nullable=True),
    number(f"{ETA}.min_coeff", lambda x: x > 0, "a positive number: a factor never leads away from 0"),
    number(f"{ETA}.max_coeff", lambda x: x > 0, "a positive number"),
    number(f"{ETA}.gain", lambda x: 0 < x < GAIN_LIMIT, f"a number between 0 and {GAIN_LIMIT:g}, both excluded"),
)
