"""The training worker's side of the rollout "hf": sends the actor's weights to the replica's server."""

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.utils import ensure_async_iterator

from verl.dph.hf_rollout.replica import server_name
from verl.dph.hf_rollout.weights import in_buckets


class HFServerAdapter(BaseRollout):
    """One per training worker. A replica is one rank, so each worker updates the server of its own rank."""

    def __init__(self, config, model_config, device_mesh, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = replica_rank if replica_rank != -1 else int(os.environ["RANK"])
        self.is_leader_rank = True

    async def resume(self, *args: Any, **kwargs: Any) -> None:
        """The server offloads nothing."""

    release = resume

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        peft_config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Send whole tensors to the server, which applies them all at once.

        Args:
            weights: (name, tensor) pairs. Getting one is a collective of all ranks, so every rank runs through all.
            global_steps: the version of these weights.
            wire_format: "named_tensors".
            peft_config: must be absent: LoRA weights have to be merged.

        Raises:
            ValueError: when the weights are not whole tensors.
            ray.exceptions.RayTaskError: when they do not fit the server's model.
        """
        stream = ensure_async_iterator(weights)
        try:
            if wire_format != "named_tensors":
                raise ValueError(f"the hf rollout takes weights as named_tensors, not as {wire_format}")
            if peft_config is not None:
                raise ValueError("the hf rollout takes merged weights: set actor_rollout_ref.model.lora.merge=True")
            server = ray.get_actor(server_name(self.replica_rank))
            first = True
            # The server would round to its type anyway.
            dtype = PrecisionType.to_dtype(self.config.dtype)
            bucket_bytes = self.config.checkpoint_engine.update_weights_bucket_megabytes << 20
            async for bucket in in_buckets(stream, bucket_bytes, dtype):
                await server.stage_weights.remote(bucket, first=first)
                first = False
            await server.commit_weights.remote(global_steps)
        finally:
            # Leaving early would leave the other ranks in a collective forever.
            async for _ in stream:
                pass
