"""Reference log-probs of any number of rows, which the training engine takes in whole micro-batches."""

from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict

from verl.dph.pef import ref_logprobs
from verl.dph.pef.batch_fields import jagged
from verl.dph.pef.store import Row


class Queue:
    """TransferQueue, with the rows of one batch."""

    def kv_batch_put(self, keys, tags, partition_id, fields):
        self.keys, self.fields = keys, fields

    def kv_batch_get(self, keys, partition_id, select_fields):
        assert keys == self.keys
        return TensorDict({name: self.fields[name] for name in select_fields}, batch_size=len(keys))

    def kv_clear(self, keys, partition_id):
        assert keys == self.keys


@pytest.mark.parametrize(("dynamic", "padded"), [(True, 6), (False, 12)])
def test_rows_are_padded_to_ranks_and_whole_micro_batches(monkeypatch, dynamic, padded):
    queue = Queue()
    monkeypatch.setattr(ref_logprobs, "tq", queue)

    def compute_log_prob(batch):
        """Every token's log-prob is -(its id)."""
        ids = queue.fields["input_ids"].unbind()
        queue.fields["log_probs"] = jagged([-row.roll(-1).float() for row in ids], torch.float32)

    rollout = OmegaConf.create(
        {"temperature": 1.0, "log_prob_use_dynamic_bsz": dynamic, "log_prob_micro_batch_size_per_gpu": 6}
    )
    workers = SimpleNamespace(compute_log_prob=compute_log_prob)
    rows = [Row(i, torch.tensor([1, 2]), torch.tensor([3 + i] * (1 + i)), None) for i in range(5)]
    found = ref_logprobs.reference_of(workers, rollout, rows, ranks=2)
    assert len(queue.keys) == padded
    assert [part.tolist() for part in found] == [[-3.0 - i] * (1 + i) for i in range(5)]
