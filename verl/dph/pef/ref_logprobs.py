"""Reference log-probs of stored responses, from the training engine."""

import uuid

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.workers.utils.padding import response_from_nested

from verl.dph.pef.batch_fields import ROW_FIELD_OF, jagged, token_fields
from verl.dph.pef.store import Row


def reference_of(trainer, rows: list[Row], *, top_k: int) -> dict[str, list[torch.Tensor]]:
    """Log-probs of the responses of `rows`, by way of TransferQueue as in a training step, sharded over ranks.

    Args:
        trainer: one of verl.dph.training.trainer.TRAINERS whose workers are up.
        rows: any number; the engine cuts them into micro-batches itself.
        top_k: likeliest next tokens per position, 0 for none.

    Returns:
        By field of Row, one tensor per row, nats: `ref_log_probs` (R,) float32 at the training temperature, and with
        top_k > 0 also `top_ids`, `top_log_probs` (R, top_k) and `rest_log_prob` (R,).
    """
    ranks = trainer.data_parallel_size()
    padded = rows + rows[-1:] * (-len(rows) % ranks)
    keys = [f"ref{uuid.uuid4().hex}_0_0" for _ in padded]
    ones = [torch.ones_like(row.response) for row in padded]
    fields = token_fields(padded) | {"response_mask": ones, "loss_mask": ones}
    columns = {name: jagged(parts, torch.int64) for name, parts in fields.items()}
    tags = [{"seq_len": len(ids)} for ids in fields["input_ids"]]
    tq.kv_batch_put(keys=keys, tags=tags, partition_id="train", fields=TensorDict(columns, batch_size=len(padded)))
    settings = {
        "calculate_entropy": False,
        "compute_loss": False,
        "temperature": trainer.config.actor_rollout_ref.rollout.temperature,
    }
    try:
        batch = KVBatchMeta(keys=keys, tags=tags, partition_id="train", fields=list(fields), extra_info=settings)
        if top_k:
            batch.extra_info["top_k"] = top_k
            trainer.actor_rollout_wg.compute_top_k(batch)
        else:
            trainer.actor_rollout_wg.compute_log_prob(batch)
        wanted = ["log_probs", "response_mask", *(ROW_FIELD_OF if top_k else [])]
        data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=wanted)
    finally:
        tq.kv_clear(keys=keys, partition_id="train")
    # A copy: what comes out are views of the prompts' log-probs too.
    responses = response_from_nested(data["log_probs"], data["response_mask"]).unbind()
    found = {"ref_log_probs": [part.to(torch.float32, copy=True) for part in responses]}
    if top_k:
        found |= {of_row: data[name].unbind() for name, of_row in ROW_FIELD_OF.items()}
    return {name: list(values)[: len(rows)] for name, values in found.items()}
