"""The scorer server of a node: started, awaited, and restarted when it ends."""

import http.client
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rl.cluster.programs import POLL_S, last_line, say, start
from rl.common.errors import UserError

HEARTBEAT_S = 2.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# A server that served longer than this ended for a new reason.
STEADY_S = 60.0


class ScorerServer:
    """A scorer server on `host`. When it ends, it is restarted after growing pauses, which clients' retries cover.

    Args:
        databases: in place of the configuration's, if given.
    """

    def __init__(self, config: Path, databases: str | None, host: str, port: int, log: Path):
        self._config, self._log = config, log
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._command = [
            *(sys.executable, "-m", "rl.scorer", "-c", str(config)),
            *("--address", host, "--port", str(port)),
            *(["--database-path", databases] if databases else []),
        ]
        self._ended = False
        self._taken = is_healthy(self.address)
        threading.Thread(target=self._keep_running, daemon=True).start()

    def wait_until_ready(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> str:
        """Returns its address when it answers.

        Raises:
            UserError: another scorer held the port, it ended at once, with its own sentence, or does not answer within
                so many seconds.
        """
        deadline = time.monotonic() + seconds
        if self._taken:
            raise UserError(
                f"Another scorer runs at {self.address}, perhaps on other databases: end it, pass its address in "
                "DPH_SCORER, or give all nodes another SCORER_PORT."
            )
        while not is_healthy(self.address):
            if self._ended:
                raise UserError(
                    f"The scorer at {self.address} did not start: {last_line(self._log)} "
                    f"(SCORER_CONFIG={self._config}; its port is SCORER_PORT)"
                )
            if time.monotonic() > deadline:
                raise UserError(f"The scorer at {self.address} does not answer in time; its log is {self._log}.")
            sleep(POLL_S)
        return self.address

    def _keep_running(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            code = start(self._command, {"RAY_AUTH_TOKEN": ""}, self._log).wait()
            self._ended = True
            if time.monotonic() - started > STEADY_S:
                pause = FIRST_PAUSE_S
            say(f"the scorer at {self.address} ended with {code}; it is restarted in {pause:g} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)


def is_healthy(address: str) -> bool:
    """Whether a scorer server says that it is healthy."""
    # ValueError: no JSON. Other servers answer as well: Ray's metrics exporter says 200 to every path.
    other = (OSError, http.client.HTTPException, ValueError)
    with suppress(*other), urllib.request.urlopen(f"{address}/heartbeat", timeout=HEARTBEAT_S) as response:
        return json.load(response) == {"status": "healthy"}
    return False
