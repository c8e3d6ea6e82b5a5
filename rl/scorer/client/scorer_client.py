"""The client of the scorer server: a failure of the infrastructure raises, and is never a reward of 0."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rl.common.errors import UserError
from rl.scorer.client.protocol import Job, Score, ScorerRefused, ScorerUnavailable, by_question
from rl.scorer.client.servers import NoServerKnown, ServerPool
from rl.scorer.client.transport import RequestSettings, Transport

logger = logging.getLogger(__name__)

# Responses that come within this time share a request, up to a number (more would spread badly over servers and wait
# for a slow query in their request) and a size (a server bounds bodies).
BATCH_WINDOW_S = 0.005
BATCH_RESPONSES = 32
BATCH_CHARACTERS = 500_000
HEARTBEAT_INTERVAL_S = 0.5


class ScorerClient:
    """Grades responses on one or many scorer servers. Belongs to one event loop; close it, or use it in `async with`.

    Args:
        scorer: an address, a comma-separated list, or a directory of address files (see ServerPool).
        settings: fields of RequestSettings.
    """

    def __init__(self, scorer: str | Sequence[str], **settings: Any):
        self._servers = ServerPool(scorer)
        self._transport = Transport(self._servers, RequestSettings(**settings))
        self._waiting: list[Job] = []
        self._characters = 0
        self._window: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task] = set()

    async def __aenter__(self) -> "ScorerClient":
        return self

    async def __aexit__(self, *exception) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel the requests under way and their callers."""
        self._send()
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._transport.close()

    async def score(self, response: str, question: Mapping[str, Any]) -> Score:
        """Grade one response.

        Args:
            response: the model's text.
            question: for SQL db_id, gold_sql and cmp_method, for math ground_truth (see scorer_question).

        Raises:
            ScorerUnavailable: no server could grade it after the retries, or servers were busy for too long.
            ScorerRefused: the server rejects the request (4xx).
            ScorerMismatch: the server is not a scorer, or has another version.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        # Half a surrogate pair has no UTF-8, and no server would accept it.
        response = response.encode("utf-8", "replace").decode("utf-8")
        job = Job(dict(question), json.dumps(question, sort_keys=True), response, loop.create_future())
        self._waiting.append(job)
        self._characters += len(response)
        if len(self._waiting) == BATCH_RESPONSES or self._characters >= BATCH_CHARACTERS:
            self._send()
        elif self._window is None:
            self._window = loop.call_later(BATCH_WINDOW_S, self._send)
        score = await job.score
        return replace(score, effort=replace(job.effort, seconds=loop.time() - started))

    async def wait_until_healthy(self, timeout_s: float) -> None:
        """Return when a server answers its heartbeat; to be called before expensive work that needs a scorer."""
        deadline, waits = asyncio.get_running_loop().time() + timeout_s, False
        while True:
            reasons = await self._heartbeats()
            silent = {address: reason for address, reason in reasons.items() if reason}
            if len(silent) < len(reasons):
                for address, reason in silent.items():
                    logger.warning("Scorer %s does not answer (%s); the others are used.", address, reason)
                return
            if asyncio.get_running_loop().time() >= deadline:
                reason = next(iter(silent.values()))
                raise ScorerUnavailable(self._transport.silence(f"waited {timeout_s:g} s", reason))
            if not waits:
                logger.warning("No scorer answers at %s yet; waiting up to %g s for one.", self._servers, timeout_s)
            waits = True
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)

    async def infos(self) -> dict[str, dict | None]:
        """What each server serves (GET /v1/info), by address; None if it does not say."""
        addresses = [server.address for server in self._servers.servers()]
        found = await asyncio.gather(*map(self._transport.info, addresses))
        return dict(zip(addresses, found, strict=True))

    async def verdict_sha256(self) -> str:
        """What decides the servers' verdicts (rl.scorer.config.Settings.verdict_sha256); "" if none says it."""
        said = {address: info.get("verdict_sha256") for address, info in (await self.infos()).items() if info}
        by_value = {value: address for address, value in said.items() if isinstance(value, str)}
        if len(by_value) > 1:
            first, second, *_ = by_value.values()
            raise UserError(
                f"The scorers at {first} and {second} judge with different settings: start all with one configuration."
            )
        for value, address in by_value.items():
            self._transport.rules = address, value  # a server may be started again with others before it scores
        return next(iter(by_value), "")

    async def _heartbeats(self) -> dict[str, str | None]:
        """The fault of each server, None if it is healthy."""
        try:
            servers = self._servers.servers()
        except NoServerKnown as error:
            return {str(self._servers): str(error)}
        reasons = await asyncio.gather(*(self._transport.heartbeat(server.address) for server in servers))
        return {server.address: reason for server, reason in zip(servers, reasons, strict=True)}

    def _send(self) -> None:
        """Send the waiting jobs."""
        if self._window is not None:
            self._window.cancel()
        jobs, self._waiting, self._characters, self._window = self._waiting, [], 0, None
        if jobs:
            task = asyncio.get_running_loop().create_task(self._deliver(jobs))
            self._sending.add(task)  # the loop itself holds tasks weakly
            task.add_done_callback(lambda task: self._sent(task, jobs))

    def _sent(self, task: asyncio.Task, jobs: list[Job]) -> None:
        self._sending.discard(task)
        for job in jobs:
            job.score.cancel()  # has an effect only if the task was cancelled

    async def _deliver(self, jobs: list[Job]) -> None:
        """Give every job its score or an error."""
        try:
            await self._transport.score(jobs)
        except ScorerRefused as error:
            # One bad question or response may be the reason: send each question alone, then each response.
            jobs = [job for job in jobs if not job.score.done()]
            parts = by_question(jobs)
            if len(parts) == 1:
                parts = [[job] for job in jobs]
            if len(parts) == 1:
                jobs[0].fail(error)
            else:
                await asyncio.gather(*(self._deliver(part) for part in parts))
        except Exception as error:
            for job in jobs:
                job.fail(error)
