"""POST /v1/score of the scorer server: the request, the reply and what can go wrong (docs/reference/scorer.md)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.common.errors import UserError
from rl.common.outcomes import (
    CORRECT_TOLERANCE,
    GOLD_FAILURES,
    INFRA_ERROR,
    OUTCOMES,
    is_correct,
)


class ScorerUnavailable(UserError):
    """A response could not be scored, through no fault of the model."""


class ScorerRefused(UserError):
    """The server rejects the request: retrying would not help."""


class ScorerMismatch(UserError):
    """The server is not a scorer, has another version, or judges by other rules than before."""


@dataclass
class Effort:
    """Effort of scoring one response."""

    seconds: float = 0.0  # from the call to the score
    requests: float = 0.0  # HTTP requests; one that carried n responses counts 1 / n
    retries: int = 0  # requests that were repeated: a broken connection, a 5xx, no answer in time
    busy_waits: int = 0  # pauses because servers were busy
    infra_errors: int = 0  # how often a server's worker failed on the response
    healthy_servers: int = 0  # from this client's view when the score came


@dataclass(frozen=True)
class Score:
    """The grade of one response."""

    score: float  # 0..1; 0 where the reference itself cannot be evaluated
    acc: int  # 1 when score is 1 within 1e-6
    pred: str | None  # the answer read from the response, None if there is none
    outcome: str  # one of rl.common.outcomes.OUTCOMES
    error: str | None = None  # the server's sentence on the outcome
    # The digest of the result of SQL and its number of rows, if the client requests them.
    result_digest: str | None = None
    result_rows: int | None = None
    effort: Effort = field(default_factory=Effort, compare=False)

    @property
    def gold_error(self) -> int:
        """1 if the reference itself cannot be evaluated: the score says nothing about the response."""
        return int(self.outcome in GOLD_FAILURES)


@dataclass
class Job:
    """One response on its way to its score."""

    question: Mapping[str, Any]
    key: str  # of the question; equal questions share an entry of the request
    response: str
    score: asyncio.Future
    effort: Effort = field(default_factory=Effort)

    def resolve(self, score: Score) -> None:
        if not self.score.done():  # the caller went away
            self.score.set_result(score)

    def fail(self, error: Exception) -> None:
        if not self.score.done():
            self.score.set_exception(error)


def by_question(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs, grouped by question."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.key, []).append(job)
    return list(groups.values())


def request_body(groups: Sequence[Sequence[Job]], digests: bool) -> dict[str, Any]:
    """The body of POST /v1/score for jobs that are grouped by question."""
    questions = [{"question": group[0].question, "responses": [job.response for job in group]} for group in groups]
    return {"questions": questions} | ({"digests": True} if digests else {})


def read_answers(address: str, text: str, groups: Sequence[Sequence[Job]]) -> list[tuple[Job, Score | str]]:
    """Each job with its score or, if a worker of the server failed on it, with the server's message."""
    try:
        answers = json.loads(text)["answers"]
        counts = [len(of_question) for of_question in answers]
    except (ValueError, KeyError, TypeError):
        raise ScorerMismatch(
            f"{address} answers {sentence(text)!r}, which is not the scorer's protocol: give the address of rl/scorer."
        ) from None
    if counts != [len(group) for group in groups]:
        raise ScorerMismatch(
            f"{address} answers {counts} scores for {[len(group) for group in groups]} responses: its version does "
            "not match."
        )
    return [
        (job, _read_score(address, answer))
        for group, of_question in zip(groups, answers, strict=True)
        for job, answer in zip(group, of_question, strict=True)
    ]


def _read_score(address: str, answer: Any) -> Score | str:
    fields = answer if isinstance(answer, dict) else {}
    outcome, score, pred, error = (fields.get(name) for name in ("outcome", "score", "pred", "error"))
    # A field is absent if the answer has no such value.
    digest, rows = (fields.get(name) for name in ("digest", "result_rows"))
    if outcome == INFRA_ERROR:
        return str(error)[:300]
    if (
        outcome not in OUTCOMES
        or not (isinstance(score, int | float) and 0 <= score <= 1 + CORRECT_TOLERANCE)  # a NaN is not
        or not isinstance(pred, str | None)
        or not isinstance(digest, str | None)
        or "reward" in fields  # an earlier server's, which differs from the score
        or not isinstance(rows, int | None)
    ):
        raise ScorerMismatch(f"{address} answers {str(answer)[:300]} for a response: its version does not match.")
    score = 0.0 if outcome in GOLD_FAILURES else float(score)
    acc = int(is_correct(score))
    return Score(score, acc, pred, outcome, error, result_digest=digest, result_rows=rows)


def sentence(text: str) -> str:
    """The message of an error body: its `error` or `detail`, else the start of the text."""
    body = _object(text)
    return str(body.get("error") or body.get("detail") or text).strip()[:300]


def says_busy(status: int, text: str) -> bool:
    """Whether an answer means that the server is healthy but busy."""
    return status == 429 or (status == 503 and _object(text).get("busy") is True)


def _object(text: str) -> dict[str, Any]:
    """The JSON object of a body, or an empty one."""
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
