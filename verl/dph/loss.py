"""The actor's loss with rehearsal: verl's ppo_loss on D_exp rows plus a divergence on D_pef rows.

Shapes: B rows of a micro-batch, T longest response in it. D_pef rows carry response_mask = loss_mask = 0, so that
everything of verl's (policy loss, entropy bonus, KL terms) passes them by; `pef_mask` is their mask.
"""

from collections.abc import Callable
from functools import partial

import torch
from tensordict import TensorDict

from verl.dph import divergences
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

# What the trainer adds to every row of a mixed batch. Per response token: 1.0 on D_pef rows, 0.0 on D_exp rows; the
# reference log-prob (float32, 0 on D_exp rows). Per row: the D_pef tokens of its optimizer mini-batch over all ranks.
PEF_MASK, PEF_REF_LOG_PROBS, PEF_NUM_TOKENS = "pef_mask", "pef_ref_log_probs", "pef_num_tokens"


def divergence_of(config) -> Callable[[torch.Tensor], torch.Tensor]:
    """The divergence of `config.sft_loss_mode` on D_pef, as a function of d (METHOD.md, "Modes")."""
    match config.sft_loss_mode:
        case "forward":
            return divergences.forward_kl_k1 if config.sft_kl_estimator == "k1" else divergences.forward_kl
        case "js_low_var":
            return lambda d: 2.0 * divergences.js_half(d)
        case "alpha":
            return partial(divergences.alpha_divergence, alpha=config.alpha_coeff)
    raise ValueError(f"sft_loss_mode={config.sft_loss_mode!r} has no divergence on D_pef")


def rehearsal_loss(config, model_output: dict, data: TensorDict, dp_group=None) -> tuple[torch.Tensor, dict]:
    """verl's `ppo_loss` on the D_exp rows plus eta times the divergence on the D_pef rows of one micro-batch.

    Normalised over the global mini-batch (all ranks and micro-batches), so that the gradient depends neither on the
    number of ranks nor on the micro-batches: `joint` divides both terms by N_exp + N_pef tokens, `per_set` each by its
    own. FSDP averages gradients over ranks, hence the factor dp_size, as in verl's agg_loss (core_algos.py).

    Args:
        config: DPHActorConfig.
        model_output: "log_probs", jagged (B, prompt + response), float32; "entropy" likewise when asked for.
        data: the micro-batch; jagged fields of verl's and those named at the head of this file.

    Returns:
        The loss, a scalar, and metrics that have the same keys in every micro-batch on every rank.
    """
    exp_tokens, dp_size = data["batch_num_tokens"], data["dp_size"]
    pef_tokens = int(data[PEF_NUM_TOKENS][0])
    joint = config.sft_loss_normalization == "joint"
    if joint:
        tu.assign_non_tensor(data, batch_num_tokens=exp_tokens + pef_tokens)
    rows_share = data["response_mask"].values().sum().item() / max(exp_tokens, 1) * dp_size
    loss, metrics = ppo_loss(config, model_output, data, dp_group)
    metrics = _token_means(metrics, rows_share)

    log_probs = no_padding_2_padding(model_output["log_probs"], data).float()  # (B, T)
    padded = data.select(PEF_MASK, PEF_REF_LOG_PROBS).to_padded_tensor()
    mask = padded[PEF_MASK].bool()  # (B, T)
    d = torch.where(mask, log_probs - padded[PEF_REF_LOG_PROBS], 0.0)
    divergence_sum = (divergences.bounded(divergence_of(config), d) * mask).sum()
    rehearsal = config.sft_loss_coeff * divergence_sum / (exp_tokens + pef_tokens if joint else pef_tokens) * dp_size

    with torch.no_grad():
        of_pef = dp_size / pef_tokens
        metrics |= {
            "dph/divergence": _summed(divergence_sum * of_pef),
            "dph/loss": _summed(rehearsal),
            "dph/kl_ref_policy": _summed(-d.sum() * of_pef),
            "dph/share_at_bound": _summed(((d > divergences.D_MAX) & mask).sum() * of_pef),
            "dph/tokens": _summed(mask.sum() * dp_size),
        }
    return loss + rehearsal, metrics


def _summed(value: torch.Tensor) -> Metric:
    """A metric that is summed over micro-batches and averaged over ranks (hence dp_size in the value)."""
    return Metric(value=value.float(), aggregation=AggregationType.SUM)


def _token_means(metrics: dict, share: float) -> dict:
    """Turn ppo_loss's means over micro-batches into means over D_exp tokens.

    verl averages them over micro-batches, where one that holds only D_pef rows would count as a 0.
    share: D_exp tokens of this micro-batch over those of the global mini-batch, times dp_size.
    """
    return {
        key: _summed(torch.tensor(m.aggregate() * share))
        if isinstance(m, Metric) and m.aggregation is AggregationType.MEAN
        else m
        for key, m in metrics.items()
    }
