"""Caches and replies stay within their budgets."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rl.scorer.config import Settings
from rl.scorer.outcomes import Score
from rl.scorer.process import Reply
from rl.scorer.scorers import Scorers
from rl.scorer.scoring import AT_ONCE, SharedResults
from rl.scorer.sql import scoring as sql_scoring
from rl.scorer.sql.scoring import SqlQuestion, SqlScorer
from tests.scorer.conftest import SHOP, SHOP_TABLES, Scorer, fenced, make_database, running


@dataclass
class Kept:
    kept_bytes: int = 100


def test_a_cache_keeps_no_key() -> None:
    """50 keys of a million characters, as long gold queries and ground truths are."""
    cache: SharedResults[Kept] = SharedResults(64_000_000)
    runs: list[int] = []

    async def ask(number: int) -> Kept:
        async def make() -> Kept:
            runs.append(number)
            return Kept()

        return await cache.get(("kind", 1, f"{number}" + "x" * 1_000_000), make)

    async def scenario() -> None:
        for _ in range(2):
            for number in range(50):
                await ask(number)

    tracemalloc.start()
    try:
        asyncio.run(scenario())
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    assert runs == list(range(50)) and cache.hits == 50 and cache.bytes == 5000


@pytest.mark.parametrize(("capacity", "runs_later"), [(0, 2), (1000, 1)])
def test_who_asks_again_joins_the_run(capacity: int, runs_later: int) -> None:
    cache: SharedResults[Kept] = SharedResults(capacity)

    async def make() -> Kept:
        await asyncio.sleep(0)
        return Kept()

    async def scenario() -> None:
        first, second = await asyncio.gather(cache.get(("a",), make), cache.get(("a",), make))
        assert first is second and (cache.misses, cache.hits) == (1, 1)
        await cache.get(("a",), make)

    asyncio.run(scenario())
    assert cache.misses == runs_later


def test_a_request_of_any_size_is_worked_off_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each of 200,000 responses took the server 1.3 GB."""
    make_database(tmp_path / SHOP, SHOP_TABLES)
    section = {"class_name": "SqlRewardModel", "database_path": tmp_path, "num_instances": 1}
    scorers = Scorers(Settings.model_validate({"Scorers": {"Scorer1": section}}))
    pool = scorers.by_kind["sql"].pool
    run, waiting = pool.run, []

    def counted(*arguments: object) -> Awaitable[Reply]:
        waiting.append(pool.waiting)
        return run(*arguments)

    monkeypatch.setattr(pool, "run", counted)

    async def scenario() -> list[list[Score]]:
        await scorers.start()
        try:
            asked = SqlQuestion(db_id=SHOP, gold_sql="SELECT 1", cmp_method="bird")
            by_question = [(asked, [fenced(f"SELECT {number}")]) for number in range(1500)]
            by_response = [(asked, [fenced(f"SELECT -{number}") for number in range(1500)])]
            return [*await scorers.score(by_question), *await scorers.score(by_response)]
        finally:
            await scorers.close()

    scores = asyncio.run(scenario())
    assert [len(of_question) for of_question in scores] == [1] * 1500 + [1500]
    assert [number for number, [score] in enumerate(scores[:1500]) if score.score] == [1]
    assert 500 < max(waiting) <= AT_ONCE


ROWS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 90) SELECT printf('%.1000c', 'x') FROM r"


def test_rows_of_equal_responses_are_sent_within_a_budget(start_scorer: Callable[..., Scorer]) -> None:
    """A body of 100 kB asks for 90 kB of rows 600 times."""
    scorer = start_scorer(server={"max_reply_bytes": 1_000_000}, num_instances=1)
    responses = [fenced(ROWS), *[fenced(f"{ROWS} ")] * 599]
    reply = scorer.put(responses, ROWS)
    assert reply.status_code == 200 and len(reply.content) < 1_200_000
    scores = reply.json()["Scorer1"]
    assert [score for score, _ in scores] == [1.0] * 600
    shown = [payload for _, [[flag, payload]] in scores if flag == "result"]
    assert len(shown) == 600
    assert [len(rows) for rows in shown[:10]] == [90] * 10 and [len(rows) for rows in shown[-500:]] == [0] * 500


def test_what_a_view_reads_of_the_clock_is_kept_for_no_other_day(
    sql_scorer: Callable[..., SqlScorer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = "CREATE VIEW today AS SELECT date('now') d; CREATE VIEW plain AS SELECT d FROM today WHERE d IS NULL"
    make_database(tmp_path / SHOP, f"{views}; CREATE VIEW shop AS SELECT id, upper(name) FROM clients")
    scorer = sql_scorer()

    async def runs(gold: str, pred: str) -> tuple[int, int]:
        """Runs of the gold query and of the prediction in two equal requests."""
        before = scorer.golds.misses, scorer.scores.misses
        asked = SqlQuestion(db_id=SHOP, gold_sql=gold, cmp_method="bird")
        found = [score.outcome for _ in range(2) for score in await scorer.score(asked, [fenced(pred)])]
        assert found == ["match"] * 2
        return scorer.golds.misses - before[0], scorer.scores.misses - before[1]

    async def scenario() -> None:
        async with running(scorer):
            assert await runs("SELECT d FROM today", "SELECT d FROM today") == (2, 2)
            assert await runs("SELECT d FROM plain WHERE d > 1", "SELECT 1 WHERE 0") == (2, 1)
            assert await runs("SELECT 1 WHERE 0", "SELECT CURRENT_TIMESTAMP WHERE 0") == (1, 1)
            assert await runs("SELECT * FROM shop", "SELECT * FROM shop ") == (1, 1)
            years = "SELECT strftime('%Y', '2020-01-05') FROM clients"
            assert await runs(f"WITH y AS ({years}) SELECT * FROM y", years) == (1, 1)
            monkeypatch.setattr(sql_scoring, "_today", lambda: "tomorrow")
            assert await runs("SELECT 1 WHERE 0", "SELECT CURRENT_TIMESTAMP WHERE 0") == (0, 1)
            assert await runs("SELECT d FROM plain WHERE d > 1", "SELECT 1 WHERE 0") == (2, 1)

    asyncio.run(scenario())
