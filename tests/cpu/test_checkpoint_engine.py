"""Weights on their way from the trainer to rollouts elsewhere: real gloo groups, one thread a worker."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from verl.dph.cpu.checkpoint_engine import GlooCheckpointEngine

WEIGHTS = {
    "matrix": torch.randn(40, 30, generator=torch.Generator().manual_seed(0)),
    "half": torch.arange(7).bfloat16(),
    "scalar": torch.tensor(3.5),
}
TRAINERS, ROLLOUTS = 2, 2


@pytest.fixture
def workers():
    """Engines of 2 training and 2 rollout workers, small buckets."""
    return [GlooCheckpointEngine(bucket_size=1000, is_master=number == 0) for number in range(TRAINERS + ROLLOUTS)]


def update(workers, weights_of):
    """What verl's CheckpointEngineManager does, with the outcome of each worker: what it received, or an exception."""
    metadata = [worker.prepare() for worker in workers]
    trainer, rollout = GlooCheckpointEngine.build_topology(TRAINERS, ROLLOUTS, metadata)
    arguments = [{name: values[i] for name, values in trainer.items()} for i in range(TRAINERS)]
    arguments += [{name: values[i] for name, values in rollout.items()} for i in range(ROLLOUTS)]

    async def receive(worker):
        return {name: weight async for name, weight in worker.receive_weights(global_steps=3)}

    def run(index):
        worker = workers[index]
        worker.init_process_group(**arguments[index])
        try:
            if index < TRAINERS:
                return asyncio.run(worker.send_weights(weights_of(index), global_steps=3))
            return asyncio.run(receive(worker))
        except Exception as error:
            return error
        finally:
            worker.finalize()

    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(run, range(len(workers))))


def test_every_rollout_worker_gets_every_tensor_in_every_update(workers):
    for factor in (1, 2):
        run_through = []

        def weights_of(index, factor=factor, run_through=run_through):
            for name, weight in WEIGHTS.items():
                run_through.append((index, name))
                yield name, weight * factor

        _, _, *received = update(workers, weights_of)
        assert sorted(run_through) == sorted((index, name) for index in range(TRAINERS) for name in WEIGHTS)
        for weights in received:
            assert weights.keys() == WEIGHTS.keys()
            for name, weight in weights.items():
                assert weight.dtype == WEIGHTS[name].dtype
                assert torch.equal(weight, WEIGHTS[name] * factor)


def test_weights_kept_aside_do_not_change_with_the_model(monkeypatch):
    from verl.utils import fsdp_utils

    from verl.dph.cpu.engine import save_copies

    monkeypatch.setattr(fsdp_utils, "fsdp2_sharded_save_to_cpu", fsdp_utils.fsdp2_sharded_save_to_cpu)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        save_copies()
        model = fully_shard(torch.nn.Linear(3, 2), mesh=dist.init_device_mesh("cpu", (1,)))
        before = {name: weight.full_tensor().clone() for name, weight in model.named_parameters()}
        state, spec = fsdp_utils.fsdp2_sharded_save_to_cpu(model)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(1.0)
        fsdp_utils.fsdp2_sharded_load_from_cpu(model, state, spec)
        for name, weight in model.named_parameters():
            assert torch.equal(weight.full_tensor(), before[name])
    finally:
        dist.destroy_process_group()
