"""compute_score and the client against the real scorer server on a real SQLite file."""

import asyncio
import inspect

import numpy as np
import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.reward import get_custom_reward_fn

from rl.common.errors import UserError
from rl.configuration.compose import compose
from rl.scorer.client.protocol import ScorerRefused
from rl.scorer.client.shared import close_shared_clients
from verl.dph.reward.score import compute_score
from verl.dph.reward.settings import scorer_settings

KEYS = {"score", "acc", "gold_error", "pred", "outcome", "scorer"}


def test_no_address_is_a_default(monkeypatch):
    """An evaluation without DPH_SCORER asked 127.0.0.1:5001, whoever served there."""
    monkeypatch.delenv("DPH_SCORER", raising=False)
    with pytest.raises(UserError, match="No scorer server is named: set the environment variable DPH_SCORER"):
        scorer_settings(compose("evaluate", ["device=cpu"]))


def grade(*arguments, **settings) -> dict:
    """compute_score in an event loop of its own, with the session closed that a reward worker would keep."""

    async def scenario():
        try:
            return await compute_score(*arguments, **settings)
        finally:
            await close_shared_clients()

    return asyncio.run(scenario())


def truth(gold: str, database: str = "shop/shop.sqlite") -> dict:
    return {"db_id": database, "gold_sql": gold, "cmp_method": "bird"}


def answer(sql: str) -> str:
    return f"I count the rows.\n```sql\n{sql}\n```"


NAMES = "SELECT name FROM item"
CASES = {
    "match": (answer("SELECT i.name FROM item AS i ORDER BY 1"), NAMES, (1.0, 1, 0, "match")),
    # one of one gold columns is found among two predicted ones: 0.8 * 1 * 1 / (1 * 2)
    "partial": (answer("SELECT name, price FROM item"), NAMES, (0.4, 0, 0, "partial")),
    "half a surrogate pair": ("\ud83d " + answer(NAMES), NAMES, (1.0, 1, 0, "match")),
    "mismatch": (answer("SELECT id FROM item"), NAMES, (0.0, 0, 0, "mismatch")),
    "no_answer": ("I do not know.", NAMES, (0.0, 0, 0, "no_answer")),
    "pred_error": (answer("SELECT nothing FROM item"), NAMES, (0.0, 0, 0, "pred_error")),
    "gold_error": (answer(NAMES), "SELECT name FROM items", (0.0, 0, 1, "gold_error")),
}


def test_rewards_on_a_real_database(scorer_server):
    for case, (response, gold, expected) in CASES.items():
        result = grade("sql", response, truth(gold), {"index": 1}, scorer=scorer_server)
        found = (result["score"], result["acc"], result["gold_error"], result["outcome"])
        assert found == pytest.approx(expected), case
        assert set(result) == KEYS
        assert (result["pred"] is None) == (case == "no_answer")


def test_through_verls_own_loader_and_validation_metrics(scorer_server, monkeypatch):
    monkeypatch.delenv("DPH_SCORER", raising=False)
    config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": "pkg://verl.dph.reward.score",
                    "name": "compute_score",
                    "reward_kwargs": {"scorer": scorer_server, "timeout": 60, "retries": 1},
                }
            }
        }
    )
    reward = get_custom_reward_fn(config)
    assert inspect.iscoroutinefunction(reward)

    async def scenario():
        texts = [answer(NAMES), answer("SELECT name, price FROM item"), "no idea", answer(NAMES)]
        calls = (
            reward(data_source="bird", solution_str=text, ground_truth=truth(NAMES), extra_info={}) for text in texts
        )
        results = await asyncio.gather(*calls)
        await close_shared_clients()
        return results

    results = asyncio.run(scenario())
    columns = {key: [result[key] for result in results] for key in results[0]}
    metrics = process_validation_metrics(["sql"] * 4, ["a", "a", "b", "b"], columns)["sql"]
    assert metrics["acc"]["mean@2"] == pytest.approx(0.5)
    assert metrics["score"]["mean@2"] == pytest.approx((0.7 + 0.5) / 2)
    assert metrics["gold_error"]["mean@2"] == 0
    assert set(metrics) == {"acc", "score", "gold_error"}
    assert np.array(columns["pred"], dtype=object)[2] is None


def test_what_cannot_be_asked_is_named(scorer_server, monkeypatch):
    with pytest.raises(UserError, match="data_source 'poems'"):
        grade("poems", "text", truth(NAMES), scorer=scorer_server)
    with pytest.raises(ScorerRefused, match="nowhere"):
        grade("sql", answer(NAMES), truth(NAMES, "nowhere/nowhere.sqlite"), scorer=scorer_server)
    with pytest.raises(ScorerRefused, match="scores no math: start one whose Scorers have a MathRewardModel"):
        grade("aime24", r"\boxed{4}", "4", scorer=scorer_server)
    monkeypatch.delenv("DPH_SCORER", raising=False)
    with pytest.raises(UserError, match="DPH_SCORER"):
        grade("sql", "text", truth(NAMES))
    monkeypatch.setenv("DPH_SCORER", scorer_server)
    assert grade("spider", answer(NAMES), truth(NAMES))["acc"] == 1
