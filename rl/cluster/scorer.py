"""Scorer servers: one that is restarted when it ends, one that runs during a block, and a check whether one answers."""

import http.client
import json
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rl.cluster.programs import pause, say, start
from rl.common.atomic_write import write_text
from rl.common.cli import USER_ERROR_EXIT_CODE
from rl.common.errors import UserError, cause_in
from rl.common.processes import end_process_tree
from rl.common.time_limits import LONGEST_PAUSE_S, SERVER_START_S

HEARTBEAT_S = 2.0
USUAL_PORT = 5001  # of dph scorer (rl/scorer/config.py)
FIRST_PAUSE_S = 1.0
# A server that has run this long is restarted after a short pause again.
STEADY_S = 60.0
# A proxy of the environment (http_proxy) is for other addresses.
_WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ScorerServer:
    """A scorer server on `host`. If it ends, it is restarted after growing pauses, which the clients' retries bridge.

    Args:
        databases: replaces the configuration's folder of databases, if given.
        port: the server's port; 0 takes a free one.
        folder: the folder for its log and its port.
    """

    def __init__(self, config: Path, databases: str | None, host: str, port: int, folder: Path):
        self._config, self._log = config, folder / "scorer.log"
        port = port or _own_port(host, folder)
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._command = _command(sys.executable, config, databases, "--address", host, "--port", str(port))
        self._ended, self._answered = False, False
        self._taken = is_healthy(self.address)
        threading.Thread(target=self._keep_running, daemon=True).start()

    def wait_until_ready(self, seconds: float) -> str:
        """Wait until the server answers, and return its address.

        Raises:
            UserError: another scorer holds the port, ours ended (with its own sentence) or does not answer in time.
        """
        if self._taken:
            raise UserError(
                f"Another scorer runs at {self.address}, perhaps on other databases: leave launch.scorer_port out, so "
                "that this run's scorer takes a free port, or name the other one in DPH_SCORER."
            )
        hint = f" (launch.scorer_config={self._config}; its port is launch.scorer_port; its log is {self._log})"
        _wait(lambda: self.address, lambda: self._ended, seconds, self._log, hint)
        self._answered = True
        return self.address

    def _keep_running(self) -> None:
        wait_s = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            code = start(self._command, {"RAY_AUTH_TOKEN": ""}, self._log).wait()
            self._ended = True
            if time.monotonic() - started > STEADY_S:
                wait_s = FIRST_PAUSE_S
            # What keeps a server from starting is wait_until_ready's to say. An agent that started again calls that no
            # more, and its port may still be the old server's.
            if self._answered or code != USER_ERROR_EXIT_CODE:
                say(f"the scorer at {self.address} ended with {code}; it is restarted in {wait_s:g} s")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_PAUSE_S)


def _command(python: str, config: Path, databases: Path | str | None, *options: str) -> list[str]:
    """The command of a server. Databases, if given, replace the configuration's folder."""
    of_databases = ["--database-path", str(databases)] if databases else []
    return [python, "-m", "rl.scorer", "-c", str(config), *options, *of_databases]


def _wait(address: Callable[[], str], ended: Callable[[], bool], seconds: float, log: Path, hint: str = "") -> str:
    """Wait until a server answers, and return its address, which is "" while it is not known.

    Raises:
        UserError: the server has ended or does not answer in time: the cause in its log, and the hint.
    """
    deadline = time.monotonic() + seconds
    while not ((found := address()) and is_healthy(found)):
        if (gone := ended()) or time.monotonic() > deadline:
            at, failed = f" at {found}" if found else "", "did not start" if gone else "does not answer in time"
            cause = cause_in(log).replace("pass --database-path DIR", "set DATABASE_PATH=DIR")
            raise UserError(f"The scorer{at} {failed}: {cause}{hint}{_unnamed()}")
        pause()
    return found


def _unnamed() -> str:
    """A sentence about a scorer that runs on this machine, for a run that has not named it; "" without one."""
    address = f"http://127.0.0.1:{USUAL_PORT}"
    return f" A scorer runs at {address}: to use it, export DPH_SCORER={address}" if is_healthy(address) else ""


def _own_port(host: str, folder: Path) -> int:
    """A free port. A node's agent that starts again gets the same one, because the clients know it already."""
    kept = folder / "scorer.port"
    if not kept.exists():
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as free:
            write_text(kept, str(free.getsockname()[1]))
    return int(kept.read_text())


def is_healthy(address: str) -> bool:
    """Whether a scorer server reports that it is healthy."""
    # ValueError: the answer is not JSON. Other servers may answer; Ray's metrics exporter answers every path with 200.
    other = (OSError, http.client.HTTPException, ValueError)
    with suppress(*other), _WITHOUT_PROXY.open(f"{address}/heartbeat", timeout=HEARTBEAT_S) as response:
        return json.load(response) == {"status": "healthy"}
    return False


@contextmanager
def temporary_scorer(config: Path, databases: Path | None, log: Path, python: str = sys.executable) -> Iterator[str]:
    """Run a scorer server on a free port of this machine, and yield its address.

    Args:
        config: the server's YAML.
        databases: the folder that db_ids are relative to, in place of the configuration's.

    Raises:
        UserError: the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="dph-scorer-") as folder:
        log.unlink(missing_ok=True)
        file = Path(folder, "address")
        process = start(_command(python, config, databases, "--port", "0", "--address-file", str(file)), log=log)
        try:

            def address() -> str:
                return f"http://{file.read_text().strip()}" if file.exists() else ""

            yield _wait(address, lambda: process.poll() is not None, SERVER_START_S, log)
        finally:
            end_process_tree(process)
