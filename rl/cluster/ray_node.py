"""Ray on a node: `ray start --block` runs as our child process, so that only this Ray ends with us.

`ray symmetric-run` does not fit: its `ray stop` ends every Ray of the user on the machine, it does not notice a lost
node, and the other nodes exit with code 0 whatever the command's code was.
"""

import ipaddress
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from rl.cluster import node_agent
from rl.cluster.programs import pause, say, start
from rl.cluster.settings import HEAD_RANK, Deadline, Settings
from rl.common.errors import UserError, cause_in
from rl.configuration.names import is_cpu

# Without GPUs, Ray's CPUs and GPUs are only names (verl/dph/config/device/cpu.yaml).
_CPUS_WITHOUT_GPU = 16
CONNECT_S = 5.0
# A start that fails within this time would fail again.
SLOW_S = 20.0
_USAGE_ERROR = 2  # click's exit code
_STARTED = "Ray runtime started"


class RayNode:
    """This node's Ray; the constructor starts it.

    Attributes:
        address: the address under which the other nodes reach this one.
    """

    def __init__(self, settings: Settings, folder: Path):
        self.address = settings.node_address or _address_towards(settings.head, settings.ray_port)
        self._rank, self._log = settings.rank, folder / "ray.log"
        self._log.unlink(missing_ok=True)
        environment = node_agent.environment(settings, folder, self.address)
        self._process: subprocess.Popen = start(self._command(settings, folder), environment, self._log)

    @property
    def started(self) -> bool:
        """Whether `ray start` has reported success."""
        return _STARTED in self._log.read_text(errors="replace")

    def check(self) -> None:
        """
        Raises:
            UserError: `ray start` does not take its arguments.
            ConnectionError: Ray has ended on this node.
        """
        if (code := self._process.poll()) is None:
            return
        node, said = "the head" if self._rank == HEAD_RANK else f"node {self._rank}", cause_in(self._log)
        if code == _USAGE_ERROR:
            raise UserError(
                f"Ray on {node} does not take its arguments ({said}): correct launch.ray_arguments or "
                "launch.node_address."
            )
        raise ConnectionError(f"Ray on {node} ended: {said} (log: {self._log})")

    def _command(self, settings: Settings, folder: Path) -> list[str]:
        if settings.rank == HEAD_RANK:
            role = [
                *("--head", f"--port={settings.ray_port}", "--include-dashboard=false"),
                # On Ray's default, a fixed port, two Rays of one machine would collide.
                f"--ray-client-server-port={_free_port()}",
            ]
        else:
            role = [f"--address={settings.head}:{settings.ray_port}"]
        resources = list(settings.ray_argument)
        if settings.rank >= settings.training_nodes:
            # No part of training runs here, so the node may be lost.
            resources += ["--num-cpus=0", "--num-gpus=0"]
        elif is_cpu(settings.device):
            resources = [f"--num-cpus={_CPUS_WITHOUT_GPU}", f"--num-gpus={settings.gpus}", *resources]
        return [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"),
            *(f"--temp-dir={folder / 'ray'}", "--log-style=record", "--log-color=false"),
            *(f"--node-ip-address={self.address}", *role, *resources),
            "--labels=" + ",".join(f"{name}={value}" for name, value in settings.labels.items()),
        ]


def check_port(settings: Settings) -> None:
    """Reject a port that is taken; otherwise the nodes would join another Ray by mistake.

    Raises:
        UserError: the port is taken.
    """
    try:
        socket.create_server((settings.node_address or "", settings.ray_port)).close()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else error
        raise UserError(
            f"Ray's head cannot listen on port {settings.ray_port} ({reason}): end what holds the port (another Ray?), "
            "or give all nodes another launch.ray_port."
        ) from None


def start_ray(settings: Settings, folder: Path, deadline: Deadline) -> RayNode:
    """Start Ray on this node, and repeat until the deadline, because Ray gives a busy machine only 30 s.

    Raises:
        UserError: `ray start` does not take its arguments.
        ConnectionError: every start failed, or the head's first start failed at once.
    """
    while True:
        began = time.monotonic()
        node = RayNode(settings, folder)
        try:
            while not node.started:
                node.check()
                pause()
            return node
        except ConnectionError as error:
            at_once = settings.rank == HEAD_RANK and time.monotonic() - began < SLOW_S
            if at_once or deadline.left == 0:
                raise
            say(f"{error}; Ray is started again")


def connection_problem(address: str, port: int) -> OSError | None:
    """Why a port of Ray cannot be reached, or None. ConnectionRefusedError: the machine is up, but Ray is not."""
    try:
        socket.create_connection((address, port), timeout=CONNECT_S).close()
    except OSError as error:
        return error
    return None


def _address_towards(head: str, port: int) -> str:
    """This node's address on the route to the head; on the head itself, the address that Ray chooses."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(head, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as route:
            # UDP: nothing is sent.
            route.connect(address)
            own = route.getsockname()[0]
        if not ipaddress.ip_address(own).is_loopback:
            return own
    except OSError:
        pass
    import ray

    return ray.util.get_node_ip_address()


def _free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        return listener.getsockname()[1]
