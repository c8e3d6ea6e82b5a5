"""The top-k rehearsal term, inside the engine's forward pass: the divergence between next-token distributions.

With `distillation_use_topk` in the batch, verl's FSDP engine also calls the loss function with the logits of a
micro-batch (fsdp/transformer_impl.py, prepare_model_outputs) and passes on what it returns, one number per token. With
`distillation_only` it does not compute log-probs: they and the divergence come from our one pass over the logits
(topk_logprobs.py).
"""

from dataclasses import dataclass

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.ulysses import get_ulysses_sequence_parallel_rank, get_ulysses_sequence_parallel_world_size

from verl.dph.objective import f_divergences, topk_logprobs
from verl.dph.objective.terms import Terms
from verl.dph.pef.batch_fields import PEF_REST_LOG_PROBS, PEF_TOP_IDS, PEF_TOP_LOG_PROBS

# What the engine passes from the forward pass to the loss besides log_probs, per token; 0 except for D_pef tokens.
DIVERGENCE, KL = "pef_divergence", "pef_kl"


@dataclass
class PefPositions:
    """The N positions at which a packed micro-batch predicts D_pef tokens.

    Attributes:
        positions: (N,) int64, increasing, among the micro-batch's tokens.
        entries: (N,) int64, the indices of these tokens in the micro-batch's stored distributions.
    """

    positions: torch.Tensor
    entries: torch.Tensor


def pef_positions(data: TensorDict) -> PefPositions:
    """Position t predicts token t + 1, so a response's positions begin one before it."""
    device = data["input_ids"].device
    ends = data["input_ids"].offsets()[1:].tolist()
    lengths = data[PEF_TOP_IDS].offsets().diff().tolist()  # 0 for a D_exp row
    positions = torch.cat([torch.arange(end - length - 1, end - 1) for end, length in zip(ends, lengths, strict=True)])
    return PefPositions(positions.to(device), torch.arange(len(positions), device=device))


def log_probs_and_divergence(terms: Terms, student_logits: torch.Tensor, data: TensorDict) -> dict[str, torch.Tensor]:
    """Log-probs and the divergence on D_pef tokens, for the engine in the forward pass of a micro-batch.

    Args:
        terms: with a divergence on D_pef.
        student_logits: (1, T, V), already divided by the temperature; with Ulysses this rank's slice of the T tokens.
        data: the micro-batch, with the stored distributions.

    Returns:
        (1, T) float32 each: "log_probs", DIVERGENCE (with gradient) and KL(pi_ref || pi_theta) (without).
    """
    logits = student_logits.squeeze(0)
    assert terms.pef_distance is not None
    labels = torch.roll(data["input_ids"].values(), shifts=-1, dims=0)
    found = pef_positions(data)
    labels, found = _slice_of_this_rank(labels, found, len(logits))
    ids = data[PEF_TOP_IDS].values()[found.entries]
    log_p = topk_logprobs.reference(
        data[PEF_TOP_LOG_PROBS].values()[found.entries], data[PEF_REST_LOG_PROBS].values()[found.entries]
    )
    # The entropy bonus needs the logits for its gradient.
    overwrite = not tu.get_non_tensor_data(data, "calculate_entropy", default=False)
    log_probs, log_q = topk_logprobs.LogProbs.apply(logits, labels, found.positions, ids, overwrite)
    zeros = torch.zeros_like(log_probs)
    value = f_divergences.between_distributions(terms.pef_distance, log_p, log_q)
    with torch.no_grad():
        kl = f_divergences.between_distributions(f_divergences.forward_kl, log_p, log_q)
    return {
        "log_probs": log_probs[None],
        DIVERGENCE: zeros.index_add(0, found.positions, value)[None],
        KL: zeros.index_add(0, found.positions, kl)[None],
    }


def _slice_of_this_rank(labels: torch.Tensor, found: PefPositions, size: int) -> tuple[torch.Tensor, PefPositions]:
    """With Ulysses each rank of a group has `size` consecutive tokens; the last ranks may end with padding."""
    ranks = get_ulysses_sequence_parallel_world_size()
    if ranks == 1:
        return labels, found
    start = get_ulysses_sequence_parallel_rank() * size
    labels = torch.nn.functional.pad(labels, (0, size * ranks - len(labels)))[start : start + size]
    mine = (found.positions >= start) & (found.positions < start + size)
    return labels, PefPositions(found.positions[mine] - start, found.entries[mine])
