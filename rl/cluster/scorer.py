"""Scorer servers: one that is restarted when it ends, one that runs during a block, and a check whether one answers."""

import http.client
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rl.cluster.programs import POLL_S, say, start
from rl.common.errors import UserError, cause_in
from rl.common.processes import end_process_tree
from rl.common.time_limits import SERVER_START_S

LOOPBACK = "127.0.0.1"
HEARTBEAT_S = 2.0
# Between two starts of a server that ends again and again.
RESTART_S = 10.0
# For the command of a run that starts its own scorers: they have read it, and the command must not compare it with what
# these serve, because a folder may have another path on another node, and math reads none.
UNSET_SCORER_VARIABLES = {"DATABASE_PATH": ""}
# A proxy of the environment (http_proxy) is for other addresses.
_WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ScorerServer:
    """A scorer server on this machine.

    Args:
        config: the server's YAML.
        databases: the folder that db_ids are relative to, in place of the configuration's.
        folder: where the server writes its address; a server that starts again takes the same port.
        host, port: where it listens; port 0 is a free one.
    """

    def __init__(
        self,
        config: Path | str,
        databases: Path | str | None,
        log: Path,
        folder: Path,
        host: str = LOOPBACK,
        port: int = 0,
        python: str = sys.executable,
    ):
        self._log, self._file, self._port = log, folder / "scorer.address", port
        self._command = [python, "-m", "rl.scorer", "-c", str(config), "--address", host]
        self._command += ["--address-file", str(self._file)]
        if databases:
            self._command += ["--database-path", str(databases)]
        self._start()

    def _start(self) -> None:
        self._started = time.monotonic()
        self.process = start([*self._command, "--port", str(self._port)], {"RAY_AUTH_TOKEN": ""}, self._log)

    def wait_until_ready(self, seconds: float, hint: str = "") -> str:
        """Wait until the server answers, and return its address.

        Raises:
            UserError: the server has ended or does not answer in time: the cause in its log, and the hint.
        """
        deadline = time.monotonic() + seconds
        while not ((address := self._address()) and is_healthy(address)):
            if (gone := self.process.poll() is not None) or time.monotonic() > deadline:
                failed = "did not start" if gone else "does not answer in time"
                cause = cause_in(self._log).replace("pass --database-path DIR", "set DATABASE_PATH=DIR")
                raise UserError(f"The scorer {failed}: {cause}{hint}")
            time.sleep(POLL_S)
        self._port = int(address.rpartition(":")[2])
        return address

    def _address(self) -> str:
        return f"http://{self._file.read_text().strip()}" if self._file.exists() else ""

    def check(self) -> None:
        """Start the server again if it has ended; the clients' retries bridge the time."""
        code = self.process.poll()
        if code is not None and time.monotonic() - self._started > RESTART_S:
            say(f"the scorer at {self._address()} ended with {code}; it is restarted")
            self._start()


def is_healthy(address: str) -> bool:
    """Whether a scorer server reports that it is healthy."""
    # ValueError: the answer is not JSON. Other servers may answer; Ray's metrics exporter answers every path with 200.
    other = (OSError, http.client.HTTPException, ValueError)
    with suppress(*other), _WITHOUT_PROXY.open(f"{address}/heartbeat", timeout=HEARTBEAT_S) as response:
        return json.load(response) == {"status": "healthy"}
    return False


@contextmanager
def temporary_scorer(config: Path, databases: Path | None, log: Path, python: str = sys.executable) -> Iterator[str]:
    """Run a scorer server on a free port of this machine, and yield its address."""
    with tempfile.TemporaryDirectory(prefix="dph-scorer-") as folder:
        log.unlink(missing_ok=True)
        server = ScorerServer(config, databases, log, Path(folder), python=python)
        try:
            yield server.wait_until_ready(SERVER_START_S)
        finally:
            end_process_tree(server.process)
