"""Quantiles from summed counts, against those of the values themselves."""

import math

import pytest
import torch

from verl.dph.divergence.log_ratio_histogram import QUANTILES, histogram, quantiles


@pytest.mark.parametrize("scale", [1e-3, 0.1, 3.0, 10.0])
def test_quantiles_of_parts_are_those_of_the_whole(scale, device):
    d = scale * torch.randn(20_000, generator=torch.Generator().manual_seed(1)).to(device)
    found = quantiles(sum(histogram(part) for part in d.split(700)))
    for name, share in QUANTILES.items():
        exact = d.quantile(share).item()
        assert found[name] == pytest.approx(exact, rel=0.06, abs=max(0.05 * scale, 0.004))


def test_values_beyond_the_edges_are_counted_and_an_empty_histogram_has_no_quantiles(device):
    counts = histogram(torch.tensor([-500.0, 500.0, 0.0], device=device))
    assert counts.sum() == 3 and counts[0] == counts[-1] == 1
    assert quantiles(counts)["p99"] <= 50
    assert all(math.isnan(value) for value in quantiles(histogram(torch.zeros(0, device=device))).values())
