"""The head's view of its nodes, with a fake Ray."""

import pytest
import ray

from rl.cluster import head as head_module
from rl.cluster.head import _Head
from rl.cluster.settings import Deadline, parse
from rl.common.errors import UserError
from tests.cluster.conftest import words


class Remote:
    """A method of an actor that records its calls."""

    def __init__(self):
        self.calls = []

    def remote(self, *arguments):
        self.calls.append(arguments)


class Agent:
    def __init__(self, node_id: str, scores: bool):
        self.node_id, self.scores = node_id, scores
        self.end = Remote()


class RayNode:
    """The head's own Ray, which runs."""

    address = "10.0.0.1"

    def check(self) -> None:
        pass


class MadeUpRay:
    """Nodes as ray.nodes() lists them."""

    def __init__(self):
        self.listed = []
        self.closed = set()  # ports on which nothing listens any more

    def join(self, rank: int, *options: str, gpus: int = 8) -> str:
        """A node that was started with these options. Returns Ray's id of it."""
        node = {
            "NodeID": f"id{len(self.listed)}",
            "Alive": True,
            "NodeManagerAddress": f"10.0.0.{rank + 1}",
            "NodeManagerPort": len(self.listed),
            "Labels": settings(rank, *options).labels,
            "Resources": {"GPU": gpus},
        }
        self.listed.append(node)
        return node["NodeID"]

    def lose(self, node_id: str) -> None:
        next(node for node in self.listed if node["NodeID"] == node_id)["Alive"] = False

    def connection_problem(self, address: str, port: int) -> OSError | None:
        return ConnectionRefusedError() if port in self.closed else None


def settings(rank: int, *options: str):
    # The launcher passes unset variables as empty options.
    return parse([*words(nodes=3, scorer_nodes=1, rank=rank, scorer=""), *options, "--", "true"])


@pytest.fixture
def made_up(monkeypatch) -> MadeUpRay:
    made_up = MadeUpRay()
    monkeypatch.setattr(ray, "nodes", lambda: made_up.listed)
    monkeypatch.setattr(head_module, "_start_agent", Agent)
    monkeypatch.setattr(head_module, "connection_problem", made_up.connection_problem)
    monkeypatch.setattr(head_module, "POLL_S", 0.001)
    made_up.join(0)
    return made_up


@pytest.fixture
def head(made_up) -> _Head:
    return _Head(settings(0), RayNode())


def test_nodes_are_awaited_and_the_missing_are_named(made_up, head, capsys):
    made_up.join(2)
    with pytest.raises(UserError, match="After 0 s the head still waits for node 1 of 3 to join: .*wait_seconds"):
        head.wait_for_nodes(Deadline(0))
    made_up.join(1)
    head.wait_for_nodes(Deadline(60))
    assert {agent.scores for agent in head._agents.values()} == {True} and len(head._agents) == 2
    assert "node 1 at 10.0.0.2 has joined" in capsys.readouterr().err


DEVICES = (
    "Node 1 trains on the CPU and the head on GPUs: without DEVICE a node that sees no GPU takes its CPU, so look at "
    "its driver or container; or set the same DEVICE on all nodes."
)


@pytest.mark.parametrize(
    ("rank", "options", "said"),
    [
        (1, (), "There are two nodes with NODE_RANK=1: give each its own."),
        (0, (), "There are two nodes with NODE_RANK=0: give each its own."),
        (3, (), "NODE_RANK=3 is not between 1 and 2, as the head expects."),
        (2, ("--nodes=4",), "The head has NNODES=3 and node 2 4: set the same on all nodes."),
        (2, ("--scorer-nodes=0",), "The head has SCORER_NODES=1 and node 2 0: set the same on all nodes."),
        (1, ("--device=cpu_vllm",), DEVICES),
        (2, ("--scorer=http://a:1",), "The head has DPH_SCORER=none and node 2 another: set the same on all nodes."),
    ],
)
def test_a_wrong_node_is_rejected_alone(made_up, head, rank, options, said):
    made_up.join(1)
    head._update()
    wrong = made_up.join(rank, *options)
    head._update()
    assert head._agents[wrong].end.calls == [(2, said)] and not head._agents[wrong].scores
    # The right one is still awaited.
    made_up.join(2)
    head.wait_for_nodes(Deadline(60))
    assert sorted(head._nodes) == [0, 1, 2]


def test_a_head_on_the_cpu_is_named_and_a_node_that_only_scores_may_be(made_up):
    head = _Head(settings(0, "--device=cpu"), RayNode())
    rejected, scores = made_up.join(1, "--device=cuda_hf"), made_up.join(2)
    head._update()
    [(_, said)] = head._agents[rejected].end.calls
    assert said.startswith("The head trains on the CPU and node 1 on GPUs") and not head._agents[scores].end.calls


def test_too_few_gpus_are_named(made_up, head):
    made_up.join(1, gpus=4)
    made_up.join(2, gpus=0)
    with pytest.raises(UserError, match="8 GPUs on each of 2 nodes, and Ray found 8 at 10.0.0.1, 4 at 10.0.0.2, 0 at"):
        head.wait_for_nodes(Deadline(60))


def test_only_a_node_that_only_scores_may_be_lost(made_up, head, capsys):
    made_up.join(1)
    scores = made_up.join(2)
    head.wait_for_nodes(Deadline(60))
    head._ready = True
    made_up.lose(scores)
    head._tick()
    assert "node 2, which only scores, is gone; training goes on" in capsys.readouterr().err
    # It may come back, and serves a scorer again.
    back = made_up.join(2)
    head._tick()
    assert head._agents[back].scores and scores not in head._agents
    # Ray has not noticed yet.
    made_up.closed.add(1)
    with pytest.raises(ConnectionError, match="Node 1 is gone"):
        head._tick()


def test_before_all_are_ready_none_may_be_lost(made_up, head):
    scores = made_up.join(2)
    head._update()
    made_up.lose(scores)
    with pytest.raises(ConnectionError, match="Node 2 is gone"):
        head.wait_for_nodes(Deadline(60))
