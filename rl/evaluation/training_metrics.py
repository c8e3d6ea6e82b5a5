"""What training logs: the name, the definition and the title of every metric of ours, and where it is shown.

docs/reference/metrics.md, the training section of report.html and `dph watch` take them from here. Definitions use
d = log pi_theta - log pi_ref, the log-ratio of a token, and u = exp(d). Unless a definition says otherwise, a metric is
a mean over the D_pef tokens of a mini-batch, averaged over the step.
"""

import re
from dataclasses import dataclass

# Where a metric is shown: in dph watch, and in the first group of the report's training figures.
WATCHED, DRAWN = "watched", "drawn"


@dataclass(frozen=True)
class TrainingMetric:
    """
    Attributes:
        name: as the loggers have it; <word> stands for any text.
        title: of its curve; empty: the name.
        used: WATCHED, DRAWN, both or neither.
    """

    name: str
    definition: str
    title: str = ""
    used: tuple[str, ...] = ()

    def matches(self, logged: str) -> bool:
        pattern = re.sub("<[^>]+>", ".+", re.escape(self.name))
        return re.fullmatch(pattern, logged) is not None


# {heading: metrics}
TRAINING_METRICS = {
    "Of verl": (
        TrainingMetric("critic/rewards/mean", "Mean reward of the step's rollouts.", "Mean reward", (WATCHED, DRAWN)),
        TrainingMetric(
            "actor/entropy",
            "Entropy of the policy in nats per token, over all sampled tokens. It is not the entropy of styles.",
            "Policy entropy (nats per token)",
            (DRAWN,),
        ),
        TrainingMetric(
            "response_length/mean",
            "Mean length of the step's rollouts in tokens.",
            "Mean response length (tokens)",
            (DRAWN,),
        ),
    ),
    "Divergence": (
        TrainingMetric("dph/divergence", "The divergence on D_pef per token.", "Divergence on D_pef", (DRAWN,)),
        TrainingMetric("dph/loss", "Everything that the mode adds to the loss.", "Rehearsal loss on D_pef", (DRAWN,)),
        TrainingMetric(
            "dph/kl_ref_policy",
            "KL(pi_ref‖pi_theta) in nats per token, at the positions of the stored responses. With the topk estimator "
            "it is exact. Otherwise it is the mean of k3 over the stored tokens, which are correct samples from the "
            "nucleus; this k3 is linear above d = 1, so that the metric is somewhat too small if tokens lie above.",
            "KL(π_ref‖π_θ) on D_pef",
            (WATCHED, DRAWN),
        ),
        TrainingMetric(
            "dph/nll_increase",
            "Mean of -d: how much less likely the stored responses are than under pi_ref. It is negative if the policy "
            "memorises them.",
        ),
        TrainingMetric("dph/ratio_<quantile>", "Quantiles of u over the step's D_pef tokens, p01 to p99."),
        TrainingMetric(
            "dph/clip_fraction",
            "Share of tokens above sft_log_ratio_max (sampled estimator).",
            "Share of D_pef tokens above the log-ratio bound",
            (DRAWN,),
        ),
        TrainingMetric(
            "dph/clip_weight",
            "Share of the gradient's weights that sft_log_ratio_max removes over the step: the sum of what it removes "
            "over the sum of the unbounded weights, both in absolute value.",
            "Share of the rehearsal's gradient that the bound removes",
            (DRAWN,),
        ),
        TrainingMetric("dph/policy_divergence", "The divergence in the policy form, on D_exp tokens."),
        TrainingMetric("dph/kl_policy_ref", "KL(pi_theta‖pi_ref) in nats per token, on D_exp tokens (policy form)."),
        TrainingMetric(
            "dph/policy_clip_fraction",
            "Share of D_exp tokens with |d| above sft_policy_log_ratio_max (policy form).",
        ),
        TrainingMetric(
            "dph/grad_norm_<part>",
            "Gradient norm of the policy loss alone (policy) and of the rehearsal alone (rehearsal), before clipping, "
            "every sft_grad_norm_freq steps.",
        ),
        TrainingMetric("dph/coefficient", "eta of the step."),
        TrainingMetric("dph/rows", "D_pef rows of the step."),
        TrainingMetric("dph/tokens", "D_pef tokens per mini-batch."),
        TrainingMetric("dph/epoch", "Passes over D_pef so far."),
    ),
    "Rollouts and scoring": (
        TrainingMetric(
            "dph/failed_rollouts",
            "Rollouts of the step that failed, and the last rollouts of groups in which all others failed. No other "
            "metric includes them.",
        ),
        TrainingMetric("dph/failed_validation_rollouts", "The same for the step's validation."),
        TrainingMetric(
            "dph/unjudged_rollouts",
            "Rollouts of the step whose reference cannot be evaluated (gold_error, gold_timeout, gold_empty). The step "
            "and all metrics except the outcomes leave them out.",
        ),
        TrainingMetric(
            "dph/outcome/<outcome>",
            "Share of the step's samples with an outcome: match, partial, mismatch, no_answer, pred_error, "
            "pred_timeout, gold_error, gold_timeout, gold_empty.",
        ),
        TrainingMetric(
            "dph/scorer/<effort>",
            "What it cost to score the step's samples: requests (HTTP), retries, busy_waits (waits for busy servers) "
            "and infra_errors (failures of a server's worker).",
        ),
        TrainingMetric(
            "dph/scorer/seconds_<mean or max>", "Seconds from a response to its score, including all waiting."
        ),
        TrainingMetric("dph/scorer/healthy_servers", "The smallest number of servers that a reward worker saw."),
    ),
    "Retention": (
        TrainingMetric(
            "dph/keep_rate",
            "At validation, with the keep probe: mean Pass@8 on prompts that the initial policy solved.",
            "Keep rate",
            (WATCHED,),
        ),
        TrainingMetric(
            "dph/newly_solved",
            "At validation, with the keep probe: mean Pass@8 on prompts that the initial policy did not solve.",
        ),
        TrainingMetric("dph/keep_prompts", "Number of prompts that the keep rate is a mean of."),
    ),
    "Pass@k and styles": (
        TrainingMetric(
            "dph/pass@<k>",
            "Pass@k of the step's own groups by the unbiased estimator, for the powers of two up to n, and n: mean "
            "over the prompts with at least k scored responses. Groups that dynamic sampling leaves out count too.",
        ),
        TrainingMetric(
            "dph/style_entropy",
            "Entropy in nats of the styles of a prompt's correct SQL, mean over the prompts with one. A style is the "
            "query's leading comment if most correct queries of the step begin with a known one, else its structure.",
            "Style entropy",
            (WATCHED,),
        ),
        TrainingMetric(
            "dph/distinct_structures",
            "Number of structures among a prompt's correct SQL, mean over the prompts with one.",
        ),
        TrainingMetric("dph/style/<style>", "Share of each style among the step's correct SQL."),
        TrainingMetric(
            "dph/val/<data source>/<metric>",
            "Pass@k and styles of every validation, by data source, and maj@n, which counts equal texts as one answer.",
        ),
    ),
}
ALL = [metric for group in TRAINING_METRICS.values() for metric in group]


def titles(use: str) -> dict[str, str]:
    """{name: title} of the metrics with this use, in the table's order."""
    return {metric.name: metric.title for metric in ALL if use in metric.used}
