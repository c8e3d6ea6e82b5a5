"""The CPUs that a run reserves with Ray, which waits silently if some are missing."""

# verl reserves these per rank of the trainer (single_controller/ray/base.py, ResourcePoolManager) and of a rollout
# without a trainer (workers/rollout/replica.py, init_standalone).
PER_RANK = 3
PER_ROLLOUT_RANK = 2
# One for TransferQueue's controller, and one to place actors that hold no CPU afterwards.
OF_OTHERS = 2
