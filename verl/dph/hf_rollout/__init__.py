"""The rollout "hf": small Hugging Face models behind verl's interface of a rollout server."""

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
