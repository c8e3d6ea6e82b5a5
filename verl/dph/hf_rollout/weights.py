"""Weight transfer from a training worker to the rollout's server: whole tensors, in buckets, all or nothing."""

from collections.abc import AsyncIterator

import torch
from safetensors.torch import load, save


async def in_buckets(
    weights: AsyncIterator[tuple[str, torch.Tensor]], bucket_bytes: int, dtype: torch.dtype | None = None
) -> AsyncIterator[bytes]:
    """Weights as safetensors of at least `bucket_bytes` each, except the last; floats in `dtype` if it is given."""
    bucket, size = {}, 0
    async for name, weight in weights:
        # a copy, because tied ones share memory
        of_type = dtype if weight.is_floating_point() else None
        bucket[name] = weight.detach().to("cpu", of_type, copy=True, memory_format=torch.contiguous_format)
        size += bucket[name].nbytes
        if size >= bucket_bytes:
            yield save(bucket)
            bucket, size = {}, 0
    if bucket:
        yield save(bucket)


class WeightStage:
    """Collect a model's new weights and apply them once all have arrived."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._targets: dict[str, torch.Tensor] = model.state_dict(keep_vars=True)
        self._staged: dict[str, torch.Tensor] = {}

    def clear(self) -> None:
        self._staged = {}

    def add(self, bucket: bytes) -> None:
        self._staged |= load(bucket)

    @torch.no_grad()
    def commit(self) -> None:
        """Copy the staged weights into the model and forget them.

        A tied parameter may come under one of its names or, with equal values, under several.

        Raises:
            ValueError: when parameters are missing, unknown, of another shape than the model's or not finite, or tied
                ones differ; the model is not changed.
        """
        staged, self._staged = self._staged, {}
        arrived: dict[int, torch.Tensor] = {}  # by the target's id, which tied parameters share
        for name, weight in staged.items():
            target = self._targets.get(name)
            if target is None:
                raise ValueError(f"weight update: the rollout's model has no parameter {name!r}")
            if target.shape != weight.shape:
                raise ValueError(
                    f"weight update: {name} has the shape {tuple(weight.shape)}, the rollout's model needs "
                    f"{tuple(target.shape)}"
                )
            if not weight.isfinite().all():
                raise ValueError(f"weight update: {name} holds NaN or infinity: training has diverged")
            other = arrived.setdefault(id(target), weight)
            if other is not weight and not torch.equal(other, weight):
                raise ValueError(f"weight update: the tied parameter {name} arrived with different values")
        missing = [name for name, target in self._targets.items() if id(target) not in arrived]
        if missing:
            raise ValueError(
                f"weight update: {len(missing)} of {len(self._targets)} parameters did not arrive, the first is "
                f"{missing[0]}"
            )
        for target in self._targets.values():
            target.copy_(arrived[id(target)])
