"""Settings of one node, which the launcher passes as options of `python -m rl.cluster`."""

import argparse
import hashlib
import time
from pathlib import Path

from rl.configuration.methods import files

HEAD_RANK = 0


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
    """Parse the command line. Each option's help names the environment variable from which the launcher takes it."""
    parser = argparse.ArgumentParser(
        prog="python -m rl.cluster",
        description="Run COMMAND on the first of several nodes, with Ray on all and scorer servers on the others.",
    )
    add = parser.add_argument
    add("--nodes", type=int, default=1, help="number of nodes (NNODES; default: %(default)s)")
    add("--rank", type=int, default=HEAD_RANK, help="this node's; 0 is the head's (NODE_RANK; default: %(default)s)")
    add("--head", default="127.0.0.1", help="address of the head (MASTER_ADDR; default: %(default)s)")
    add("--scorer-nodes", type=int, default=0, help="the last ranks, which only score (SCORER_NODES; %(default)s)")
    add("--gpus", type=int, default=8, help="GPUs of each training node (GPUS_PER_NODE; default: %(default)s)")
    add(
        "--device",
        choices=files("device"),
        default="cuda",
        help="for training (DEVICE; default: %(default)s)",
    )
    add("--node-address", type=_optional, help="this node's; default: on the route to the head (NODE_ADDR)")
    add("--scorer", type=_optional, help="addresses of running servers: none is started (DPH_SCORER)")
    add("--scorer-config", type=Path, help="configuration of the scorers that are started (SCORER_CONFIG)")
    add("--database-path", type=_optional, help="their databases; default: the configuration's (DATABASE_PATH)")
    add(
        "--scorer-port",
        type=int,
        default=0,
        help="the scorers' port; 0: a free one on each node (SCORER_PORT; default: %(default)s)",
    )
    add("--ray-port", type=int, default=6379, help="Ray's port on the head (RAY_PORT; default: %(default)s)")
    add("--wait-seconds", type=float, default=600, help="until all are ready (CLUSTER_WAIT_S; default: %(default)s)")
    add("--ray-argument", action="append", default=[], help="further argument of `ray start` (RAY_START_ARGS)")
    add("command", nargs="+", metavar="COMMAND", help="after --: what the head runs")
    return parser.parse_args(arguments, namespace=Settings())


def _optional(text: str) -> str | None:
    return text or None
