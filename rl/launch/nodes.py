"""This node of a run, if the run needs rl.cluster."""

import os
from dataclasses import fields

from omegaconf import DictConfig

from rl.checks.files import asks_scorer
from rl.cluster.ray_node import Node
from rl.common.errors import UserError
from rl.configuration.names import joins_ray
from rl.configuration.run import Run


def node_of(run: Run) -> Node | None:
    """This node, on which rl.cluster starts Ray or a scorer; None if the program needs nothing around it."""
    launch = run.launch
    nodes = launch.nodes
    rank = 0 if launch.node_rank is None and nodes == 1 else launch.node_rank
    if joins_ray():
        if not launch.scorer:
            raise UserError("RAY_ADDRESS names a running Ray: name the scorers in DPH_SCORER too.")
        return None
    _check_complete(launch, nodes, rank)
    if nodes == 1 and (launch.scorer or not asks_scorer(run.composed, run.program)):
        return None  # the program starts its own Ray, and ends it
    own = {"node_rank": rank, "gpus": run.composed.trainer.n_gpus_per_node, "device": run.device}
    return Node(**{field.name: launch[field.name] for field in fields(Node) if field.name not in own}, **own)


def _check_complete(launch: DictConfig, nodes: int, rank: int | None) -> None:
    if rank is None:
        raise UserError(
            f"NNODES={nodes}, but this node's number is not known: set NODE_RANK to 0 on the head and to 1 to "
            f"{nodes - 1} on the others, or NNODES=1 for this machine alone."
        )
    if rank >= nodes:
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
