"""Settings of training, `python -m verl.dph.main`. The experiments of verl/dph/config have the paper's values."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rl.configuration import ACTOR
from rl.configuration.divergences import DIVERGENCES, definitions, modes_with_tail_form, rows_by_mode
from rl.configuration.setting import (
    Count,
    CountOrZero,
    Path,
    Paths,
    Positive,
    PositiveOrZero,
    Section,
    Seed,
    Setting,
    Share,
    TopK,
    settings_of,
)

ETA = f"{ACTOR}.sft_loss_control"

if TYPE_CHECKING:
    _Mode = str
else:
    _Mode = Literal["none", *DIVERGENCES]

# data.sft_top_k: fewer than 8 next tokens leave much probability to the bucket of all others. Beyond 128, each more
# takes 6 bytes per token of the store and hardly changes the divergence.
_TopK = Annotated[int, Field(ge=0, le=0), "0"] | Annotated[int, Field(ge=8, le=128)]
# 0 is all tokens too, in verl's files.
_RolloutTopK = Annotated[Literal[0] | TopK, "a number of tokens, or -1 for all"]

_FailedRollouts = Annotated[
    CountOrZero | Annotated[float, Field(ge=0, lt=1)],
    "a number of rollouts (whole, 0 or more) or a share of a step's (below 1, such as 0.01)",
]


class Rehearsal(Section, at=ACTOR):
    """The divergence to the initial policy, and how it is estimated."""

    sft_loss_mode: _Mode = "none"
    f"""Divergence to the initial policy: none (plain GRPO or DAPO), or one of the following, with
    M = (pi_theta + pi_ref) / 2: {definitions()}. docs/explanation/method.md says what each needs."""
    sft_loss_coeff: PositiveOrZero = 0.01
    """eta, the weight of the divergence. docs/explanation/method.md has the paper's range for each mode. JS is bounded
    and flatter near the initial policy, so it needs a larger eta than the others."""
    sft_loss_normalization: Literal["joint", "per_set"] = "joint"
    """joint: one token mean over D_exp and D_pef together; the paper's values of eta are for it. per_set: a token mean
    over D_exp plus eta times a token mean over D_pef, about 8 times stronger at the same eta."""
    sft_loss_form: Literal["auto", "generator", "policy"] = "auto"
    f"""auto: as in the paper: {rows_by_mode()}. generator: the whole divergence
    on D_pef. policy: the whole divergence on D_exp, with a reference model (use_kl_loss=True) and no D_pef."""
    sft_loss_estimator: Literal["sampled", "topk"] = "sampled"
    """Estimator on D_pef rows. sampled: from the one stored token per position. topk: between next-token distributions,
    truncated to the store's k likeliest tokens (data.sft_top_k) and one bucket for the rest."""
    sft_kl_estimator: Literal["k1", "k3"] = "k1"
    """Estimator of the forward KL with sft_loss_estimator=sampled, from the log-ratio d: k1 (-d, as in supervised
    fine-tuning) or k3 (expm1(d) - d, heavy-tailed)."""
    sft_log_ratio_max: Positive | None = 1.0
    """Bound on the log-ratio log pi_theta - log pi_ref: above it, the divergence on a sampled D_pef token continues
    linearly. dph/clip_weight logs the share of the gradient that this removes. null: no bound, as in the paper."""
    sft_baseline: Literal["centred", "tail"] = "centred"
    f"""Term subtracted from the generator f(u) on sampled D_pef tokens. centred: f'(1) (u - 1). tail: f'(inf) (u - 1),
    which replaces the bound (sft_log_ratio_max=null) and has more variance while the policy is near the initial one.
    It applies to {modes_with_tail_form()}; the forward KL has sft_kl_estimator."""
    sft_js_exp_weight: PositiveOrZero | None = None
    """js: factor of its D_exp half. null: the halves have equal weight, as in the paper (joint: the mini-batch's D_pef
    tokens over its D_exp tokens; per_set: 1)."""
    sft_importance_max: Annotated[float, Field(ge=1)] = 2.0
    """On D_exp rows: the value at which a token's importance weight pi_theta / pi_old is truncated, as in verl's
    rollout correction."""
    sft_policy_log_ratio_max: Positive = 10.0
    """On D_exp rows: beyond this log-ratio, on either side, a token's weight continues linearly."""
    alpha_coeff: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """alpha of the alpha divergence, strictly between 0 (reverse KL) and 1 (forward KL)."""
    policy_loss_coeff: PositiveOrZero = 1.0
    """Weight of the policy loss, with verl's entropy and KL terms. 0: the rehearsal alone, without RL, as a control.
    Rollouts are still drawn for the metrics; rollout.n=1 draws one per prompt."""
    generate_sft: bool = False
    """Write the D_pef store instead of training: draw one more sample of every prompt of data.sft_files. Correct ones
    go with their reference log-probs into data.sft_pt, the prompts of the others into data.sft_wrong_files."""


class Eta(Section, at=ETA):
    """The weight of the divergence, step by step."""

    type: Literal["constant", "warmup", "cosine"] = "constant"
    """The schedule of eta, logged as dph/coefficient. constant: always sft_loss_coeff. warmup: linear up to
    sft_loss_coeff, then constant. cosine: the same warm-up, then a cosine down to final_ratio in the last step."""
    warmup_steps: CountOrZero = 0
    """Steps of the linear warm-up of warmup (at least 1) and cosine (0: none)."""
    final_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """cosine: eta of the last step, as a share of sft_loss_coeff."""


class MicroBatch(Section, at=ACTOR, may_change=True):
    """The memory of an update."""

    ppo_max_token_len_per_gpu: Count | None = None
    """Tokens of a micro-batch on a GPU, also for the reference, old log-probs and a critic. null: 16384, or the longest
    row (data.max_prompt_length + max_response_length) if that is longer. With sdpa over packed rows it is always the
    longest row, because the dense mask grows with the square."""


_OF_ACTOR: Any = f"${{{ACTOR}.ppo_max_token_len_per_gpu}}"


class CriticMicroBatch(Section, at="critic", may_change=True):
    """The memory of a critic's update."""

    ppo_infer_max_token_len_per_gpu: Count | None = _OF_ACTOR
    """Tokens of a micro-batch of a critic on a GPU: verl takes it for updates too."""


class Baselines(Section, at="algorithm"):
    """Parameters of advantages (verl/dph/training/advantages.py and success_cap.py)."""

    pkpo_k: Annotated[int, Field(ge=2)] = 8
    """adv_estimator=pkpo: the k of Pass@k, from 2 to rollout.n (docs/explanation/baselines.md)."""
    success_cap: Annotated[float, Field(gt=0, le=1)] | None = None
    """The success cap: if at least this share of a group's responses is correct, the group's advantages are 0. It works
    with every estimator over groups. null: no cap (docs/explanation/method.md)."""
    w_reinforce_lambda: PositiveOrZero = 0.1
    """adv_estimator=w_reinforce: the advantage of a correct response; a wrong one has -1. 0: negative-sample
    reinforcement."""


class Store(Section, at="data", may_change=True):
    """Where the D_pef store is and how it is written. A resumed run only reads it; its saved order names the rows."""

    sft_files: Paths | None = None
    """The near-perfect prompts (train_correct.parquet)."""
    sft_pt: Path | None = None
    """The D_pef store: correct responses as token ids, with reference log-probs."""
    sft_wrong_files: Path | None = None
    """The prompts to explore (train_wrong.parquet). With generate_sft, prompts whose refinement sample fails are moved
    there."""
    sft_top_k: _TopK = 0
    """With generate_sft: store the initial policy's k likeliest next tokens, 8 to 128, at every response position. They
    take 6 k + 2 bytes per token, and actor.sft_loss_estimator=topk needs them. 0: none."""
    sft_refinement_failures: Literal["move", "drop"] = "move"
    """With generate_sft: move a prompt whose refinement sample fails to sft_wrong_files, or drop it."""
    sft_coverage: Literal["mastered", "solved"] = "mastered"
    """With generate_sft: which prompts are rehearsed. mastered: those of sft_files. solved: also those of
    sft_wrong_files that a sample of the pre-sampling solved."""
    sft_responses_per_prompt: Count | Literal["all"] = 1
    """With generate_sft: correct responses per prompt, a number or all. sft_coverage=mastered with 1 draws the
    refinement sample. Anything else takes the first correct samples of sft_samples, draws nothing and leaves the
    prompts' files unchanged."""
    sft_samples: Path | None = None
    """With generate_sft: the samples of the pre-sampling (JSON lines)."""
    sft_responses: Path | None = None
    """With generate_sft: a file of responses from elsewhere, to store instead of the model's own. It is a parquet or
    JSON lines with `response`, `id` or `prompt`, and optionally `source` (docs/howto/foreign-responses.md)."""
    sft_verify_responses: bool = True
    """Whether to store only the responses of sft_responses that the scorer calls correct."""
    sft_reference_rows: Count = 256
    """With generate_sft: rows whose log-probs are computed and saved together. A run that dies loses at most this
    many."""
    sft_check_tolerance: Positive | None = None
    """With generate_sft: the log-probs of 100 rows are computed again and may differ by this many nats: for every token
    in float32, in the mean over a row's tokens in half precision. null: 1e-4 in float32, else 0.25 times the row's
    mean of 1 - p, at least 2e-2."""


class Visits(Section, at="data"):
    """How D_pef is visited."""

    sft_batch_size: Count = 256
    """D_pef rows of one training step, over all its mini-batches and ranks."""
    sft_seed: Seed = 1
    """Seed of the order in which D_pef is visited."""


class Trainer(Section, at="trainer", may_change=True):
    """The run."""

    max_failed_rollouts: _FailedRollouts = 0.01
    """Stop when more rollouts than this fail in one step, for example because they could not be scored. 1 or more is a
    number of rollouts, less is a share of the step's, rounded down: 0.01 allows 20 of 2,048, none of fewer than 100.
    Failed rollouts are masked and counted (dph/failed_rollouts), and never get a reward of 0."""
    resume_with_changes: bool = False
    """false: a run continues from the newest checkpoint in its folder only if that was trained with the same method,
    model, data, seed and batch. true: it continues, and logs the changes."""
    best_metric: Annotated[str, "the name of a metric"] | None = None
    """best_checkpointed_iteration.txt names the checkpoint with the highest value of this validation metric. null:
    dph/val_accuracy, an estimate of Pass@1."""
    tags: Annotated[list, "a list, such as [js,seed1]"] = []
    """The run's tags in wandb and swanlab."""


class KeepProbe(Section, at="trainer.keep_probe", may_change=True):
    """Measures how many prompts that the initial policy solved are still solved."""

    prompts: CountOrZero = 0
    """At every validation, sample and score at most this many training prompts that the initial policy solved, and as
    many that it did not, with validation's temperature and top-p. dph/keep_rate and dph/newly_solved have the result
    (verl/dph/training/keep_probe.py). 0: no probe."""
    n: Count = 1
    """Samples per prompt of the probe; the report's keep rate has 8. One correct sample solves the prompt."""
    solved_files: Paths | None = "${data.sft_files}"
    """Prompts with a column base_correct (train_correct.parquet), where 0 means not solved. A run with a D_pef store
    probes the store's prompts that were solved."""
    unsolved_files: Paths | None = "${data.train_files}"
    """Prompts with the same column (train_wrong.parquet)."""


REHEARSAL = settings_of(Rehearsal, Eta)

# verl's settings whose wrong values would be noticed late or not at all.
OF_VERL = (
    Setting("trainer.v1.trainer_mode", Literal["sync", "colocate_async", "separate_async"]),
    Setting("trainer.nnodes", Count),
    Setting("trainer.n_gpus_per_node", Count),
    Setting("trainer.total_epochs", Count),
    Setting("trainer.total_training_steps", Count | None),
    Setting("trainer.save_freq", Annotated[int, Field(ge=-1)]),
    Setting("trainer.test_freq", Annotated[int, Field(ge=-1)]),
    Setting("trainer.max_actor_ckpt_to_keep", Count | None),
    Setting("trainer.resume_mode", Literal["auto", "disable", "resume_path"]),
    Setting("trainer.logger", Annotated[str | list[str], "a logger or a list of loggers"]),
    Setting("data.train_files", Paths | None),
    Setting("data.val_files", Paths | None),
    Setting("data.train_batch_size", Count),
    Setting("data.max_prompt_length", Count),
    Setting("data.max_response_length", Count),
    Setting("data.seed", Seed | None),
    Setting("trainer.v1.sampler.max_off_policy_threshold", Count | None),
    Setting("trainer.v1.sampler.max_off_policy_strategy", Literal["drop", "wait"]),
    Setting("algorithm.filter_groups.max_inflight_gen_batches", Count),
    Setting("algorithm.adv_estimator", str),
    Setting("actor_rollout_ref.rollout.n", Count),
    Setting("actor_rollout_ref.rollout.val_kwargs.n", Count),
    Setting("actor_rollout_ref.rollout.val_kwargs.temperature", PositiveOrZero),
    Setting("actor_rollout_ref.rollout.val_kwargs.top_p", Share),
    Setting("actor_rollout_ref.rollout.val_kwargs.top_k", _RolloutTopK),
    Setting("actor_rollout_ref.rollout.temperature", Positive),
    Setting("actor_rollout_ref.rollout.top_p", Share),
    Setting("actor_rollout_ref.rollout.top_k", _RolloutTopK),
    Setting("actor_rollout_ref.rollout.max_num_seqs", Count),
    Setting("actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes", Count),
    Setting("actor_rollout_ref.rollout.gpu_memory_utilization", Share),
    Setting("actor_rollout_ref.rollout.tensor_model_parallel_size", Count),
    Setting("actor_rollout_ref.rollout.seed", Seed | None),
    Setting(f"{ACTOR}.strategy", Literal["fsdp", "fsdp2", "megatron", "veomni", "torchtitan", "automodel"]),
    Setting(f"{ACTOR}.optim.lr", PositiveOrZero),
    *(
        Setting(f"{role}.{name}", kind)
        for role in (ACTOR, "critic")
        for name, kind in {
            "optim.clip_grad": Positive,
            "optim.lr_scheduler_type": Literal["constant", "cosine"],
            "data_loader_seed": Seed,
        }.items()
    ),
    # A negative clip above would silence every correct response.
    Setting(f"{ACTOR}.clip_ratio_low", PositiveOrZero),
    Setting(f"{ACTOR}.clip_ratio_high", PositiveOrZero),
    Setting(f"{ACTOR}.clip_ratio_c", Annotated[float, Field(gt=1)]),
    Setting(f"{ACTOR}.entropy_coeff", float),
    Setting(f"{ACTOR}.ppo_epochs", Count),
    Setting(f"{ACTOR}.ppo_mini_batch_size", Count),
    Setting(f"{ACTOR}.ppo_micro_batch_size_per_gpu", Count | None),
    Setting(f"{ACTOR}.policy_loss.loss_mode", str),
    Setting(f"{ACTOR}.policy_loss.kl_cov_ratio", Share),
    Setting(f"{ACTOR}.policy_loss.ppo_kl_coef", PositiveOrZero),
    Setting(f"{ACTOR}.policy_loss.clip_cov_ratio", Share),
    Setting(f"{ACTOR}.policy_loss.clip_cov_lb", float),
    Setting(f"{ACTOR}.policy_loss.clip_cov_ub", float),
)

OURS = settings_of(MicroBatch, CriticMicroBatch, Baselines, Store, Visits, Trainer, KeepProbe)

TRAINING = (*REHEARSAL, *OURS, *OF_VERL)
