"""Transport of batches of responses to the scorer servers, with retries.

Each of three kinds of failure has its limit. A request that fails (no connection, no answer in time, a 408 or 5xx) is
repeated after growing pauses, on another server if there is one, up to `retries` times in a row. A response on which a
worker of the server failed (infra_error) is sent again alone, up to `retries` times. If a server is busy, the client
waits as long as the server says or asks another one, up to `busy_limit_s`. tenacity and aiohttp-retry repeat a call
under one limit; here the three limits reset each other, and responses leave the batch as they are scored.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from rl.common.outcomes import VERDICT_HEADER
from rl.common.time_limits import BUSY_LIMIT_S, CLIENT_REQUEST_S, LONGEST_PAUSE_S, RETRIES
from rl.scorer.client.protocol import (
    Job,
    Score,
    ScorerMismatch,
    ScorerRefused,
    ScorerUnavailable,
    by_question,
    read_answers,
    request_body,
    says_busy,
    sentence,
)
from rl.scorer.client.servers import START_HINT, NoServerKnown, Server, ServerPool

# A host that is down does not even refuse a connection.
CONNECT_TIMEOUT_S = 10.0
HEARTBEAT_TIMEOUT_S = 5.0
# The pause if a busy server does not say for how long; the shortest and the longest pause.
DEFAULT_BUSY_S = 1.0
SHORTEST_BUSY_S, LONGEST_BUSY_S = 0.1, 2 * LONGEST_PAUSE_S


@dataclass(frozen=True)
class RequestSettings:
    """Limits of the requests of one client."""

    # How long one request may take.
    timeout_s: float = CLIENT_REQUEST_S
    # How often a failed request is repeated.
    retries: int = RETRIES
    # How long healthy servers may be busy.
    busy_limit_s: float = BUSY_LIMIT_S
    # The pause after the first failure; each further one is twice as long.
    first_backoff_s: float = 0.5
    # Requests at a time; more wait.
    max_in_flight: int = 32
    # Whether scores of SQL come with a digest of its result.
    digests: bool = False


class _TryAgain(Exception):
    """A request failed; another one may succeed."""


class _ServerError(_TryAgain):
    """The server answered with HTTP 5xx, or 408: the body did not arrive in time."""


class _Busy(Exception):
    """The server is busy."""


class Transport:
    """Requests to the servers of a pool, in one session. Belongs to one event loop.

    Args:
        servers: the servers to ask.
    """

    def __init__(self, servers: ServerPool, settings: RequestSettings):
        self._servers, self._settings = servers, settings
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._session: aiohttp.ClientSession | None = None
        self.rules: tuple[str, str] | None = None  # the first server that said what decides its verdicts, and what

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def score(self, jobs: Sequence[Job]) -> None:
        """Give every job its score, or an error if the servers' workers keep failing on it.

        Raises (some jobs may have no score then):
            ScorerUnavailable: see the limits above.
            ScorerRefused, ScorerMismatch: a server rejects the request, or is not a scorer.
        """
        failures, busy_since = 0, None
        while jobs := [job for job in jobs if not job.score.done()]:
            try:
                answered = await self._ask(jobs)
            except _Busy:
                failures, now = 0, asyncio.get_running_loop().time()
                busy_since = now if busy_since is None else busy_since
                if now - busy_since > self._settings.busy_limit_s:
                    raise ScorerUnavailable(
                        f"The scorer servers at {self._servers} are healthy, but have been busy for "
                        f"{self._settings.busy_limit_s:g} s: start more of them, give them more workers "
                        "(num_instances), or raise reward_kwargs.busy_limit."
                    ) from None
                await self._wait_for_time(jobs)
            except (_TryAgain, NoServerKnown) as error:
                failures += 1
                if failures > self._settings.retries:
                    told = self.fault if isinstance(error, _ServerError) else self.silence
                    raise ScorerUnavailable(told(f"{failures} attempts", str(error))) from None
                for job in jobs:
                    job.effort.retries += 1
                # Another server takes the request at once.
                await asyncio.sleep(0 if failures == 1 and self._servers.healthy() else self._backoff(failures))
            else:
                failures, busy_since = 0, None
                failed_on = [job for job, score in answered if not self._hand_out(job, score)]
                if failed_on:
                    await asyncio.sleep(self._backoff(max(job.effort.infra_errors for job in failed_on)))

    async def heartbeat(self, address: str) -> str | None:
        """A server's fault, or None if it is healthy."""
        limit = aiohttp.ClientTimeout(total=HEARTBEAT_TIMEOUT_S)
        try:
            async with self._open_session().get(f"{address}/heartbeat", timeout=limit) as answer:
                return None if answer.status == 200 else f"HTTP {answer.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return str(error) or f"no answer within {HEARTBEAT_TIMEOUT_S:g} s"

    async def info(self, address: str) -> dict | None:
        """What a server serves; None if it does not say."""
        limit = aiohttp.ClientTimeout(total=HEARTBEAT_TIMEOUT_S)
        try:
            async with self._open_session().get(f"{address}/v1/info", timeout=limit) as answer:
                body = await answer.json() if answer.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return None
        return body if isinstance(body, dict) and isinstance(body.get("scorers"), list) else None

    def silence(self, effort: str, reason: str) -> str:
        """The message for servers that do not respond."""
        return (
            f"No scorer answers at {self._servers} ({effort}; {reason.removesuffix('.')}): {START_HINT}, or set "
            "DPH_SCORER to its address."
        )

    def fault(self, effort: str, reason: str) -> str:
        """The message for servers that respond, but fail."""
        return f"The scorer at {self._servers} answers, but fails ({effort}; {reason}): see the server's log."

    async def _ask(self, jobs: Sequence[Job]) -> list[tuple[Job, Score | str]]:
        """Make one request and update the server's health."""
        async with self._slots:
            if self._servers.busy_for() > 0:
                raise _Busy
            with self._servers.lend(len(jobs)) as server:
                try:
                    answered = await self._post(server, jobs)
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    reason = str(error) or f"no answer within {self._settings.timeout_s:g} s"
                    self._servers.failed(server, reason)
                    raise _TryAgain(f"{server.address}: {reason}") from error
                except _TryAgain as error:
                    self._servers.failed(server, str(error))
                    raise
        if any(isinstance(score, Score) for _, score in answered):
            self._servers.succeeded(server)
        else:
            self._servers.failed(server, "its workers failed on every response of a request")
        return answered

    async def _post(self, server: Server, jobs: Sequence[Job]) -> list[tuple[Job, Score | str]]:
        if not server.healthy:
            server.probes += 1
            try:
                reason = await self.heartbeat(server.address)
            finally:
                server.probes -= 1
            if reason:
                raise _TryAgain(f"{server.address}: {reason}")
        groups = by_question(jobs)
        for job in jobs:
            job.effort.requests += 1 / len(jobs)
        limit = aiohttp.ClientTimeout(total=self._settings.timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        async with self._open_session().post(
            f"{server.address}/v1/score", json=request_body(groups, self._settings.digests), timeout=limit
        ) as answer:
            text = await answer.text(errors="replace")
        if says_busy(answer.status, text):
            self._servers.busy(server, _seconds(answer.headers.get("Retry-After")))
            raise _Busy
        if answer.status >= 500 or answer.status == 408:
            raise _ServerError(f"{server.address}: HTTP {answer.status} {sentence(text)}")
        try:
            if answer.status != 200:
                reason = f"(HTTP {answer.status}): {sentence(text)}"
                raise ScorerRefused(f"Scorer {server.address} rejects a request {reason}")
            self._require_same_rules(server, answer.headers.get(VERDICT_HEADER))
            return read_answers(server.address, text, groups)
        except (ScorerRefused, ScorerMismatch):
            self._servers.succeeded(server)  # it responds
            raise

    def _require_same_rules(self, server: Server, verdict_sha256: str | None) -> None:
        """Reject a server with other rules than the first one's: one that joined later, or came back."""
        if not verdict_sha256:
            return
        first, rules = self.rules = self.rules or (server.address, verdict_sha256)
        if verdict_sha256 != rules:
            raise ScorerMismatch(
                f"Scorer {server.address} judges by other rules (verdict_sha256 {verdict_sha256[:12]}) than {first} "
                f"did ({rules[:12]}): start it with the same configuration."
            )

    def _hand_out(self, job: Job, score: Score | str) -> bool:
        """Resolve a job with its score, or with an error if it has no retry left; else return False."""
        if isinstance(score, Score):
            job.effort.healthy_servers = self._servers.healthy()
            job.resolve(score)
            return True
        job.effort.infra_errors += 1
        if job.effort.infra_errors <= self._settings.retries:
            return False
        job.fail(
            ScorerUnavailable(
                f"The scorer at {self._servers} answers, but {job.effort.infra_errors} of its workers failed on one "
                f"response to {job.key:.200} ({score}): see the server's log."
            )
        )
        return True

    async def _wait_for_time(self, jobs: Sequence[Job]) -> None:
        """Return when a server may be free."""
        wait = self._servers.busy_for()
        if wait == 0:
            return
        for job in jobs:
            job.effort.busy_waits += 1
        # Jitter, so that waiting requests do not all return at once.
        await asyncio.sleep(wait * random.uniform(1.0, 1.5))

    def _backoff(self, failures: int) -> float:
        return min(self._settings.first_backoff_s * 2 ** (failures - 1), LONGEST_PAUSE_S) * random.uniform(0.75, 1.25)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session


def _seconds(retry_after: str | None) -> float:
    try:
        return min(max(int(retry_after or ""), SHORTEST_BUSY_S), LONGEST_BUSY_S)
    except ValueError:  # no header, or a date
        return DEFAULT_BUSY_S
