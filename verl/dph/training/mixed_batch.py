"""Stored rows in one training step's batch: a fixed share in every optimizer mini-batch on every rank.

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

from verl.dph.pef.batch_fields import (
    ANCHOR_NUM_TOKENS,
    OF_ANCHOR,
    PEF_NUM_TOKENS,
    PEF_REF_LOG_PROBS,
    jagged,
    token_fields,
)
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
def mixed(batch: KVBatchMeta, stored: Sequence[tuple[list[Row], list[Row]]], *, ranks: int) -> Iterator[KVBatchMeta]:
    """The step's batch with the stored rows in place; they are gone from TransferQueue afterwards.

    Args:
        batch: the D_exp rows of the step, rank-major, without our fields.
        stored: the rows of D_pef and of the anchor in each mini-batch of the step, over all ranks; those of D_pef are
            empty in a mode without D_pef, those of the anchor in a run without one.
        ranks: data-parallel size.
    """
    fields = fields_of_update(batch.fields)
    exp = list(zip(batch.keys, batch.tags, strict=True))
    if not any(pef for pef, _ in stored):
        yield _meta(batch, exp, fields)
        return
    rows = [_dealt(pef, anchor, ranks) for pef, anchor in stored]
    counts = [_counts(pef, anchor) for pef, anchor in stored]
    _extend_exp_rows(batch, counts, ranks)
    first = tq.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id, select_fields=fields)
    dtypes = {name: first[name].dtype for name in fields}

    keys = [[f"pef{uuid.uuid4().hex}_0_0" for _ in part] for part in rows]
    tags = [[_tag(row) for row, _ in part] for part in rows]
    try:
        # One mini-batch at a time: the columns are a copy of the rows, several times their size.
        for part, its_counts, its_keys, its_tags in zip(rows, counts, keys, tags, strict=True):
            columns = columns_of([row for row, _ in part], its_counts, dtypes)
            if OF_ANCHOR in its_counts:
                columns[OF_ANCHOR] = torch.tensor([int(of_anchor) for _, of_anchor in part])
            tq.kv_batch_put(keys=its_keys, tags=its_tags, partition_id=batch.partition_id, fields=columns)
        stored_rows = list(zip(sum(keys, []), sum(tags, []), strict=True))
        order = interleave(exp, stored_rows, mini_batches=len(rows), ranks=ranks)
        yield _meta(batch, order, [*fields, PEF_REF_LOG_PROBS, *counts[0]])
    finally:
        tq.kv_clear(keys=sum(keys, []), partition_id=batch.partition_id)


def _dealt(pef: list[Row], anchor: list[Row], ranks: int) -> list[tuple[Row, bool]]:
    """The stored rows of a mini-batch, rank-major, each with whether it is the anchor's; ranks share both evenly."""
    dealt = [
        deal([(row, of_anchor) for row in rows], [len(row.prompt) + len(row.response) for row in rows], ranks)
        for rows, of_anchor in ((pef, False), (anchor, True))
        if rows
    ]
    shares = [
        [part[rank * len(part) // ranks : (rank + 1) * len(part) // ranks] for part in dealt] for rank in range(ranks)
    ]
    return [row for share in shares for part in share for row in part]


def _counts(pef: list[Row], anchor: list[Row]) -> dict[str, int]:
    """The fields of a mini-batch that are the same in all of its rows, and OF_ANCHOR of a row of D_exp."""
    of_pef, of_anchor = (sum(len(row.response) for row in rows) for rows in (pef, anchor))
    found = {PEF_NUM_TOKENS: of_pef}
    return found | {ANCHOR_NUM_TOKENS: of_anchor, OF_ANCHOR: 0} if anchor else found


def _meta(batch: KVBatchMeta, rows: list[tuple[str, dict]], fields: list[str]) -> KVBatchMeta:
    """(key, tag) rows in the partition of `batch`."""
    keys, tags = ([row[part] for row in rows] for part in range(2))
    extra_info = dict(batch.extra_info)
    return KVBatchMeta(keys=keys, tags=tags, partition_id=batch.partition_id, fields=fields, extra_info=extra_info)


def _extend_exp_rows(batch: KVBatchMeta, counts: list[dict[str, int]], ranks: int) -> None:
    """Add our fields to the D_exp rows: the numbers of their mini-batch, and reference log-probs of length 0."""
    rows_per_part = len(batch.keys) // (len(counts) * ranks)
    columns = {PEF_REF_LOG_PROBS: jagged([torch.empty(0)] * len(batch.keys))}
    for name in counts[0]:
        of_rows = [count[name] for _ in range(ranks) for count in counts for _ in range(rows_per_part)]
        columns[name] = torch.tensor(of_rows)
    tq.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(columns, batch_size=len(batch.keys))
    )


def columns_of(rows: list[Row], counts: dict[str, int], dtypes: dict[str, torch.dtype]) -> TensorDict:
    """The rows as jagged columns. response_mask, loss_mask and advantages are 0, so verl's losses ignore the rows.

    old_log_probs are the reference's, so that the importance ratio of a masked token cannot overflow.

    Args:
        rows: of a mini-batch.
        counts: the numbers of the mini-batch, by field.
        dtypes: the dtypes of verl's fields in this run, by name.
    """
    lengths = [len(row.response) for row in rows]
    zeros = torch.zeros(max(lengths))
    nothing = [zeros[:length] for length in lengths]
    given = token_fields(rows) | {"old_log_probs": [row.ref_log_probs for row in rows]}
    columns = {name: jagged(given.get(name, nothing), dtype) for name, dtype in dtypes.items()}
    columns[PEF_REF_LOG_PROBS] = jagged([row.ref_log_probs for row in rows])
    columns |= {name: torch.tensor([count] * len(rows)) for name, count in counts.items()}
    return TensorDict(columns, batch_size=len(rows))


def _tag(row: Row) -> dict:
    prompt, response = len(row.prompt), len(row.response)
    return {"is_padding": True, "prompt_len": prompt, "response_len": response, "seq_len": prompt + response}
