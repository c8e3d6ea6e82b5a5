"""verifiers' own scoring of a task: its reward is rl.scorer.client.verifiers.reward, plugged by its name."""

import asyncio
import re
from pathlib import Path

import pytest
import verifiers.v1 as vf

from rl.scorer.client.shared import close_shared_clients
from tests.trainers.conftest import NAMES, SQL

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "scorer.md"
CONFIG = vf.TaskConfig.model_validate({"rewards": {"scorer": {"fn": "rl.scorer.client.verifiers.reward", "weight": 2}}})


class Sql(vf.TaskData):
    """A row of SQL."""

    db_id: str
    gold_sql: str
    cmp_method: str


class Sum(vf.TaskData):
    """A mathematical problem."""

    ground_truth: str


def scored(data: vf.TaskData, response: str) -> vf.Trace:
    """The trace of a response to this task, after verifiers has scored it."""
    return scored_by(vf.Task[type(data)](data, CONFIG), response)


def scored_by(task: vf.Task, response: str) -> vf.Trace:
    """The same of a task with its configuration."""
    node = vf.MessageNode(message=vf.AssistantMessage(content=response), sampled=True)
    agent = vf.AgentInfo(config=vf.AgentConfig())
    trace = vf.Trace(task=vf.TraceTask(type=type(task).__name__, data=task.data), agent=agent, nodes=[node])

    async def score() -> None:
        try:
            await task.score(trace)
        finally:
            await close_shared_clients()

    asyncio.run(score())
    return trace


@pytest.fixture(autouse=True)
def named(scorer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPH_SCORER", scorer)


def test_a_task_gets_the_scorers_reward() -> None:
    for data, response, reward in [
        (Sql(**SQL), f"```sql\n{NAMES} ORDER BY 1\n```", 1.0),
        (Sql(**SQL), "```sql\nSELECT 1\n```", 0.0),
        (Sum(ground_truth="1/2"), r"\boxed{0.5}", 1.0),
        (Sum(ground_truth="1/2"), "half", 0.0),
    ]:
        trace = scored(data, response)
        assert trace.rewards["scorer"].value == 2 * reward


def test_what_cannot_be_judged_is_an_error_and_leaves_the_reward_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, reason in [
        (Sql(**SQL | {"gold_sql": "SELECT absent FROM item"}), r"cannot be evaluated \(gold_error\).*no such column"),
        (Sql(**SQL | {"db_id": "absent.sqlite"}), "ScorerRefused.*absent.sqlite"),
        (vf.TaskData(prompt="2 + 2"), "names no database and no answer"),
    ]:
        with pytest.raises(vf.TaskError, match=reason):
            scored(data, "4")
    monkeypatch.delenv("DPH_SCORER")
    with pytest.raises(vf.TaskError, match="No scorer server is named"):
        scored(Sum(ground_truth="4"), "4")


def test_the_quick_start_of_the_page() -> None:
    [block] = re.findall(r"^```python\n(import verifiers.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(block.replace("shop/shop.sqlite", SQL["db_id"]), names)
    [task] = names["Shop"](vf.TasksetConfig())
    assert scored_by(task, f"```sql\n{NAMES}\n```").rewards["scorer"].value == 1.0
