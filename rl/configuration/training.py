"""Settings of training, `python -m verl.dph.main`. The experiments of verl/dph/config have the paper's values."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from rl.configuration import ACTOR
from rl.configuration.setting import (
    Count,
    CountOrZero,
    Path,
    Paths,
    Positive,
    PositiveOrZero,
    Section,
    Seed,
    Share,
    TopK,
)

ETA = f"{ACTOR}.sft_loss_control"
ROLLOUT = "actor_rollout_ref.rollout"

# 0 is all tokens too, in verl's files.
_RolloutTopK = Literal[0] | TopK

_FailedRollouts = CountOrZero | Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Divergence:
    """A divergence to the initial policy (formulas: docs/explanation/method.md; functions: objective/terms.py).

    Attributes:
        on: the rows on which sft_loss_form=auto computes it. "both": one half on D_pef and the other on D_exp;
            "either": on D_pef if the run has a store, else on D_exp.
        reads: the actor's settings that only this mode reads.
    """

    on: Literal["pef", "exp", "both", "either"] = "pef"
    reads: tuple[str, ...] = ()


# By the value of sft_loss_mode.
DIVERGENCES = {
    "forward": Divergence(reads=("sft_kl_estimator",)),
    "js": Divergence(on="both", reads=("sft_js_exp_weight",)),
    "js_low_var": Divergence(),
    "reverse_kl": Divergence(on="exp"),
    "alpha": Divergence(on="either", reads=("alpha_coeff",)),
    "hellinger": Divergence(),
    "chi_square": Divergence(),
}


class Rehearsal(Section, at=ACTOR):
    """The divergence to the initial policy, and how it is estimated."""

    sft_loss_mode: Literal["none", *DIVERGENCES] = "none"  # type: ignore
    """Divergence to the initial policy: none (plain GRPO or DAPO), or a mode. docs/explanation/method.md has the modes'
    formulas and what each needs."""
    sft_loss_coeff: PositiveOrZero = 0.01
    """eta, the weight of the divergence. docs/explanation/method.md has the paper's range for each mode. JS is bounded
    and flatter near the initial policy, so it needs a larger eta than the others."""
    sft_anchor_coeff: PositiveOrZero | None = None
    """The weight of the divergence on the anchor (data.sft_anchor_pt), the same in every step. null: sft_loss_coeff."""
    sft_loss_normalization: Literal["joint", "per_set"] = "joint"
    """joint: one token mean over D_exp, D_pef and the anchor together; the paper's values of eta are for it. per_set: a
    token mean over D_exp plus eta times a token mean over D_pef, about 8 times stronger at the same eta; the anchor has
    a token mean of its own, too."""
    sft_loss_form: Literal["auto", "generator", "policy"] = "auto"
    """auto: as in the paper, on the rows that docs/explanation/method.md gives. generator: the whole divergence on
    D_pef. policy: the whole divergence on D_exp, with a reference model (use_kl_loss=True) and no D_pef."""
    sft_kl_estimator: Literal["k1", "k3"] = "k1"
    """Estimator of the forward KL on D_pef, from the log-ratio d: k1 (-d, as in supervised
    fine-tuning) or k3 (expm1(d) - d, heavy-tailed)."""
    # Beyond some 400, exp() of the bound overflows, and every gradient is NaN; tests cover bounds up to 40.
    sft_log_ratio_max: Annotated[float, Field(gt=0, le=40)] | None = 1.0
    """Bound on the log-ratio log pi_theta - log pi_ref: above it, the divergence on a sampled D_pef token continues
    linearly. dph/clip_fraction logs the share of such tokens. null: no bound, as in the paper."""
    sft_baseline: Literal["centred", "tail"] = "centred"
    """Term subtracted from the generator f(u) on sampled D_pef tokens. centred: f'(1) (u - 1). tail: f'(inf) (u - 1),
    which replaces the bound (sft_log_ratio_max=null) and has more variance while the policy is near the initial one.
    It applies to the modes whose f'(inf) is finite; the forward KL has sft_kl_estimator."""
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
    go with their reference log-probs into data.sft_pt; the prompts of the others are explored."""


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
    """Parameters of advantages (verl/dph/objective/advantages.py and success_cap.py)."""

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
    sft_anchor_pt: Path | None = None
    """The anchor: a second store, of responses of the initial policy to other prompts, which need not have been judged.
    It is rehearsed beside data.sft_pt with the same divergence (docs/explanation/method.md). null: none."""
    sft_wrong_files: Path | None = None
    """With generate_sft: the prompts to explore (train_wrong.parquet). A run that explores this file explores with them
    the prompts whose refinement sample fails."""
    sft_coverage: Literal["mastered", "solved", "all"] = "mastered"
    """With generate_sft: which prompts are rehearsed. mastered: those of sft_files. solved: also those of
    sft_wrong_files that a sample of the pre-sampling solved. all: those of sft_files with all their samples, right or
    wrong, judged or not, for an anchor."""
    sft_responses_per_prompt: Count | Literal["all"] = 1
    """With generate_sft: correct responses per prompt, a number or all. sft_coverage=mastered with 1 draws the
    refinement sample. Anything else takes the first correct samples of sft_samples, draws nothing and leaves the
    prompts' files unchanged."""
    sft_samples: Path | None = None
    """With generate_sft: the samples of the pre-sampling (JSON lines)."""
    sft_responses: Path | None = None
    """With generate_sft: a file of responses from elsewhere, to store instead of the model's own. It is a parquet or
    JSON lines with `response`, `id` or `prompt`, and optionally `source` (docs/howto/train.md)."""
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
    sft_anchor_batch_size: Count | None = None
    """Rows of the anchor in one training step, over all its mini-batches and ranks. null: sft_batch_size."""
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
    best_metric: str | None = None
    """best_checkpointed_iteration.txt names the checkpoint with the highest value of this validation metric. null:
    dph/val_accuracy, an estimate of Pass@1."""


# verl's settings whose wrong values would be noticed late or not at all.


class VerlTrainer(Section, at="trainer"):
    nnodes: Count
    n_gpus_per_node: Count
    total_epochs: Count
    total_training_steps: Count | None
    save_freq: Annotated[int, Field(ge=-1)]
    test_freq: Annotated[int, Field(ge=-1)]
    max_actor_ckpt_to_keep: Count | None
    resume_mode: Literal["auto", "disable", "resume_path"]
    logger: str | list[str]


class VerlData(Section, at="data"):
    train_files: Paths | None
    val_files: Paths | None
    train_batch_size: Count
    max_prompt_length: Count
    max_response_length: Count
    seed: Seed | None


class VerlAlgorithm(Section, at="algorithm"):
    adv_estimator: str


class VerlRollout(Section, at=ROLLOUT):
    n: Count
    temperature: Positive
    top_p: Share
    top_k: _RolloutTopK
    max_num_seqs: Count
    gpu_memory_utilization: Share
    tensor_model_parallel_size: Count
    seed: Seed | None


class VerlValidation(Section, at=f"{ROLLOUT}.val_kwargs"):
    n: Count
    temperature: PositiveOrZero
    top_p: Share
    top_k: _RolloutTopK


class VerlActor(Section, at=ACTOR):
    # A negative clip above would silence every correct response.
    clip_ratio_low: PositiveOrZero
    clip_ratio_high: PositiveOrZero
    clip_ratio_c: Annotated[float, Field(gt=1)]
    entropy_coeff: float
    ppo_epochs: Count
    ppo_mini_batch_size: Count
    ppo_micro_batch_size_per_gpu: Count | None


_Contents = list[Literal["model", "optimizer", "extra", "hf_model"]]


class VerlCheckpoint(Section, at=f"{ACTOR}.checkpoint"):
    # verl takes an unknown part for nothing: the checkpoint would be empty.
    save_contents: _Contents
    load_contents: _Contents


class VerlCriticCheckpoint(VerlCheckpoint, at="critic.checkpoint"): ...


class VerlOptimizer(Section, at=f"{ACTOR}.optim"):
    lr: PositiveOrZero


class VerlPolicyLoss(Section, at=f"{ACTOR}.policy_loss"):
    loss_mode: str
    kl_cov_ratio: Share
    ppo_kl_coef: PositiveOrZero
    clip_cov_ratio: Share
    clip_cov_lb: float
    clip_cov_ub: float


TRAINING = (
    *(Rehearsal, Eta, MicroBatch, CriticMicroBatch, Baselines, Store, Visits, Trainer),
    *(VerlTrainer, VerlData, VerlAlgorithm, VerlRollout, VerlValidation, VerlActor, VerlCheckpoint),
    *(VerlCriticCheckpoint, VerlOptimizer, VerlPolicyLoss),
)
