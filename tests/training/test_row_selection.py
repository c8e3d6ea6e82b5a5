"""The selection of rows on whole columns gives what verl's gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.utils import tensordict_utils

from verl.dph.training.row_selection import select_whole_columns

VERLS = tensordict_utils.index_select_tensor_dict


@pytest.fixture(autouse=True)
def replaced(monkeypatch):
    monkeypatch.setattr(tensordict_utils, "index_select_tensor_dict", VERLS)
    select_whole_columns()


def jagged(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def batch_of(lengths: list[int]) -> TensorDict:
    """Every kind of column that a batch of ours or verl's has."""
    random = torch.Generator().manual_seed(0)
    positions = tensordict_utils.nested_tensor_from_tensor_list(
        [torch.arange(4 * length).reshape(4, length) for length in lengths], ragged_idx=2
    )
    return TensorDict(
        {
            "tokens": jagged([torch.randint(50_000, (length,), generator=random) for length in lengths]),
            "log_probs": jagged([torch.randn(length, generator=random) for length in lengths]),
            "top": jagged([torch.randn(length, 3, generator=random).half() for length in lengths]),
            "positions": positions,  # of three-dimensional rotary embeddings
            "number": torch.arange(len(lengths)),
            "uid": NonTensorStack(*(NonTensorData(f"row {number}") for number in range(len(lengths)))),
            "temperature": NonTensorData(1.0),
        },
        batch_size=len(lengths),
    )


def assert_equal(found: TensorDict, expected: TensorDict) -> None:
    assert found.batch_size == expected.batch_size and {*found.keys()} == {*expected.keys()}
    for name, column in expected.items():
        if not isinstance(column, torch.Tensor):
            assert tensordict_utils.get(found, name) == tensordict_utils.get(expected, name)
        elif column.is_nested:
            assert found[name].dtype == column.dtype and found[name]._ragged_idx == column._ragged_idx
            assert torch.equal(found[name].offsets(), column.offsets())
            assert torch.equal(found[name].values(), column.values())
            assert found[name]._get_max_seqlen() == column._get_max_seqlen()
        else:
            assert torch.equal(found[name], column)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.data())
def test_all_columns_are_verls(lengths, data):
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=10))
    for indices in (rows, torch.tensor(rows)):
        found = tensordict_utils.index_select_tensor_dict(batch_of(lengths), indices)
        assert_equal(found, VERLS(batch_of(lengths), rows))


def test_a_column_with_gaps_and_no_batch_are_left_to_verl():
    padded = torch.nested.narrow(
        torch.arange(12).reshape(3, 4), 1, torch.tensor([0, 1, 0]), torch.tensor([2, 3, 1]), layout=torch.jagged
    )
    found = tensordict_utils.index_select_tensor_dict(TensorDict({"tokens": padded}, batch_size=3), [1, 2])
    assert [row.tolist() for row in found["tokens"].unbind()] == [[5, 6, 7], [8]]
    assert tensordict_utils.index_select_tensor_dict(None, [0]) is None
