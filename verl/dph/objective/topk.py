"""The top-k rehearsal term, inside the engine's forward pass: the divergence between next-token distributions.

With `distillation_use_topk` in the batch, verl's FSDP engine also calls the loss function with the logits of a
micro-batch (fsdp/transformer_impl.py, prepare_model_outputs) and passes on what it returns, one number per token. With
`distillation_only` it does not compute log-probs: they and the divergence come from our one pass over the logits
(topk_logprobs.py).
"""

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.ulysses import get_ulysses_sequence_parallel_rank, get_ulysses_sequence_parallel_world_size

from verl.dph.objective import f_divergences, topk_logprobs
from verl.dph.objective.terms import Terms
from verl.dph.pef.batch_fields import PEF_REST_LOG_PROBS, PEF_TOP_IDS, PEF_TOP_LOG_PROBS

# What the engine passes from the forward pass to the loss besides log_probs, per token; 0 except for D_pef tokens.
DIVERGENCE, KL = "pef_divergence", "pef_kl"


def pef_positions(data: TensorDict) -> torch.Tensor:
    """(N,) int64, increasing: the positions at which a packed micro-batch predicts its D_pef tokens.

    Position t predicts token t + 1, so a response's positions begin one before it.
    """
    ends = data["input_ids"].offsets()[1:].tolist()
    lengths = data[PEF_TOP_IDS].offsets().diff().tolist()  # 0 for a D_exp row
    positions = torch.cat([torch.arange(end - length - 1, end - 1) for end, length in zip(ends, lengths, strict=True)])
    return positions.to(data["input_ids"].device)


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
    labels, positions, stored = _slice_of_this_rank(labels, pef_positions(data), len(logits))
    ids, top, rest = (data[name].values()[stored] for name in (PEF_TOP_IDS, PEF_TOP_LOG_PROBS, PEF_REST_LOG_PROBS))
    log_p = topk_logprobs.reference(top, rest)
    # The entropy bonus needs the logits for its gradient.
    overwrite = not tu.get_non_tensor_data(data, "calculate_entropy", default=False)
    log_probs, log_q = topk_logprobs.LogProbs.apply(logits, labels, positions, ids, overwrite)
    zeros = torch.zeros_like(log_probs)
    value = f_divergences.between_distributions(terms.pef_distance, log_p, log_q)
    with torch.no_grad():
        kl = f_divergences.between_distributions(f_divergences.forward_kl, log_p, log_q)
    return {
        "log_probs": log_probs[None],
        DIVERGENCE: zeros.index_add(0, positions, value)[None],
        KL: zeros.index_add(0, positions, kl)[None],
    }


def _slice_of_this_rank(
    labels: torch.Tensor, positions: torch.Tensor, size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """With Ulysses each rank of a group has `size` consecutive tokens; the last ranks may end with padding.

    Returns:
        This rank's labels and positions, and which of the N stored distributions are there, (N,) bool.
    """
    ranks, start = get_ulysses_sequence_parallel_world_size(), get_ulysses_sequence_parallel_rank() * size
    labels = torch.nn.functional.pad(labels, (0, size * ranks - len(labels)))[start : start + size]
    mine = (positions >= start) & (positions < start + size)
    return labels, positions[mine] - start, mine
