"""Weight transfer from a training worker to the rollout's server: whole tensors, in buckets, all or nothing."""

from collections import defaultdict
from collections.abc import AsyncIterator

import numpy as np
import torch

BUCKET_BYTES = 256 << 20

# (name, dtype's name in torch, shape, bytes as uint8 [n]); Ray moves numpy arrays without copying them
PackedWeight = tuple[str, str, tuple[int, ...], np.ndarray]
WeightBucket = list[PackedWeight]


def pack(name: str, weight: torch.Tensor) -> PackedWeight:
    """A tensor as bytes."""
    weight = weight.detach().cpu().contiguous()
    data = weight.reshape(-1).view(torch.uint8).numpy().copy()
    return name, str(weight.dtype).removeprefix("torch."), tuple(weight.shape), data


def unpack(packed: PackedWeight) -> tuple[str, torch.Tensor]:
    """The inverse of `pack`; the tensor owns its memory."""
    name, dtype, shape, data = packed
    return name, torch.from_numpy(data.copy()).view(getattr(torch, dtype)).reshape(shape)


async def in_buckets(
    weights: AsyncIterator[tuple[str, torch.Tensor]], bucket_bytes: int = BUCKET_BYTES
) -> AsyncIterator[WeightBucket]:
    """Gather packed weights into buckets of at least `bucket_bytes`, except the last."""
    bucket, size = [], 0
    async for name, weight in weights:
        bucket.append(pack(name, weight))
        size += weight.nbytes
        if size >= bucket_bytes:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


class WeightStage:
    """Collect a model's new weights and apply them once all have arrived."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._targets: dict[str, torch.Tensor] = dict(model.state_dict(keep_vars=True))
        self._staged: dict[str, torch.Tensor] = {}
        names_of_tensor: dict[int, list[str]] = defaultdict(list)
        for name, target in self._targets.items():
            names_of_tensor[id(target)].append(name)
        self._tied_names = list(names_of_tensor.values())

    def clear(self) -> None:
        self._staged = {}

    def add(self, bucket: WeightBucket) -> None:
        """Stage weights.

        Raises:
            ValueError: for a name that the model does not have, or another shape than the model's.
        """
        for packed in bucket:
            name, weight = unpack(packed)
            target = self._targets.get(name)
            if target is None:
                raise ValueError(f"weight update: the rollout's model has no parameter {name!r}")
            if target.shape != weight.shape:
                raise ValueError(
                    f"weight update: {name} has the shape {tuple(weight.shape)}, the rollout's model needs "
                    f"{tuple(target.shape)}"
                )
            self._staged[name] = weight

    def commit(self) -> None:
        """Copy the staged weights into the model and forget them.

        A tied parameter may come under one of its names or, with equal values, under several.

        Raises:
            ValueError: when a parameter is missing or tied ones differ; the model is not changed.
        """
        staged, self._staged = self._staged, {}
        missing = [names[0] for names in self._tied_names if not any(name in staged for name in names)]
        if missing:
            raise ValueError(
                f"weight update: {len(missing)} of {len(self._tied_names)} parameters did not arrive, the first is "
                f"{missing[0]}"
            )
        arrived = [[name for name in names if name in staged] for names in self._tied_names]
        for names in arrived:
            if any(not torch.equal(staged[names[0]], staged[name]) for name in names[1:]):
                raise ValueError(f"weight update: the tied parameters {names} arrived with different values")
        with torch.no_grad():
            for names in arrived:
                self._targets[names[0]].copy_(staged[names[0]])
