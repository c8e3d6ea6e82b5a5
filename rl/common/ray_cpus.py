"""The CPUs that a run reserves with Ray, which waits without a word for those that are missing."""

# Of one rank: what verl reserves (single_controller/ray/base.py, ResourcePoolManager), and for a rollout on devices of
# its own (workers/rollout/replica.py, init_standalone).
PER_RANK = 3
PER_ROLLOUT_RANK = 2
# TransferQueue's controller, and one that is free while an actor is placed that then holds none.
OF_OTHERS = 2


def cpus_reserved(ranks: int, storage_units: int, rollout_ranks: int = 0) -> int:
    """The CPUs of a training run.

    Args:
        ranks: of the trainer.
        storage_units: TransferQueue's, one CPU each (transfer_queue.backend.SimpleStorage.num_data_storage_units).
        rollout_ranks: on devices of their own, in trainer mode separate_async.
    """
    return ranks * PER_RANK + rollout_ranks * PER_ROLLOUT_RANK + storage_units + OF_OTHERS


def cpus_of_machine() -> int:
    """The CPUs that a Ray started here counts: those of the container, where that has fewer than the machine."""
    from ray._private.utils import get_num_cpus

    return int(get_num_cpus(override_docker_cpu_warning=True))
