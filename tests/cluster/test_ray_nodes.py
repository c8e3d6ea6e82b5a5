"""Two nodes with Ray: what ends them, and that nothing stays."""

import pytest

pytestmark = pytest.mark.timeout(1200)


def two_nodes(cluster):
    head, worker = cluster.node(0, 2, "sleep", "1000000"), cluster.node(1, 2)
    cluster.await_processes("sleep", 1)
    assert sum(process.name() == "raylet" for process in cluster.processes()) == 2
    return head, worker


def test_sigterm_to_the_head_ends_all_nodes(cluster):
    head, worker = two_nodes(cluster)
    head.process.terminate()
    assert (head.end(), worker.end()) == (143, 143)
    assert not cluster.processes()


def test_a_lost_node_of_training_ends_the_run(cluster):
    head, worker = two_nodes(cluster)
    worker.process.terminate()
    assert (head.end(), worker.end()) == (1, 143)
    assert head.errors() == ["Error: Node 1 is gone: it was told to end"]
    assert not cluster.processes()


def test_a_node_with_too_few_gpus_is_named(cluster, address_of):
    head, worker = cluster.node(0, 2), cluster.node(1, 2, ray_argument="--num-gpus=0")
    assert (head.end(), worker.end()) == (2, 2)
    [sentence] = head.errors()
    assert f"1 GPUs on each of 2 nodes, and Ray found 1 at {address_of(0)}, 0 at {address_of(1)}" in sentence
    assert not cluster.processes()
