"""The first of several nodes: it waits for the others, runs the command with their Ray and scorers, and ends them."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rl.cluster.node_agent import NodeAgent
from rl.cluster.programs import exit_code_of, pause, run, say
from rl.cluster.ray_node import RayNode, check_port, connection_problem, start_ray
from rl.cluster.scorer import is_healthy
from rl.cluster.settings import HEAD_RANK, UNSET_SCORER_VARIABLES, Deadline, Settings
from rl.common.cli import USER_ERROR_EXIT_CODE
from rl.common.errors import UserError
from rl.common.signals import own_sigterm
from rl.common.time_limits import LAST_WORDS_S

POLL_S = 0.5
REPORT_S = 30.0


def run_head(settings: Settings, folder: Path) -> int:
    """Run the command on the nodes. Return its exit code, with which every node then exits.

    Raises:
        UserError: a port is taken, Ray does not take its arguments, a node is missing, or a scorer does not start.
        ConnectionError: a node or Ray was lost.
    """
    check_port(settings)
    deadline = Deadline(settings.wait_seconds)
    ray_node = start_ray(settings, folder, deadline)
    import ray

    with own_sigterm():
        ray.init(address=f"{ray_node.address}:{settings.ray_port}", logging_level=logging.ERROR)
    head = _Head(settings, ray_node)
    code = 1
    try:
        head.wait_for_nodes(deadline)
        code = head.run(settings.scorer or head.wait_for_scorers(deadline))
        return code
    except Exception as error:
        code = exit_code_of(error)
        raise
    finally:
        head.end(code)


class _Head:
    """The other nodes as Ray sees them, each with an agent."""

    def __init__(self, settings: Settings, ray_node: RayNode):
        self._settings, self._ray_node = settings, ray_node
        self._ready = False
        self._nodes: dict[int, dict] = {}  # by rank
        self._agents: dict[str, Any] = {}  # by Ray's node id, rejected nodes included

    def wait_for_nodes(self, deadline: Deadline) -> None:
        """Wait until all nodes have joined Ray, and check that they have the GPUs that training asks for.

        Raises:
            UserError: at the deadline some nodes are missing, or some have too few GPUs.
        """
        settings, report = self._settings, 0.0
        self._update()
        while missing := sorted(set(range(settings.nodes)) - self._nodes.keys()):
            named = f"node{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            if deadline.left == 0:
                raise UserError(
                    f"After {deadline.seconds:g} s the head still waits for {named} of {settings.nodes} to join: start "
                    "the same script on every node with its own NODE_RANK, the same MASTER_ADDR and the same "
                    "RAY_AUTH_TOKEN, look at the output of those nodes, or raise launch.wait_seconds."
                )
            if time.monotonic() >= report:
                say(f"the head waits for {named} to join, {deadline.left:.0f} s more")
                report = time.monotonic() + REPORT_S
            self._tick()
        gpus = {node["NodeManagerAddress"]: node["Resources"].get("GPU", 0) for node in self._nodes.values()}
        if sum(count >= settings.gpus for count in gpus.values()) < settings.training_nodes:
            found = ", ".join(f"{count:g} at {node}" for node, count in sorted(gpus.items()))
            raise UserError(
                f"Training asks for {settings.gpus} GPUs on each of {settings.training_nodes} nodes, and Ray found "
                f"{found}: set GPUS_PER_NODE to what all of them have, or launch.scorer_nodes to the number of "
                "nodes that only score."
            )

    def wait_for_scorers(self, deadline: Deadline) -> str:
        """Wait until each scorer answers the head; return their addresses by rank, comma-separated.

        Raises:
            UserError: a scorer did not start, or does not answer within the time limit.
        """
        import ray

        agents = [self._agents[node["NodeID"]] for rank, node in sorted(self._nodes.items()) if rank != HEAD_RANK]
        starting = pending = [agent.scorer_address.remote(deadline.left) for agent in agents]
        while pending:
            done, pending = ray.wait(pending, timeout=0)
            ray.get(done)
            self._tick()
        addresses = ray.get(starting)
        for address in addresses:
            while not is_healthy(address):
                if deadline.left == 0:
                    raise UserError(
                        f"The scorer at {address} does not answer the head after {deadline.seconds:g} s: let its port "
                        "through between the nodes, or give all nodes a launch.scorer_port that is let through."
                    )
                self._tick()
        return ",".join(addresses)

    def run(self, scorer: str) -> int:
        """Run the command on all nodes. Returns its exit code."""
        say(f"{self._settings.nodes} nodes are ready; scorers: {scorer}")
        self._ready = True
        address = self._ray_node.address
        joined = {"RAY_ADDRESS": f"{address}:{self._settings.ray_port}", "DPH_HEAD": address, "DPH_SCORER": scorer}
        if self._settings.scorer is None:
            joined |= UNSET_SCORER_VARIABLES
        return run(self._settings.command, joined, self._tick)

    def end(self, code: int) -> None:
        """End every other node with this exit code. A node that cannot be reached notices that the head is gone."""
        import ray

        if heard := [agent.end.remote(code, "") for agent in self._agents.values()]:
            with suppress(ray.exceptions.RayError):
                ray.wait(heard, num_returns=len(heard), timeout=LAST_WORDS_S)

    def _tick(self) -> None:
        """Pause, then look which nodes have joined or left.

        Raises:
            Stopped: a signal came.
            ConnectionError: a node that trains, or this node's Ray, was lost.
        """
        pause(POLL_S)
        self._ray_node.check()
        self._update()

    def _update(self) -> None:
        import ray

        alive = {node["NodeID"]: node for node in ray.nodes() if _is_alive(node)}
        self._agents = {node_id: agent for node_id, agent in self._agents.items() if node_id in alive}
        for rank, node in list(self._nodes.items()):
            if node["NodeID"] not in alive:
                del self._nodes[rank]
                self._lost(rank)
        known = {node["NodeID"] for node in self._nodes.values()} | self._agents.keys()
        for node_id in alive.keys() - known:
            self._welcome(alive[node_id])

    def _lost(self, rank: int) -> None:
        if not self._ready or rank < self._settings.training_nodes:
            raise ConnectionError(f"Node {rank} is gone: look at its output, and re-run the same command to resume.")
        say(f"node {rank}, which only scores, is gone; training goes on with the other scorers")

    def _welcome(self, node: dict) -> None:
        """Register a node; if it does not belong to this run, end it with a sentence."""
        address, labels = node["NodeManagerAddress"], node["Labels"]
        rejection = self._rejection(labels)
        if rejection is None:
            rank = int(labels["NODE_RANK"])
            self._nodes[rank] = node
            if rank == HEAD_RANK:
                return
            say(f"node {rank} at {address} has joined")
        agent = _start_agent(node["NodeID"], scores=rejection is None and self._settings.scorer is None)
        self._agents[node["NodeID"]] = agent
        if rejection is not None:
            say(f"the node at {address} is rejected: {rejection}")
            agent.end.remote(USER_ERROR_EXIT_CODE, rejection)

    def _rejection(self, labels: dict[str, str]) -> str | None:
        """Why a node does not belong to this run; None if it does."""
        ours, theirs = self._settings.labels, dict.fromkeys(self._settings.labels) | labels
        rank = theirs["NODE_RANK"]
        for name in ("NNODES", "SCORER_NODES", "DPH_SCORER"):
            if theirs[name] != ours[name]:
                values = f"{ours[name]} and node {rank} {theirs[name]}"
                if name == "DPH_SCORER":
                    values = f"{self._settings.scorer or 'none'} and node {rank} another"
                return f"The head has {name}={values}: set the same on all nodes."
        if rank is None or not 0 <= int(rank) < self._settings.nodes:
            return f"NODE_RANK={rank} is not between 1 and {self._settings.nodes - 1}, as the head expects."
        if int(rank) < self._settings.training_nodes and theirs["ON_CPU"] != ours["ON_CPU"]:
            one, other = ("the head", f"node {rank}") if ours["ON_CPU"] == "True" else (f"node {rank}", "the head")
            return (
                f"{one.capitalize()} trains on the CPU and {other} on GPUs: without DEVICE a node that sees no GPU "
                "takes its CPU, so look at its driver or container; or set the same DEVICE on all nodes."
            )
        if int(rank) in self._nodes:
            return f"There are two nodes with NODE_RANK={rank}: give each its own."
        return None


def _is_alive(node: dict) -> bool:
    """Whether a node's Ray answers. Ray itself takes up to a minute to notice that it was killed."""
    if not node["Alive"]:
        return False
    problem = connection_problem(node["NodeManagerAddress"], node["NodeManagerPort"])
    return not isinstance(problem, ConnectionRefusedError)


def _start_agent(node_id: str, scores: bool) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    placed = ray.remote(NodeAgent).options(
        num_cpus=0,
        max_restarts=-1,
        # While one call waits for the scorer, another may end the node.
        max_concurrency=2,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    )
    return placed.remote(scores)
