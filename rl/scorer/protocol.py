"""Request and reply bodies: PUT /api in the released server's format, POST /v1/score with typed scores."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag, ValidationError
from starlette.exceptions import HTTPException

from rl.scorer.math_scoring import MathQuestion
from rl.scorer.outcomes import Score
from rl.scorer.sql_scoring import SqlQuestion
from rl.scorer.task_scoring import TaskQuestion

_KINDS = ("sql", "math", "own task")


def _kind(extra: Any) -> str:
    has = extra.__contains__ if isinstance(extra, dict) else lambda key: hasattr(extra, key)
    if has("task") and not has("gold_sql"):
        return "own task"
    return "math" if has("ground_truth") and not has("gold_sql") else "sql"


Extra = Annotated[
    Annotated[SqlQuestion, Tag("sql")]
    | Annotated[MathQuestion, Tag("math")]
    | Annotated[TaskQuestion, Tag("own task")],
    Discriminator(_kind),
]


class ApiRequest(BaseModel):
    """The body of PUT /api. Further keys are ignored."""

    gen_responses: list[str]
    extra: Extra
    type: Any = Field(default=None, description="logged only")
    idx: Any = Field(default=None, description="logged only")
    round: Any = Field(default=None, description="logged only")


class Item(BaseModel):
    """A question with the responses to it."""

    question: Extra
    responses: list[str]


class BatchRequest(BaseModel):
    """The body of POST /v1/score. rows, digests: whether scores have the rows of predictions, or a digest of them."""

    questions: list[Item]
    rows: bool = False
    digests: bool = False


def parse(model: type[BaseModel], body: bytes) -> Any:
    """The body as `model`. Raises HTTPException 400 that names the first place that is wrong."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # A question's place has in it what it was taken for, which no body has.
        where = ".".join(str(part) for part in first["loc"] if part not in _KINDS) or "the body"
        raise HTTPException(400, f"{where}: {first['msg']}") from None


def api_reply(scores: list[Score]) -> bytes:
    """{"Scorer1": [[score, [[flag, payload]]], ...], "details": [{"outcome", "pred"}, ...]}."""
    # Payloads are JSON already.
    entries = (f'[{json.dumps(a.score)},[["{a.flag}",{a.payload}]]]' for a in scores)
    details = json.dumps([{"outcome": a.outcome, "pred": a.pred} for a in scores])
    return f'{{"Scorer1":[{",".join(entries)}],"details":{details}}}'.encode()


def batch_reply(scores: list[list[Score]], rows: bool, digests: bool) -> bytes:
    """{"answers": [[{"outcome", "score", "pred", "error"}, ...], ...]}, with "rows" and "digest" if requested."""
    typed = [[_typed(score, rows, digests) for score in of_question] for of_question in scores]
    return json.dumps({"answers": typed}).encode()


def _typed(score: Score, rows: bool, digests: bool) -> dict:
    typed = {"outcome": score.outcome, "score": score.score, "pred": score.pred, "error": score.error}
    if rows:
        typed["rows"] = json.loads(score.payload) if score.flag == "result" else None
    if digests:
        typed["digest"] = score.digest
    return typed
