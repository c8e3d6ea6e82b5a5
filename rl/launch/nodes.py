"""The command line of this node's launcher, rl.cluster, if the run needs one."""

import os
import re
from collections.abc import Sequence

from rl.common.errors import UserError
from rl.configuration.run import Run


def node_words(run: Run, command: Sequence[str]) -> list[str] | None:
    """Put rl.cluster, which starts Ray on several nodes and the scorers, before the command; None if it starts alone.

    Raises:
        UserError: the nodes cannot be one cluster.
    """
    launch = run.launch
    nodes = launch.nodes or 1
    rank = launch.node_rank if launch.node_rank != "" else (0 if nodes == 1 else "")
    if os.environ.get("RAY_ADDRESS"):
        if not launch.scorer:
            raise UserError("RAY_ADDRESS names a running Ray: name the scorers in DPH_SCORER too.")
        return None
    _check(run, nodes, rank)
    if nodes == 1 and launch.scorer:
        return None  # the command starts its own Ray, and ends it
    return [
        *(launch.python, "-m", "rl.cluster", "--nodes", str(nodes), "--rank", str(rank), "--head", launch.head),
        *("--scorer-nodes", str(launch.scorer_nodes), "--gpus", str(run.composed.trainer.n_gpus_per_node)),
        *("--device", run.device, "--node-address", launch.node_address, "--scorer", launch.scorer),
        *("--scorer-config", launch.scorer_config, "--database-path", launch.databases),
        *("--scorer-port", str(launch.scorer_port), "--ray-port", str(launch.ray_port)),
        *("--wait-seconds", str(launch.wait_seconds)),
        *(f"--ray-argument={argument}" for argument in launch.ray_arguments.split()),
        *("--", *command),
    ]


def _check(run: Run, nodes: int, rank: int | str) -> None:
    launch = run.launch
    if rank == "":
        raise UserError(
            f"NNODES={nodes}, but this node's number is not known: set NODE_RANK to 0 on the head and to 1 to "
            f"{nodes - 1} on the others, or NNODES=1 for this machine alone."
        )
    numbers = {"NODE_RANK": rank, "CLUSTER_WAIT_S": launch.wait_seconds, "RAY_PORT": launch.ray_port}
    for name, number in (numbers | {"SCORER_PORT": launch.scorer_port}).items():
        if not re.fullmatch("0|[1-9][0-9]{0,8}", str(number)):
            raise UserError(f"{name} is '{number}': give a whole number.")
    if int(rank) >= nodes:
        raise UserError(f"NODE_RANK={rank} is not between 0 and {nodes - 1}, as NNODES={nodes} requires.")
    if nodes == 1:
        return
    if not launch.head:
        raise UserError(
            f"NNODES={nodes}, but no head is named: set MASTER_ADDR to the address of the node with NODE_RANK=0."
        )
    if not os.environ.get("RAY_AUTH_TOKEN"):
        raise UserError(
            f"NNODES={nodes}, but RAY_AUTH_TOKEN is not set: give all nodes of the run the same secret, for example "
            "a new one from 'openssl rand -hex 32'; Ray accepts no connection without it."
        )
