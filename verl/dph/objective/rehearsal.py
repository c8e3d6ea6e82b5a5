"""The actor's loss with rehearsal: verl's ppo_loss on D_exp rows, and a divergence on D_pef rows, D_exp rows or both.

Shapes: B rows of a micro-batch, T longest response in it, N response tokens of its D_pef rows. D_pef rows have
response_mask = loss_mask = 0, so verl's policy loss, entropy bonus and KL terms ignore them.
"""

import copy
import math

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric, reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from verl.dph.objective import f_divergences
from verl.dph.objective.f_divergences import Integrand
from verl.dph.objective.terms import Terms
from verl.dph.pef.batch_fields import ANCHOR_NUM_TOKENS, OF_ANCHOR, PEF_NUM_TOKENS, PEF_REF_LOG_PROBS

# A non-tensor setting of a batch: eta of the step.
ETA = "sft_loss_coeff"

# The sets of stored rows, and the metrics of the anchor, each by the one of D_pef.
PEF, ANCHOR = "pef", "anchor"
ANCHOR_METRICS = {"dph/divergence": "dph/anchor_divergence", "dph/kl_ref_policy": "dph/anchor_kl_ref_policy"}

# The share of D_exp tokens that rollout correction has not rejected, and the prefix of metrics that are sums over these
# divided by all: `over_accepted` divides the latter by the former.
ACCEPTED_SHARE, OF_ACCEPTED = "dph/accepted_share", "of_accepted/"


def rehearsal_loss(config, data: TensorDict, model_output: dict, dp_group=None, *, terms: Terms):
    """policy_loss_coeff times verl's `ppo_loss` on D_exp rows, plus eta times the mode's divergences, of a micro-batch.

    Normalised over the global mini-batch (all ranks and micro-batches), so that the gradient depends neither on the
    number of ranks nor on the micro-batches: `joint` divides all terms by N_exp + N_pef tokens, `per_set` each term by
    the tokens of its set; `_exp_weight` balances the two halves of `js`. FSDP averages gradients over ranks: the
    factor dp_size undoes it, as in verl's agg_loss (core_algos.py).

    Args:
        config: DPHActorConfig.
        data: the micro-batch: jagged fields of verl's and, with D_pef, those of pef/batch_fields.py.
        model_output: "log_probs", jagged (B, prompt + response), float32, and "entropy" if requested.
        terms: the divergences of the run.

    Returns:
        The loss, a scalar, and metrics that have the same keys in every micro-batch on every rank.
    """
    has_pef = terms.pef is not None
    # If every rollout of a mini-batch failed, it has no D_exp token.
    dp_size, exp_tokens = data["dp_size"], max(data["batch_num_tokens"], 1)
    pef_tokens = int(data[PEF_NUM_TOKENS][0]) if has_pef else 0
    anchor_tokens = int(data[ANCHOR_NUM_TOKENS][0]) if OF_ANCHOR in data else 0
    joint = config.sft_loss_normalization == "joint"
    all_tokens = data["batch_num_tokens"] + pef_tokens + anchor_tokens if has_pef else exp_tokens
    rows_share = data["response_mask"].values().sum().item() / exp_tokens * dp_size
    normalizer = all_tokens if joint else exp_tokens
    tu.assign_non_tensor(data, batch_num_tokens=normalizer)
    loss, metrics = _policy_loss(_without_kl(config) if terms.exp else config, model_output, data, dp_group)
    loss, metrics = config.policy_loss_coeff * loss, _token_means(metrics, rows_share, normalizer / exp_tokens)
    metrics[ACCEPTED_SHARE] = _summed(torch.tensor(rows_share))

    log_probs = no_padding_2_padding(model_output["log_probs"], data).float()  # (B, T)
    eta = tu.get_non_tensor_data(data, ETA, default=config.sft_loss_coeff)
    rehearsal = 0.0 * log_probs.sum()
    if terms.exp:
        divergence_sum, found = _policy_form(terms.exp, log_probs, data, config)
        of_exp = dp_size / exp_tokens
        weight = _exp_weight(config, exp_tokens, pef_tokens) if terms.pef else 1.0
        rehearsal = rehearsal + eta * weight * divergence_sum * (dp_size / all_tokens if joint else of_exp)
        metrics |= {OF_ACCEPTED + name: _summed(value * of_exp) for name, value in found.items()}
    for name, tokens, weight, rows in _stored_sets(config, data, eta) if terms.pef else ():
        log_ratio = _log_ratio(log_probs, data, rows)
        assert terms.pef is not None
        divergence_sum, found = _generator_form(terms.pef, log_ratio, config.sft_log_ratio_max)
        of_set = dp_size / tokens
        rehearsal = rehearsal + weight * divergence_sum * (dp_size / all_tokens if joint else of_set)
        if name == ANCHOR:
            found = {of_anchor: found[of_pef] for of_pef, of_anchor in ANCHOR_METRICS.items()}
        else:
            found["dph/nll_increase"] = -log_ratio.detach().sum()
            metrics["dph/tokens"] = _summed(torch.tensor(len(log_ratio) * dp_size))
        metrics |= {name: _summed(value * of_set) for name, value in found.items()}
    metrics["dph/loss"] = _summed(rehearsal)
    return loss + rehearsal, metrics


def _stored_sets(config, data: TensorDict, eta: float) -> list[tuple[str, int, float, torch.Tensor | None]]:
    """The sets of stored rows: D_pef, and the anchor in a run that has one.

    Returns:
        For each its name, its tokens in the global mini-batch, its weight, and which rows of the micro-batch are its
        own, (B,) bool, rows without stored tokens among them; None: all.
    """
    pef_tokens = int(data[PEF_NUM_TOKENS][0])
    if OF_ANCHOR not in data:
        return [(PEF, pef_tokens, eta, None)]
    of_anchor = data[OF_ANCHOR].bool()
    weight = config.sft_loss_coeff if config.sft_anchor_coeff is None else config.sft_anchor_coeff
    anchor = (ANCHOR, int(data[ANCHOR_NUM_TOKENS][0]), weight, of_anchor)
    return [(PEF, pef_tokens, eta, ~of_anchor), anchor]


def _exp_weight(config, exp_tokens: int, pef_tokens: int) -> float:
    """Factor of the D_exp half of `js`, the paper's lambda (Appendix E, equation 16); null: the halves count alike."""
    if config.sft_js_exp_weight is not None:
        return config.sft_js_exp_weight
    return pef_tokens / exp_tokens if config.sft_loss_normalization == "joint" else 1.0


def _policy_loss(config, model_output: dict, data: TensorDict, dp_group) -> tuple[torch.Tensor, dict]:
    """verl's `ppo_loss`; for a micro-batch without D_exp tokens, 0 and metrics of 0 under the same names.

    Some of verl's losses fail on an empty mask (`policy_loss.loss_mode=bypass_mode`), so the names come from a call
    with one token, whose log-probs and advantage are 0.
    """
    if data["response_mask"].values().any():
        return ppo_loss(config, model_output, data, dp_group)
    stand_in = data.copy()
    for name in ("response_mask", "old_log_probs", "advantages"):
        stand_in[name] = torch.zeros_like(data[name])
    stand_in["response_mask"].values()[0] = 1
    _, metrics = ppo_loss(config, {name: torch.zeros_like(v) for name, v in model_output.items()}, stand_in, dp_group)
    nothing = {k: Metric(value=0.0, aggregation=m.aggregation) for k, m in metrics.items() if isinstance(m, Metric)}
    return 0.0 * model_output["log_probs"].values().sum(), metrics | nothing


def _generator_form(f: Integrand, log_ratio: torch.Tensor, upper: float | None) -> tuple[torch.Tensor, dict]:
    """The generator form on the stored token of each position: its sum over D_pef tokens, and sums for metrics."""
    value = f_divergences.with_linear_tail(f, log_ratio, upper).sum()
    with torch.no_grad():
        found = {
            "dph/divergence": value,
            "dph/kl_ref_policy": f_divergences.forward_kl(log_ratio).sum(),
            "dph/clip_fraction": (log_ratio > (math.inf if upper is None else upper)).sum(),
        }
    return value, found


def _policy_form(f: Integrand, log_probs: torch.Tensor, data: TensorDict, config) -> tuple[torch.Tensor, dict]:
    """stopgrad(w pi_theta / pi_old) log pi_theta, summed over D_exp tokens, and sums for metrics.

    The policy form (docs/explanation/method.md): only its gradient is meaningful. `dph/policy_divergence` is the
    value of the divergence.
    """
    bound = config.sft_policy_log_ratio_max
    names = ["response_mask", "old_log_probs", "ref_log_prob"]
    names += ["rollout_is_weights"] if "rollout_is_weights" in data else []
    padded = data.select(*names).to_padded_tensor()
    mask = padded["response_mask"].bool()
    with torch.no_grad():
        log_ratio = torch.where(mask, log_probs - padded["ref_log_prob"].float(), 0.0)
        since_rollout = torch.where(mask, log_probs - padded["old_log_probs"].float(), 0.0)
        importance = since_rollout.clamp(max=math.log(config.sft_importance_max)).exp()
        if "rollout_is_weights" in padded:
            importance = importance * padded["rollout_is_weights"].float()
        weight = f_divergences.policy_weight(f, log_ratio, bound) * importance * mask
        divergence, kl = (f_divergences.policy_value(g, log_ratio, bound) for g in (f, f_divergences.reverse_kl))
        found = {
            "dph/policy_divergence": (divergence * importance * mask).sum(),
            "dph/kl_policy_ref": (kl * importance * mask).sum(),
            "dph/policy_clip_fraction": ((log_ratio.abs() > bound) & mask).sum(),
        }
    return (weight * torch.where(mask, log_probs, 0.0)).sum(), found


def _log_ratio(log_probs: torch.Tensor, data: TensorDict, rows: torch.Tensor | None) -> torch.Tensor:
    """(N,) log pi_theta - log pi_ref of the stored tokens of `rows` (B,), None for all, from log_probs (B, T)."""
    ref_log_probs = data[PEF_REF_LOG_PROBS]  # jagged, of length 0 on D_exp rows
    positions, lengths = torch.arange(log_probs.shape[1], device=log_probs.device), ref_log_probs.offsets().diff()
    values = ref_log_probs.values()
    if rows is not None:
        lengths, values = lengths * rows, values[rows.repeat_interleave(lengths)]
    return log_probs[positions < lengths[:, None]] - values


def _without_kl(config):
    """The policy form replaces verl's KL loss: `use_kl_loss` only loads the reference model."""
    config = copy.copy(config)
    object.__setattr__(config, "use_kl_loss", False)  # verl's settings are frozen
    return config


def _summed(value: torch.Tensor) -> Metric:
    """A metric that is summed over micro-batches and averaged over ranks (so dp_size is in the value)."""
    return Metric(value=value.float(), aggregation=AggregationType.SUM)


def _token_means(metrics: dict, share: float, scale: float) -> dict:
    """Turn ppo_loss's means into sums over D_exp tokens, divided by the number of all of them.

    verl averages some over micro-batches, and a micro-batch of D_pef rows alone would count as 0. It sums the others,
    its losses, over micro-batches, after it has divided them by the tokens that normalize the loss.

    Args:
        share: D_exp tokens of this micro-batch over those of the global mini-batch, times dp_size.
        scale: the tokens that normalize the loss over the D_exp tokens of the global mini-batch.
    """
    factors = {AggregationType.MEAN: share, AggregationType.SUM: scale}
    found = {}
    for key, m in metrics.items():
        if isinstance(m, Metric) and m.aggregation in factors:
            name = OF_ACCEPTED + key if m.aggregation == AggregationType.MEAN else key
            found[name] = _summed(torch.tensor(m.aggregate() * factors[m.aggregation]))
        else:
            found[key] = m
    return found


def over_accepted(output: dict) -> dict:
    """The workers' metrics, those of D_exp tokens as means over the accepted tokens of each mini-batch.

    Args:
        output: a list per key, of a value per mini-batch, with ACCEPTED_SHARE if a key begins with OF_ACCEPTED.
    """
    share = output.get(ACCEPTED_SHARE, [])
    return {
        name.removeprefix(OF_ACCEPTED): [
            value / part if part else 0.0 for value, part in zip(values, share, strict=True)
        ]
        if name.startswith(OF_ACCEPTED)
        else values
        for name, values in output.items()
        if name != ACCEPTED_SHARE
    }


def update_metrics(output: dict) -> dict:
    """The metrics of an update, for the trainer.

    Args:
        output: the workers' metrics, one list per key.

    Returns:
        A number per key; ours without verl's prefix.
    """
    output = rename_dict(over_accepted(output), "actor/")
    output["perf/mfu/actor"] = output.pop("actor/mfu")
    output = {name.removeprefix("actor/") if name.startswith("actor/dph/") else name: v for name, v in output.items()}
    return reduce_metrics(output)
