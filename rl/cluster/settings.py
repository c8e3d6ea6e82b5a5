"""What a node is told: cluster.sh passes it as options of `python -m rl.cluster`."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD_RANK = 0


@dataclass(frozen=True)
class Settings:
    """One node's view of the run. Attributes are the options of the command line."""

    command: Sequence[str]
    nodes: int
    rank: int
    head: str
    scorer_nodes: int
    gpus: int
    device: str
    node_address: str | None
    scorer: str | None
    scorer_config: Path | None
    scorer_port: int
    cluster_port: int
    ray_port: int
    wait_seconds: float
    ray_arguments: Sequence[str]

    @property
    def agreed(self) -> dict[str, object]:
        """What all nodes must have alike, by the names that a user knows."""
        return {"NNODES": self.nodes, "SCORER_NODES": self.scorer_nodes, "DPH_SCORER": self.scorer}

    def trains(self, rank: int) -> bool:
        """Whether a node has a part in training; the last scorer_nodes ranks only score."""
        return rank < self.nodes - self.scorer_nodes


@dataclass(frozen=True)
class Deadline:
    """When the nodes must be ready, on time.monotonic()'s clock."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds, seconds)

    @property
    def left(self) -> float:
        return max(self.at - time.monotonic(), 0.0)


def parse(arguments: list[str] | None) -> Settings:
    """The command line. Each option's help names the environment variable from which cluster.sh takes it."""
    parser = argparse.ArgumentParser(
        prog="python -m rl.cluster",
        description="Runs COMMAND on the first of several nodes, with Ray on all and scorer servers on the others.",
    )
    add = parser.add_argument
    add("--nodes", type=int, default=1, help="how many there are (NNODES; default: %(default)s)")
    add("--rank", type=int, default=0, help="this node's, from 0, the head's (NODE_RANK; default: %(default)s)")
    add("--head", default="127.0.0.1", help="the head's address (MASTER_ADDR; default: %(default)s)")
    add("--scorer-nodes", type=int, default=0, help="the last so many only score (SCORER_NODES; default: %(default)s)")
    add("--gpus", type=int, default=8, help="that a node of training must have (GPUS_PER_NODE; default: %(default)s)")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="what training runs on (DEVICE)")
    add("--node-address", help="this node's own, where several networks lead to it (NODE_ADDR)")
    add("--scorer", help="servers that run elsewhere: none is started (DPH_SCORER)")
    add("--scorer-config", type=Path, help="configuration of the scorers that are started (SCORER_CONFIG)")
    add("--scorer-port", type=int, default=5001, help="of the scorers (SCORER_PORT; default: %(default)s)")
    add("--cluster-port", type=int, default=6378, help="where the head awaits the others (CLUSTER_PORT; %(default)s)")
    add("--ray-port", type=int, default=6379, help="of Ray on the head (RAY_PORT; default: %(default)s)")
    add("--wait-seconds", type=float, default=600, help="until all are ready (CLUSTER_WAIT_S; default: %(default)s)")
    add("--ray-argument", action="append", default=[], help="a further argument of `ray start` (RAY_START_ARGS)")
    add("command", nargs="+", metavar="COMMAND", help="after --: what the head runs")
    options = parser.parse_args(arguments)
    return Settings(
        command=options.command,
        nodes=options.nodes,
        rank=options.rank,
        head=options.head,
        scorer_nodes=options.scorer_nodes,
        gpus=options.gpus,
        device=options.device,
        node_address=options.node_address or None,
        scorer=options.scorer or None,
        scorer_config=options.scorer_config,
        scorer_port=options.scorer_port,
        cluster_port=options.cluster_port,
        ray_port=options.ray_port,
        wait_seconds=options.wait_seconds,
        ray_arguments=options.ray_argument,
    )
