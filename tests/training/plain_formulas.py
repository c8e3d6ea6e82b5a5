"""The objective of docs/explanation/method.md in plain PyTorch, row by row with Hugging Face's forward pass.

test_rehearsal_loss.py compares verl's worker with it. Divergences are written in probabilities, independently of
verl/dph/objective/f_divergences.py; d is the log-ratio to the reference, u = exp(d).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM

from tests.training.gradient_worker import ANCHOR_ROWS, EXP_ROWS, MINI_BATCHES, PEF_ROWS, whole_step
from verl.dph.training.config import DPHActorConfig

ETA, CLIP_LOW, CLIP_HIGH, ALPHA = 0.2, 0.2, 0.28, 0.3
BOUND = DPHActorConfig.sft_log_ratio_max
# js with every setting of the estimators; bounds that tokens of the batch exceed
WEIGHT, IMPORTANCE, POLICY_BOUND = 0.7, 1.1, 0.5
KL_COV_SHARE, KL_COV_COEF, COV_LOW, COV_HIGH = 0.1, 0.5, 0.2, 1.0
# Of four groups of four (gradient_worker.py) 3, 2, 0 and 4 responses are correct: the cap of 0.75 takes two groups.
CAPPED_ROWS = {0, 1, 2, 3, 12, 13, 14, 15}
# MaxRL's advantages of these groups: (c - p) / p, 0 without a correct response.
MAXRL_ADVANTAGES = [1 / 3, 1 / 3, 1 / 3, -1, 1, 1, -1, -1, *[0] * 8]
# Some of the stored rows are the anchor's; without a weight of its own it has eta.
ANCHOR_COEFF = 0.3


def js_doubled(d):
    u = d.exp()
    return u * d - (1 + u) * ((1 + u) / 2).log()


def kl_ref_mixture(d):
    u = d.exp()
    return (u - 1) / 2 - ((1 + u) / 2).log()


def js_tail(d):
    u = d.exp()
    return js_doubled(d) - math.log(2) * (u - 1)


def kl_ref_mixture_tail(d):
    return -((1 + d.exp()) / 2).log()


def alpha_divergence(d):
    u = d.exp()
    return (u ** (1 - ALPHA) - (1 - ALPHA) * u - ALPHA) / (ALPHA * (ALPHA - 1))


def weight_kl_policy_mixture(d):
    u = d.exp()
    return (2 * u / (1 + u)).log() + 1 / (1 + u) - 0.5


def weight_alpha(d):
    return (1 - d.exp() ** -ALPHA) / ALPHA


def linear_above(bound, f, d):
    """f, and its tangent at the bound above it; None: no bound."""
    if bound is None:
        return f(d)
    at = torch.tensor(bound, requires_grad=True)
    (slope,) = torch.autograd.grad(f(at), at)
    return torch.where(d > bound, f(at).detach() + slope * (d - bound), f(d.clamp(max=bound)))


def linear_outside(bound, f, d):
    """f, and its tangents beyond both bounds."""
    mirrored = linear_above(bound, lambda x: f(-x), -d)
    return torch.where(d < 0, mirrored, linear_above(bound, f, d))


def clipped(log_probs, old_log_probs, advantages):
    """PPO's loss of each token, with verl's dual clip: the loss of a negative advantage is bounded by 3 |A|."""
    ratio = (log_probs - old_log_probs).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantages)
    return -torch.where(advantages < 0, torch.maximum(gain, 3.0 * advantages), gain)


def covariances(log_probs, advantages):
    log_probs = log_probs.detach()
    return (log_probs - log_probs.mean()) * (advantages - advantages.mean())


def kl_cov(log_probs, old_log_probs, advantages):
    """No clip, and a penalty on the tokens with the largest covariance, at least one."""
    log_ratio = log_probs - old_log_probs
    count = max(1, int(KL_COV_SHARE * len(log_ratio)))
    penalised = covariances(log_probs, advantages).argsort(descending=True)[:count]
    chosen = torch.zeros_like(log_ratio).index_fill(0, penalised, 1.0)
    return -log_ratio.exp() * advantages + KL_COV_COEF * chosen * log_ratio.abs()


def clip_cov(log_probs, old_log_probs, advantages):
    """PPO's clip, and no loss on tokens between the bounds that it leaves alone."""
    ratio = (log_probs - old_log_probs).exp()
    plain, bounded = -ratio * advantages, -ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantages
    covariance = covariances(log_probs, advantages)
    left_out = (covariance > COV_LOW) & (covariance < COV_HIGH) & (bounded <= plain)
    assert 0 < left_out.sum() < len(ratio) / 2
    return torch.maximum(plain, bounded) * ~left_out


@dataclass
class Formula:
    """The loss of one variant.

    Attributes:
        normalization: joint or per_set.
        pef: divergence of d on stored tokens, linear above `bound`.
        weight: of grad log pi_theta on D_exp tokens, linear beyond +-`policy_bound`.
        balance: factor of the D_exp term; None: N_pef / N_exp.
        importance: largest importance weight.
        policy: factor of the policy loss.
        policy_loss: of each token, from the log-probs, old log-probs and advantages of a micro-batch.
        rows: the number of D_exp rows in a micro-batch; None: a micro-batch has all rows of the mini-batch.
        bonus: weight of the entropy.
        capped: D_exp rows whose advantages are 0; their tokens count.
        advantages: of each D_exp row; None: the batch's.
        anchor: weight of the stored rows gradient_worker.ANCHOR_ROWS of a mini-batch; None: they are of D_pef.
    """

    normalization: str
    pef: Callable | None = None
    weight: Callable | None = None
    bound: float | None = BOUND
    policy_bound: float = 10.0
    balance: float | None = 1.0
    importance: float = 2.0
    policy: float = 1.0
    policy_loss: Callable = clipped
    rows: int | None = None
    bonus: float = 0.0
    capped: frozenset[int] | set[int] = frozenset()
    advantages: list[float] | None = None
    anchor: float | None = None


def distributions(model, row):
    """(R, V) log-probs at the positions of a response."""
    return model(row["input_ids"][None]).logits[0, len(row["prompts"]) - 1 : -1].log_softmax(-1)


def log_probs_of(model, row):
    return distributions(model, row).gather(1, row["responses"][:, None])[:, 0]


def gradients(model_path, formula, without=()):
    """{"k.parameter": gradient} of the mini-batches k; without: numbers of the D_exp rows that are left out."""
    exp_rows, pef_rows = whole_step()
    exp_size, pef_size = EXP_ROWS // MINI_BATCHES, PEF_ROWS // MINI_BATCHES
    model = AutoModelForCausalLM.from_pretrained(model_path)
    found = {}
    for k in range(MINI_BATCHES):
        model.zero_grad()
        policy, on_exp, on_pef, on_anchor = (torch.zeros(()) for _ in range(4))
        n_exp, n_pef, n_anchor, tokens = 0, 0, 0, []
        for i in (i for i in range(k * exp_size, (k + 1) * exp_size) if i not in without):
            row = exp_rows[i]
            log_probs = log_probs_of(model, row)
            advantages = torch.zeros_like(row["advantages"]) if i in formula.capped else row["advantages"]
            if formula.advantages is not None:
                advantages = torch.full_like(advantages, formula.advantages[i])
            tokens.append((log_probs, row["old_log_probs"], advantages))
            n_exp += len(log_probs)
            if formula.bonus:
                log_p = distributions(model, row)
                policy = policy + formula.bonus * (log_p.exp() * log_p).sum()
            if formula.weight:
                ratio = (log_probs - row["old_log_probs"]).exp()
                w = linear_outside(formula.policy_bound, formula.weight, log_probs - row["ref_log_prob"])
                w = w * ratio.clamp(max=formula.importance)
                on_exp = on_exp + (w.detach() * log_probs).sum()
        rows = formula.rows or exp_size
        for first in range(0, len(tokens), rows):
            of_micro_batch = zip(*tokens[first : first + rows], strict=True)
            policy = policy + formula.policy * formula.policy_loss(*map(torch.cat, of_micro_batch)).sum()
        for i, row in enumerate(pef_rows[k * pef_size : (k + 1) * pef_size] if formula.pef else []):
            d = log_probs_of(model, row) - row["pef_ref_log_probs"]
            value = linear_above(formula.bound, formula.pef, d)
            if formula.anchor is not None and i in ANCHOR_ROWS:
                on_anchor, n_anchor = on_anchor + formula.anchor * value.sum(), n_anchor + len(value)
            else:
                on_pef, n_pef = on_pef + value.sum(), n_pef + len(value)
        on_exp = on_exp * (n_pef / n_exp if formula.balance is None else formula.balance)
        if formula.normalization == "joint":
            loss = (policy + ETA * (on_exp + on_pef) + on_anchor) / (n_exp + n_pef + n_anchor)
        else:
            loss = (policy + ETA * on_exp) / max(n_exp, 1) + ETA * on_pef / max(n_pef, 1) + on_anchor / max(n_anchor, 1)
        loss.backward()
        found |= {f"{k}.{name}": p.grad.clone() for name, p in model.named_parameters()}
    return found


# By the variant of test_rehearsal_loss.py that computes it.
FORMULAS = {
    "joint": Formula("joint", pef=js_doubled),
    "per_set": Formula("per_set", pef=js_doubled),
    "rehearsal_alone": Formula("per_set", pef=js_doubled, policy=0.0),
    "tail": Formula("joint", pef=js_tail, bound=None),
    "forward": Formula("joint", pef=lambda d: -d),
    "chi_square": Formula("joint", pef=lambda d: (d.exp() - 1) ** 2),
    "alpha": Formula("joint", pef=alpha_divergence, bound=None),
    "js": Formula("joint", pef=kl_ref_mixture, weight=weight_kl_policy_mixture, balance=None),
    "js_per_set": Formula("per_set", pef=kl_ref_mixture, weight=weight_kl_policy_mixture),
    "js_estimators": Formula(
        "joint",
        pef=kl_ref_mixture_tail,
        weight=weight_kl_policy_mixture,
        bound=None,
        policy_bound=POLICY_BOUND,
        balance=WEIGHT,
        importance=IMPORTANCE,
    ),
    "reverse_kl": Formula("joint", weight=lambda d: d),
    "alpha_policy": Formula("joint", weight=weight_alpha),
    "bonus": Formula("joint", pef=js_doubled, bonus=0.1),
    "kl_cov_micro_4": Formula("per_set", pef=lambda d: -d, policy_loss=kl_cov, rows=4),
    "clip_cov": Formula("joint", pef=js_doubled, policy_loss=clip_cov),
    "cap": Formula("joint", pef=js_doubled, capped=CAPPED_ROWS),
    "anchor": Formula("per_set", pef=lambda d: -d, anchor=ANCHOR_COEFF),
    "anchor_joint": Formula("joint", pef=js_doubled, anchor=ETA),
    "maxrl": Formula("per_set", pef=lambda d: -d, advantages=MAXRL_ADVANTAGES),
}
