"""Two nodes with Ray: what ends them, and that no process is left."""

import signal

import pytest

from rl.cluster.scorer import is_healthy
from tests.cluster.conftest import FOR_EVER, address, write_scorer_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_nodes_join_late_and_end_together(cluster):
    """A scorer that dies is restarted, a node with a taken rank is rejected, SIGTERM to the head ends all."""
    worker = cluster.node(1, 2)
    worker.wait_for_text("waits for Ray's head")
    head = cluster.node(0, 2, *FOR_EVER)
    head.wait_for_text("2 nodes are ready")
    scorer = f"http://{address(1)}:{cluster.scorer_port}"
    assert f"scorers: {scorer}" in head.text() and is_healthy(scorer)
    second = cluster.node(1, 2, node_address=address(2))
    assert second.end() == 2
    assert second.errors() == ["Error: There are two nodes with NODE_RANK=1: give each its own."]

    [server] = cluster.processes("rl.scorer")
    agent = server.parent()
    server.kill()
    # Ray brings the agent's output to the head.
    head.wait_for_text("it is restarted in 1 s")
    head.wait_for(lambda: is_healthy(scorer))
    [server] = cluster.processes("rl.scorer")
    # Ray restarts the agent, which serves again.
    agent.kill()
    head.wait_for(lambda: server not in cluster.processes("rl.scorer") and is_healthy(scorer))
    assert (head.end(signal.SIGTERM), worker.end()) == (143, 143)
    assert not cluster.processes()


def test_a_lost_training_node_ends_the_run(cluster):
    head, worker = cluster.node(0, 2, *FOR_EVER), cluster.node(1, 2)
    head.wait_for_text("2 nodes are ready")
    assert (worker.end(signal.SIGTERM), head.end()) == (143, 1)
    [sentence] = head.errors()
    assert "Node 1 is gone" in sentence
    assert not cluster.processes()


def test_a_head_that_vanishes_ends_the_others(cluster):
    head, worker = cluster.node(0, 2, *FOR_EVER), cluster.node(1, 2)
    head.wait_for_text("2 nodes are ready")
    head.vanish()
    assert worker.end() == 1
    [sentence] = worker.errors()
    assert "ended unexpectedly" in sentence
    assert not cluster.processes()


def test_a_node_without_its_databases_ends_all(cluster, tmp_path):
    config = write_scorer_config(tmp_path / "wrong.yaml", tmp_path / "nothing")
    head, worker = cluster.node(0, 2), cluster.node(1, 2, scorer_config=config)
    assert (head.end(), worker.end()) == (2, 2)
    [sentence] = head.errors()
    assert f"The scorer at http://{address(1)}:{cluster.scorer_port} did not start" in sentence
    assert str(tmp_path / "nothing") in sentence
    assert not cluster.processes()
