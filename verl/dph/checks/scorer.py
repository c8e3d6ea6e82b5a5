"""Check, before anything slow starts, that the scorer serves every database and task of a run's prompts."""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rl.common.errors import UserError
from rl.data.rows import Row
from rl.scorer.client.scorer_client import ScorerClient
from verl.dph.reward.settings import SCORER_WAIT_S, scorer_settings

logger = logging.getLogger(__name__)

OUR_REWARD = "pkg://verl.dph.reward.score"

# A response that every kind of scorer can score, right or wrong: all that matters is whether the server can.
PROBE = "```sql\nSELECT 1\n```\n\\boxed{1}"
# For a server with a heartbeat, which does not need a run's 90 s of retries to score one response.
PROBE_RETRIES = 2


async def check_scorer(config: DictConfig, rows: Iterable[Row], wait_s: float | None = None) -> str:
    """Wait for the scorer, and have each of its servers score one response for every database and task of the rows, and
    one of math.

    Args:
        config: verl's trainer settings; a run with another reward function than ours is not checked.
        rows: read once; the first of each database and task is scored.
        wait_s: for the first healthy server; None: SCORER_WAIT_S.

    Returns:
        What decides the verdicts (ScorerClient.verdict_sha256); "" for another reward function than ours.

    Raises:
        UserError: no scorer responds; two judge with different settings; it serves other databases than $DATABASE_PATH;
            it does not serve a row's database, its task or math; a task's function fails; or its replies are not the
            scorer's protocol. A message about a row begins with the row's file and number.
    """
    if config.reward.custom_reward_function.path != OUR_REWARD:
        return ""
    first: dict[tuple, Row] = {}
    for row in rows:
        first.setdefault((row.question.get("db_id"), row.question.get("task")), row)
    settings = scorer_settings(config)
    settings["retries"] = min(settings.get("retries", PROBE_RETRIES), PROBE_RETRIES)
    async with ScorerClient(**settings) as client:
        await client.wait_until_healthy(SCORER_WAIT_S if wait_s is None else wait_s)
        verdict = await client.verdict_sha256()
        await _check_served(client)
        known = [address for address, info in (await client.infos()).items() if info]
    # Each server has databases of its own, and a pool of servers asks any one of them.
    for scorer in known or [settings["scorer"]]:
        await _probe(settings | {"scorer": scorer}, first.values())
    return verdict


async def _probe(settings: dict[str, Any], rows: Collection[Row]) -> None:
    async with ScorerClient(**settings) as client:
        scores = (client.score(PROBE, row.question) for row in rows)
        for row, result in zip(rows, await asyncio.gather(*scores, return_exceptions=True), strict=True):
            if isinstance(result, UserError):
                raise UserError(f"{row.origin}: {result}") from None
            if isinstance(result, BaseException):
                raise result


async def _check_served(client: ScorerClient) -> None:
    """Reject a server of other databases than $DATABASE_PATH."""
    databases = os.environ.get("DATABASE_PATH")
    if not databases:
        return
    for address, info in (await client.infos()).items():
        if info is None:
            logger.warning("The scorer at %s does not say what it serves: its databases are not checked.", address)
            continue
        folders = [scorer["database_path"] for scorer in info["scorers"] if "database_path" in scorer]
        if str(Path(databases).resolve()) not in folders:
            served = ", ".join(folders) or "no databases"
            raise UserError(
                f"DATABASE_PATH={databases}, and the scorer at {address} serves {served}: "
                "unset DPH_SCORER, so that the run starts a scorer of its own, or unset DATABASE_PATH."
            )
