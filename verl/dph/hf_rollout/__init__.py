"""The rollout "hf": Hugging Face models behind verl's interface of a rollout server, for small models.

A replica is one rank: a process with the whole model, on the CPU or on the GPU of its training worker. It offloads
nothing, and receives weights through main memory. verl.dph.plugin registers it in every process that imports verl.
transformers' `generate` is not used: it has one seed and one set of sampling parameters per batch.
"""

from types import ModuleType


def register_rollout(replica: ModuleType) -> None:
    """Make the rollout known to verl.

    Args:
        replica: verl.workers.rollout.replica.
    """
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY

    replica.RolloutReplicaRegistry.register("hf", _load_replica)
    _ROLLOUT_REGISTRY[("hf", "async")] = "verl.dph.hf_rollout.adapter.HFServerAdapter"


def _load_replica() -> type:
    from verl.dph.hf_rollout.replica import HFReplica

    return HFReplica
