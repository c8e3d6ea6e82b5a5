"""Weights arrive whole or not at all."""

import asyncio

import pytest
import torch
from transformers import LlamaForCausalLM

from verl.dph.cpu.weights import WeightStage, in_buckets, pack, unpack


def load(path):
    return LlamaForCausalLM.from_pretrained(path, dtype=torch.float32)


@pytest.fixture
def model(tiny_model_path):
    return load(tiny_model_path)


def altered(model) -> dict[str, torch.Tensor]:
    return {name: weight + 1 for name, weight in model.state_dict().items()}


def snapshot(model) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in model.state_dict().items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_packing_round_trip(dtype):
    for weight in (torch.arange(12).reshape(3, 4).T.to(dtype), torch.arange(5).to(dtype), torch.ones((), dtype=dtype)):
        name, back = unpack(pack("layer.weight", weight))
        assert name == "layer.weight" and back.dtype == dtype and torch.equal(back, weight)


def test_buckets_hold_everything_in_order():
    async def gather():
        async def source():
            for index in range(10):
                yield f"w{index}", torch.zeros(100)

        return [bucket async for bucket in in_buckets(source(), bucket_bytes=1_000)]

    buckets = asyncio.run(gather())
    assert [len(bucket) for bucket in buckets] == [3, 3, 3, 1]
    assert [packed[0] for bucket in buckets for packed in bucket] == [f"w{index}" for index in range(10)]


@pytest.mark.parametrize(("tied", "left_out"), [(True, ()), (False, ()), (True, ("lm_head.weight",))])
def test_a_complete_update_replaces_every_parameter(tmp_path, make_tiny_model, tied, left_out):
    """A tied parameter may come under one of its names."""
    model = load(make_tiny_model(tmp_path, tied=tied))
    wanted = altered(model)
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in wanted.items() if name not in left_out])
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
    stage.add([pack(name, weight) for name, weight in wanted.items()])
    with pytest.raises(ValueError, match=message):
        stage.commit()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_an_unfinished_update_does_not_leak_and_wrong_parameters_are_named(model):
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in altered(model).items()])
    stage.clear()
    with pytest.raises(ValueError, match="did not arrive"):
        stage.commit()
    with pytest.raises(ValueError, match="no parameter 'model.extra'"):
        stage.add([pack("model.extra", torch.zeros(1))])
    with pytest.raises(ValueError, match=r"model.norm.weight has the shape \(3,\), the rollout's model needs \(32,\)"):
        stage.add([pack("model.norm.weight", torch.zeros(3))])
