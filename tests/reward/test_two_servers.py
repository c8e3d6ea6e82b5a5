"""Hundreds of responses in flight to two real servers, of which one is killed and comes back: nothing is lost."""

import asyncio
import threading
import urllib.request

import pytest

from verl.dph.reward.client import ScorerClient

STEPS, SAMPLES, QUESTIONS = 3, 320, 40
DIES_AFTER = 40  # scores of the second step
PRICES = [1.5, 2.0, 3.0, 4.0, 9.0, 1.5]


def question(number: int) -> dict[str, str]:
    gold = f"SELECT price FROM item WHERE id = {number % 6 + 1} AND {number} = {number}"
    return {"db_id": "shop/shop.sqlite", "gold_sql": gold, "cmp_method": "bird"}


def response(step: int, sample: int) -> str:
    """Each another statement, of some milliseconds."""
    counted = 5_000 + step * SAMPLES + sample
    return (
        f"```sql\nWITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {counted}) "
        f"SELECT price FROM item WHERE id = {sample % 5 + 1} AND (SELECT max(i) FROM n) = {counted}\n```"
    )


def answered_since_start(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as metrics:
        return 'outcome="match"' in metrics.read().decode()


@pytest.mark.slow
def test_one_of_two_servers_dies_under_load_and_returns(scorer_process, second_scorer_process):
    for server in (scorer_process, second_scorer_process):
        server.start()
    addresses = [scorer_process.address, second_scorer_process.address]
    restart = threading.Thread(target=scorer_process.start)

    async def scenario():
        async with ScorerClient(addresses, first_backoff_s=0.1, max_in_flight=8) as client:
            for step in range(STEPS):
                finished = []

                async def one(sample, step=step, finished=finished):
                    score = await client.score(response(step, sample), question(sample % QUESTIONS))
                    finished.append(sample)
                    if step == 1 and len(finished) == DIES_AFTER:
                        scorer_process.kill()
                        restart.start()
                    return score

                scores = await asyncio.gather(*map(one, range(SAMPLES)))
                expected = [int(PRICES[i % 5] == PRICES[i % QUESTIONS % 6]) for i in range(SAMPLES)]
                assert [score.acc for score in scores] == expected
                assert {score.outcome for score in scores} == {"match", "mismatch"}
                yield sum(score.effort.retries for score in scores)
                await asyncio.to_thread(restart.join) if step == 1 else None

    async def retries_by_step():
        return [retries async for retries in scenario()]

    retries = asyncio.run(retries_by_step())
    assert retries[0] == 0 < retries[1]
    assert answered_since_start(scorer_process.address)
