"""Objects behind the interface of Ray actors: what they return, where their tasks run, and that they stay here."""

import asyncio
import pickle
import threading

import pytest
import ray

from verl.dph.cpu.in_process import InProcessActorClass


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
