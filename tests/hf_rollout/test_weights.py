"""Weights arrive whole or not at all."""

import asyncio

import pytest
import torch
from safetensors.torch import load as read
from safetensors.torch import save
from transformers import LlamaForCausalLM

from verl.dph.hf_rollout.weights import WeightStage, in_buckets

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def load(path):
    return LlamaForCausalLM.from_pretrained(path, dtype=torch.float32)


@pytest.fixture
def model(tiny_model_path):
    return load(tiny_model_path)


def altered(model) -> dict[str, torch.Tensor]:
    return {name: weight + 1 for name, weight in model.state_dict().items()}


def packed(weights, left_out=()) -> bytes:
    return save({name: weight.clone() for name, weight in weights.items() if name not in left_out})


def snapshot(model) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def test_buckets_hold_everything_in_every_dtype_also_tied_and_transposed():
    shared = torch.arange(100.0)
    weights = {f"w{index}": torch.full((100,), index).to(dtype) for index, dtype in enumerate(DTYPES)}
    weights |= {"tied": shared, "other name": shared, "transposed": torch.arange(12).reshape(3, 4).T}
    weights["scalar"] = torch.tensor(3.5)

    async def gather():
        async def source():
            for item in weights.items():
                yield item

        return [read(bucket) async for bucket in in_buckets(source(), bucket_bytes=700)]

    buckets = asyncio.run(gather())
    assert [len(bucket) for bucket in buckets] == [3, 3, 2]
    found = {name: weight for bucket in buckets for name, weight in bucket.items()}
    assert found.keys() == weights.keys()
    for name, weight in weights.items():
        assert found[name].dtype == weight.dtype and torch.equal(found[name], weight)


@pytest.mark.parametrize(("tied", "left_out"), [(True, ()), (False, ()), (True, ("lm_head.weight",))])
def test_a_complete_update_replaces_every_parameter(tmp_path, make_tiny_model, tied, left_out):
    """A tied parameter may come under one of its names."""
    model = load(make_tiny_model(tmp_path, tied=tied))
    wanted = altered(model)
    stage = WeightStage(model)
    stage.add(packed(wanted, left_out))
    stage.commit()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, wanted[name]), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda wanted: wanted.update({"lm_head.weight": wanted["lm_head.weight"] + 1}), "tied parameters"),
        (lambda w: w.pop("model.norm.weight"), r"1 of \d+ parameters did not arrive, the first is model.norm.weight"),
    ],
)
def test_an_inconsistent_or_incomplete_update_is_rejected_and_changes_nothing(model, change, message):
    before, wanted = snapshot(model), altered(model)
    change(wanted)
    stage = WeightStage(model)
    stage.add(packed(wanted))
    with pytest.raises(ValueError, match=message):
        stage.commit()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_an_unfinished_update_does_not_leak_and_wrong_parameters_are_named(model):
    stage = WeightStage(model)
    stage.add(packed(altered(model)))
    stage.clear()
    with pytest.raises(ValueError, match="did not arrive"):
        stage.commit()
    with pytest.raises(ValueError, match="no parameter 'model.extra'"):
        stage.add(packed({"model.extra": torch.zeros(1)}))
    with pytest.raises(ValueError, match=r"model.norm.weight has the shape \(3,\), the rollout's model needs \(32,\)"):
        stage.add(packed({"model.norm.weight": torch.zeros(3)}))
