"""The scorer server of a node: it is started, awaited, and started again when it ends."""

import asyncio
import http.client
import sys
import urllib.request
from asyncio.subprocess import Process
from contextlib import suppress

from rl.cluster.errors import ClusterError
from rl.cluster.programs import Programs, say
from rl.cluster.settings import Deadline, Settings

LOG = "scorer"
HEARTBEAT_S = 2.0
POLL_S = 0.2
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# A server that served longer than this ended for a new reason.
STEADY_S = 60.0
# What comes instead of an HTTP answer.
_SILENT = (OSError, http.client.HTTPException)


class Scorer:
    """A node's scorer server, listening on `host`."""

    def __init__(self, programs: Programs, settings: Settings, host: str):
        self._programs, self._settings, self._host = programs, settings, host
        bracketed = f"[{host}]" if ":" in host else host
        self.address = f"http://{bracketed}:{settings.scorer_port}"
        self._process: Process | None = None

    async def start(self, deadline: Deadline) -> None:
        """Returns when it answers.

        Raises:
            ClusterError: it ended at once, with its own sentence, or does not answer within the time limit.
        """
        await self._launch()
        while not await answers(self.address):
            if self._process.returncode is not None:
                reason = self._programs.last_line(LOG)
                raise ClusterError(
                    f"The scorer of node {self._settings.rank} did not start: {reason} (its settings: "
                    f"{self._settings.scorer_config}; its port: SCORER_PORT={self._settings.scorer_port})"
                )
            if deadline.left == 0:
                raise ClusterError(
                    f"The scorer of node {self._settings.rank} does not answer at {self.address} after "
                    f"{deadline.seconds:g} s; see {self._programs.log(LOG)}."
                )
            await asyncio.sleep(POLL_S)

    async def keep_running(self) -> None:
        """Starts the server again, after growing pauses, whenever it ends; the client's retries cover the gap."""
        pause, loop = FIRST_PAUSE_S, asyncio.get_running_loop()
        while True:
            started = loop.time()
            code = await self._process.wait()
            if loop.time() - started > STEADY_S:
                pause = FIRST_PAUSE_S
            say(f"the scorer at {self.address} ended with {code}; it is started again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            await self._launch()

    async def _launch(self) -> None:
        settings = self._settings
        self._process = await self._programs.start(
            [
                *(sys.executable, "-m", "rl.scorer", "-c", str(settings.scorer_config)),
                *("--address", self._host, "--port", str(settings.scorer_port)),
            ],
            log=LOG,
        )


async def answers(address: str) -> bool:
    """Whether a scorer server says that it is healthy."""

    def ask() -> bool:
        with suppress(*_SILENT), urllib.request.urlopen(f"{address}/heartbeat", timeout=HEARTBEAT_S) as answer:
            return answer.status == 200
        return False

    return await asyncio.to_thread(ask)
