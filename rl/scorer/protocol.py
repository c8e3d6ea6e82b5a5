"""Request and reply bodies: PUT /api in the released server's format, POST /v1/score with typed scores."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag, ValidationError
from starlette.exceptions import HTTPException

from rl.scorer.math.scoring import MathQuestion
from rl.scorer.outcomes import Score, error_text
from rl.scorer.sql.scoring import SqlQuestion
from rl.scorer.task.scoring import TaskQuestion

_KINDS = ("sql", "math", "own task")
_LEFT_OUT = '"error: (left out, see max_reply_bytes)"'


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
    """The body of PUT /api. Further keys, such as the released clients' type, idx and round, are ignored."""

    gen_responses: list[str]
    extra: Extra


class Item(BaseModel):
    """A question and the responses to it."""

    question: Extra
    responses: list[str]


class BatchRequest(BaseModel):
    """The body of POST /v1/score. digests: whether scores have digests of the predicted rows."""

    questions: list[Item]
    digests: bool = False


def parse(model: type[BaseModel], body: bytes, status: int = 400) -> Any:
    """The body as `model`. Raises HTTPException `status` with the first wrong place."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # pydantic puts the kind of question, which no body contains, into the place.
        where = ".".join(str(part) for part in first["loc"] if part not in _KINDS) or "the body"
        raise HTTPException(status, f"{where}: {first['msg']}") from None


class _Payloads:
    """The payloads of one reply as JSON; beyond `max_bytes` in all, shorter ones replace them."""

    def __init__(self, max_bytes: int):
        self._left = max_bytes

    def of(self, score: Score) -> str:
        self._left -= len(score.payload)
        if self._left >= 0 or len(score.payload) < len(_LEFT_OUT):
            return score.payload
        return "[]" if score.flag == "result" else _LEFT_OUT


def api_reply(scores: list[Score], max_bytes: int) -> str:
    """{"Scorer1": [[score, [[flag, payload]]], ...], "details": [{"outcome", "pred"}, ...]}."""
    payloads = _Payloads(max_bytes)
    results = ",".join(f'[{json.dumps(a.score)},[["{a.flag}",{payloads.of(a)}]]]' for a in scores)
    details = ",".join(json.dumps({"outcome": a.outcome, "pred": a.pred}) for a in scores)
    return f'{{"Scorer1":[{results}],"details":[{details}]}}'


def batch_reply(scores: list[list[Score]], digests: bool, max_bytes: int) -> str:
    """{"answers": [[{"outcome", "score", "pred", "error"}, ...], ...]}; with "digest" and "result_rows" on request."""
    payloads = _Payloads(max_bytes)
    typed = (",".join(_typed(score, digests, payloads) for score in of_question) for of_question in scores)
    return f'{{"answers":[{",".join(f"[{of_question}]" for of_question in typed)}]}}'


def _typed(score: Score, digests: bool, payloads: _Payloads) -> str:
    error = None if score.flag == "result" else error_text(payloads.of(score))
    typed = {"outcome": score.outcome, "score": score.score, "pred": score.pred, "error": error}
    if digests:
        typed |= {"digest": score.digest, "result_rows": score.result_rows}
    return json.dumps(typed)
