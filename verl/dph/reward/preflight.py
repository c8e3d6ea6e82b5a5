"""Ask the scorer about every database and task of a run's prompts before anything slow starts."""

import asyncio
from collections.abc import Iterable

from omegaconf import DictConfig

from rl.common.errors import UserError
from rl.data.rows import Row
from verl.dph.reward.client import ScorerClient
from verl.dph.reward.settings import SCORER_WAIT_S, scorer_settings

OUR_REWARD = "pkg://verl.dph.reward.score"

# A response that every database can run, and that is a number: what matters is whether the server knows the database,
# and math.
PROBE = "```sql\nSELECT 1\n```\n\\boxed{1}"
# A server whose heartbeat is fine is not given a run's 90 s of retries to score one response.
PROBE_RETRIES = 2


async def check_scorer(config: DictConfig, rows: Iterable[Row], wait_s: float | None = None) -> None:
    """Wait for the scorer, and have it score one response for every database and task of the rows, and one of math.

    Args:
        config: verl's trainer settings; a run with another reward function than ours is not checked.
        rows: read once; of each database and task, the first is asked about.
        wait_s: for the first healthy server; None: SCORER_WAIT_S.

    Raises:
        UserError: no scorer responds, it lacks a database, a task or math, a task's function fails, or its replies are
            not the scorer's protocol. The sentence begins with the row's file and number.
    """
    if config.reward.custom_reward_function.path != OUR_REWARD:
        return
    first: dict[tuple, Row] = {}
    for row in rows:
        first.setdefault((row.question.get("db_id"), row.question.get("task")), row)
    settings = scorer_settings(config)
    settings["retries"] = min(settings.get("retries", PROBE_RETRIES), PROBE_RETRIES)
    async with ScorerClient(**settings) as client:
        await client.wait_until_healthy(SCORER_WAIT_S if wait_s is None else wait_s)
        scores = (client.score(PROBE, row.question) for row in first.values())
        for row, result in zip(first.values(), await asyncio.gather(*scores, return_exceptions=True), strict=True):
            if isinstance(result, UserError):
                raise UserError(f"{row.origin}: {result}") from None
            if isinstance(result, BaseException):
                raise result
