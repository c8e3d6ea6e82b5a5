"""What each node does: the head waits for the others and runs the command; the others run Ray and a scorer."""

import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rl.cluster.programs import POLL_S, ending_all, run, say
from rl.cluster.ray_node import HEAD_RANK, Node, RayNode, check_port, connection_problem
from rl.cluster.scorer import LOOPBACK, UNSET_SCORER_VARIABLES, ScorerServer
from rl.common.errors import UserError, file_errors
from rl.common.signals import own_sigterm


def run_node(settings: Node, command: Sequence[str]) -> int:
    """Run this node's part of a run to its end.

    Args:
        command: what the head runs.

    Returns:
        The exit code: the command's, 1 if Ray was lost.

    Raises:
        UserError: a program cannot start, or a node is missing.
        Stopped: a signal came.
    """
    if settings.nodes > 1:
        # Without a token, anybody who reaches Ray's port could run code on every node.
        os.environ["RAY_AUTH_MODE"] = "token"
    parent = os.environ.get("RAY_TMPDIR") or "/tmp"
    with file_errors(f"RAY_TMPDIR={parent}", "written", "name a folder that can"):
        folder = Path(tempfile.mkdtemp(prefix="dph-", dir=parent))
    code = 1
    try:
        with ending_all():
            if settings.nodes == 1:
                code = _run_alone(settings, command, folder)
            elif settings.node_rank == HEAD_RANK:
                code = _run_head(settings, command, folder)
            else:
                code = _run_worker(settings, folder)
    except ConnectionError as error:
        sys.stderr.write(f"Error: {error}\n")
    finally:
        if code and any(folder.iterdir()):
            say(f"logs of what was started here: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def _run_alone(settings: Node, command: Sequence[str], folder: Path) -> int:
    """One machine: the command starts its own Ray. Other runs may use the machine, so this run has its own scorer."""
    server, address = _own_scorer(settings, LOOPBACK, folder)
    say(f"a scorer was started at {address}")
    return run(command, UNSET_SCORER_VARIABLES | {"DPH_SCORER": address}, server.check)


def _run_head(settings: Node, command: Sequence[str], folder: Path) -> int:
    """Run the command with the Ray and the scorers of all nodes. Return its exit code."""
    check_port(settings)
    deadline = time.monotonic() + settings.wait_seconds
    address = _own_address(settings)
    ray_node = RayNode(settings, folder, address, scorer_port=0)
    ray_node.wait_until_started(deadline)
    joined = {"RAY_ADDRESS": f"{address}:{settings.ray_port}", "DPH_HEAD": address}
    addresses = _wait_for_nodes(settings, joined["RAY_ADDRESS"], deadline)
    if not settings.scorer:
        joined |= UNSET_SCORER_VARIABLES
    joined["DPH_SCORER"] = settings.scorer or ",".join(addresses)
    say(f"{settings.nodes} nodes are ready; scorers: {joined['DPH_SCORER']}")
    return run(command, joined, ray_node.check)


def _wait_for_nodes(settings: Node, ray_address: str, deadline: float) -> list[str]:
    """Wait until all nodes have joined Ray. Return where the scorers of all but the first are, by rank."""
    import ray

    with own_sigterm():
        ray.init(address=ray_address, logging_level=logging.ERROR)
    said = ""
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
            if missing != said:
                say(f"the head waits for node {missing} to join")
                said = missing
            time.sleep(POLL_S)
    finally:
        # When Ray is lost, Ray's client would abort this process. Its shutdown takes SIGTERM's handler away.
        with own_sigterm():
            ray.shutdown()


def _scorer_of(node: dict) -> str:
    host = node["NodeManagerAddress"]
    return f"http://{f'[{host}]' if ':' in host else host}:{node['Labels']['SCORER_PORT']}"


def _run_worker(settings: Node, folder: Path) -> int:
    """Run a scorer and Ray on this node until the head ends. Return 0; the head has the command's exit code.

    Raises:
        UserError: the head cannot be reached, or the scorer does not start.
        ConnectionError: Ray does not start, or has ended on this node, as it does a minute after the head's machine
            was lost.
    """
    deadline = time.monotonic() + settings.wait_seconds
    _wait_for_head(settings, deadline)
    address, server, scorer = _own_address(settings), None, ":0"
    if not settings.scorer:
        server, scorer = _own_scorer(settings, address, folder)
    ray_node = RayNode(settings, folder, address, scorer_port=int(scorer.rpartition(":")[2]))
    ray_node.wait_until_started(deadline)
    while not ray_node.head_ended():
        ray_node.check()
        if server is not None:
            server.check()
        time.sleep(POLL_S)
    say(f"node {settings.node_rank} ends, because the head at {settings.head} has ended")
    return 0


def _wait_for_head(settings: Node, deadline: float) -> None:
    where = f"Ray's head at {settings.head} port {settings.ray_port}"
    say(f"node {settings.node_rank} waits for {where}")
    while (problem := connection_problem(settings.head, settings.ray_port)) is not None:
        if time.monotonic() > deadline:
            raise UserError(
                f"Node {settings.node_rank} did not reach {where} within {settings.wait_seconds:g} s ({problem}): "
                "start the same script there with NODE_RANK=0, or correct MASTER_ADDR."
            )
        time.sleep(POLL_S)


def _own_address(settings: Node) -> str:
    """Where the other nodes reach this one: as set, or the address on the route to the head."""
    if settings.node_address:
        return settings.node_address
    import ray

    address = ray.util.get_node_ip_address(f"{settings.head}:{settings.ray_port}")
    # A machine's own name is often a loopback address in its /etc/hosts.
    return ray.util.get_node_ip_address() if address == LOOPBACK else address


def _own_scorer(settings: Node, host: str, folder: Path) -> tuple[ScorerServer, str]:
    """Start a scorer on this node and wait for it; return its address too."""
    config, log = settings.scorer_config, folder / "scorer.log"
    server = ScorerServer(config, settings.databases, log, folder, host, settings.scorer_port)
    hint = f" (launch.scorer_config={config}; its port is launch.scorer_port)"
    return server, server.wait_until_ready(settings.wait_seconds, hint)
