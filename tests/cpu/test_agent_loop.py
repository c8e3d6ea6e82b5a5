"""Rows that travel to TransferQueue in bursts, and what spares copies and threads on their way."""

import asyncio

import torch
from tensordict import NonTensorStack, TensorDict
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from verl.dph.cpu.agent_loop import BurstQueue, _columns


class Queue:
    """transfer_queue's put and one other function."""

    def __init__(self):
        self.puts = []

    async def async_kv_batch_put(self, *, keys, fields, tags, partition_id):
        if "broken" in keys:
            raise RuntimeError("no room")
        self.puts.append((keys, fields, tags, partition_id))
        return partition_id

    def kv_list(self):
        return "listed"


def put_all(queue, puts):
    async def scenario():
        return await asyncio.gather(
            *(queue.async_kv_batch_put(keys=k, fields=f, tags=t, partition_id=p) for k, f, t, p in puts),
            return_exceptions=True,
        )

    return asyncio.run(scenario())


def row(number):
    return {"responses": torch.arange(number + 1), "score": torch.tensor(float(number))}


def test_rows_of_a_partition_travel_in_one_put():
    queue = Queue()
    burst = BurstQueue(queue)
    results = put_all(burst, [([f"k{i}"], [row(i)], [{"n": i}], "val" if i == 2 else "train") for i in range(4)])
    assert results == ["train", "train", "val", "train"] and burst.kv_list() == "listed"
    by_partition = {partition: (keys, fields, tags) for keys, fields, tags, partition in queue.puts}
    keys, fields, tags = by_partition["train"]
    assert keys == ["k0", "k1", "k3"] and tags == [{"n": 0}, {"n": 1}, {"n": 3}]
    assert isinstance(fields, TensorDict) and fields["score"].tolist() == [0.0, 1.0, 3.0]
    assert [part.tolist() for part in fields["responses"].unbind()] == [[0], [0, 1], [0, 1, 2, 3]]


def test_a_failed_put_reaches_every_row():
    results = put_all(BurstQueue(Queue()), [(["k0"], [row(0)], [{}], "train"), (["broken"], [row(1)], [{}], "train")])
    assert [type(result) for result in results] == [RuntimeError] * 2


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
