"""Weight transfer from a training worker to the rollout's server: whole tensors, in buckets, all or nothing."""

from collections import defaultdict
from collections.abc import AsyncIterator

import torch
from safetensors.torch import load, save

BUCKET_BYTES = 256 << 20


async def in_buckets(
    weights: AsyncIterator[tuple[str, torch.Tensor]], bucket_bytes: int = BUCKET_BYTES
) -> AsyncIterator[bytes]:
    """Weights as safetensors of at least `bucket_bytes` each, except the last."""
    bucket, size = {}, 0
    async for name, weight in weights:
        # a copy, because tied ones share memory
        bucket[name] = weight.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        size += weight.nbytes
        if size >= bucket_bytes:
            yield save(bucket)
            bucket, size = {}, 0
    if bucket:
        yield save(bucket)


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

    def add(self, bucket: bytes) -> None:
        """Stage weights.

        Raises:
            ValueError: for a name that the model does not have, or another shape than the model's.
        """
        for name, weight in load(bucket).items():
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
