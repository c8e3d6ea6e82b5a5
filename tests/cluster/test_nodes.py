"""Nodes that come together, or do not, without Ray: what each says, its exit code, and that nothing stays."""

import re
import signal
import socket

import psutil
import pytest

pytestmark = pytest.mark.timeout(600)

# A command that runs until it is ended.
FOR_EVER = ("sleep", "1000000")


def test_a_node_that_never_joins_is_named(cluster):
    worker = cluster.node(2, 3)
    worker.await_text("waits for the head")
    head = cluster.node(0, 3, wait_seconds=4)
    assert head.end() == 2 and worker.end() == 2
    [sentence] = head.errors()
    assert "still waits for node 1 of 3 to join" in sentence and "CLUSTER_WAIT_S" in sentence
    assert not cluster.processes()


def test_a_head_that_is_not_there_is_named(cluster, address_of):
    worker = cluster.node(1, 2, wait_seconds=1)
    assert worker.end() == 2
    [sentence] = worker.errors()
    assert f"did not reach the head at {address_of(0)} port {cluster.cluster_port} within 1 s" in sentence
    assert not cluster.processes()


@pytest.mark.parametrize(("port", "variable"), [("cluster_port", "CLUSTER_PORT"), ("ray_port", "RAY_PORT")])
def test_a_port_in_use_is_named(cluster, address_of, port, variable):
    with socket.create_server((address_of(0), getattr(cluster, port))):
        head = cluster.node(0, 2)
        assert head.end() == 2
    [sentence] = head.errors()
    assert f"port {getattr(cluster, port)} (Address already in use)" in sentence and variable in sentence
    assert not cluster.processes()


def test_nodes_that_disagree_are_refused(cluster):
    """The head goes on waiting for the right ones."""
    head = cluster.node(0, 3, wait_seconds=60)
    head.await_text("waits for nodes 1, 2")
    first = cluster.node(1, 3)
    head.await_text("node 1 at")
    for wrong, said in [
        (cluster.node(1, 3), "There are two nodes with NODE_RANK=1"),
        (cluster.node(3, 3), "NODE_RANK=3 is not one of 1 to 2"),
        (cluster.node(2, 4), "The head has NNODES=3 and node 2 4"),
        (cluster.node(2, 3, scorer_nodes=1), "The head has SCORER_NODES=0 and node 2 1"),
        (cluster.node(2, 3, scorer="http://elsewhere:5001"), "The head has DPH_SCORER=None"),
    ]:
        assert wrong.end() == 2 and said in wrong.errors()[0]
    assert head.process.poll() is None and first.process.poll() is None
    head.process.terminate()
    assert (head.end(), first.end()) == (143, 143)
    assert not cluster.processes()


def test_a_port_scan_does_not_disturb_the_head(cluster, address_of):
    head = cluster.node(0, 2, wait_seconds=60)
    head.await_text("waits for node 1")
    for words in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"rank": []}\n', b"x" * 200_000):
        with socket.create_connection((address_of(0), cluster.cluster_port)) as stranger:
            stranger.sendall(words)
    assert head.process.poll() is None
    head.process.terminate()
    assert head.end() == 143
    assert "Traceback" not in head.text()


def test_a_head_that_vanishes_ends_the_others(cluster):
    head, worker = cluster.node(0, 3), cluster.node(1, 3)
    head.await_text("node 1 at")
    head.vanish()
    assert worker.end() == 1
    assert "is gone without a word" in worker.errors()[0]
    assert not cluster.processes()


def test_a_node_without_its_databases_ends_all(cluster, tmp_path, scorer_config_for):
    config = scorer_config_for(tmp_path / "wrong.yaml", tmp_path / "nothing")
    head, worker = cluster.node(0, 3), cluster.node(1, 3, scorer_config=config)
    assert (head.end(), worker.end()) == (2, 2)
    for node in (head, worker):
        [sentence] = node.errors()
        assert "The scorer of node 1 did not start" in sentence and f"{tmp_path / 'nothing'}" in sentence
    assert not cluster.processes()


def alone(cluster, *command, **options):
    return cluster.node(0, 1, *command, head=None, node_address=None, **options)


def test_alone_a_scorer_serves_as_long_as_the_command_runs(cluster):
    node = alone(cluster, "bash", "-c", 'curl -sf "$DPH_SCORER/heartbeat"; exit 7')
    assert node.end() == 7
    assert '{"status":"healthy"}' in node.text()
    assert not cluster.processes()


def test_alone_a_scorer_that_runs_already_is_used_and_left(cluster, scorer_process):
    scorer_process.start()
    node = alone(cluster, "bash", "-c", 'echo "at $DPH_SCORER"', scorer_port=scorer_process.port)
    assert node.end() == 0
    assert f"at http://127.0.0.1:{scorer_process.port}" in node.text() and "is used" in node.text()
    assert scorer_process._answers()


def test_alone_a_scorer_that_dies_is_started_again(cluster):
    node = alone(cluster, *FOR_EVER)
    node.await_text("a scorer was started")
    [server] = [process for process in cluster.processes() if "rl.scorer" in process.cmdline()[2:3]]
    server.kill()
    node.await_text("it is started again")
    command = next(process for process in cluster.processes() if process.name() == "sleep")
    # The command has noticed nothing.
    assert command.is_running() and node.process.poll() is None
    node.process.terminate()
    assert node.end() == 143
    assert not cluster.processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_everything_along(cluster, number):
    """Also what the command has started and left."""
    node = alone(cluster, "bash", "-c", "(setsid sleep 1000000 &) ; exec sleep 1000000")
    cluster.await_processes("sleep", 2)
    node.process.send_signal(number)
    assert node.end() == 128 + number
    assert not cluster.processes()


def test_a_launcher_that_is_killed_takes_its_programs_along(cluster):
    node = alone(cluster, *FOR_EVER)
    cluster.await_processes("sleep", 1)
    running = cluster.processes()
    assert any("rl.scorer" in process.cmdline() for process in running)
    node.process.kill()
    assert not psutil.wait_procs(running, timeout=60)[1]


def test_a_port_of_the_scorer_in_use_is_named(cluster):
    with socket.create_server(("127.0.0.1", cluster.scorer_port)):
        node = alone(cluster, *FOR_EVER)
        assert node.end() == 2
    [sentence] = node.errors()
    assert re.search(rf"cannot listen on 127.0.0.1 port {cluster.scorer_port}.*SCORER_PORT", sentence)
    assert not cluster.processes()
