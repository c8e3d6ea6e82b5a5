"""The HTTP side: PUT /api and GET /heartbeat. Every error is JSON, {"error": one sentence}."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from rl.scorer.config import Settings
from rl.scorer.databases import UnknownDatabase
from rl.scorer.scoring import Answer, Question, ScoringUnavailable, SqlScorer

logger = logging.getLogger(__name__)


class Extra(BaseModel):
    """What the responses are compared with."""

    db_id: str = Field(description="path of the SQLite file below database_path, such as shop/shop.sqlite")
    gold_sql: str
    cmp_method: Literal["bird", "spider"]


class ScoreRequest(BaseModel):
    """The body of PUT /api. Further keys are ignored."""

    gen_responses: list[str]
    extra: Extra
    type: Any = Field(default=None, description="logged only")
    idx: Any = Field(default=None, description="logged only")
    round: Any = Field(default=None, description="logged only")


def create_app(settings: Settings, ready: Callable[[], None]) -> FastAPI:
    """The application; `ready` is called when the workers run and requests are served."""
    scorer = SqlScorer(settings.Scorers.Scorer1)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await scorer.start()
            ready()
            yield
        finally:
            await scorer.close()

    app = FastAPI(title="DPH-RL scorer", lifespan=lifespan)
    max_body_bytes = settings.ScorerServer.max_body_bytes
    body_schema = {"content": {"application/json": {"schema": ScoreRequest.model_json_schema()}}, "required": True}

    @app.put("/api", openapi_extra={"requestBody": body_schema})
    async def score(request: Request) -> Response:
        """Scores responses: {"Scorer1": [[score, [[flag, payload]]], ...], "details": [{"outcome", "pred"}, ...]}."""
        started = time.perf_counter()
        body = _parse(await _read(request, max_body_bytes))
        try:
            answers = await scorer.score(Question(**body.extra.model_dump()), body.gen_responses)
        except asyncio.CancelledError:
            # uvicorn cancels what is still under way when the server has been told to end.
            raise ScoringUnavailable("the server is ending") from None
        _log(body, answers, time.perf_counter() - started)
        return Response(_encode(answers), media_type="application/json")

    @app.get("/heartbeat")
    async def heartbeat() -> dict[str, str]:
        """Answers while the server runs, however busy its workers are."""
        return {"status": "healthy"}

    _add_error_handlers(app)
    return app


async def _read(request: Request, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise HTTPException(413, f"the body has more than {max_bytes} bytes (setting max_body_bytes)")
        chunks.append(chunk)
    return b"".join(chunks)


def _parse(body: bytes) -> ScoreRequest:
    try:
        return ScoreRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise HTTPException(400, f"{where}: {first['msg']}") from None


def _encode(answers: list[Answer]) -> bytes:
    # Payloads are JSON already.
    entries = (f'[{json.dumps(a.score)},[["{a.flag}",{a.payload}]]]' for a in answers)
    details = json.dumps([{"outcome": a.outcome, "pred": a.pred} for a in answers])
    return f'{{"Scorer1":[{",".join(entries)}],"details":{details}}}'.encode()


def _log(body: ScoreRequest, answers: list[Answer], seconds: float) -> None:
    if logger.isEnabledFor(logging.INFO):
        labels = {"type": body.type, "idx": body.idx, "round": body.round}
        outcomes = dict(Counter(answer.outcome for answer in answers))
        logger.info("db_id=%r %s outcomes=%s ms=%.1f", body.extra.db_id, json.dumps(labels), outcomes, seconds * 1000)


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def refuse(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(UnknownDatabase)
    async def unknown_database(_: Request, error: UnknownDatabase) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404)

    @app.exception_handler(ScoringUnavailable)
    async def unavailable(_: Request, error: ScoringUnavailable) -> JSONResponse:
        logger.error("503: %s", error)
        return JSONResponse({"error": str(error)}, 503, headers={"Retry-After": "1"})

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        # Starlette raises it again for uvicorn's log, with its traceback.
        return JSONResponse({"error": f"the server failed: {type(error).__name__}"}, 500)
