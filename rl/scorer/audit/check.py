"""Run every distinct gold query once, in the scorer's own workers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from rl.scorer.config import SqlSettings
from rl.scorer.outcomes import UnknownQuestion
from rl.scorer.sql_scoring import ScoringUnavailable, SqlScorer

OUTCOMES = ("gold", "empty", "gold_error", "gold_timeout", "unknown_database", "infra_error")
_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0

# (db_id, gold_sql), as Problem.query has it.
Query = tuple[str | None, str]


@dataclass(frozen=True)
class Finding:
    """What became of a query: outcome is one of OUTCOMES, infra_error when nothing can be said of it.

    seconds: by the clock, from asking to the answer.
    """

    outcome: str
    seconds: float = 0.0
    error: str | None = None


async def check(settings: SqlSettings, queries: list[Query], done: Callable[[Finding], None]) -> dict[Query, Finding]:
    """The finding of each query; `done` hears of each as it comes. Raises WorkerLost when the workers do not start."""
    # No query is asked for twice.
    scorer = SqlScorer(settings.model_copy(update={"gold_cache_bytes": 0}))
    findings: dict[Query, Finding] = {}
    waiting = iter(queries)

    async def check_one_after_another() -> None:
        for query in waiting:
            findings[query] = await _check(scorer, *query)
            done(findings[query])

    try:
        await scorer.pool.start()
        # As many as there are workers, so that the seconds are no waiting times.
        await asyncio.gather(*(check_one_after_another() for _ in range(settings.processes)))
    finally:
        await scorer.pool.close()
    return findings


async def _check(scorer: SqlScorer, db_id: str | None, gold_sql: str) -> Finding:
    if db_id is None:
        return Finding("unknown_database", error="the row has no db_id")
    for attempt in range(_ATTEMPTS):
        try:
            gold = await scorer.check_gold(db_id, gold_sql)
        except UnknownQuestion as error:
            return Finding("unknown_database", error=str(error))
        except ScoringUnavailable as error:
            unavailable = str(error)
            if attempt < _ATTEMPTS - 1:
                await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return Finding("empty" if gold.rows == 0 else gold.outcome, gold.seconds, gold.error)
    return Finding("infra_error", error=unavailable)
