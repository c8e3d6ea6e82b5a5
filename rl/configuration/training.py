"""Settings of training, `python -m verl.dph.main`. The experiments of verl/dph/config have the paper's values."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rl.configuration import ACTOR
from rl.configuration.divergences import DIVERGENCES, definitions, modes_with_tail_form
from rl.configuration.setting import (
    Count,
    CountOrZero,
    Path,
    Paths,
    Positive,
    PositiveOrZero,
    Section,
    Setting,
    Share,
    settings_of,
)

ETA = f"{ACTOR}.sft_loss_control"

if TYPE_CHECKING:
    _Mode = str
else:
    _Mode = Literal["none", *DIVERGENCES]

# data.sft_top_k: fewer than 8 next tokens leave much to the bucket of all others; more than 128 take 6 bytes each per
# token of the store and hardly change the divergence.
_TopK = Annotated[int, Field(ge=0, le=0), "0"] | Annotated[int, Field(ge=8, le=128)]

# gain is below 1 / ERROR_CLIP of verl/dph/divergence/eta_schedule.py, so that the factor of an update is positive.
_Gain = Annotated[float, Field(gt=0, lt=5)]

_FailedRollouts = Annotated[
    CountOrZero | Annotated[float, Field(ge=0, lt=1)],
    "a number of rollouts (whole, 0 or more) or a share of a step's (below 1, such as 0.01)",
]


class Rehearsal(Section, at=ACTOR):
    """The divergence to the initial policy, and how it is estimated."""

    sft_loss_mode: _Mode = "none"
    f"""Divergence to the initial policy: none (plain GRPO or DAPO), or with M = (pi_theta + pi_ref) / 2 one of
    {definitions()}. docs/explanation/method.md says what each needs."""
    sft_loss_coeff: PositiveOrZero = 0.01
    """eta, the weight of the divergence: 0.01 is the paper's for forward, alpha and reverse_kl. Its 0.2 for js and
    js_low_var, which are bounded and flatter near the initial policy, is the default of their launch scripts."""
    sft_loss_normalization: Literal["joint", "per_set"] = "joint"
    """joint: one token mean over D_exp and D_pef together, to which the paper's coefficients belong. per_set: a token
    mean over D_exp plus eta times a token mean over D_pef, about 8 times stronger at the same eta."""
    sft_loss_form: Literal["auto", "generator", "policy"] = "auto"
    """auto: on D_pef rows, on D_exp rows (js: both, reverse_kl) as the paper has it. generator: the whole divergence on
    D_pef. policy: the whole divergence on D_exp, with a reference model (use_kl_loss=True) and no D_pef."""
    sft_loss_estimator: Literal["sampled", "topk"] = "sampled"
    """On D_pef rows: sampled (of the one stored token per position) or topk (between next-token distributions,
    truncated to the k tokens that the store was made with, data.sft_top_k, and one bucket for the rest)."""
    sft_kl_estimator: Literal["k1", "k3"] = "k1"
    """Estimator of the forward KL with sft_loss_estimator=sampled: k1 (-d, as in supervised fine-tuning) or k3
    (expm1(d) - d, heavy-tailed)."""
    sft_log_ratio_max: Positive | None = 1.0
    """The log-ratio log pi_theta - log pi_ref above which the divergence on a sampled D_pef token is continued
    linearly; the share of the gradient that this removes is logged as dph/clip_weight. null: no bound, as in the
    paper."""
    sft_baseline: Literal["centred", "tail"] = "centred"
    f"""What is subtracted from the generator f(u) on sampled D_pef tokens: centred, f'(1) (u - 1), or tail,
    f'(inf) (u - 1), which takes the bound's place (sft_log_ratio_max=null) and has more variance while the policy is
    near the initial one. For {modes_with_tail_form()}; the forward KL has sft_kl_estimator."""
    sft_js_exp_weight: PositiveOrZero | None = None
    """js: factor of its D_exp half. null: the halves count alike, as in the paper (joint: D_pef tokens over D_exp
    tokens of the mini-batch; per_set: 1)."""
    sft_importance_max: Annotated[float, Field(ge=1)] = 2.0
    """On D_exp rows: where the importance weight pi_theta / pi_old of a token is truncated, as in verl's rollout
    correction."""
    sft_policy_log_ratio_max: Positive = 10.0
    """On D_exp rows: the log-ratio beyond which, on either side, a token's weight is continued linearly."""
    alpha_coeff: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """alpha of the alpha divergence, strictly between 0 (reverse KL) and 1 (forward KL)."""
    policy_loss_coeff: PositiveOrZero = 1.0
    """Weight of the policy loss, with verl's entropy and KL terms. 0: the rehearsal alone, without RL (a control;
    rollouts are still drawn, for the metrics: rollout.n=1 draws one per prompt)."""
    generate_sft: bool = False
    """Write the D_pef store instead of training: one more sample of every prompt of data.sft_files, the correct ones
    with their reference log-probs into data.sft_pt, the others into data.sft_wrong_files."""


class Eta(Section, at=ETA):
    """The weight of the divergence, step by step."""

    type: Literal["constant", "warmup", "cosine", "target_kl"] = "constant"
    """The schedule of eta, which is logged as dph/coefficient. constant: always sft_loss_coeff. warmup: linear up to
    it, then constant. cosine: the same, then down to final_ratio of it in the last step. target_kl: starts at it and
    follows the KL on D_pef."""
    warmup_steps: CountOrZero = 0
    """Steps of the linear warm-up of warmup (at least 1) and cosine (0: none)."""
    final_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """cosine: eta of the last step, as a share of sft_loss_coeff."""
    target_kl: Positive | None = None
    """target_kl: the budget, KL(pi_ref || pi_theta) on D_pef in nats per token, as dph/kl_ref_policy logs it: exact
    with topk, the bounded k3 estimate with sampled. More KL than this: eta grows."""
    min_coeff: Positive = 0.0001
    """target_kl: the lower bound of eta, above 0: a factor never leaves 0."""
    max_coeff: Positive = 1.0
    """target_kl: the upper bound of eta."""
    gain: _Gain = 0.1
    """target_kl: eta changes by at most the factor 1 +- 0.2 gain per update."""


class GradientNorms(Section, at=ACTOR, may_change=True):
    """What is logged of the gradients."""

    sft_grad_norm_freq: CountOrZero = 0
    """Every this many steps, log the gradient norms of the policy loss and of the rehearsal on the step's first
    mini-batch, each alone (dph/grad_norm_*); costs two more passes over it. 0: never."""


class MicroBatch(Section, at=ACTOR, may_change=True):
    """The memory of an update."""

    ppo_max_token_len_per_gpu: Count | None = None
    """Tokens of a micro-batch on a GPU, also of the reference, of old log-probs and of a critic. null: 16384, or the
    longest row (data.max_prompt_length + max_response_length) if that is longer, or where attention is sdpa over packed
    rows, whose dense mask grows with the square."""


_OF_ACTOR: Any = f"${{{ACTOR}.ppo_max_token_len_per_gpu}}"


class CriticMicroBatch(Section, at="critic", may_change=True):
    """The memory of a critic's update."""

    ppo_max_token_len_per_gpu: Count | None = _OF_ACTOR
    """Tokens of a micro-batch of a critic on a GPU."""


class Baselines(Section, at="algorithm"):
    """Parameters of advantages (verl/dph/training/advantages.py and success_cap.py)."""

    pkpo_k: Annotated[int, Field(ge=2)] = 8
    """adv_estimator=pkpo: the k of Pass@k, from 2 to rollout.n (docs/explanation/baselines.md)."""
    success_cap: Annotated[float, Field(gt=0, le=1)] | None = None
    """The success cap: if at least this share of a group's responses is correct, the group's advantages are 0. It goes
    with every estimator over groups. null: no cap (docs/explanation/method.md)."""
    w_reinforce_lambda: PositiveOrZero = 0.1
    """adv_estimator=w_reinforce: the advantage of a correct response, where a wrong one has -1; 0: negative-sample
    reinforcement."""


class Store(Section, at="data", may_change=True):
    """Where the D_pef store is and how it is written; a resumed run only reads it, and its order names the rows."""

    sft_files: Paths | None = None
    """The near-perfect prompts (train_correct.parquet)."""
    sft_pt: Path | None = None
    """The D_pef store: correct responses as token ids, with reference log-probs."""
    sft_wrong_files: Path | None = None
    """The prompts to explore (train_wrong.parquet); with generate_sft, prompts whose refinement sample fails move
    there."""
    sft_top_k: _TopK = 0
    """With generate_sft: the k likeliest next tokens of the initial policy to store at every response position, 8 to
    128, at 6 k + 2 bytes per token; actor.sft_loss_estimator=topk needs them. 0: none."""
    sft_refinement_failures: Literal["move", "drop"] = "move"
    """With generate_sft: what becomes of a prompt whose refinement sample fails: move (to sft_wrong_files) or drop."""
    sft_coverage: Literal["mastered", "solved"] = "mastered"
    """With generate_sft, which prompts are rehearsed: mastered (those of sft_files) or solved (also those of
    sft_wrong_files that a sample of the pre-sampling solved)."""
    sft_responses_per_prompt: Count | Literal["all"] = 1
    """With generate_sft: correct responses per prompt: a number, or all. mastered with 1 draws the refinement sample;
    anything else takes the first correct samples of sft_samples, draws nothing, and leaves the prompts' files as they
    are."""
    sft_samples: Path | None = None
    """With generate_sft: the samples of the pre-sampling (JSON lines)."""
    sft_responses: Path | None = None
    """With generate_sft: a file of responses from elsewhere, which are stored instead of the model's own: a parquet or
    JSON lines with `response`, `id` or `prompt`, and optionally `source` (docs/howto/foreign-responses.md)."""
    sft_verify_responses: bool = True
    """Whether the scorer must call a response of sft_responses correct."""
    sft_reference_rows: Count = 256
    """With generate_sft: rows whose log-probs are computed and saved at a time; a run that dies loses at most as
    many."""
    sft_check_tolerance: Positive | None = None
    """With generate_sft: nats by which the log-probs of 100 rows, computed again, may differ: every token in float32,
    the mean over a row's tokens in half precision. null: 1e-4 in float32, else 0.25 times the row's mean of 1 - p, at
    least 2e-2."""


class Visits(Section, at="data"):
    """How D_pef is visited."""

    sft_batch_size: Count = 256
    """D_pef rows of one training step, over all its mini-batches and ranks."""
    sft_seed: CountOrZero = 1
    """Seed of the order in which D_pef is visited."""


class Trainer(Section, at="trainer", may_change=True):
    """The run."""

    max_failed_rollouts: _FailedRollouts = 0.01
    """Stop when more rollouts than this fail in one step, such as those that could not be scored: a whole number of
    them, or, below 1, a share of the step's, rounded down. Up to this many are masked and counted
    (dph/failed_rollouts): an infrastructure failure is never a reward of 0. Of 2,048 rollouts 20 may fail, of fewer
    than 100 none."""
    resume_with_changes: bool = False
    """A run continues from the newest checkpoint in its folder only if that was trained with the same method, model,
    data, seed and batch. true: continue with the changes, which are logged."""
    best_metric: Annotated[str, "the name of a metric"] | None = None
    """The metric of validation, higher is better, that decides which checkpoint is named in
    best_checkpointed_iteration.txt. null: the mean over data sources of verl's mean accuracy."""
    tags: Annotated[list, "a list, such as [js,seed1]"] = []
    """The run's tags in wandb and swanlab."""


class KeepProbe(Section, at="trainer.keep_probe", may_change=True):
    """How much of what the initial policy solved is still solved."""

    prompts: CountOrZero = 0
    """At every validation, generate and score at most this many training prompts that the initial policy solved, and as
    many that it did not, with validation's temperature and top-p: dph/keep_rate and dph/newly_solved
    (verl/dph/training/keep_probe.py). 0: no probe."""
    n: Count = 1
    """Samples per prompt of the probe, of which one must be correct; 8 as in the report."""
    solved_files: Paths | None = "${data.sft_files}"
    """Prompts that the initial policy solved; those of the D_pef store where the run has one."""
    unsolved_files: Paths | None = "${data.train_files}"
    """Prompts with a column base_correct (train_wrong.parquet); those with 0 count as not solved."""


REHEARSAL = settings_of(Rehearsal, Eta, GradientNorms)

# Those of verl's whose wrong values would be noticed late or not at all.
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
    Setting("algorithm.adv_estimator", str),
    Setting("actor_rollout_ref.rollout.n", Count),
    Setting("actor_rollout_ref.rollout.temperature", Positive),
    Setting("actor_rollout_ref.rollout.top_p", Share),
    Setting("actor_rollout_ref.rollout.gpu_memory_utilization", Share),
    Setting("actor_rollout_ref.rollout.tensor_model_parallel_size", Count),
    Setting(f"{ACTOR}.optim.lr", PositiveOrZero),
    Setting(f"{ACTOR}.ppo_epochs", Count),
    Setting(f"{ACTOR}.ppo_mini_batch_size", Count),
    Setting(f"{ACTOR}.ppo_micro_batch_size_per_gpu", Count | None),
    Setting(f"{ACTOR}.policy_loss.loss_mode", str),
    Setting(f"{ACTOR}.policy_loss.kl_cov_ratio", Share),
    Setting(f"{ACTOR}.policy_loss.clip_cov_ratio", Share),
)

OURS = settings_of(MicroBatch, CriticMicroBatch, Baselines, Store, Visits, Trainer, KeepProbe)

TRAINING = (*REHEARSAL, *OURS, *OF_VERL)
