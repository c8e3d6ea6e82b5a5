"""What each node does: the head waits for the others and runs the command; the others run Ray and a scorer."""

import argparse
import logging
import time
from pathlib import Path

from rl.cluster.programs import POLL_S, run, say
from rl.cluster.ray_node import RayNode, check_port, connection_problem
from rl.cluster.scorer import LOOPBACK, UNSET_SCORER_VARIABLES, ScorerServer
from rl.common.errors import UserError
from rl.common.signals import own_sigterm

REPORT_S = 30.0


def run_alone(settings: argparse.Namespace, folder: Path) -> int:
    """One machine: the command starts its own Ray. Other runs may use the machine, so this run has its own scorer."""
    if settings.scorer is not None:
        return run(settings.command, {"DPH_SCORER": settings.scorer}, lambda: None)
    server = _own_scorer(settings, LOOPBACK, folder)
    address = server.wait_until_ready(settings.wait_seconds, _hint(settings))
    say(f"a scorer was started at {address}")
    return run(settings.command, UNSET_SCORER_VARIABLES | {"DPH_SCORER": address}, server.check)


def run_head(settings: argparse.Namespace, folder: Path) -> int:
    """Run the command with the Ray and the scorers of all nodes. Return its exit code.

    Raises:
        UserError: Ray's port is taken, or a node is missing.
        ConnectionError: Ray does not start, or was lost on this node.
    """
    check_port(settings)
    deadline = time.monotonic() + settings.wait_seconds
    address = _own_address(settings)
    ray_node = RayNode(settings, folder, address, scorer_port=0)
    ray_node.wait_until_started(deadline)
    joined = {"RAY_ADDRESS": f"{address}:{settings.ray_port}", "DPH_HEAD": address}
    addresses = _wait_for_nodes(settings, joined["RAY_ADDRESS"], deadline)
    if settings.scorer is None:
        joined |= UNSET_SCORER_VARIABLES
    joined["DPH_SCORER"] = settings.scorer or ",".join(addresses)
    say(f"{settings.nodes} nodes are ready; scorers: {joined['DPH_SCORER']}")
    return run(settings.command, joined, ray_node.check)


def _wait_for_nodes(settings: argparse.Namespace, ray_address: str, deadline: float) -> list[str]:
    """Wait until all nodes have joined Ray. Return where the scorers of all but the first are, by rank.

    Raises:
        UserError: at the deadline some nodes are missing.
    """
    import ray

    with own_sigterm():
        ray.init(address=ray_address, logging_level=logging.ERROR)
    report = 0.0
    try:
        while True:
            nodes = {int(node["Labels"]["NODE_RANK"]): node for node in ray.nodes() if node["Alive"]}
            missing = ", ".join(str(rank) for rank in range(settings.nodes) if rank not in nodes)
            if not missing:
                return [_scorer_of(nodes[rank]) for rank in range(1, settings.nodes)]
            if time.monotonic() > deadline:
                raise UserError(
                    f"After {settings.wait_seconds:g} s the head still waits for node {missing} of {settings.nodes} to "
                    "join: start the same script on every node with its own NODE_RANK, the same MASTER_ADDR and the "
                    "same RAY_AUTH_TOKEN, and look at the output of those nodes."
                )
            if time.monotonic() >= report:
                say(f"the head waits for node {missing} to join")
                report = time.monotonic() + REPORT_S
            time.sleep(POLL_S)
    finally:
        # When Ray is lost, Ray's client would abort this process. Its shutdown takes SIGTERM's handler away.
        with own_sigterm():
            ray.shutdown()


def _scorer_of(node: dict) -> str:
    host = node["NodeManagerAddress"]
    return f"http://{f'[{host}]' if ':' in host else host}:{node['Labels']['SCORER_PORT']}"


def run_worker(settings: argparse.Namespace, folder: Path) -> int:
    """Run a scorer and Ray on this node until the head ends. Return 0; the head has the command's exit code.

    Raises:
        UserError: the head cannot be reached, or the scorer does not start.
        ConnectionError: Ray does not start, or has ended on this node, as it does a minute after the head's machine
            was lost.
    """
    deadline = time.monotonic() + settings.wait_seconds
    _wait_for_head(settings, deadline)
    address, port, server = _own_address(settings), 0, None
    if settings.scorer is None:
        server = _own_scorer(settings, address, folder)
        port = int(server.wait_until_ready(settings.wait_seconds, _hint(settings)).rpartition(":")[2])
    ray_node = RayNode(settings, folder, address, port)
    ray_node.wait_until_started(deadline)
    while not ray_node.head_ended():
        ray_node.check()
        if server is not None:
            server.check()
        time.sleep(POLL_S)
    say(f"node {settings.rank} ends, because the head at {settings.head} has ended")
    return 0


def _wait_for_head(settings: argparse.Namespace, deadline: float) -> None:
    where = f"Ray's head at {settings.head} port {settings.ray_port}"
    say(f"node {settings.rank} waits for {where}")
    while (problem := connection_problem(settings.head, settings.ray_port)) is not None:
        if time.monotonic() > deadline:
            raise UserError(
                f"Node {settings.rank} did not reach {where} within {settings.wait_seconds:g} s ({problem}): start the "
                "same script there with NODE_RANK=0, or correct MASTER_ADDR."
            )
        time.sleep(POLL_S)


def _own_address(settings: argparse.Namespace) -> str:
    """Where the other nodes reach this one: as set, or the address on the route to the head."""
    if settings.node_address:
        return settings.node_address
    import ray

    address = ray.util.get_node_ip_address(f"{settings.head}:{settings.ray_port}")
    # A machine's own name is often a loopback address in its /etc/hosts.
    return ray.util.get_node_ip_address() if address == LOOPBACK else address


def _own_scorer(settings: argparse.Namespace, host: str, folder: Path) -> ScorerServer:
    config, databases = settings.scorer_config, settings.database_path
    return ScorerServer(config, databases, folder / "scorer.log", folder, host, settings.scorer_port)


def _hint(settings: argparse.Namespace) -> str:
    return f" (launch.scorer_config={settings.scorer_config}; its port is launch.scorer_port)"
