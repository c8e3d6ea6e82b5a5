"""Verify a store: recompute the reference log-probs of some rows, in other batches, and compare."""

import random
from pathlib import Path

import torch

from rl.common.errors import UserError
from verl.dph.pef.ref_logprobs import Compute
from verl.dph.pef.store import Store

CHECKED_ROWS = 100

# The override of Hydra by which the training engine computes in float32, on any device.
IN_FLOAT32 = "++actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32"

# Nats. In float32 no token may differ by more.
FLOAT32_TOLERANCE = 1e-4
# Nats, for the mean over a row's tokens in half precision.
HALF_TOLERANCE = 2e-2
# Nats of a logit, used where it allows a row more than HALF_TOLERANCE. A change e of a token's logit moves its log-prob
# by e (1 - p), and so the row by the mean of e (1 - p), whatever its entropy. bfloat16 rounds a logit between 16 and 32
# to a multiple of 1/8, in another batch perhaps to the next one, and a log-prob depends on two logits, the token's and
# the likeliest. The largest measured was 0.1 (benchmarks/README.md).
LOGIT_TOLERANCE = 0.25


def difference(
    stored: torch.Tensor, again: torch.Tensor, dtype: str, tolerance: float | None = None
) -> tuple[float, float]:
    """How far a row's (R,) log-probs are from the recomputed ones, and how far they may be, in nats.

    Args:
        dtype: the engine's. In float32 the token that differs most counts, else the mean absolute difference.
        tolerance: what is allowed; None: the dtype's default.

    Returns:
        The difference, infinite if one holds NaN, and what is allowed.
    """
    apart = (stored.double() - again.double()).abs().nan_to_num(nan=torch.inf)
    if dtype == "float32":
        return float(apart.max()), tolerance or FLOAT32_TOLERANCE
    of_others = -float(torch.expm1(stored.double()).nan_to_num().mean())  # the mean of 1 - p
    return float(apart.mean()), tolerance or max(HALF_TOLERANCE, LOGIT_TOLERANCE * of_others)


def check_reference(
    store: Store, path: str, compute: Compute, *, dtype: str, tolerance: float | None, seed: int
) -> tuple[float, float]:
    """Recompute random rows of the store and compare.

    Args:
        store: read back from its file.
        path: the file, for the message.
        dtype, tolerance: see `difference`.
        seed: of the choice of rows and their order in the engine.

    Returns:
        `difference` of the row nearest to what is allowed.

    Raises:
        UserError: a row differs by more than that.
    """
    rows = random.Random(seed).sample(store.rows, min(CHECKED_ROWS, len(store)))
    found = [
        difference(row.ref_log_probs, values, dtype, tolerance) for row, values in zip(rows, compute(rows), strict=True)
    ]
    shares = [apart / allowed for apart, allowed in found]
    worst = shares.index(max(shares))
    apart, allowed = found[worst]
    if apart > allowed:
        over = sum(share > 1 for share in shares)
        what = "one of its tokens" if dtype == "float32" else "the mean over its tokens"
        raise UserError(
            f"The reference log-probs of {path} are not reproduced by the training engine: computed again, {over} of "
            f"{len(rows)} rows differ, id {rows[worst].id} by {apart:.2g} nats in {what} ({allowed:.2g} are "
            "allowed). No store was written; set data.sft_check_tolerance to more if that is this engine's noise, or "
            f"compute in float32, here and in training ({IN_FLOAT32}), or delete {Path(path).with_suffix('.parts')} "
            "and compute them anew."
        )
    return found[worst]
