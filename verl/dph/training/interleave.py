"""Where the D_pef rows stand in a training step: a fixed share in every optimizer mini-batch on every rank.

verl cuts a batch into one contiguous chunk a data-parallel rank, and each rank reads its chunk in order, one mini-batch
after the other (engine_workers.py, train_mini_batch, shuffle=False). So the order of the rows is the whole mixing.
"""

from collections.abc import Sequence


def interleave(exp: Sequence, pef: Sequence, *, mini_batches: int, ranks: int) -> list:
    """Order D_exp and D_pef rows so that each rank's k-th mini-batch holds its equal part of both.

    Args:
        exp: D_exp rows, rank-major as verl's _balance_batch leaves them; len is a multiple of mini_batches * ranks.
        pef: D_pef rows, mini-batch-major: which rows are in mini-batch k does not depend on the number of ranks.
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
    order = []
    for rank in range(ranks):
        for k in range(mini_batches):
            i, j = rank * mini_batches + k, k * ranks + rank
            order += exp[i * n_exp : (i + 1) * n_exp]
            order += pef[j * n_pef : (j + 1) * n_pef]
    return order
