"""Ray on a node: `ray start --block` runs as our child process, so that only this Ray ends with us.

`ray symmetric-run` does not fit: its `ray stop` ends every Ray of the user on the machine.
"""

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rl.cluster.programs import POLL_S, say, start
from rl.common.errors import UserError, cause_in
from rl.configuration.names import is_cpu

HEAD_RANK = 0
_CPUS_WITHOUT_GPU = 16
CONNECT_S = 5.0
# Ray's own words; the second is about a machine that was too busy for its limit of 30 s.
_STARTED, _WAS_SLOW = "Ray runtime started", "timed out during startup"


@dataclass(frozen=True)
class Node:
    """A node of a run: settings of `launch` (verl/dph/config/experiment/base), completed.

    Attributes:
        gpus: of each training node; on the CPU its ranks.
        device: a file of verl/dph/config/device.
    """

    nodes: int
    node_rank: int
    head: str
    node_address: str
    scorer: str
    scorer_config: str
    databases: str
    scorer_port: int
    ray_port: int
    wait_seconds: float
    ray_arguments: str
    gpus: int
    device: str


class RayNode:
    """This node's Ray; the constructor starts it.

    Args:
        address: under which the other nodes reach this one.
        scorer_port: of this node's scorer, which the head learns from Ray.
    """

    def __init__(self, settings: Node, folder: Path, address: str, scorer_port: int):
        self._rank, self._log = settings.node_rank, folder / "ray.log"
        self._head = settings.head, settings.ray_port
        # Without GPUs, Ray's CPUs and GPUs are only names (verl/dph/config/device/cpu.yaml).
        names = [f"--num-cpus={_CPUS_WITHOUT_GPU}", f"--num-gpus={settings.gpus}"] if is_cpu(settings.device) else []
        self._command = [
            # -u: else the line of an error may come before what was printed earlier, and would not be the log's last.
            *(sys.executable, "-u", "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"),
            *(f"--temp-dir={folder / 'ray'}", "--log-style=record", "--log-color=false"),
            *(f"--node-ip-address={address}", *_role(settings), *names, *settings.ray_arguments.split()),
            f"--labels=NODE_RANK={settings.node_rank},SCORER_PORT={scorer_port}",
        ]
        self._start()

    def _start(self) -> None:
        self._log.unlink(missing_ok=True)
        self._process: subprocess.Popen = start(self._command, log=self._log)

    def wait_until_started(self, deadline: float) -> None:
        """Wait until `ray start` reports success. Until the deadline it is started again: a machine may be too busy for
        Ray's limit of 30 s, and another node may come before the head's Ray is complete. Return too if the head has
        ended.

        Raises:
            ConnectionError: Ray does not start.
        """
        while _STARTED not in self._log.read_text(errors="replace"):
            try:
                self.check()
            except ConnectionError as error:
                if self._rank != HEAD_RANK and self.head_ended():
                    return
                lasting = self._rank == HEAD_RANK and _WAS_SLOW not in str(error)
                if lasting or time.monotonic() > deadline:
                    raise
                say(f"{error}; Ray is started again")
                self._start()
            time.sleep(POLL_S)

    def head_ended(self) -> bool:
        """Whether the head's machine answers, and its Ray does not any more."""
        return isinstance(connection_problem(*self._head), ConnectionRefusedError)

    def check(self) -> None:
        """Raise ConnectionError if Ray has ended on this node."""
        if self._process.poll() is not None:
            raise ConnectionError(f"Ray on node {self._rank} ended: {cause_in(self._log)} (log: {self._log})")


def _role(settings: Node) -> list[str]:
    if settings.node_rank == HEAD_RANK:
        return ["--head", f"--port={settings.ray_port}", "--include-dashboard=false"]
    return [f"--address={settings.head}:{settings.ray_port}"]


def check_port(settings: Node) -> None:
    """Reject a port of Ray's head that is taken: the nodes would join another Ray."""
    try:
        socket.create_server((settings.node_address or "", settings.ray_port)).close()
    except OSError as error:
        raise UserError(
            f"Ray's head cannot listen on port {settings.ray_port} ({error}): end what holds the port (another Ray?), "
            "or give all nodes another launch.ray_port."
        ) from None


def connection_problem(address: str, port: int) -> OSError | None:
    """Why a port of Ray cannot be reached, or None. ConnectionRefusedError: the machine is up, but Ray is not."""
    try:
        socket.create_connection((address, port), timeout=CONNECT_S).close()
    except OSError as error:
        return error
    return None
