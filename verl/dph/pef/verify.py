"""Verify a store: recompute the reference log-probs of some rows, in other batches, and compare."""

import random
from dataclasses import dataclass
from pathlib import Path

import torch

from rl.common.errors import UserError
from verl.dph.pef.logprob_shards import Compute
from verl.dph.pef.store import Row, Store

CHECKED_ROWS = 100

# Nats. In float32 no token may differ by more. bfloat16 has 8 bits: a logit of 16 to 32 is rounded to a multiple of
# 1/8, and another batch may round it the other way: there the mean over a row's tokens may not differ by more.
FLOAT32_TOLERANCE = 1e-4
HALF_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Tolerance:
    """How far a row's log-probs may be from the recomputed ones."""

    nats: float
    of_mean: bool  # of the mean absolute difference of a row's tokens instead of the largest

    @classmethod
    def of(cls, engine_dtype: str, nats: float | None) -> "Tolerance":
        """For the engine's dtype; `nats` if set, else the dtype's default."""
        exact = engine_dtype == "float32"
        return cls(nats or (FLOAT32_TOLERANCE if exact else HALF_TOLERANCE), of_mean=not exact)

    def __str__(self) -> str:
        return f"{'mean over a row' if self.of_mean else 'every token'}; tolerance {self.nats:g}"

    def difference(self, stored: torch.Tensor, again: torch.Tensor) -> float:
        """Nats between two (R,) or (R, k) tensors; infinite where one has no number."""
        apart = (stored.double() - again.double()).abs()
        apart[(stored == again).to(apart.device)] = 0.0  # -inf, the log of 0, equals itself
        apart = apart.nan_to_num(nan=torch.inf)
        return float(apart.mean() if self.of_mean else apart.max())


def check_reference(store: Store, path: str, compute: Compute, *, tolerance: Tolerance, seed: int) -> float:
    """Recompute random rows of the store and compare.

    Args:
        store: as it was read back from its file.
        path: that file, for the message.
        seed: of which rows are taken, and of the order in which the engine sees them.

    Returns:
        The largest difference found, in nats (see Tolerance).

    Raises:
        UserError: a row differs by more than the tolerance.
    """
    rows = random.Random(seed).sample(store.rows, min(CHECKED_ROWS, len(store)))
    again = compute(rows)
    differences = [
        max(_differences(row, {name: values[i] for name, values in again.items()}, tolerance))
        for i, row in enumerate(rows)
    ]
    worst = max(range(len(rows)), key=differences.__getitem__)
    if differences[worst] > tolerance.nats:
        over = sum(difference > tolerance.nats for difference in differences)
        what = "the mean over its tokens" if tolerance.of_mean else "one of its tokens"
        raise UserError(
            f"The reference log-probs of {path} are not reproduced by the training engine: computed again, {over} of "
            f"{len(rows)} rows differ, id {rows[worst].id} by {differences[worst]:.2g} nats in {what} "
            f"(data.sft_check_tolerance={tolerance.nats:g}). No store was written; raise the tolerance if that is this "
            "engine's noise, or compute in float32 (actor.fsdp_config.mixed_precision.param_dtype=fp32), or delete "
            f"{Path(path).with_suffix('.parts')} and compute them anew."
        )
    return differences[worst]


def _differences(row: Row, again: dict[str, torch.Tensor], tolerance: Tolerance) -> list[float]:
    """Of the log-probs of the response's tokens, and of the k likeliest, which the file holds in float16."""
    found = [tolerance.difference(row.ref_log_probs, again["ref_log_probs"])]
    if row.top_log_probs is not None:
        stored, top = row.top_log_probs.double(), again["top_log_probs"].double()
        # Half a unit of float16's last place, 2^-11 of the number, may come on either side.
        allowed = stored.abs().nan_to_num(posinf=0.0) * 2**-10
        inside = (stored - top).abs() <= allowed
        found.append(tolerance.difference(torch.where(inside, top, stored), top))
    return found
