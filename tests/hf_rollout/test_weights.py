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


def changed(model, amount: float = 1.0) -> dict[str, torch.Tensor]:
    return {name: weight + amount for name, weight in model.state_dict().items()}


def buckets_of(weights, **settings) -> list[dict[str, torch.Tensor]]:
    async def gather():
        async def source():
            for item in weights.items():
                yield item

        return [read(bucket) async for bucket in in_buckets(source(), **settings)]

    return asyncio.run(gather())


def test_buckets_hold_everything_in_every_dtype_also_tied_and_transposed():
    shared = torch.arange(100.0)
    weights = {f"w{index}": torch.full((100,), index).to(dtype) for index, dtype in enumerate(DTYPES)}
    weights |= {"tied": shared, "other name": shared, "transposed": torch.arange(12).reshape(3, 4).T}
    weights["scalar"] = torch.tensor(3.5)

    buckets = buckets_of(weights, bucket_bytes=700)
    assert [len(bucket) for bucket in buckets] == [3, 3, 2]
    found = {name: weight for bucket in buckets for name, weight in bucket.items()}
    assert found.keys() == weights.keys()
    for name, weight in weights.items():
        assert found[name].dtype == weight.dtype and torch.equal(found[name], weight)


@pytest.mark.parametrize(("tied", "left_out"), [(True, None), (False, None), (True, "lm_head.weight")])
def test_a_complete_update_replaces_every_parameter(tmp_path, make_tiny_model, tied, left_out):
    """A tied parameter may come under one of its names."""
    model = load(make_tiny_model(tmp_path, tied=tied))
    wanted = changed(model)
    stage = WeightStage(model)
    stage.add(save({name: weight for name, weight in wanted.items() if name != left_out}))
    stage.commit()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, wanted[name]), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda wanted: wanted.update({"lm_head.weight": wanted["lm_head.weight"] + 1}), "tied parameter"),
        (
            lambda w: w["model.norm.weight"].fill_(torch.nan),
            "model.norm.weight holds NaN or infinity: training has div",
        ),
        (lambda w: w.pop("model.norm.weight"), r"1 of \d+ parameters did not arrive, the first is model.norm.weight"),
        (lambda wanted: wanted.clear(), "did not arrive"),  # of an update that another one ended
        (lambda wanted: wanted.update(extra=torch.zeros(1)), "no parameter 'extra'"),
        (
            lambda wanted: wanted.update({"model.norm.weight": torch.zeros(3)}),
            r"model.norm.weight has the shape \(3,\), the rollout's model needs \(32,\)",
        ),
    ],
)
def test_a_wrong_or_incomplete_update_is_rejected_and_changes_nothing(tiny_model_path, change, message):
    model = load(tiny_model_path)
    before, wanted = changed(model, 0.0), changed(model)
    stage = WeightStage(model)
    stage.add(save(wanted))
    stage.clear()
    change(wanted)
    stage.add(save(wanted))
    with pytest.raises(ValueError, match=message):
        stage.commit()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
