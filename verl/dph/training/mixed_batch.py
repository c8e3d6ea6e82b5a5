"""D_pef rows in one training step's batch: a fixed share in every optimizer mini-batch on every rank.

This module deals the rows to the ranks, puts them into TransferQueue, interleaves them with the step's D_exp rows, and
removes them after the update. verl's actor reads a batch by key from TransferQueue: every row must have every selected
field, in the same dtype.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions

from verl.dph.pef.batch_fields import PEF_NUM_TOKENS, jagged, stored_fields, token_fields
from verl.dph.pef.store import Row

# The fields of a D_exp row that the actor's update reads (engine_workers.py, losses.py): in every run; in some runs; in
# some runs without D_pef (verl's distillation, its replay of routed experts); and of models of images, video or audio.
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
WITHOUT_PEF = ["teacher_ids", "teacher_logprobs", "routed_experts"]
WITH_MEDIA = ["multi_modal_inputs"]


def fields_of_update(there: Sequence[str], *others: str) -> list[str]:
    """What the actor's update reads of a batch with the fields `there`: FIELDS, OPTIONAL_FIELDS and `others`."""
    return FIELDS + [name for name in (*OPTIONAL_FIELDS, *others) if name in there]


def interleave(exp: Sequence, pef: Sequence, *, mini_batches: int, ranks: int) -> list:
    """Order D_exp and D_pef rows so that each rank's k-th mini-batch holds its equal part of both.

    verl cuts a batch into one contiguous chunk per data-parallel rank, and each rank reads its chunk in order, one
    mini-batch after the other (engine_workers.py, train_mini_batch, shuffle=False): the order of rows is the mixing.

    Args:
        exp: D_exp rows, rank-major as verl's _balance_batch leaves them; len is a multiple of mini_batches * ranks.
        pef: D_pef rows, mini-batch-major, then rank-major (deal): which rows are in mini-batch k does not depend on the
            number of ranks.
        mini_batches: optimizer steps of one pass over the batch.
        ranks: data-parallel size.

    Returns:
        All rows, rank-major.
    """
    parts = mini_batches * ranks
    if len(exp) % parts or len(pef) % parts:
        raise ValueError(
            f"{len(exp)} D_exp and {len(pef)} D_pef rows do not divide over {mini_batches} x {ranks} parts"
        )
    n_exp, n_pef = len(exp) // parts, len(pef) // parts
    order: list = []
    for rank in range(ranks):
        for k in range(mini_batches):
            i, j = rank * mini_batches + k, k * ranks + rank
            order += exp[i * n_exp : (i + 1) * n_exp]
            order += pef[j * n_pef : (j + 1) * n_pef]
    return order


def deal(rows: Sequence, lengths: list[int], ranks: int) -> list:
    """The D_pef rows of a mini-batch, rank-major: each rank gets the same number, with about equal work.

    All ranks wait for the slowest one. The estimate of the work and the partition are verl's, as for D_exp rows
    (_balance_batch).

    Args:
        rows: of one mini-batch; a multiple of `ranks`.
        lengths: tokens of each, prompt and response.
        ranks: data-parallel size.
    """
    work = calculate_workload(torch.tensor(lengths)).tolist()
    parts = get_seqlen_balanced_partitions(work, k_partitions=ranks, equal_size=True)
    return [rows[i] for part in parts for i in part]


@contextmanager
def mixed(batch: KVBatchMeta, pef: list[list[Row]], *, ranks: int, top_k: bool = False) -> Iterator[KVBatchMeta]:
    """The step's batch with the D_pef rows in place; they are gone from TransferQueue afterwards.

    Args:
        batch: the D_exp rows of the step, rank-major, without our fields.
        pef: the D_pef rows of each mini-batch of the step, over all ranks; empty in a mode without D_pef.
        ranks: data-parallel size.
        top_k: whether to add the stored next-token distributions (pef/batch_fields.py).
    """
    fields = fields_of_update(batch.fields)
    exp = list(zip(batch.keys, batch.tags, strict=True))
    if not any(pef):
        yield _meta(batch, exp, fields)
        return
    pef = [deal(rows, [len(row.prompt) + len(row.response) for row in rows], ranks) for rows in pef]
    num_tokens = [sum(len(row.response) for row in rows) for rows in pef]
    stored = stored_fields(top_k)
    _extend_exp_rows(batch, num_tokens, ranks, {name: getattr(pef[0][0], field)[:0] for name, field in stored.items()})
    first = tq.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id, select_fields=fields)
    dtypes = {name: first[name].dtype for name in fields}

    keys = [[f"pef{uuid.uuid4().hex}_0_0" for _ in rows] for rows in pef]
    tags = [[_tag(row) for row in rows] for rows in pef]
    try:
        # One mini-batch at a time: the columns are a copy of the rows, several times their size.
        for rows, count, its_keys, its_tags in zip(pef, num_tokens, keys, tags, strict=True):
            columns = columns_of(rows, [count] * len(rows), dtypes, top_k=top_k)
            tq.kv_batch_put(keys=its_keys, tags=its_tags, partition_id=batch.partition_id, fields=columns)
        rows_of_pef = list(zip(sum(keys, []), sum(tags, []), strict=True))
        order = interleave(exp, rows_of_pef, mini_batches=len(pef), ranks=ranks)
        yield _meta(batch, order, [*fields, *stored, PEF_NUM_TOKENS])
    finally:
        tq.kv_clear(keys=sum(keys, []), partition_id=batch.partition_id)


def _meta(batch: KVBatchMeta, rows: list[tuple[str, dict]], fields: list[str]) -> KVBatchMeta:
    """(key, tag) rows in the partition of `batch`."""
    keys, tags = ([row[part] for row in rows] for part in range(2))
    extra_info = dict(batch.extra_info)
    return KVBatchMeta(keys=keys, tags=tags, partition_id=batch.partition_id, fields=fields, extra_info=extra_info)


def _extend_exp_rows(batch: KVBatchMeta, num_tokens: list[int], ranks: int, empty: dict[str, torch.Tensor]) -> None:
    """Add our fields to the D_exp rows: their mini-batch's number of D_pef tokens, and columns of length 0."""
    rows_per_part = len(batch.keys) // (len(num_tokens) * ranks)
    counts = [count for _ in range(ranks) for count in num_tokens for _ in range(rows_per_part)]
    columns = {name: jagged([part] * len(batch.keys)) for name, part in empty.items()}
    columns[PEF_NUM_TOKENS] = torch.tensor(counts)
    tq.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(columns, batch_size=len(batch.keys))
    )


def columns_of(rows: list[Row], counts: list[int], dtypes: dict[str, torch.dtype], *, top_k: bool) -> TensorDict:
    """The rows as jagged columns. response_mask, loss_mask and advantages are 0, so verl's losses ignore the rows.

    old_log_probs are the reference's, so that the importance ratio of a masked token cannot overflow.

    Args:
        rows: D_pef rows.
        counts: per row, the D_pef tokens in its mini-batch.
        dtypes: the dtypes of verl's fields in this run, by name.
        top_k: with the stored distributions, in the dtypes of the store.
    """
    lengths = [len(row.response) for row in rows]
    zeros = torch.zeros(max(lengths))
    nothing = [zeros[:length] for length in lengths]
    given = token_fields(rows) | {"old_log_probs": [row.ref_log_probs for row in rows]}
    columns = {name: jagged(given.get(name, nothing), dtype) for name, dtype in dtypes.items()}
    columns |= {name: jagged([getattr(row, field) for row in rows]) for name, field in stored_fields(top_k).items()}
    columns[PEF_NUM_TOKENS] = torch.tensor(counts)
    return TensorDict(columns, batch_size=len(rows))


def _tag(row: Row) -> dict:
    prompt, response = len(row.prompt), len(row.response)
    return {"is_padding": True, "prompt_len": prompt, "response_len": response, "seq_len": prompt + response}
