"""Rows that travel to TransferQueue in bursts, and what spares copies and threads on their way."""

import asyncio

import torch
from tensordict import NonTensorStack
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from verl.dph.cpu.agent_loop import BurstQueue, _columns


class FullQueue:
    async def async_kv_batch_put(self, **rows):
        raise RuntimeError("no room")


def test_a_failed_put_reaches_every_row():
    async def put_two():
        burst, one = BurstQueue(FullQueue()), torch.ones(1)
        puts = (
            burst.async_kv_batch_put(keys=[key], fields=[{"score": one}], tags=[{}], partition_id="train")
            for key in "ab"
        )
        return await asyncio.gather(*puts, return_exceptions=True)

    assert [type(result) for result in asyncio.run(put_two())] == [RuntimeError] * 2


def test_shared_values_arrive_as_verl_sends_them():
    shared = {"extra_info": {"index": 3}, "uid": "a", "none": None}
    rows = [
        {**shared, "n": i, "pred": f"SELECT {i}", "ids": torch.arange(i + 1), "one": torch.ones(2)} for i in range(3)
    ]
    found, verls = _columns(rows), list_of_dict_to_tensordict(rows)
    assert set(found.keys()) == set(verls.keys()) and found.batch_size == verls.batch_size
    for name in ("extra_info", "uid", "none", "n", "pred"):
        assert isinstance(found.get(name), NonTensorStack) and found[name] == verls[name]
    assert torch.equal(found["one"], verls["one"])
    assert [row.tolist() for row in found["ids"].unbind()] == [[0], [0, 1], [0, 1, 2]]
