"""Two nodes with Ray: what ends them, and that no process is left."""

import signal

import pytest

from rl.cluster.scorer import is_healthy
from tests.cluster.conftest import FOR_EVER, address

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_nodes_join_late_and_end_together(cluster):
    worker = cluster.node(1, 2)
    worker.wait_for_text("waits for Ray's head")
    head = cluster.node(0, 2, *FOR_EVER)
    head.wait_for_text("2 nodes are ready")
    scorer = f"http://{address(1)}:{cluster.scorer_port}"
    assert f"scorers: {scorer}" in head.text() and is_healthy(scorer)
    assert (head.end(signal.SIGTERM), worker.end()) == (143, 0)
    assert not cluster.processes()


def test_a_head_that_vanishes_ends_the_others(cluster):
    head, worker = cluster.node(0, 2, *FOR_EVER), cluster.node(1, 2)
    head.wait_for_text("2 nodes are ready")
    head.vanish()
    assert worker.end() == 0 and "the head at 127.0.1.1 has ended" in worker.text()
    assert not cluster.processes()


def test_a_node_that_never_joins_ends_all(cluster):
    head, worker = cluster.node(0, 3, wait_seconds=60), cluster.node(1, 3)
    assert (head.end(), worker.end()) == (2, 0)
    [sentence] = head.errors()
    assert "the head still waits for node 2 of 3 to join" in sentence
    assert not cluster.processes()
