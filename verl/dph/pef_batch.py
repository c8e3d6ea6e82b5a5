"""D_pef rows in TransferQueue: added to one training step's batch, interleaved with its D_exp rows, and removed.

verl's actor reads a batch by key from TransferQueue; every row must have every selected field, in the same dtype.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from verl.dph.loss import PEF_MASK, PEF_NUM_TOKENS, PEF_REF_LOG_PROBS
from verl.dph.mixing import interleave
from verl.dph.store import Row

# What the actor's update reads of a D_exp row (engine_workers.py, losses.py), and what is there only in some runs.
FIELDS = [
    "input_ids",
    "position_ids",
    "prompts",
    "responses",
    "response_mask",
    "loss_mask",
    "old_log_probs",
    "advantages",
]
OPTIONAL_FIELDS = ["ref_log_prob", "rollout_is_weights"]
OURS = [PEF_MASK, PEF_REF_LOG_PROBS, PEF_NUM_TOKENS]


@contextmanager
def mixed(batch: KVBatchMeta, pef: list[list[Row]], *, ranks: int) -> Iterator[KVBatchMeta]:
    """The step's batch with the D_pef rows in place; they are gone from TransferQueue afterwards.

    Args:
        batch: the D_exp rows of the step, rank-major, complete but for our fields.
        pef: for each mini-batch of the step its D_pef rows, over all ranks.
        ranks: data-parallel size.
    """
    fields = FIELDS + [name for name in OPTIONAL_FIELDS if name in batch.fields]
    num_tokens = [sum(len(row.response) for row in rows) for rows in pef]
    _extend_exp_rows(batch, num_tokens, ranks)
    first = tq.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id, select_fields=fields)
    dtypes = {name: first[name].dtype for name in fields}

    rows = [row for rows in pef for row in rows]
    counts = [count for rows, count in zip(pef, num_tokens, strict=True) for _ in rows]
    keys = [f"pef{uuid.uuid4().hex}_0_0" for _ in rows]
    tags = [_tag(row) for row in rows]
    tq.kv_batch_put(keys=keys, tags=tags, partition_id=batch.partition_id, fields=_columns(rows, counts, dtypes))
    try:
        order = interleave(
            list(zip(batch.keys, batch.tags, strict=True)),
            list(zip(keys, tags, strict=True)),
            mini_batches=len(pef),
            ranks=ranks,
        )
        yield KVBatchMeta(
            keys=[key for key, _ in order],
            tags=[tag for _, tag in order],
            partition_id=batch.partition_id,
            fields=fields + OURS,
            extra_info=dict(batch.extra_info),
        )
    finally:
        tq.kv_clear(keys=keys, partition_id=batch.partition_id)


def _extend_exp_rows(batch: KVBatchMeta, num_tokens: list[int], ranks: int) -> None:
    """Give the D_exp rows our fields: no D_pef tokens in them, and their mini-batch's count of D_pef tokens."""
    responses = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"])
    zeros = [torch.zeros(length) for length in responses["response_mask"].offsets().diff().tolist()]
    rows_a_part = len(batch.keys) // (len(num_tokens) * ranks)
    counts = [count for _ in range(ranks) for count in num_tokens for _ in range(rows_a_part)]
    columns = {PEF_MASK: _jagged(zeros), PEF_REF_LOG_PROBS: _jagged(zeros), PEF_NUM_TOKENS: torch.tensor(counts)}
    tq.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(columns, batch_size=len(batch.keys))
    )


def _columns(rows: list[Row], counts: list[int], dtypes: dict[str, torch.dtype]) -> TensorDict:
    """The rows as jagged columns. Masked out of everything that is verl's: response_mask, loss_mask, advantages are 0.

    old_log_probs is the reference's, so that no importance ratio of a masked token can overflow.
    """

    def column(name: str) -> torch.Tensor:
        match name:
            case "input_ids":
                parts = [torch.cat([row.prompt, row.response]) for row in rows]
            case "position_ids":
                parts = [torch.arange(len(row.prompt) + len(row.response)) for row in rows]
            case "prompts":
                parts = [row.prompt for row in rows]
            case "responses":
                parts = [row.response for row in rows]
            case "old_log_probs":
                parts = [row.ref_log_probs for row in rows]
            case _:
                parts = [torch.zeros(len(row.response)) for row in rows]
        return _jagged([part.to(dtypes[name]) for part in parts])

    columns = {name: column(name) for name in dtypes}
    columns[PEF_MASK] = _jagged([torch.ones(len(row.response)) for row in rows])
    columns[PEF_REF_LOG_PROBS] = _jagged([row.ref_log_probs.float() for row in rows])
    columns[PEF_NUM_TOKENS] = torch.tensor(counts)
    return TensorDict(columns, batch_size=len(rows))


def _tag(row: Row) -> dict:
    prompt_len, response_len = len(row.prompt), len(row.response)
    return {
        "is_padding": True,
        "prompt_len": prompt_len,
        "response_len": response_len,
        "seq_len": prompt_len + response_len,
    }


def _jagged(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(parts, layout=torch.jagged)
