"""verl's balancing on numbers: the same partitions, and no tensor reaches its comparisons."""

import pytest
import torch
from verl.trainer.ppo.v1 import trainer_base
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions

from verl.dph.training.batch_balance import balance_numbers


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_numbers_are_balanced_like_a_tensor(monkeypatch, ranks):
    seen = []

    def verls(workloads, k_partitions, equal_size):
        seen.extend(workloads)
        return get_seqlen_balanced_partitions(workloads, k_partitions, equal_size)

    monkeypatch.setattr(trainer_base, "get_seqlen_balanced_partitions", verls)
    balance_numbers()
    workloads = calculate_workload(torch.randint(30, 90, (48,), generator=torch.manual_seed(0)))
    found = trainer_base.get_seqlen_balanced_partitions(workloads, k_partitions=ranks, equal_size=True)
    assert found == get_seqlen_balanced_partitions(workloads, ranks, equal_size=True)
    assert len(found) == ranks and all(type(workload) is int for workload in seen)
