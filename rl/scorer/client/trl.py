"""Reward functions for TRL's GRPOTrainer (run with TRL 1.16): GRPOTrainer(reward_funcs=SQLReward()).

TRL calls them with the columns of the data set and awaits them; elsewhere await them yourself. TRL does not train on a
completion whose reward is None.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rl.common.errors import UserError
from rl.scorer.client.protocol import Score
from rl.scorer.client.shared import score_response
from rl.scorer.client.transport import RequestSettings
from rl.scorer.labels import question_of_label


class _ScorerReward:
    """A reward function that asks the scorer. A subclass names its columns and makes a question of their values.

    Args:
        scorer: an address, a comma-separated list, or a directory of address files (see ServerPool); None: $DPH_SCORER.
        settings: fields of RequestSettings.
    """

    columns: ClassVar[tuple[str, ...]]
    optional_columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, scorer: str | Sequence[str] | None = None, **settings: Any):
        RequestSettings(**settings)  # raises TypeError for a name that it lacks
        self._scorer, self._settings = scorer, settings

    def question(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The question of POST /v1/score for a row."""
        raise NotImplementedError

    async def __call__(
        self,
        prompts: Sequence,
        completions: Sequence,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The reward of each completion: its score, 0 to 1.

        None, so that TRL leaves the completion out, for a row whose columns are all None (it is for another reward
        function), and where the reference itself cannot be evaluated (their share is logged as scorer/unjudged).
        An error of ScorerClient.score stops training.
        """
        name = type(self).__name__
        if lacking := [column for column in self.columns if column not in columns]:
            raise UserError(f"{name} needs the column {lacking[0]}, which the data set lacks: rename or add it.")
        used = [column for column in (*self.columns, *self.optional_columns) if column in columns]
        for column in used:
            if len(columns[column]) != len(completions):
                raise UserError(
                    f"{name}: the column {column} has {len(columns[column])} values for {len(completions)} completions."
                )

        async def score(number: int, completion: Any) -> Score | None:
            row = {column: columns[column][number] for column in used}
            # NaN, which pandas writes for a missing value, is not equal to itself.
            empty = [column for column in self.columns if row[column] in (None, "") or row[column] != row[column]]
            if len(empty) == len(self.columns):
                return None
            if empty:
                raise UserError(f"{name}: the column {empty[0]} of a row is {row[empty[0]]!r}; correct the row.")
            return await score_response(_text(completion), self.question(row), self._scorer, **self._settings)

        scores = await asyncio.gather(*(score(*numbered) for numbered in enumerate(completions)))
        unjudged = [score.gold_error for score in scores if score is not None]
        if log_metric is not None and unjudged:
            log_metric("scorer/unjudged", sum(unjudged) / len(unjudged))
        return [None if score is None or score.gold_error else score.score for score in scores]


class SQLReward(_ScorerReward):
    """Rewards of SQL, from the columns db_id, gold_sql and, if there is one, cmp_method.

    Args:
        cmp_method: a name of COMPARISONS, for a data set without this column.
    """

    columns = ("db_id", "gold_sql")
    optional_columns = ("cmp_method",)

    def __init__(self, scorer: str | Sequence[str] | None = None, cmp_method: str = "bird", **settings: Any):
        super().__init__(scorer, **settings)
        self._cmp_method = cmp_method

    def question(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, "cmp_method": row.get("cmp_method") or self._cmp_method}


class MathReward(_ScorerReward):
    """Rewards of mathematics, from the column ground_truth: the right answer as a text or a whole number, also 13.0."""

    columns = ("ground_truth",)

    def question(self, row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return question_of_label(row["ground_truth"])
        except ValueError as error:
            raise UserError(f"MathReward: the column ground_truth of a row {error}.") from None


def _text(completion: Any) -> str:
    """The text of a completion: itself, or the content of its last message (a text, or a list of parts)."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
