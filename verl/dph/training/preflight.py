"""What is tried before Ray starts: the rows of the data files, and the scorer with one answer for every database and
every own task, and one math answer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from rl.common.errors import UserError
from rl.data.rows import Row, read_rows
from verl.dph.reward.client import ScorerClient
from verl.dph.reward.protocol import ScorerRefused
from verl.dph.reward.settings import SCORER_WAIT_S, scorer_settings

OUR_REWARD = "pkg://verl.dph.reward.score"

# An answer that every database can run, and that is a number: what matters is whether the server knows the database,
# and math.
PROBE = "```sql\nSELECT 1\n```\n\\boxed{1}"


def check_rows(config: DictConfig, names: Sequence[str]) -> list[Row]:
    """All rows of the files in data.<name>, each checked.

    Raises:
        UserError: naming file, row and key.
    """
    rows = []
    for name in names:
        files = config.data[name]
        rows += read_rows([Path(file).expanduser() for file in ([files] if isinstance(files, str) else files)])
    return rows


async def check_scorer(config: DictConfig, rows: Sequence[Row]) -> None:
    """Wait for the scorer, and let it grade one answer for every database and task that the rows name, and one of math.

    Raises:
        UserError: no scorer answers, it lacks a database, a task or math, or a task's function fails.
    """
    if config.reward.custom_reward_function.path != OUR_REWARD:
        return
    first = {(row.question.get("db_id"), row.question.get("task")): row for row in reversed(rows)}
    async with ScorerClient(**scorer_settings(config)) as client:
        await client.wait_until_healthy(SCORER_WAIT_S)
        scores = (client.score(PROBE, row.question) for row in first.values())
        for row, result in zip(first.values(), await asyncio.gather(*scores, return_exceptions=True), strict=True):
            if isinstance(result, ScorerRefused):
                raise UserError(f"{row.origin}: {result}")
            if isinstance(result, BaseException):
                raise result
