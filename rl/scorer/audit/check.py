"""Run every distinct gold query once, in the scorer's own workers."""

import asyncio
from collections.abc import Callable

from rl.scorer.config import SqlSettings
from rl.scorer.sql_scoring import GoldCheck, SqlScorer, scorer_of

OUTCOMES = ("gold", "empty", "all_null", "gold_error", "gold_timeout", "unknown_database", "infra_error")
_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0

# (db_id, gold_sql), as Problem.query has it.
Query = tuple[str | None, str]


async def check(
    settings: list[SqlSettings], queries: list[Query], done: Callable[[GoldCheck], None]
) -> dict[Query, GoldCheck]:
    """The finding of each query; `done` hears of each as it comes. Raises WorkerLost when the workers do not start."""
    # No query is asked for twice.
    scorers = [SqlScorer(section.model_copy(update={"gold_cache_bytes": 0})) for section in settings]
    findings: dict[Query, GoldCheck] = {}
    waiting = iter(queries)

    async def check_one_after_another() -> None:
        for query in waiting:
            findings[query] = await _check(scorers, *query)
            done(findings[query])

    try:
        await asyncio.gather(*(scorer.pool.start() for scorer in scorers))
        # As many as there are workers, so that the seconds are no waiting times.
        await asyncio.gather(*(check_one_after_another() for _ in range(settings[0].processes)))
    finally:
        await asyncio.gather(*(scorer.pool.close() for scorer in scorers))
    return findings


async def _check(scorers: list[SqlScorer], db_id: str | None, gold_sql: str) -> GoldCheck:
    if db_id is None:
        return GoldCheck("unknown_database", error="the row has no db_id")
    scorer = scorer_of(scorers, db_id)
    if scorer is None:
        return GoldCheck("unknown_database", error="no scorer of the settings has a prefix of the db_id")
    for _ in range(_ATTEMPTS - 1):
        finding = await scorer.check_gold(db_id, gold_sql)
        if finding.outcome != "infra_error":
            return finding
        await asyncio.sleep(_PAUSE_SECONDS)
    return await scorer.check_gold(db_id, gold_sql)
