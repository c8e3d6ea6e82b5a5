"""The checkpoint engine "gloo": weights from the trainer to rollout replicas on other devices.

Chosen by actor_rollout_ref.rollout.checkpoint_engine.backend=gloo. verl's own engines for this (nccl, nixl, hccl, ...)
need accelerators. Every update forms a new group of the trainer's first rank and all rollout workers, so that replicas
may come and go between updates.
"""

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from types import ModuleType
from typing import Any

import ray
import torch
from safetensors.torch import load
from torch.distributed import ProcessGroupGloo, TCPStore
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.workers.rollout.utils import ensure_async_iterator

from verl.dph.hf_rollout.weights import in_buckets

_TIMEOUT = timedelta(minutes=10)
_SENDER = 0
_NOT_IN_GROUP = -1


class GlooCheckpointEngine(CheckpointEngine):
    """One in every training worker and every rollout worker.

    Args:
        bucket_size: bytes after which weights are sent.
        is_master: this is the trainer's first rank, the one that sends.
    """

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self._bucket_size, self._is_master = bucket_size, is_master
        self._store: TCPStore | None = None
        self._group: Any = None  # a ProcessGroupGloo during an update
        self._rank = _NOT_IN_GROUP

    def prepare(self) -> tuple[str, int] | None:
        """Open the group's rendezvous store and return its (host, port) on the sender; None on others."""
        if not self._is_master:
            return None
        host = ray.util.get_node_ip_address().strip("[]")
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=_TIMEOUT)
        return host, self._store.port

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[tuple[str, int] | None]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """The arguments of `init_process_group` for each training worker and each rollout worker."""
        address, size = metadata[0], 1 + rollout_world_size
        idle = actor_wg_world_size - 1
        trainer: dict[str, list[Any]] = {"rank": [_SENDER] + [_NOT_IN_GROUP] * idle}
        rollout: dict[str, list[Any]] = {"rank": list(range(1, size))}
        for workers in (trainer, rollout):
            count = len(workers["rank"])
            workers |= {"world_size": [size] * count, "address": [address] * count}
        return trainer, rollout

    def init_process_group(self, rank: int, world_size: int, address: tuple[str, int]) -> None:
        """Join the group, unless this is a training worker that does not send."""
        self._rank = rank
        if rank == _NOT_IN_GROUP:
            return
        if self._store is None:
            self._store = TCPStore(*address, is_master=False, timeout=_TIMEOUT)
        self._group = ProcessGroupGloo(self._store, rank, world_size, _TIMEOUT)

    def finalize(self) -> None:
        """Leave the group."""
        self._group = self._store = None

    @torch.no_grad()
    async def send_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, float]:
        """Send whole tensors to every rollout worker.

        Args:
            weights: (name, tensor) pairs. Getting one is a collective of all ranks, so every rank runs through all.
            global_steps: not used; verl tells the receivers the version itself.
        """
        stream = ensure_async_iterator(weights)
        if self._rank == _NOT_IN_GROUP:
            async for _ in stream:
                pass
            return {}
        try:
            async for bucket in in_buckets(stream, self._bucket_size):
                self._broadcast(bucket)
        except Exception as error:
            self._broadcast(f"the trainer could not send its weights: {error!r}".encode(), failed=True)
            raise
        self._broadcast(b"")
        return {}

    @torch.no_grad()
    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Yield what the trainer sends.

        Raises:
            RuntimeError: the trainer failed while sending.
        """
        while (message := self._broadcast())[0]:
            data, failed = message
            if failed:
                raise RuntimeError(data.decode())
            for item in load(data).items():
                yield item

    def _broadcast(self, data: bytes = b"", failed: bool = False) -> tuple[bytes, bool]:
        """The sender's data, on every rank (empty at the end), and whether they are an error message."""
        header = torch.tensor([len(data), failed])
        self._group.broadcast(header, _SENDER).wait()
        size, failed = header.tolist()
        if not size:
            return b"", False
        content = torch.frombuffer(bytearray(data or size), dtype=torch.uint8)
        self._group.broadcast(content, _SENDER).wait()
        return content.numpy().tobytes(), bool(failed)


def register_checkpoint_engine(_: ModuleType) -> None:
    """Make the engine known to verl as backend "gloo"."""
    CheckpointEngineRegistry.register("gloo")(GlooCheckpointEngine)
