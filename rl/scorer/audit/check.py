"""Runs every distinct gold query once, and variants of those that work, in the scorer's own workers."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import NamedTuple

from rl.common.append_log import AppendLog
from rl.common.outcomes import INFRA_ERROR
from rl.scorer.audit.options import DOUBTS
from rl.scorer.audit.variants import with_distinct_toggled, with_tie_breaks
from rl.scorer.config import WITHOUT_EFFECT_ON_VERDICTS, SqlSettings
from rl.scorer.databases import DatabaseUnreadable
from rl.scorer.outcomes import UnknownQuestion
from rl.scorer.sql.compare import STORED, Comparison
from rl.scorer.sql.lexer import reads_clock, repair
from rl.scorer.sql.scoring import GoldCheck, SqlScorer, scorer_of

_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_LEAST_CACHE_BYTES = 100_000_000
_DIFFERENT = ("mismatch", "partial")
_CLOCK_SECONDS = 1.1  # SQLite's CURRENT_TIMESTAMP has seconds
# Most queries that may read the clock only take dates from columns. Waiting for those would take minutes in BIRD.
_SAYS_NOW = re.compile(r"now|current|local|timestamp|\(\s*\)", re.IGNORECASE)


class Query(NamedTuple):
    """What a problem needs to have run. Problems with equal queries are checked once."""

    db_id: str | None
    gold_sql: str
    method: Comparison


Findings = dict[Query, GoldCheck]


class Checker:
    """Checks queries in the scorer's workers. `async with` starts them, or raises WorkerLost.

    Args:
        settings: the scorers'; the prefix of a db_id chooses the scorer of a query.
        doubts: whether each query that runs is run and compared up to five more times, most of them as variants.
        journal: keeps findings for the next run, which ignores those of changed databases.

    Attributes:
        recalled: how many findings the journal had.
        uncompared: pairs of queries that could not be compared.
    """

    def __init__(self, settings: list[SqlSettings], doubts: bool, journal: AppendLog):
        self.doubts, self._journal = doubts, journal
        self._scorers = [_scorer(section) for section in settings]
        self._known: dict[str, GoldCheck] = dict(journal.read(_of_line))
        self.recalled, self.uncompared = len(self._known), 0

    async def __aenter__(self) -> "Checker":
        try:
            await asyncio.gather(*(scorer.pool.start() for scorer in self._scorers))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(scorer.pool.close() for scorer in self._scorers))

    async def check(self, queries: list[Query], done: Callable[[GoldCheck], None]) -> Findings:
        """The finding of each query; `done` is called with each finding as it comes."""
        findings: Findings = {}

        async def check_one(query: Query) -> None:
            findings[query] = await self._check_or_recall(query)
            done(findings[query])

        await self._in_turn(queries, check_one)
        return findings

    async def differing(self, pairs: Iterable[tuple[Query, str]]) -> set[tuple[Query, str]]:
        """Those of the pairs whose queries return different results. All queries must have run before."""
        different: set[tuple[Query, str]] = set()

        async def compare(pair: tuple[Query, str]) -> None:
            (db_id, gold_sql, method), other = pair
            scorer = scorer_of(self._scorers, str(db_id))
            assert scorer is not None, "the query has run"
            outcome = await scorer.judge(str(db_id), gold_sql, method, repair(other, scorer.settings.engine))
            self.uncompared += outcome == INFRA_ERROR
            if outcome in _DIFFERENT:
                different.add(pair)

        await self._in_turn(pairs, compare)
        return different

    async def _in_turn(self, items: Iterable, work: Callable) -> None:
        waiting = iter(items)

        async def one_after_another() -> None:
            for item in waiting:
                await work(item)

        # One for each worker, so that the seconds do not include waiting.
        await asyncio.gather(*(one_after_another() for _ in range(self._scorers[0].settings.processes)))

    async def _check_or_recall(self, query: Query) -> GoldCheck:
        key = self._key(query)
        if key in self._known:
            return self._known[key]
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            finding = await self._check(query)
            if finding.outcome != INFRA_ERROR:
                break
        if key is not None and finding.outcome != INFRA_ERROR:
            self._journal.append(json.dumps({"key": key} | asdict(finding)).encode() + b"\n")
        return finding

    def _key(self, query: Query) -> str | None:
        """A key for a finding that holds until the database changes; None for a finding that is not kept."""
        with suppress(UnknownQuestion, DatabaseUnreadable):
            scorer = scorer_of(self._scorers, query.db_id or "")
            if scorer is None or query.db_id is None or query.method == STORED:
                return None
            if (file := scorer.find_file(query.db_id)) is not None:
                rules = scorer.settings.model_dump(mode="json", exclude=WITHOUT_EFFECT_ON_VERDICTS)
                of = (file.version, query, sorted(rules.items()), self.doubts and DOUBTS)
                return hashlib.sha256(repr(of).encode("utf-8", "surrogatepass")).hexdigest()
        return None

    async def _check(self, query: Query) -> GoldCheck:
        db_id, gold_sql, method = query
        if db_id is None:
            return GoldCheck("unknown_database", error="the row has no db_id")
        scorer = scorer_of(self._scorers, db_id)
        if scorer is None:
            return GoldCheck("unknown_database", error="no scorer of the settings has a prefix of the db_id")
        gold = await scorer.check_gold(db_id, gold_sql, method)
        if gold.outcome != "gold" or not self.doubts or method == STORED:
            return gold
        doubts = await _doubts_of(scorer, db_id, gold_sql, method, gold)
        if INFRA_ERROR in doubts:
            return GoldCheck(INFRA_ERROR, gold.seconds, "a variant of the query could not be run")
        return replace(gold, doubts=doubts)


async def _doubts_of(
    scorer: SqlScorer, db_id: str, gold_sql: str, method: Comparison, gold: GoldCheck
) -> tuple[str, ...]:
    """Doubts about a query that runs. A variant that fails or takes too long raises none."""
    engine = scorer.settings.engine
    sql = repair(gold_sql, engine)
    outcomes: dict[str, set[str]] = {}

    async def compare(doubt: str, variant: str | None, **how: bool) -> None:
        if variant is not None:
            found = await scorer.judge(db_id, gold_sql, method, variant, **how)
            outcomes.setdefault(doubt, set()).add(found)

    if engine == "sqlite":
        await compare("row_order", sql, backwards=True)
    for descending in (False, True):
        variant = with_tie_breaks(sql, gold.columns, descending, engine)
        await compare("tie", variant)
        if gold.ordered and method == "spider":
            await compare("order", variant, ordered=True)
    await compare("distinct", with_distinct_toggled(sql, engine))
    if reads_clock(sql, engine) and _SAYS_NOW.search(sql):
        await asyncio.sleep(_CLOCK_SECONDS)
        await compare("clock", sql, rounded=False)
    found = [doubt for doubt, seen in outcomes.items() if not seen.isdisjoint(_DIFFERENT)]
    if "tie" in found and "order" in found:  # other rows also come in another order
        found.remove("order")
    return (*found, *([INFRA_ERROR] if any(INFRA_ERROR in seen for seen in outcomes.values()) else []))


def _scorer(settings: SqlSettings) -> SqlScorer:
    changes = {
        "class_name": "SqlRewardModel",
        "prediction_seconds": settings.gold_seconds,
        # A query's variants are compared with it one after the other.
        "gold_cache_bytes": max(settings.gold_cache_bytes, _LEAST_CACHE_BYTES),
    }
    return SqlScorer(settings.model_copy(update=changes))


def _of_line(line: bytes) -> tuple[str, GoldCheck] | None:
    try:
        content = json.loads(line)
        return content.pop("key"), GoldCheck(**content | {"doubts": tuple(content["doubts"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
