"""The client of the scorer server: a failure of the infrastructure raises, and is never a reward of 0."""

import asyncio
import json
import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from verl.dph.errors import UserError
from verl.dph.reward.servers import START_HINT, NoServerKnown, Server, ServerPool

logger = logging.getLogger(__name__)

# Above what the server allows for one answer: 15 s for the prediction and 60 s for the gold query, and its queue.
DEFAULT_TIMEOUT_S = 180.0
# With the backoff below about 90 s: a server that restarts is waited for.
DEFAULT_RETRIES = 8
DEFAULT_MAX_IN_FLIGHT = 64
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
# Responses to one question that come within this time travel in one request, up to a number whose queries all fit into
# the time limit of an attempt even when each runs into the server's own.
GROUP_WINDOW_S = 0.005
GROUP_SIZE = 16
HEARTBEAT_TIMEOUT_S = 5.0
HEARTBEAT_INTERVAL_S = 0.5
CORRECT_TOLERANCE = 1e-6

GOLD_FAILURES = ("gold_error", "gold_timeout")
OUTCOMES = ("match", "partial", "mismatch", "no_answer", "pred_error", "pred_timeout", *GOLD_FAILURES)
_INFRASTRUCTURE_FAILURE = "infra_error"


class ScorerUnavailable(UserError):
    """No scorer server answered after all retries."""


class ScorerRefused(UserError):
    """The server says that a request is wrong: asking again would not help."""


class _TryAgain(Exception):
    """One attempt failed in a way that another may not."""


@dataclass
class _Group:
    """Responses to one question that wait to be sent."""

    question: dict[str, Any]
    responses: list[str] = field(default_factory=list)
    scores: list[asyncio.Future] = field(default_factory=list)


@dataclass(frozen=True)
class Score:
    """The grade of one response."""

    score: float  # 0..1; 0 where the reference query itself cannot run
    acc: int  # 1 when score is 1 within 1e-6
    pred: str | None  # the answer read from the response, None where there is none
    outcome: str  # one of OUTCOMES

    @property
    def gold_error(self) -> int:
        """1 where the reference query itself cannot run: the score says nothing about the response."""
        return int(self.outcome in GOLD_FAILURES)


class ScorerClient:
    """Grades responses on one or many scorer servers. Belongs to one event loop; close it, or use it in `async with`.

    Args:
        scorer: an address, a comma-separated list, or a directory of address files (see ServerPool).
        timeout_s: of one attempt; above the server's own limits.
        retries: attempts after the first, with exponential backoff.
        max_in_flight: requests at a time; more wait.
    """

    def __init__(
        self,
        scorer: str | Sequence[str],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        first_backoff_s: float = FIRST_BACKOFF_S,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    ):
        self._servers = ServerPool(scorer)
        self._timeout_s = timeout_s
        self._retries = retries
        self._first_backoff_s = first_backoff_s
        self._slots = asyncio.Semaphore(max_in_flight)
        self._session: aiohttp.ClientSession | None = None
        self._groups: dict[str, _Group] = {}
        self._sending: set[asyncio.Task] = set()

    async def __aenter__(self) -> "ScorerClient":
        return self

    async def __aexit__(self, *exception) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def score(self, response: str, question: Mapping[str, Any]) -> Score:
        """Grades one response.

        Args:
            response: the model's text.
            question: the `extra` of the protocol, for SQL db_id, gold_sql and cmp_method (see scorer_question).

        Raises:
            ScorerUnavailable: no server could grade it after the retries.
            ScorerRefused: the server calls the request wrong (4xx), or is not a scorer.
        """
        loop = asyncio.get_running_loop()
        key = json.dumps(question, sort_keys=True)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(dict(question))
            loop.call_later(GROUP_WINDOW_S, self._send, key, group)
        group.responses.append(response)
        group.scores.append(loop.create_future())
        score = group.scores[-1]
        if len(group.responses) == GROUP_SIZE:
            self._send(key, group)
        return await score

    def _send(self, key: str, group: _Group) -> None:
        if self._groups.get(key) is not group:  # a full group did not wait for its window
            return
        del self._groups[key]
        task = asyncio.get_running_loop().create_task(self._score_group(group))
        self._sending.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._sending.discard)

    async def _score_group(self, group: _Group) -> None:
        try:
            async with self._slots:
                scores = await self._score_with_retries({"gen_responses": group.responses, "extra": group.question})
        except ScorerRefused as error:
            if len(group.responses) == 1:
                _resolve(group.scores, error)
                return
            # One of them may be to blame: each is sent by itself.
            for response, score in zip(group.responses, group.scores, strict=True):
                await self._score_group(_Group(group.question, [response], [score]))
        except Exception as error:
            _resolve(group.scores, error)
        else:
            _resolve(group.scores, scores)

    async def wait_until_healthy(self, timeout_s: float = 30.0) -> None:
        """Returns when a server answers its heartbeat; call it before work that a missing scorer would waste.

        Raises:
            ScorerUnavailable: none does within timeout_s.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            reasons = await self._heartbeats()
            silent = {address: reason for address, reason in reasons.items() if reason}
            if len(silent) < len(reasons):
                for address, reason in silent.items():
                    logger.warning("Scorer %s does not answer (%s); the others are used.", address, reason)
                return
            if asyncio.get_running_loop().time() >= deadline:
                raise ScorerUnavailable(self._silence(f"waited {timeout_s:g} s", next(iter(silent.values()))))
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)

    async def _score_with_retries(self, body: dict) -> list[Score]:
        reason = ""
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(self._backoff(attempt))
            try:
                with self._servers.least_busy() as server:
                    return await self._attempt(server, body)
            except (_TryAgain, NoServerKnown) as error:
                reason = str(error)
        raise ScorerUnavailable(self._silence(f"{self._retries + 1} attempts", reason))

    async def _attempt(self, server: Server, body: dict) -> list[Score]:
        try:
            scores = await self._put(server, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = str(error) or f"no answer within {self._timeout_s:g} s"
            self._servers.failed(server, reason)
            raise _TryAgain(f"{server.address}: {reason}") from error
        except _TryAgain as error:
            self._servers.failed(server, str(error))
            raise
        self._servers.succeeded(server)
        return scores

    async def _put(self, server: Server, body: dict) -> list[Score]:
        async with self._open_session().put(
            f"{server.address}/api", json=body, timeout=aiohttp.ClientTimeout(total=self._timeout_s)
        ) as answer:
            if answer.status == 429 or answer.status >= 500:
                raise _TryAgain(f"{server.address}: HTTP {answer.status}")
            text = await answer.text(errors="replace")
            if answer.status != 200:
                raise ScorerRefused(
                    f"Scorer {server.address} refuses a request (HTTP {answer.status}): {_sentence(text)}"
                )
        return _read_scores(server.address, text, len(body["gen_responses"]))

    async def _heartbeats(self) -> dict[str, str | None]:
        """What is wrong with each server, None where nothing is."""
        try:
            servers = self._servers.servers()
        except NoServerKnown as error:
            return {str(self._servers): str(error)}
        reasons = await asyncio.gather(*(self._heartbeat(server.address) for server in servers))
        return {server.address: reason for server, reason in zip(servers, reasons, strict=True)}

    async def _heartbeat(self, address: str) -> str | None:
        try:
            async with self._open_session().get(
                f"{address}/heartbeat", timeout=aiohttp.ClientTimeout(total=HEARTBEAT_TIMEOUT_S)
            ) as answer:
                return None if answer.status == 200 else f"HTTP {answer.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return str(error) or f"no answer within {HEARTBEAT_TIMEOUT_S:g} s"

    def _backoff(self, attempt: int) -> float:
        # Jitter, so that the many requests of a dead server do not come back all at once.
        return min(self._first_backoff_s * 2 ** (attempt - 1), LONGEST_BACKOFF_S) * random.uniform(0.75, 1.25)

    def _silence(self, effort: str, reason: str) -> str:
        return (
            f"No scorer answers at {self._servers} ({effort}; {reason}): "
            f"{START_HINT}, or set DPH_SCORER to its address."
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session


def _resolve(futures: list[asyncio.Future], result: list[Score] | Exception) -> None:
    for number, future in enumerate(futures):
        if future.done():  # the caller went away
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result[number])


def _read_scores(address: str, text: str, expected: int) -> list[Score]:
    """The graded responses of a PUT /api answer, in order."""
    try:
        answer = json.loads(text)
        graded = [
            (float(score), detail["outcome"], detail["pred"])
            for (score, _), detail in zip(answer["Scorer1"], answer["details"], strict=True)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ScorerRefused(
            f"{address} answers {_sentence(text)!r}, which is not the scorer's protocol: give the address of rl/scorer."
        ) from error
    if len(graded) != expected:
        raise ScorerRefused(
            f"{address} answers {len(graded)} scores for {expected} responses: its version does not "
            "match."
        )
    return [_read_score(address, *parts) for parts in graded]


def _read_score(address: str, score: float, outcome: str, pred: str | None) -> Score:
    if outcome == _INFRASTRUCTURE_FAILURE:
        raise _TryAgain(f"{address}: a worker of the server failed")
    if outcome not in OUTCOMES or not math.isfinite(score):
        raise ScorerRefused(f"{address} answers outcome {outcome!r} and score {score}: its version does not match.")
    if outcome in GOLD_FAILURES:
        score = 0.0
    return Score(score=score, acc=int(abs(score - 1.0) <= CORRECT_TOLERANCE), pred=pred, outcome=outcome)


def _sentence(text: str) -> str:
    """What a server says in an error body: its `detail` or `error`, else the text's beginning."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict):
        text = str(body.get("detail") or body.get("error") or text)
    return text.strip()[:300]
