"""One node's launcher without Ray: what it starts and prints, its exit code, and that no process is left."""

import re
import signal
import socket
import time

import psutil
import pytest
from prometheus_client import start_http_server

from rl.cluster import programs
from rl.cluster.ray_node import Node, RayNode
from rl.cluster.scorer import ScorerServer, is_healthy
from rl.common.errors import UserError
from tests.cluster.conftest import FOR_EVER, address


def test_a_scorer_serves_as_long_as_the_command_runs(cluster, shop_databases):
    """A scorer that dies is restarted; a signal ends all processes, also what the command started and left."""
    command = ("bash", "-c", "(setsid sleep 1000000 &) ; exec sleep 1000000")
    # The configuration's own databases, /cache/, are not there.
    node = cluster.node(0, 1, *command, scorer_config="rl/scorer/sql.yaml", databases=str(shop_databases))
    node.wait_for_text("a scorer was started")
    node.wait_for(lambda: len(cluster.processes("sleep")) == 2)
    scorer = f"http://127.0.0.1:{cluster.scorer_port}"
    assert is_healthy(scorer)
    [server] = cluster.processes("rl.scorer")
    server.kill()
    node.wait_for_text("it is restarted")
    node.wait_for(lambda: is_healthy(scorer))
    assert len(cluster.processes("sleep")) == 2
    assert node.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert not cluster.processes()


def said_address(node) -> re.Match | None:
    """The line that the command of these tests prints, after the launcher's own line about the scorer."""
    return re.search(r"^at (http://127.0.0.1:\d+)$", node.text(), re.MULTILINE)


def test_each_of_two_runs_on_a_machine_has_a_scorer_of_its_own(cluster, monkeypatch):
    """The end of the first leaves the second alone. The scorer has read DATABASE_PATH, and the command need not."""
    monkeypatch.setenv("DATABASE_PATH", "/elsewhere")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing listens there
    say = ("bash", "-c", 'echo "at $DPH_SCORER$DATABASE_PATH"; exec sleep 1000000')
    first, second = runs = [cluster.node(0, 1, *say, scorer_port=0) for _ in range(2)]
    for run in runs:
        run.wait_for(lambda run=run: said_address(run))
    addresses = [said_address(run)[1] for run in runs]
    assert addresses[0] != addresses[1] and all(map(is_healthy, addresses))
    assert first.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert list(map(is_healthy, addresses)) == [False, True]
    assert second.end(signal.SIGTERM) == 128 + signal.SIGTERM


def test_another_server_at_the_port_is_not_taken_for_the_nodes_scorer(cluster, scorer_server, tmp_path):
    """Ray's metrics exporter answers every path with 200; a scorer of another run may have other databases."""
    other, thread = start_http_server(0, "127.0.0.1")
    try:
        assert not is_healthy(f"http://127.0.0.1:{other.server_port}")
        for port in (other.server_port, int(scorer_server.rpartition(":")[2])):
            server = ScorerServer(cluster.scorer_config, None, tmp_path / "log", tmp_path, port=port)
            with pytest.raises(UserError, match=f"did not start: .*cannot listen .*{port}"):
                server.wait_until_ready(60)
    finally:
        other.shutdown()
        thread.join()


def test_a_launcher_that_is_killed_takes_its_programs_along(cluster):
    node = cluster.node(0, 1, *FOR_EVER)
    node.wait_for(lambda: cluster.processes("sleep"))
    running = cluster.processes()
    assert any("rl.scorer" in process.cmdline() for process in running)
    node.process.kill()
    assert not psutil.wait_procs(running, timeout=60)[1]


def test_a_signal_while_the_last_processes_are_ended(cluster):
    """The command has ended, and what it left ignores SIGTERM for the seconds until it is killed."""
    command = ("bash", "-c", "trap '' TERM; sleep 1000000 & exit 0")
    node = cluster.node(0, 1, *command)
    node.wait_for(lambda: cluster.processes("sleep") and not cluster.processes("bash"))
    time.sleep(3 * programs.POLL_S)  # the launcher has seen that it ended
    assert node.end(signal.SIGTERM) == 0
    assert not cluster.processes()


def test_what_cannot_start_is_one_sentence(cluster):
    """Ports in use, a head, a program and a folder for logs that are not there. Nothing of it is started again."""
    taken = ("127.0.0.1", cluster.scorer_port), (address(0), cluster.ray_port)
    with socket.create_server(taken[0]), socket.create_server(taken[1]):
        started = [
            (
                cluster.node(0, 1),
                rf"did not start: The .* listen on 127.0.0.1 port {cluster.scorer_port}.*scorer_port",
            ),
            (cluster.node(0, 2), rf"port {cluster.ray_port} .*Address already in use.*launch.ray_port"),
            (
                cluster.node(1, 2, head=address(2), wait_seconds=1),
                rf"Node 1 did not reach Ray's head at {address(2)} port {cluster.ray_port} within 1 s .*refused",
            ),
            (cluster.node(0, 1, "/no/program", scorer_port=0), "/no/program cannot be run"),
        ]
        for node, said in started:
            assert node.end() == 2
            [sentence] = node.errors()
            assert re.search(said, sentence) and "restarted" not in node.text()
    assert not cluster.processes()


def test_a_ray_that_was_too_slow_is_started_again(tmp_path, monkeypatch):
    """What `ray start` prints waits in a buffer, which Python may write only after the error that says so."""
    program = """
import pathlib
print("Local node IP")
said = pathlib.Path(__file__).with_name("said")
if not said.exists():
    said.touch()
    raise Exception("The current node timed out during startup.")
print("Ray runtime started.")
"""
    for file, text in {"__init__.py": "", "scripts/__init__.py": "", "scripts/scripts.py": program}.items():
        (tmp_path / "ray" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ray" / file).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    settings = Node(2, 0, address(0), address(0), "", "", "", 0, 1, 60, "", 1, "cpu")
    RayNode(settings, tmp_path, address(0), scorer_port=0).wait_until_started(time.monotonic() + 60)
