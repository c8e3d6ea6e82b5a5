"""Run a command with Ray on every node and a scorer server on all but the first (docs/howto/cluster.md).

The launcher (rl/launch) starts `python -m rl.cluster` on every node; `ray start` joins them. Only the head imports Ray.
"""
