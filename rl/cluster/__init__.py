"""Run a command with Ray on every node and a scorer server on all but the first (docs/howto/cluster.md).

The launcher (rl/launch) calls `run_node` on every node; `ray start` joins them. Only the head imports Ray.
"""
