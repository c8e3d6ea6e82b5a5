"""Settings of one node, which the launcher passes as options of `python -m rl.cluster`."""

import argparse
import hashlib
import time
from functools import partial
from pathlib import Path

from rl.configuration.methods import files
from rl.configuration.names import is_cpu

HEAD_RANK = 0
# For the command of a run that starts its own scorers: they have read it, and the command must not compare it with what
# these serve, because a folder may have another path on another node, and math reads none.
UNSET_SCORER_VARIABLES = {"DATABASE_PATH": ""}


class Settings(argparse.Namespace):
    """One node's view of the run; parse() lists the attributes."""

    @property
    def labels(self) -> dict[str, str]:
        """This node's labels in Ray: its rank, and the settings that all nodes must share."""
        scorer = hashlib.sha256(self.scorer.encode()).hexdigest()[:16] if self.scorer else "none"
        return {
            "NODE_RANK": str(self.rank),
            "NNODES": str(self.nodes),
            "SCORER_NODES": str(self.scorer_nodes),
            "DPH_SCORER": scorer,
            "ON_CPU": str(is_cpu(self.device)),
        }

    @property
    def training_nodes(self) -> int:
        """Nodes that take part in training: all but the last scorer_nodes ranks, which only score."""
        return self.nodes - self.scorer_nodes


class Deadline:
    """A time limit that starts now."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(self._at - time.monotonic(), 0.0)


def parse(arguments: list[str] | None) -> Settings:
    """Parse the command line. Each option's help names what the launcher takes it from."""
    parser = argparse.ArgumentParser(
        prog="python -m rl.cluster",
        description="Run COMMAND on the first of several nodes, with Ray on all and scorer servers on the others.",
    )
    add = parser.add_argument
    given = partial(add, required=True)  # rl/launch/nodes.py always passes it
    given("--nodes", type=int, help="number of nodes (NNODES)")
    given("--rank", type=int, help="this node's; 0 is the head's (NODE_RANK)")
    given("--head", help="address of the head (MASTER_ADDR)")
    given("--scorer-nodes", type=int, help="the last ranks, which only score (launch.scorer_nodes)")
    given("--gpus", type=int, help="GPUs of each training node (GPUS_PER_NODE)")
    given("--device", choices=files("device"), help="for training (DEVICE)")
    add("--node-address", type=_optional, help="this node's; default: on the route to the head (launch.node_address)")
    add("--scorer", type=_optional, help="addresses of running servers: none is started (DPH_SCORER)")
    add("--scorer-config", type=Path, help="configuration of the scorers that are started (launch.scorer_config)")
    add("--database-path", type=_optional, help="their databases; default: the configuration's (DATABASE_PATH)")
    given("--scorer-port", type=int, help="the scorers' port; 0: a free one on each node (launch.scorer_port)")
    given("--ray-port", type=int, help="Ray's port on the head (launch.ray_port)")
    given("--wait-seconds", type=float, help="until all are ready (launch.wait_seconds)")
    add("--ray-argument", action="append", default=[], help="further argument of `ray start` (launch.ray_arguments)")
    add("command", nargs="+", metavar="COMMAND", help="after --: what the head runs")
    return parser.parse_args(arguments, namespace=Settings())


def _optional(text: str) -> str | None:
    return text or None
