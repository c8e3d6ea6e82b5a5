"""The success cap: which groups it takes, and what becomes of their advantages in TransferQueue."""

from fractions import Fraction
from itertools import product

import pytest
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from rl.common.errors import UserError
from verl.dph.objective import success_cap
from verl.dph.objective.success_cap import capped

VERDICTS = {"a_0": 1.0, "a_1": 0.0, "b_0": 1.0, "b_1": 1.0, "a_2": 1.0, "c_0": 0.0, "c_1": 0.0}


@pytest.mark.parametrize(
    ("cap", "expected"), [(1.0, {"b"}), (0.7, {"b"}), (2 / 3, {"a", "b"}), (0.6, {"a", "b"}), (0.01, {"a", "b"})]
)
def test_groups_at_or_above_the_cap(cap, expected):
    """a: 2 of 3 correct, the fourth rollout failed; b: 2 of 2; c: 0 of 2, which no cap takes."""
    assert capped(VERDICTS, cap) == (expected, 3)


def test_a_share_that_equals_the_cap_is_capped_whatever_its_binary_form():
    for n, m in product(range(1, 129), repeat=2):
        cap = Fraction(m, 20)
        if not 0 < cap <= 1:
            continue
        for correct in {int(cap * n), int(cap * n) + 1} & set(range(n + 1)):
            found, _ = capped({f"p_{i}": float(i < correct) for i in range(n)}, float(cap))
            assert found == ({"p"} if Fraction(correct, n) >= cap else set()), (n, correct, cap)


def test_partly_right_is_not_correct_and_a_response_without_a_verdict_is_rejected():
    assert capped({"p_0": 0.5, "p_1": 1.0}, 0.6) == (set(), 1)
    with pytest.raises(UserError, match=r"success_cap=0.6 .* returned no `acc`: return a dict"):
        capped({"p_0": 1.0, "p_1": None}, 0.6)


class Queue:
    """TransferQueue's rows of one field each."""

    def __init__(self, **fields):
        self.fields = fields

    def kv_batch_get(self, keys, partition_id, select_fields):
        rows = {field: [self.fields[field][key] for key in keys] for field in select_fields}
        nested = {name: torch.nested.as_nested_tensor(found, layout=torch.jagged) for name, found in rows.items()}
        return TensorDict(nested, batch_size=len(keys))

    def kv_batch_put(self, keys, partition_id, fields):
        for name, values in fields.items():
            self.fields[name].update(zip(keys, values.unbind(), strict=True))


def test_advantages_of_capped_groups_become_0_and_no_others(monkeypatch):
    ones = {"a_0_0": [1.0, 1.0], "a_1_0": [-2.0], "b_0_0": [3.0, 3.0, 3.0], "b_1_0": [0.0], "pad_0_0": [0.0, 0.0]}
    mask = {"a_0_0": [1, 1], "a_1_0": [1], "b_0_0": [1, 1, 0], "b_1_0": [1], "pad_0_0": [0, 0]}
    queue = Queue(
        advantages={key: torch.tensor(row) for key, row in ones.items()},
        response_mask={key: torch.tensor(row) for key, row in mask.items()},
    )
    monkeypatch.setattr(success_cap, "tq", queue)
    batch = KVBatchMeta(keys=list(ones), tags=[{} for _ in ones], partition_id="train")
    # Two tokens of b's first response count, one of its second, which has no advantage: 5 of 6 tokens teach.
    assert success_cap.share_that_teaches(batch) == pytest.approx(5 / 6)
    success_cap.apply(batch, {"a"})
    assert {key: row.tolist() for key, row in queue.fields["advantages"].items()} == ones | {
        "a_0_0": [0.0, 0.0],
        "a_1_0": [0.0],
    }
    assert success_cap.share_that_teaches(batch) == pytest.approx(2 / 6)
    success_cap.apply(batch, set())
    success_cap.apply(batch, {"b"})
    assert success_cap.share_that_teaches(batch) == 0
    of_padding = KVBatchMeta(keys=["pad_0_0"], tags=[{}], partition_id="train")
    assert success_cap.share_that_teaches(of_padding) == 0
