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
@pytest.mark.parametrize("shape", [(3, 4), (5,), ()])
def test_packing_round_trip(dtype, shape):
    weight = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    name, back = unpack(pack("layer.weight", weight.T if weight.dim() == 2 else weight))
    assert name == "layer.weight"
    assert back.dtype == dtype
    assert torch.equal(back, weight.T if weight.dim() == 2 else weight)


def test_buckets_hold_everything_in_order():
    async def gather():
        async def source():
            for index in range(10):
                yield f"w{index}", torch.zeros(100)

        return [bucket async for bucket in in_buckets(source(), bucket_bytes=1_000)]

    buckets = asyncio.run(gather())
    assert [len(bucket) for bucket in buckets] == [3, 3, 3, 1]
    assert [packed[0] for bucket in buckets for packed in bucket] == [f"w{index}" for index in range(10)]


@pytest.mark.parametrize("tied", [True, False])
def test_a_complete_update_replaces_every_parameter(tmp_path, make_tiny_model, tied):
    model = load(make_tiny_model(tmp_path, tied=tied))
    wanted = altered(model)
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in wanted.items()])
    stage.commit()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, wanted[name]), name


def test_a_tied_parameter_may_come_under_one_name(model):
    wanted = altered(model)
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in wanted.items() if name != "lm_head.weight"])
    stage.commit()
    assert torch.equal(model.lm_head.weight, wanted["model.embed_tokens.weight"])


def test_tied_parameters_with_different_values_are_refused(model):
    before = snapshot(model)
    wanted = altered(model)
    wanted["lm_head.weight"] = wanted["lm_head.weight"] + 1
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in wanted.items()])
    with pytest.raises(ValueError, match="tied parameters"):
        stage.commit()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_an_incomplete_update_is_refused_and_changes_nothing(model):
    before = snapshot(model)
    wanted = altered(model)
    del wanted["model.norm.weight"]
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in wanted.items()])
    with pytest.raises(ValueError, match=r"1 of \d+ parameters did not arrive, the first is model.norm.weight"):
        stage.commit()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_an_unfinished_update_does_not_leak_into_the_next(model):
    stage = WeightStage(model)
    stage.add([pack(name, weight) for name, weight in altered(model).items()])
    stage.clear()
    with pytest.raises(ValueError, match="did not arrive"):
        stage.commit()


def test_unknown_parameters_and_wrong_shapes_are_named(model):
    stage = WeightStage(model)
    with pytest.raises(ValueError, match="no parameter 'model.extra'"):
        stage.add([pack("model.extra", torch.zeros(1))])
    with pytest.raises(ValueError, match=r"model.norm.weight has the shape \(3,\), the rollout's model needs \(32,\)"):
        stage.add([pack("model.norm.weight", torch.zeros(3))])
