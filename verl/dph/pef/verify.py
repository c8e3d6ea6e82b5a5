"""Verify a store: recompute the reference log-probs of some rows, in other batches, and compare."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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


@dataclass(frozen=True)
class Tolerance:
    """How far a row's log-probs may be from the recomputed ones.

    Attributes:
        nats: the allowed difference.
        of_mean: whether it bounds the mean absolute difference of the row's tokens; else the largest one.
        of_logit: times the row's mean of 1 - p, also allowed if it is more than `nats`.
    """

    nats: float
    of_mean: bool
    of_logit: float = 0.0

    @classmethod
    def of(cls, engine_dtype: str, nats: float | None) -> "Tolerance":
        """For the engine's dtype; `nats` if set, else the dtype's default."""
        if engine_dtype == "float32":
            return cls(nats or FLOAT32_TOLERANCE, of_mean=False)
        return cls(nats, of_mean=True) if nats else cls(HALF_TOLERANCE, of_mean=True, of_logit=LOGIT_TOLERANCE)

    def __str__(self) -> str:
        more = f", or {self.of_logit:g} times the mean of 1 - p" if self.of_logit else ""
        return f"{'mean over a row' if self.of_mean else 'every token'}; tolerance {self.nats:g}{more}"

    def difference(self, stored: torch.Tensor, again: torch.Tensor) -> "Difference":
        """The difference of two (R,) tensors; infinite if one holds NaN."""
        apart = (stored.double() - again.double()).abs()
        apart = apart.nan_to_num(nan=torch.inf)
        allowed = max(self.nats, self.of_logit * other_probability(stored))
        return Difference(float(apart.mean() if self.of_mean else apart.max()), allowed)


class Difference(NamedTuple):
    """The difference of a row's log-probs, computed twice, and what is allowed; in nats."""

    nats: float
    allowed: float

    @property
    def share(self) -> float:
        """The difference over the allowed one."""
        return self.nats / self.allowed


def other_probability(log_probs: torch.Tensor) -> float:
    """The mean of 1 - p, the probability of all other tokens."""
    return -float(torch.expm1(log_probs.double()).nan_to_num().mean())


def check_reference(store: Store, path: str, compute: Compute, *, tolerance: Tolerance, seed: int) -> float:
    """Recompute random rows of the store and compare.

    Args:
        store: read back from its file.
        path: the file, for the message.
        seed: of the choice of rows and their order in the engine.

    Returns:
        The difference of the row nearest to its tolerance, in nats.

    Raises:
        UserError: a row differs by more than the tolerance.
    """
    rows = random.Random(seed).sample(store.rows, min(CHECKED_ROWS, len(store)))
    again = compute(rows)
    found = [tolerance.difference(row.ref_log_probs, values) for row, values in zip(rows, again, strict=True)]
    worst, row = max(zip(found, rows, strict=True), key=lambda pair: pair[0].share)
    if worst.share > 1:
        over = sum(difference.share > 1 for difference in found)
        what = "the mean over its tokens" if tolerance.of_mean else "one of its tokens"
        raise UserError(
            f"The reference log-probs of {path} are not reproduced by the training engine: computed again, {over} of "
            f"{len(rows)} rows differ, id {row.id} by {worst.nats:.2g} nats in {what} ({worst.allowed:.2g} are "
            "allowed). No store was written; set data.sft_check_tolerance to more if that is this engine's noise, or "
            f"compute in float32, here and in training ({IN_FLOAT32}), or delete {Path(path).with_suffix('.parts')} "
            "and compute them anew."
        )
    return worst.nats
