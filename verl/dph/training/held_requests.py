"""Room for the requests that a rollout server holds while it receives weights.

Each held request takes one of the concurrent calls of the server's Ray actor. verl allows max(1000, max_num_seqs + 16).
With as many requests held, the call that lets them go on (resume_generation) would never start, and an asynchronous
trainer would wait forever. The paper's step alone has 2,048 rollouts.
"""

from verl.workers.rollout.replica import RolloutReplica

CALLS = 100_000


def make_room() -> None:
    """Let the rollout servers that this process starts, of any engine, have CALLS concurrent calls."""
    RolloutReplica.max_concurrency = CALLS
