"""compute_score and the client against the real scorer server on a real SQLite file."""

import asyncio

import pytest

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
