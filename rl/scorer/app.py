"""The HTTP application. Errors are JSON, {"error": one sentence}; after a 503 with Retry-After clients ask again."""

import asyncio
import hmac
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import chain

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rl.common.outcomes import INFRA_ERROR, VERDICT_HEADER
from rl.scorer.config import Settings
from rl.scorer.fork_server import WorkerLost
from rl.scorer.metrics import Measured, Metrics
from rl.scorer.outcomes import Score, UnknownQuestion
from rl.scorer.protocol import ApiRequest, BatchRequest, api_reply, batch_reply, parse
from rl.scorer.scorers import Busy, Question, Scorers
from rl.scorer.trainers import OpenRlhfRequest, SlimeRequest, openrlhf_reply, slime_reply

logger = logging.getLogger(__name__)

# A longer reply is written in a thread, so that other requests go on.
_LONG_REPLY = 1000

Questions = list[tuple[Question, list[str]]]


def create_app(settings: Settings, ready: Callable[[], None], shut_down: Callable[[], None]) -> Starlette:
    """The application. It calls `ready` once it serves requests, and `shut_down` to end the server gracefully.

    Its state has `failure`: why the workers did not start, else None; and `metrics`.
    """
    scorers = Scorers(settings)
    verdict_sha256 = settings.verdict_sha256  # of the functions' text now, which the workers load

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await scorers.start()
            ready()
            yield
        except WorkerLost as error:
            app.state.failure = str(error)
            raise
        finally:
            await scorers.close()

    handlers = dict.fromkeys((HTTPException, UnknownQuestion, Busy, Exception), _error)
    metrics = Metrics(scorers)
    routes = _scoring(settings, scorers, metrics, verdict_sha256)
    routes += _state(settings, metrics, shut_down, verdict_sha256)
    metrics.paths = {route.path for route in routes}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.add_middleware(Measured, metrics=metrics)
    app.state.failure = None
    app.state.metrics = metrics
    return app


def _scoring(settings: Settings, scorers: Scorers, metrics: Metrics, verdict_sha256: str) -> list[Route]:
    """The routes that score responses."""
    server = settings.ScorerServer

    async def received(request: Request) -> bytes:
        return await _read(request, server.max_body_bytes, server.request_seconds)

    async def score_all(questions: Questions, digests: bool = False) -> list[list[Score]]:
        started = time.perf_counter()
        try:
            scores = await scorers.score(questions, digests)
        except asyncio.CancelledError:
            # uvicorn cancels requests that outlast shutdown_seconds.
            raise Busy("the server is ending") from None
        metrics.scored(score for of_question in scores for score in of_question)
        _log(questions, scores, time.perf_counter() - started)
        return scores

    async def score(request: Request) -> Response:
        """Score responses to one question: {"Scorer1": [[score, [[flag, payload]]], ...], "details": [...]}."""
        body = parse(ApiRequest, await received(request))
        [scores] = _judged(await score_all([(body.extra, body.gen_responses)]))
        return await _json(lambda: api_reply(scores, server.max_reply_bytes), len(scores))

    async def score_batch(request: Request) -> Response:
        """Score responses to many questions: {"answers": [[{"outcome", "score", "pred", "error"}, ...], ...]}."""
        body = parse(BatchRequest, await received(request))
        questions = [(item.question, item.responses) for item in body.questions]
        scores = await score_all(questions, body.digests)
        reply = await _json(lambda: batch_reply(scores, body.digests, server.max_reply_bytes), sum(map(len, scores)))
        reply.headers[VERDICT_HEADER] = verdict_sha256
        return reply

    async def score_for_trainer(request: Request, model: type[OpenRlhfRequest] | type[SlimeRequest]) -> list[Score]:
        body = parse(model, await received(request), 422)
        return [score for [score] in _judged(await score_all(body.questions))]

    async def score_for_openrlhf(request: Request) -> Response:
        """Rewards for OpenRLHF's --reward.remote_url: {"rewards": [...], "scores": [...], "extra_logs": {...}}."""
        return JSONResponse(openrlhf_reply(await score_for_trainer(request, OpenRlhfRequest)))

    async def score_for_slime(request: Request) -> Response:
        """A reward for slime's remote_rm, with --reward-key score: {"score", "acc", "gold_error", "outcome"}."""
        [score] = await score_for_trainer(request, SlimeRequest)
        return JSONResponse(slime_reply(score))

    return [
        Route("/api", score, methods=["PUT"]),
        Route("/v1/score", score_batch, methods=["POST"]),
        Route("/v1/openrlhf", score_for_openrlhf, methods=["POST"]),
        Route("/v1/slime", score_for_slime, methods=["POST"]),
    ]


def _state(settings: Settings, metrics: Metrics, shut_down: Callable[[], None], verdict_sha256: str) -> list[Route]:
    """The routes that say how the server is, and the one that ends it."""

    async def heartbeat(_: Request) -> Response:
        """Answer while the server runs, however busy its workers are."""
        return JSONResponse({"status": "healthy"})

    async def info(_: Request) -> Response:
        """The kind, engine and databases of each scorer, and a sha256 of what decides verdicts."""
        return JSONResponse({"scorers": settings.served, "verdict_sha256": verdict_sha256})

    async def measured(_: Request) -> Response:
        """Counts and state, in Prometheus' text format."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def shutdown(request: Request) -> Response:
        """End the server when the current requests are answered."""
        _check_may_shut_down(request, settings.ScorerServer.shutdown_token)
        shut_down()
        return JSONResponse({"status": "ending"})

    return [
        Route("/heartbeat", heartbeat),
        Route("/v1/info", info),
        Route("/metrics", measured),
        Route("/shutdown", shutdown, methods=["PUT"]),
    ]


def _judged(scores: list[list[Score]]) -> list[list[Score]]:
    """The scores, for a protocol that cannot report a failure of the infrastructure; raises Busy if there is one."""
    lost = next((score.error for score in chain.from_iterable(scores) if score.outcome == INFRA_ERROR), None)
    if lost is not None:
        raise Busy(lost)
    return scores


async def _read(request: Request, max_bytes: int, seconds: float) -> bytes:
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                # What is too large is received all the same: most clients send the whole body before they read, and
                # would see a reset.
                if size <= max_bytes:
                    body += chunk
    except TimeoutError:
        reason = f"the body was not received within {seconds:g} s (setting request_seconds)"
        raise HTTPException(408, reason, {"Connection": "close"}) from None
    if size > max_bytes:
        reason = f"the body has more than {max_bytes} bytes (setting max_body_bytes)"
        raise HTTPException(413, reason, {"Connection": "close"})
    return bytes(body)


async def _json(write: Callable[[], str], scores: int) -> Response:
    text = write() if scores < _LONG_REPLY else await asyncio.to_thread(write)
    return Response(text, media_type="application/json")


def _check_may_shut_down(request: Request, token: str | None) -> None:
    if token is not None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise HTTPException(403, "the header `Authorization: Bearer TOKEN` must have the setting shutdown_token")
    elif request.client is None or not _is_loopback(request.client.host):
        raise HTTPException(403, "without the setting shutdown_token, only the server's own host may shut it down")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a proxy's X-Forwarded-For may be anything
        return False


def _log(questions: Questions, scores: list[list[Score]], seconds: float) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    outcomes = Counter(score.outcome for of_question in scores for score in of_question)
    asked = getattr(questions[0][0], "db_id", "1 question") if len(questions) == 1 else f"{len(questions)} questions"
    logger.info("scored %r in %.1f ms: %s", asked, seconds * 1000, dict(outcomes))


async def _error(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)
    if isinstance(error, UnknownQuestion):
        return JSONResponse({"error": str(error)}, 404)
    if isinstance(error, Busy):
        logger.warning("503: %s", error)
        return JSONResponse({"error": str(error), "busy": True}, 503, headers={"Retry-After": "1"})
    # Starlette raises it again for uvicorn's log, with its traceback.
    return JSONResponse({"error": f"the server failed: {type(error).__name__}"}, 500)
