"""Request and reply bodies of other trainers' remote reward models; each is turned into questions of POST /v1/score.

POST /v1/openrlhf: OpenRLHF's --reward.remote_url (0.11.2: SingleTurnAgentExecutor of openrlhf.utils.agent).
POST /v1/slime: slime's --rm-type remote_rm --rm-url (remote_rm of slime.rollout.rm_hub).
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from rl.common.outcomes import GOLD_FAILURES, is_correct
from rl.scorer.labels import question_of_label, without_ends
from rl.scorer.outcomes import Score
from rl.scorer.protocol import Extra
from rl.scorer.scorers import Question


def _question(label: Any) -> dict[str, Any]:
    try:
        return question_of_label(label)
    except ValueError as error:
        raise PydanticCustomError("label", "{reason}", {"reason": str(error)}) from None


Label = Annotated[Extra, BeforeValidator(_question)]
_LABEL = "a question of POST /v1/score, also as JSON text, or the right answer of a mathematical problem"


class OpenRlhfRequest(BaseModel):
    """One entry per response in each list."""

    query: list[str] = Field(description="the prompt and the response, decoded with special tokens")
    prompts: list[str]
    labels: list[Label] = Field(description=_LABEL)

    @model_validator(mode="after")
    def _fits(self) -> "OpenRlhfRequest":
        if not len(self.query) == len(self.prompts) == len(self.labels):
            counts = f"{len(self.query)}, {len(self.prompts)} and {len(self.labels)}"
            raise PydanticCustomError("lengths", "query, prompts and labels have {counts} entries", {"counts": counts})
        for number, (query, prompt) in enumerate(zip(self.query, self.prompts, strict=True)):
            if not query.startswith(prompt):
                reason = f"query.{number} does not begin with prompts.{number}, so the response in it is not known"
                raise PydanticCustomError("query", "{reason}", {"reason": reason})
        return self

    @property
    def questions(self) -> list[tuple[Question, list[str]]]:
        """Each label with its response: what follows the prompt, without the special tokens at the end."""
        rows = zip(self.query, self.prompts, self.labels, strict=True)
        return [(label, [without_ends(query[len(prompt) :])]) for query, prompt, label in rows]


class SlimeRequest(BaseModel):
    """One response. The prompt is not read."""

    response: str
    label: Label = Field(description=_LABEL)

    @property
    def questions(self) -> list[tuple[Question, list[str]]]:
        """The label with its response, without the special tokens at the end."""
        return [(self.label, [without_ends(self.response)])]


def openrlhf_reply(scores: list[Score]) -> dict[str, Any]:
    """rewards train, scores (0 to 1) filter, extra_logs are logged: one entry per response in each list."""
    verdicts = [_verdict(score) for score in scores]
    logs = {key: [verdict[key] for verdict in verdicts] for key in ("acc", "gold_error")}
    return {
        "rewards": [score.score for score in scores],
        "scores": [score.score for score in scores],
        "extra_logs": logs,
    }


def slime_reply(score: Score) -> dict[str, Any]:
    """The reward of a sample; slime trains on its `score` with --reward-key score."""
    return {"score": score.score, **_verdict(score), "outcome": score.outcome}


def _verdict(score: Score) -> dict[str, float]:
    """acc: 1 for a right response. gold_error: 1 if the reference cannot be evaluated, which judges nothing."""
    return {"acc": float(is_correct(score.score)), "gold_error": float(score.outcome in GOLD_FAILURES)}
