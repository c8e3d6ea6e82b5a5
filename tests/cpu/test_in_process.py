"""Objects behind the interface of Ray actors: what they return, where their tasks run, and that they stay here."""

import asyncio
import pickle
import threading

import pytest
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import interface

from verl.dph.cpu.in_process import InProcessActorClass, join_queue, queue_settings, use_in_process_queue


class Worker:
    def __init__(self, start: int):
        self.value, self.threads = start, []

    def add(self, number: int) -> int:
        self.value += number
        return self.value

    async def later(self, number: int) -> None:
        self.threads.append(threading.current_thread())
        self.task = asyncio.create_task(self._add(number))

    async def _add(self, number: int) -> None:
        await asyncio.sleep(0)
        self.threads.append(threading.current_thread())
        self.add(number)

    async def settled(self) -> int:
        await self.task
        return self.value


def test_calls_return_what_a_ray_actor_would(monkeypatch):
    monkeypatch.setattr(ray, "put", lambda value: value)  # a reference without a Ray
    actor = InProcessActorClass(Worker).options(name="a Ray actor's").remote(start=1)
    assert actor.add.remote(2) == 3
    actor.later.remote(4)
    assert actor.settled.remote() == 7  # a task lives on after the call that started it
    (thread,) = set(actor._instance.threads)
    assert thread is not threading.current_thread() and thread.daemon
    with pytest.raises(AttributeError, match="missing"):
        actor.missing.remote()
    with pytest.raises(TypeError, match="Worker runs in one process"):
        pickle.dumps(actor)


def test_transfer_queue_serves_other_processes_from_this_one():
    def doubled(settings):
        join_queue(settings)
        rows = tq.kv_batch_get(keys=["a", "b"], partition_id="train")
        tq.kv_batch_put(keys=["a", "b"], partition_id="train", fields=TensorDict({"y": 2 * rows["x"]}, batch_size=2))

    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        use_in_process_queue()
        tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 2}}}))
        x = torch.tensor([[1.0], [3.0]])
        tq.kv_batch_put(keys=["a", "b"], partition_id="train", fields=TensorDict({"x": x}, batch_size=2))
        ray.get(ray.remote(doubled).remote(queue_settings()))
        [row] = tq.kv_batch_get(keys=["b"], partition_id="train")["y"].unbind()
        assert row.tolist() == [6.0]
        assert not ray.util.list_named_actors(all_namespaces=True)  # no process of TransferQueue's own
        tq.close()
        interface._TQ_STORAGE = None  # tq.close forgets actors alone
    finally:
        ray.shutdown()
