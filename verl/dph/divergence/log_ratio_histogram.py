"""Quantiles of the log-ratio log pi_theta - log pi_ref over a training step, from histograms that can be summed.

Quantiles of micro-batches cannot be combined, counts in fixed bins can.
"""

import math

import torch

# Bins of equal width in asinh(20 d) for a log-ratio d: 0.005 wide near 0, 9 % of |d| far from it; |d| up to 50.
_SCALE, _LIMIT, _BINS = 20.0, 50.0, 160
_REACH = math.asinh(_SCALE * _LIMIT)
EDGES = torch.sinh(torch.linspace(-_REACH, _REACH, _BINS + 1, dtype=torch.float64)) / _SCALE

QUANTILES = {"p01": 0.01, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}


def histogram(log_ratio: torch.Tensor) -> torch.Tensor:
    """Counts (bins,) int64 on the CPU; values beyond the outer edges count in the outer bins."""
    edges = EDGES[1:-1].to(log_ratio.device, log_ratio.dtype)
    return torch.bincount(torch.bucketize(log_ratio.flatten(), edges), minlength=_BINS).cpu()


def quantiles(counts: torch.Tensor) -> dict[str, float]:
    """QUANTILES of the counted values, interpolated within a bin; NaN if nothing was counted."""
    total = int(counts.sum())
    if not total:
        return {name: float("nan") for name in QUANTILES}
    cumulative = torch.cat([torch.zeros(1), counts.double().cumsum(0)])
    found = {}
    for name, share in QUANTILES.items():
        wanted = share * total
        i = int(torch.searchsorted(cumulative, torch.tensor(wanted, dtype=torch.float64)).clamp(1, _BINS))
        inside = (wanted - cumulative[i - 1]) / (cumulative[i] - cumulative[i - 1])
        found[name] = float(EDGES[i - 1] + inside * (EDGES[i] - EDGES[i - 1]))
    return found
