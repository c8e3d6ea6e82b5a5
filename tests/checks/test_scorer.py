"""What a user reads when the scorer cannot score a run's prompts: one sentence, before anything slow starts."""

import asyncio

import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.data.rows import Row
from tests.conftest import serving_sql
from verl.dph.checks.scorer import OUR_REWARD, check_scorer


def settings(scorer: str, path: str = OUR_REWARD):
    kwargs = {"scorer": scorer, "retries": 8}
    return OmegaConf.create({"reward": {"custom_reward_function": {"path": path, "reward_kwargs": kwargs}}})


@pytest.fixture
def rows(fake):
    math = Row(3, "math", [], {"ground_truth": "4"}, "b.parquet row 7")
    return [Row(id, "sql", [], fake.question(id), f"a.parquet row {id}") for id in (0, 1)] + [math]


def test_every_database_task_and_math_is_asked_about_once(fake, rows):
    async def scenario():
        async with fake(fake.right) as server:
            await check_scorer(settings(server.address), iter(rows * 2))
            await check_scorer(settings(server.address, path="own.py"), rows)
            return server.requests

    [request] = asyncio.run(scenario())
    assert [asked["question"] for asked in request["questions"]] == [rows[0].question, rows[2].question]


def test_a_scorer_without_math_is_named(scorer_server, rows):
    asyncio.run(check_scorer(settings(scorer_server), rows[:1]))
    with pytest.raises(UserError, match="^b.parquet row 7: .*scores no math"):
        asyncio.run(check_scorer(settings(scorer_server), rows))


def test_a_scorer_that_serves_something_else_is_named(
    scorer_server, shop_databases, rows, tmp_path, monkeypatch, fake, caplog
):
    """$DATABASE_PATH is for a run's own scorer; one that runs already may have others."""
    monkeypatch.setenv("DATABASE_PATH", str(shop_databases))
    asyncio.run(check_scorer(settings(scorer_server), rows[:1]))
    monkeypatch.setenv("DATABASE_PATH", str(tmp_path))
    with pytest.raises(UserError, match=f"DATABASE_PATH={tmp_path}, and the scorer at .* serves {shop_databases}: uns"):
        asyncio.run(check_scorer(settings(scorer_server), rows[:1]))

    async def of_an_older_server():
        async with fake(fake.right) as server:
            await check_scorer(settings(server.address), rows)

    asyncio.run(of_an_older_server())
    assert "does not say what it serves" in caplog.text


def test_scorers_that_judge_differently_are_named(scorer_server, shop_databases, rows, tmp_path):
    """One fleet gives one kind of reward."""
    quicker = {"class_name": "SqlDetailRewardModel", "database_path": str(shop_databases), "prediction_seconds": 2}
    with serving_sql(shop_databases, tmp_path, Scorer1=quicker | {"num_instances": 1}) as other:
        asyncio.run(check_scorer(settings(other), rows[:1]))
        with pytest.raises(UserError, match=f"The scorers at {scorer_server} and {other} judge with different"):
            asyncio.run(check_scorer(settings(f"{scorer_server},{other}"), rows[:1]))


def test_each_server_must_have_the_databases(scorer_server, rows, tmp_path):
    with serving_sql(tmp_path, tmp_path) as other:
        asyncio.run(check_scorer(settings(scorer_server), rows[:1]))
        with pytest.raises(UserError, match=f"^a.parquet row 0: .*{other}"):
            asyncio.run(check_scorer(settings(f"{scorer_server},{other}"), rows[:1]))
