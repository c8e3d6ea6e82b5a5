"""Nodes on one machine: each is a launcher process with its own loopback address, 127.0.1.1 and so on."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests.programs import REPOSITORY

# Longer than a slow machine takes; the tests go on as soon as the expected thing happens.
PATIENCE_S = 600.0
MARK = "CLUSTER_TEST"
FOR_EVER = ("sleep", "1000000")  # a command that runs until it is ended
# What the launcher does once it knows the node.
PROGRAM = """
import json, sys
from rl.cluster.nodes import run_node
from rl.cluster.ray_node import Node
from rl.common.cli import user_errors_exit
with user_errors_exit():
    sys.exit(run_node(Node(**json.loads(sys.argv[1])), sys.argv[2:]))
"""


def address(rank: int) -> str:
    return f"127.0.1.{rank + 1}"


def free_ports(count: int) -> list[int]:
    """Below the ports that the kernel gives for port 0, which Ray asks for, and above the ports of Ray's workers."""
    free = []
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("", port)):
            free.append(port)
        if len(free) == count:
            return free
    raise OSError("no port is free")


class Node:
    """One node's launcher and its output."""

    def __init__(self, command: list[str], environment: dict[str, str], output: Path):
        self.output = output
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                command,
                env=environment,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                # A program that a shell starts with & inherits an ignored SIGINT.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def errors(self) -> list[str]:
        return [line for line in self.text().splitlines() if line.startswith("Error: ")]

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Returns when the condition holds, while the launcher runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None and time.monotonic() < deadline, self.text()
            time.sleep(0.05)

    def wait_for_text(self, text: str) -> None:
        self.wait_for(lambda: text in self.text())

    def end(self, number: int | None = None) -> int:
        """Send a signal; returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it does not end:\n{self.text()[-4000:]}")

    def family(self) -> list[psutil.Process]:
        launcher = psutil.Process(self.process.pid)
        return [launcher, *launcher.children(recursive=True)]

    def vanish(self) -> None:
        """SIGKILL to all its processes, as when the machine loses power."""
        for process in self.family():
            # Some end by themselves when others are gone.
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


class Cluster:
    """Starts nodes of one run, and knows their processes by a mark in the environment."""

    def __init__(self, folder: Path, scorer_config: Path):
        self.folder, self.scorer_config = folder, scorer_config
        self.mark = uuid.uuid4().hex
        self.ray_port, self.scorer_port = free_ports(2)
        # Short, for Ray's sockets.
        self.temporary = Path(tempfile.mkdtemp(prefix="c-", dir="/tmp"))
        self.nodes: list[Node] = []

    def start(self, command: list[str], **settings: str) -> Node:
        ours = {MARK: self.mark, "RAY_AUTH_TOKEN": self.mark, "RAY_TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        environment = {name: value for name, value in os.environ.items() if name != "DPH_SCORER"} | ours | settings
        node = Node(command, environment, self.folder / f"node{len(self.nodes)}.log")
        self.nodes.append(node)
        return node

    def node(self, rank: int, nodes: int, *command: str, wait_seconds: float = PATIENCE_S, **options: object) -> Node:
        """A node as the launcher runs it; options replace the usual ones."""
        settings = {
            "nodes": nodes,
            "node_rank": rank,
            "head": address(0),
            "node_address": address(rank),
            "scorer": "",
            "scorer_config": str(self.scorer_config),
            "databases": "",
            "scorer_port": self.scorer_port,
            "ray_port": self.ray_port,
            "wait_seconds": wait_seconds,
            "ray_arguments": "",
            "gpus": 1,
            "device": "cpu",
        }
        words = [json.dumps(settings | options), *(command or ("true",))]
        return self.start([sys.executable, "-c", PROGRAM, *words])

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Running processes of all nodes, or only those of this program or Python module."""
        found = []
        for process in psutil.process_iter(["environ", "status", "cmdline"]):
            marked = (process.info["environ"] or {}).get(MARK) == self.mark
            running = process.info["status"] != psutil.STATUS_ZOMBIE
            if marked and running and (not word or word in process.info["cmdline"][:3]):
                found.append(process)
        return found

    def close(self) -> None:
        """Kill what a failed test left."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(self.temporary, ignore_errors=True)


@pytest.fixture(scope="session")
def scorer_config(shop_databases, tmp_path_factory) -> Path:
    """The configuration of a scorer on a small database, with one worker."""
    return write_scorer_config(tmp_path_factory.mktemp("scorer") / "sql.yaml", shop_databases)


def write_scorer_config(path: Path, databases: Path) -> Path:
    scorer = {"class_name": "SqlDetailRewardModel", "database_path": str(databases), "num_instances": 1}
    path.write_text(yaml.safe_dump({"Scorers": {"Scorer1": scorer}}))
    return path


@pytest.fixture
def cluster(tmp_path, scorer_config):
    cluster = Cluster(tmp_path, scorer_config)
    yield cluster
    cluster.close()
