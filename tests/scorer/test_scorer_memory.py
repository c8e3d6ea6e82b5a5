"""What the server keeps and sends stays within its budgets."""

import asyncio
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rl.scorer.config import Settings
from rl.scorer.outcomes import Score
from rl.scorer.process import Reply
from rl.scorer.scorers import Scorers
from rl.scorer.shared import AT_ONCE, SharedResults
from rl.scorer.sql.question import SqlQuestion
from tests.scorer.conftest import Scorer, fenced, make_shop


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


def test_a_score_counts_the_bytes_of_its_texts() -> None:
    wide = Score("mismatch", 0.0, "result", "[]", "\U0001f600" * 1_000_000)
    assert 4_000_000 < (wide.kept_bytes or 0) < 4_010_000


def test_a_request_of_any_size_is_worked_off_in_turn(tmp_path: Path) -> None:
    """A task for each of 200,000 responses took the server 1.3 GB."""
    make_shop(tmp_path / "shop" / "shop.sqlite")
    section = {"class_name": "SqlRewardModel", "database_path": tmp_path, "num_instances": 1}
    scorers = Scorers(Settings.model_validate({"Scorers": {"Scorer1": section}}))
    pool = scorers.by_kind["sql"].pool
    most = 0

    async def scenario() -> list[list[Score]]:
        nonlocal most
        run = pool.run

        async def counted(*arguments: object) -> Reply:
            nonlocal most
            most = max(most, pool.waiting)
            return await run(*arguments)

        pool.run = counted
        await scorers.start()
        try:
            question = SqlQuestion(db_id="shop/shop.sqlite", gold_sql="SELECT 1", cmp_method="bird")
            by_question = [(question, [fenced(f"SELECT {number}")]) for number in range(1500)]
            by_response = [(question, [fenced(f"SELECT -{number}") for number in range(1500)])]
            return [*await scorers.score(by_question), *await scorers.score(by_response)]
        finally:
            await scorers.close()

    scores = asyncio.run(scenario())
    assert [len(of_question) for of_question in scores] == [1] * 1500 + [1500]
    assert [number for number, [score] in enumerate(scores[:1500]) if score.score] == [1]
    assert 500 < most <= AT_ONCE


ROWS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 90) SELECT printf('%.1000c', 'x') FROM r"


def test_rows_of_equal_responses_are_sent_within_a_budget(start_scorer: Callable[..., Scorer]) -> None:
    """A body of 100 kB asks for 90 kB of rows 600 times: 54 MB, and more than that in memory."""
    scorer = start_scorer(server={"max_reply_bytes": 1_000_000}, num_instances=1)
    responses = [fenced(ROWS), *[fenced(f"{ROWS} ")] * 599]
    peak = peak_bytes(scorer)
    reply = scorer.put(responses, ROWS)
    assert reply.status_code == 200 and len(reply.content) < 1_200_000
    scores = reply.json()["Scorer1"]
    assert [score for score, _ in scores] == [1.0] * 600
    shown = [payload for _, [[flag, payload]] in scores if flag == "result"]
    assert len(shown) == 600
    assert [len(rows) for rows in shown[:10]] == [90] * 10 and [len(rows) for rows in shown[-500:]] == [0] * 500
    question = {"db_id": "shop/shop.sqlite", "gold_sql": ROWS, "cmp_method": "bird"}
    body = {"questions": [{"question": question, "responses": responses}], "rows": True}
    reply = scorer.client.post("/v1/score", json=body)
    [answers] = reply.json()["answers"]
    assert len(reply.content) < 1_200_000 and {answer["outcome"] for answer in answers} == {"match"}
    assert len(answers[0]["rows"]) == 90 and answers[-1]["rows"] == []
    assert peak_bytes(scorer) - peak < 30_000_000


def test_errors_of_many_responses_are_sent_within_a_budget(start_scorer: Callable[..., Scorer]) -> None:
    scorer = start_scorer(server={"max_reply_bytes": 100_000}, num_instances=1)
    missing = "missing_" * 100
    reply = scorer.put([fenced("SELECT 1")] * 2_000, f"SELECT {missing}")
    scores = reply.json()["Scorer1"]
    assert len(scores) == 2_000 and {flag for _, [[flag, _]] in scores} == {"gold_error"}
    assert scores[0][1][0][1] == f"error: no such column: {missing}"
    assert scores[-1][1][0][1] == "error: (left out, see max_reply_bytes)"
    assert len(reply.content) < 600_000


def peak_bytes(scorer: Scorer) -> int:
    """The most memory that the server has had."""
    status = Path(f"/proc/{scorer.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024
